#!/usr/bin/env bash
# Builds a plugin of plugins/ as it is released: plugin-build.sh NAME SYSTEM/ARCHITECTURE OUTPUT (absolute). VERSION is the version that it reports.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
. scripts/flags.sh
cd "plugins/$1"
main=$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./...)
GOOS=${2%/*} GOARCH=${2#*/} go build -ldflags "-s -w -X main.buildVersion=$version" -o "$3" "$main"
