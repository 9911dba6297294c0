#!/usr/bin/env bash
# Checks the code without running it: formatting, golangci-lint (with go vet in it), and that everything compiles on the systems
# that this one is not. The rules of the house are Go tests (internal/house), and run with the others.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/flags.sh

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | while IFS= read -r file; do
  [ ! -f "$file" ] || printf '%s\n' "$file"
done | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'not formatted, run gofmt -w on:\n%s\n' "$unformatted" >&2
  exit 1
fi

# The program is pinned like a module, in a module file of its own: step-runner's shall not list what a linter is made of.
go tool -modfile=scripts/tools/golangci-lint.mod golangci-lint run ./...

# Types are checked from sources: vet would compile the standard library and all dependencies for each system.
go run ./internal/house/cmd/typecheck linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64
