#!/usr/bin/env bash
# Builds programs as they are released: build.sh OUTPUT PACKAGE, or build.sh FOLDER/ PACKAGE... for several at once, which leaves no processor
# idle while one of them is linked. Each is one static file without paths of this machine in it.
# VERSION is the version that it reports; GOOS and GOARCH choose the system.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

# grpcnotrace leaves out gRPC's page of recent requests, which nothing here serves, and with it 3 MB: the templates of that page
# keep the linker from leaving out any method of anything.
# -dwarf=false: what a debugger needs is left out of the programs (-w), so it is not made for each package either, a seventh of compiling. Go's own library is
# compiled as for tests, so that it is compiled once.
CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -gcflags all=-dwarf=false -gcflags std= -ldflags "-s -w -X main.buildVersion=$version" -o "$1" "${@:2}"
