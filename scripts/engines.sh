#!/usr/bin/env bash
# engines.sh [PACKAGE…] runs the tests of the packages, or of every package that asks executor/executortest/enginetest, or executor/host/hosttest, for what a bare machine does not
# have: a container engine, which is started for them, and servers such as sshd. A test that is skipped for want of one is a failure
# here, unless internal/house/allowed-skips.txt lists it.
set -euo pipefail
cd "$(dirname "$0")/.."

helpers='/executor/(executortest/enginetest|host/hosttest)$'
packages=("$@")
[ "$#" -gt 0 ] || while IFS= read -r package; do
  packages+=("$package")
done < <(go list -f '{{range .TestImports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... |
  awk -v helpers="$helpers" '$2 ~ helpers { print $1 }' | sort -u)
[ "${#packages[@]}" -gt 0 ] || { echo "no package has tests that need an engine" >&2; exit 1; }

mkdir -p build
go build -o build/testreport ./internal/house/cmd/testreport
# A package may take longer than the ten minutes that go test allows by itself, where others use the machine.
scripts/engine.sh go test -timeout 25m -count=1 -json "${packages[@]}" | build/testreport -skips internal/house/allowed-skips.txt
