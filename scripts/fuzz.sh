#!/usr/bin/env bash
# Runs every fuzz test for FUZZTIME (10s). What one finds it writes to testdata/fuzz of its package: commit that.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rlE --include='*_test.go' '^func Fuzz' . | LC_ALL=C sort | while IFS= read -r file; do
  sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$file" | while IFS= read -r name; do
    echo "== $(dirname "$file") $name"
    go test "$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" </dev/null
  done
done
