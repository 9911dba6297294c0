#!/usr/bin/env bash
# Builds one program as it is released: build.sh OUTPUT PACKAGE. It is one static file without paths of this machine in it.
# VERSION is what it says of itself; GOOS and GOARCH choose the system.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.buildVersion=$version" -o "$1" "$2"
