#!/usr/bin/env bash
# Runs the demo job, which has a step that fails so that you can see a failure, and shows the trace it leaves.
set -euo pipefail
cd "$(dirname "$0")/.."
runner=bin/step-runner
trace=build/demo/trace.json
mkdir -p build/demo

echo "\$ step-runner run examples/demo/steps.yml --output-file $trace"
code=0
"$runner" run examples/demo/steps.yml --output-file "$trace" || code=$?
if [ "$code" -ne 1 ]; then
	echo "the demo should end with 1, because one of its steps fails; it ended with $code" >&2
	exit 1
fi

echo
echo "\$ step-runner trace show -v $trace"
"$runner" trace show -v "$trace"

echo
"$runner" trace export --format html -o build/demo/trace.html "$trace"
echo "The same as a page: build/demo/trace.html"

# A pipeline belongs to a Git repository: this one is a copy of examples/pipeline.
command -v git >/dev/null || exit 0
project=build/demo/project
rm -rf "$project"
cp -R examples/pipeline "$project"
git -C "$project" init -q -b main
git -C "$project" add .
git -C "$project" -c user.name=Demo -c user.email=demo@example.com commit -qm "a pipeline"
echo
echo "\$ step-runner local --project-dir $project --isolation none"
"$runner" local --project-dir "$project" --isolation none

# The same through a GitLab and a runner, both of rung.
echo
echo "\$ rung dev run $project --quiet"
bin/rung dev run "./$project" --quiet

# And on each level of isolation that this machine has.
scripts/demo-levels.sh

# And on machines that are made for it.
scripts/demo-fleet.sh
