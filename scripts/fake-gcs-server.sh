#!/usr/bin/env bash
# Builds fake-gcs-server, which speaks the API of Google Cloud Storage and which tests keep caches in: fake-gcs-server.sh [OUTPUT]
# The output is build/fake-gcs-server by default. The version is pinned in scripts/tools/fake-gcs-server.mod. It is built again when that changes. The first time takes two minutes of a processor.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-build/fake-gcs-server}
module=github.com/fsouza/fake-gcs-server
version=$(awk -v module="$module" '$1 == module { print $2 }' scripts/tools/fake-gcs-server.mod)
stamp="$version $(go env GOARCH) $(go env GOVERSION)"
[ ! -x "$output" ] || [ "$(cat "$output.version" 2>/dev/null)" != "$stamp" ] || exit 0

mkdir -p "$(dirname "$output")"
CGO_ENABLED=0 go build -modfile=scripts/tools/fake-gcs-server.mod -trimpath -ldflags "-s -w" -o "$output" $module
echo "$stamp" >"$output.version"
