#!/usr/bin/env bash
# Builds Buildah, with which a test builds images in a sandbox: buildah.sh [OUTPUT], by default build/buildah. The version is pinned in
# scripts/tools/buildah.mod. It is built again when that changes. The first time takes two minutes of a processor. It needs gcc: without
# cgo, Buildah cannot make user namespaces. It is linked statically, so that it is all that an image needs of it.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-build/buildah}
module=github.com/containers/buildah
version=$(awk -v module="$module" '$1 == module { print $2 }' scripts/tools/buildah.mod)
stamp="$version $(go env GOARCH) $(go env GOVERSION)"
[ ! -x "$output" ] || [ "$(cat "$output.version" 2>/dev/null)" != "$stamp" ] || exit 0

mkdir -p "$(dirname "$output")"
CGO_ENABLED=1 go build -modfile=scripts/tools/buildah.mod -trimpath -tags "containers_image_openpgp exclude_graphdriver_btrfs osusergo netgo" \
  -ldflags "-s -w -linkmode external -extldflags -static" -o "$output" $module/cmd/buildah
echo "$stamp" >"$output.version"
