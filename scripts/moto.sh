#!/usr/bin/env bash
# Installs moto, a server that speaks AWS's APIs and which the plugin aws is tried with, in a folder: moto.sh [FOLDER], by default build/moto. Its server is then
# FOLDER/bin/moto_server. The versions of all its parts are pinned in scripts/tools/moto.txt. It is installed again when that changes.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build/moto}
stamp="$(cksum <scripts/tools/moto.txt) $(python3 --version)"
[ ! -x "$folder/bin/moto_server" ] || [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || exit 0

rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement scripts/tools/moto.txt
echo "$stamp" >"$folder/stamp"
