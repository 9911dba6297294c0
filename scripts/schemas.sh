#!/usr/bin/env bash
# Writes the JSON schemas that editors read, one file for each kind of file: schemas.sh STEP-RUNNER DIR
set -euo pipefail
mkdir -p "$2"
for name in gitlab-ci steps step sources variables runners limits lock includes; do
  "$1" explain --schema "$name" >"$2/$name.schema.json"
done
