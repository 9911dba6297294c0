#!/usr/bin/env bash
# Builds Versity's S3 gateway, a server that speaks S3 and which tests keep caches in: versitygw.sh [OUTPUT], by default build/versitygw. The version is
# pinned in scripts/tools/versitygw.mod. It is built again when that changes. The first time takes two minutes of a processor.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-build/versitygw}
module=github.com/versity/versitygw
version=$(awk -v module="$module" '$1 == module { print $2 }' scripts/tools/versitygw.mod)
stamp="$version $(go env GOARCH) $(go env GOVERSION)"
[ ! -x "$output" ] || [ "$(cat "$output.version" 2>/dev/null)" != "$stamp" ] || exit 0

mkdir -p "$(dirname "$output")"
CGO_ENABLED=0 go build -modfile=scripts/tools/versitygw.mod -trimpath -ldflags "-s -w" -o "$output" $module/cmd/versitygw
echo "$stamp" >"$output.version"
