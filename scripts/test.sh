#!/usr/bin/env bash
# Everything that must pass before a change goes in, on a machine with no more than Go: lint and tests. What needs a container
# engine or another machine's help runs in engines.sh, and the programs for all systems are built by dist.sh.
#
# With RUNG_CI=1 a test that skips itself is a failure unless internal/house/allowed-skips.txt lists it, or engines.sh runs it. Those go to
# build/engines.txt. A few tests that fail beside others are run again alone, so that a busy machine does not fail a change; one that passes
# then is named at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

race=-race
if ! [ "$(go env CGO_ENABLED)" = 1 ] || ! command -v "$(go env CC)" >/dev/null; then
  race=
  echo "note: there is no C compiler, so the tests run without the race detector"
fi
. scripts/flags.sh
# Without this every program with the race detector in it waits a second before it ends.
export GORACE=${GORACE:-atexit_sleep_ms=0}
# Tests with engines are engines.sh's, also on a machine that has one.
unset RUNG_TEST_ENGINE RUNG_TEST_ENGINE_ADDRESS

go mod verify >/dev/null
scripts/lint.sh

# A package may take longer than the ten minutes that go test allows by itself, where others use the machine.
timeout=25m
# The race detector needs cgo; what the tests build does without, as everything else. -vet=off: the lint before has vetted everything.
test=(env CGO_ENABLED=$([ -n "$race" ] && echo 1 || echo 0) go test $race -exec "env CGO_ENABLED=0" -vet=off -timeout $timeout)
# Many tests wait for processes and time limits: with one package per core the cores would be idle at times.
packages=$(($(getconf _NPROCESSORS_ONLN) + 1))
echo "tests${race:+ with the race detector}:"
# The rules of the house read all files, which the race detector makes six times slower, and share nothing.
all() { # all [FLAG…]
  go test -vet=off -timeout $timeout "$@" ./internal/house/... || failed=1
  # shellcheck disable=SC2046 # they have no spaces
  "${test[@]}" -p $packages "$@" $(go list ./... | grep -v /internal/house) || failed=1
  return ${failed:-0}
}
if [ "${RUNG_CI:-}" = 1 ]; then
  mkdir -p build
  rm -f build/retry.txt
  go build -o build/testreport ./internal/house/cmd/testreport
  all -json |
    build/testreport -skips internal/house/allowed-skips.txt -deferred "make engines" -rerun build/engines.txt -retry build/retry.txt ||
    scripts/retry.sh build/retry.txt "make engines" "${test[@]}"
else
  all
fi
echo "everything passed"
