#!/usr/bin/env bash
# Checks the code without running it: formatting, go vet on every system, and golangci-lint where it is installed. The rules
# of the house are Go tests (internal/house), and run with the others.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | while IFS= read -r file; do
  [ ! -f "$file" ] || gofmt -l "$file"
done)
if [ -n "$unformatted" ]; then
  printf 'not formatted, run gofmt -w on:\n%s\n' "$unformatted" >&2
  exit 1
fi

for system in linux darwin windows; do
  CGO_ENABLED=0 GOOS=$system go vet ./...
  echo "go vet for $system: fine"
done

if command -v golangci-lint >/dev/null; then
  golangci-lint run
fi
