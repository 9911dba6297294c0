#!/usr/bin/env bash
# Builds every program for every system it is made for, into build/SYSTEM-ARCHITECTURE/.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64; do
  export GOOS=${target%/*} GOARCH=${target#*/}
  for program in cmd/*/; do
    name=$(basename "$program")
    [ "$GOOS" = windows ] && name=$name.exe
    scripts/build.sh "build/$GOOS-$GOARCH/$name" "./$program"
  done
  echo "built for $target"
done
