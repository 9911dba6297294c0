#!/usr/bin/env bash
# Builds one program as it is released: build.sh OUTPUT PACKAGE. It is one static file without paths of this machine in it.
# VERSION is the version that it reports; GOOS and GOARCH choose the system.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

# grpcnotrace leaves out gRPC's page of recent requests, which nothing here serves, and with it 3 MB: the templates of that page
# keep the linker from leaving out any method of anything.
CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags "-s -w -X main.buildVersion=$version" -o "$1" "$2"
