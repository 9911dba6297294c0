#!/usr/bin/env bash
# Everything that must pass before a change goes in: lint, tests, and a build for every system.
#
# With RUNG_CI=1 a test that skips itself is a failure unless internal/house/allowed-skips.txt lists it.
set -euo pipefail
cd "$(dirname "$0")/.."

race=-race
if ! [ "$(go env CGO_ENABLED)" = 1 ] || ! command -v "$(go env CC)" >/dev/null; then
  race=
  echo "note: there is no C compiler, so the tests run without the race detector"
fi

go mod verify >/dev/null
scripts/lint.sh

echo "tests${race:+ with the race detector}:"
if [ "${RUNG_CI:-}" = 1 ]; then
  mkdir -p build
  go build -o build/testreport ./internal/house/cmd/testreport
  # With a container engine of its own; without one, its tests skip themselves, which the report tells.
  scripts/engine.sh go test $race -json ./... | build/testreport -skips internal/house/allowed-skips.txt
else
  go test $race ./...
fi

scripts/cross.sh
echo "everything passed"
