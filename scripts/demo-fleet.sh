#!/usr/bin/env bash
# demo-fleet.sh [FOLDER] runs the pipeline of examples/fleet/pipeline, which has 20 jobs, on a fleet of machines of this host: it grows from none, and
# ends with none, and says why. The project is made in FOLDER (build/demo).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-$PWD/build/demo}
rung=${RUNG:-bin/rung}
project=$folder/fleet
echo
if ! unshare --user --map-root-user true 2>/dev/null; then
	echo "No fleet here: its machines are namespaces of Linux, which this host does not allow."
	exit 0
fi
rm -rf "$project"
mkdir -p "$folder"
cp -R examples/fleet/pipeline "$project"
git -C "$project" init -q -b main
git -C "$project" add .
git -C "$project" -c user.name=Demo -c user.email=demo@example.com commit -qm "a pipeline for a fleet"
echo "\$ $rung dev run $project --fleet 4 --quiet"
"$rung" dev run "$project" --fleet 4 --quiet
