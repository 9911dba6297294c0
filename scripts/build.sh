#!/usr/bin/env bash
# Builds programs as they are released: build.sh OUTPUT PACKAGE, or build.sh FOLDER/ PACKAGE... for several at once, which leaves no processor
# idle while one of them is linked. Each is one static file without paths of this machine in it.
# VERSION is the version that it reports; GOOS and GOARCH choose the system.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

. scripts/flags.sh
go build -ldflags "-s -w -X main.buildVersion=$version" -o "$1" "${@:2}"
