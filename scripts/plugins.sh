#!/usr/bin/env bash
# plugins.sh [NAME…] checks, tests and builds the plugins in plugins/, or those that are named. Each is a module of its own, so that only it depends on the libraries
# of its cloud. What tests need is installed by a script here, pinned; the programs, for four systems, are in build/plugins.
#
# A test that skips itself is a failure unless internal/house/allowed-skips.txt lists it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

shopt -s nullglob
names=("$@")
[ "$#" -gt 0 ] || for module in plugins/*/go.mod; do
  names+=("$(basename "$(dirname "$module")")")
done
targets=${TARGETS:-$(go env GOOS)/$(go env GOARCH) linux/arm64 darwin/arm64 windows/amd64}
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}

race=
[ "${RUNG_CI:-}" != 1 ] || [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null || race=-race
. scripts/flags.sh
export GORACE=${GORACE:-atexit_sleep_ms=0} # without this every program with the race detector in it waits a second before it ends

mkdir -p build
go build -o build/testreport ./internal/house/cmd/testreport
lint=$(go tool -modfile=scripts/tools/golangci-lint.mod -n golangci-lint)

needs() { # needs NAME installs what the tests of a plugin need.
  case $1 in
  aws) scripts/moto.sh build/moto ;;
  kubernetes) scripts/kubernetes.sh build/kubernetes ;;
  esac
}

around() { # around NAME says what the tests of a plugin run in.
  case $1 in
  kubernetes) echo "$root/scripts/engine.sh" ;; # the pods of its cluster are containers
  esac
}

plugin() { # plugin NAME
  local name=$1 target extension
  cd "$root/plugins/$name"
  go mod verify >/dev/null
  go mod tidy -diff >/dev/null || { echo "plugins/$name/go.mod is not tidy: run go mod tidy there" >&2; exit 1; }
  "$lint" run --config "$root/.golangci.yml" ./...

  CGO_ENABLED=$([ -n "$race" ] && echo 1 || echo 0) $(around "$name") go test $race -vet=off -timeout 25m -count=1 -json ./... | "$root/build/testreport" -skips "$root/internal/house/allowed-skips.txt"

  for target in $targets; do
    extension=
    [ "${target%/*}" != windows ] || extension=.exe
    VERSION=$version "$root/scripts/plugin-build.sh" "$name" "$target" "$root/build/plugins/${target/\//-}/group-plugin-$name$extension"
    echo "built group-plugin-$name for $target"
  done
}

for name in "${names[@]}"; do
  echo "plugins/$name:"
  needs "$name"
  (plugin "$name")
done
