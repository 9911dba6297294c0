#!/usr/bin/env bash
# Runs the tests of every package that asks executor/executortest/enginetest for what a bare machine does not have: a container
# engine, which gets started for them, and servers such as sshd. Here nothing may skip itself for want of an engine.
set -euo pipefail
cd "$(dirname "$0")/.."

helper=github.com/rungci/rung/executor/executortest/enginetest
packages=()
while IFS= read -r package; do
  packages+=("$package")
done < <(go list -f '{{range .TestImports}}{{if eq . "'$helper'"}}{{$.ImportPath}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "'$helper'"}}{{$.ImportPath}}{{"\n"}}{{end}}{{end}}' ./... | sort -u)
[ "${#packages[@]}" -gt 0 ] || { echo "no package uses $helper" >&2; exit 1; }

mkdir -p build
go build -o build/testreport ./internal/house/cmd/testreport
scripts/engine.sh go test -count=1 -json "${packages[@]}" | build/testreport -skips internal/house/allowed-skips.txt
