#!/usr/bin/env bash
# Builds the control plane of a Kubernetes cluster for tests: kubernetes.sh [FOLDER], by default build/kubernetes, gets kube-apiserver and
# kube-scheduler. The version is pinned in scripts/tools/kubernetes.mod, so that step-runner's own module does not list what they are made
# of. They are built again when that changes. The first time takes ten minutes of a processor.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build/kubernetes}
module=k8s.io/kubernetes
version=$(awk -v module="$module" '$1 == module && $2 ~ /^v/ { print $2 } $1 == "require" && $2 == module { print $3 }' scripts/tools/kubernetes.mod)
stamp="$version $(go env GOOS)/$(go env GOARCH) $(go env GOVERSION)"
[ ! -x "$folder/kube-apiserver" ] || [ ! -x "$folder/kube-scheduler" ] || [ "$(cat "$folder/version" 2>/dev/null)" != "$stamp" ] || exit 0

mkdir -p "$folder"
for program in kube-apiserver kube-scheduler; do
  CGO_ENABLED=0 go build -modfile=scripts/tools/kubernetes.mod -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
    -o "$folder/$program" "$module/cmd/$program"
done
echo "$stamp" >"$folder/version"
