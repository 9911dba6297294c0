#!/usr/bin/env bash
# Builds one program as it is released: build.sh OUTPUT PACKAGE. It is one static file without paths of this machine in it.
# VERSION is what it says of itself; GOOS and GOARCH choose the system.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

# Functions are not inlined but where programs spend their time: copies of cold ones are 2 MB, which every environment would be sent. That
# compiles Go's own library anew; QUICK=1 does without, for who only wants to know that it builds.
flags=(-gcflags=all=-l)
for hot in runtime 'runtime/...' 'internal/...' bytes strings strconv unicode/utf8 sync/atomic bufio encoding/json 'crypto/...' 'hash/...' \
  'github.com/klauspost/...' 'github.com/rungci/rung/internal/mask' 'github.com/rungci/rung/internal/process' \
  'github.com/rungci/rung/steps/engine' 'github.com/rungci/rung/steps/trace' 'github.com/rungci/rung/steps/value'; do
  flags+=("-gcflags=$hot=")
done

[ "${QUICK:-}" != 1 ] || flags=()

# grpcnotrace leaves out gRPC's page of recent requests, which nothing here serves, and with it 3 MB: the templates of that page
# keep the linker from leaving out any method of anything.
CGO_ENABLED=0 go build -tags grpcnotrace -trimpath ${flags[@]+"${flags[@]}"} -ldflags "-s -w -X main.buildVersion=$version" -o "$1" "$2"
