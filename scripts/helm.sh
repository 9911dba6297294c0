#!/usr/bin/env bash
# Builds Helm, which the chart in deploy/helm is tried with: helm.sh [OUTPUT], by default build/helm. The version is pinned in scripts/tools/helm.mod; it uses the
# libraries of Kubernetes that scripts/kubernetes.sh builds as well. It is built again when that changes. The first time takes two minutes of a processor.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-build/helm}
module=helm.sh/helm/v4
version=$(awk -v module="$module" '$1 == module { print $2 }' scripts/tools/helm.mod)
stamp="$version $(go env GOARCH) $(go env GOVERSION)"
[ ! -x "$output" ] || [ "$(cat "$output.version" 2>/dev/null)" != "$stamp" ] || exit 0

mkdir -p "$(dirname "$output")"
CGO_ENABLED=0 go build -modfile=scripts/tools/helm.mod -trimpath -ldflags "-s -w" -o "$output" $module/cmd/helm
echo "$stamp" >"$output.version"
