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
