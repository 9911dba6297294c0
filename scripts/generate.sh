#!/usr/bin/env bash
# Generates the Go of every .proto file under api/, beside it or, with an argument, under that directory instead.
# protoc is installed when it is missing and this is Debian as root; protoc-gen-go and protoc-gen-go-grpc are the versions in go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-api}

if ! command -v protoc >/dev/null; then
  scripts/install.sh protobuf-compiler libprotobuf-dev
fi

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -o "$tools/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

files=()
while IFS= read -r file; do
  files+=("$file")
done < <(cd api && find . -name '*.proto' | sed 's|^\./||' | LC_ALL=C sort)
mkdir -p "$out"
PATH="$tools:$PATH" protoc --proto_path=api --go_out="$out" --go_opt=paths=source_relative \
  --go-grpc_out="$out" --go-grpc_opt=paths=source_relative "${files[@]}"

# The header names the protoc that ran. Which one that was makes no difference to the code, so it is left out: the same
# sources give the same files on every machine.
find "$out" -name '*.pb.go' | while IFS= read -r go_file; do
  sed -E '/^\/\/ (- )?(\t)?protoc  *v/d' "$go_file" >"$go_file.tmp"
  mv "$go_file.tmp" "$go_file"
done

# What Python plugins import. Protobuf for Python reads what older versions of protoc made.
if [ "$out" = api ]; then
  protoc --proto_path=api --python_out=sdk/python rung/executor/v1/executor.proto rung/provider/v1/provider.proto rung/fleet/v1/fleet.proto
fi

# The command reference is made from the commands.
if [ "$out" = api ]; then
  go test ./cmd/step-runner ./cmd/rung -run TestCommandReference -update >/dev/null
fi
