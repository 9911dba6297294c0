#!/usr/bin/env bash
# Builds gVisor's runsc, which isolates jobs of the level sandbox: runsc.sh [OUTPUT], by default build/runsc. The version is pinned in
# scripts/tools/runsc.mod, so that step-runner's own module does not list what it is made of. It is built again when that changes. The
# first time takes two minutes of a processor. It is a program for Linux on amd64 and arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-build/runsc}
module=gvisor.dev/gvisor
version=$(awk -v module="$module" '$1 == module { print $2 }' scripts/tools/runsc.mod)
architecture=$(go env GOARCH)
if [ "$(go env GOOS)" != linux ] || [[ $architecture != amd64 && $architecture != arm64 ]]; then
  echo "runsc runs on Linux on amd64 and arm64 alone, not on $(go env GOOS)/$architecture" >&2
  exit 1
fi
stamp="$version $architecture $(go env GOVERSION)"
[ ! -x "$output" ] || [ "$(cat "$output.version" 2>/dev/null)" != "$stamp" ] || exit 0

# With cgo it would need libraries, and then it does not start a sandbox.
mkdir -p "$(dirname "$output")"
CGO_ENABLED=0 go build -modfile=scripts/tools/runsc.mod -trimpath -ldflags "-s -w -X $module/runsc/version.version=$version" -o "$output" $module/runsc
echo "$stamp" >"$output.version"
