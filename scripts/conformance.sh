#!/usr/bin/env bash
# Runs other projects' own cases through this program: scripts/conformance.sh FOLDER..., each a checkout of GitLab's step-runner, of
# nektos/act or of firecow/gitlab-ci-local, or a folder of clones of actions (OWNER/NAME). What a folder is shows in what it has.
# Their scripts run on this machine, with a home folder of their own. What ends otherwise on purpose is in e2e/conformance.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
tests=()
for folder in "$@"; do
  folder=$(cd "$folder" && pwd)
  if [ -d "$folder/integration_test" ]; then
    export RUNG_STEP_RUNNER_DIR=$folder; tests+=(TestTheExistingStepRunnersCases)
  elif [ -f "$folder/pkg/runner/runner_test.go" ]; then
    export RUNG_ACT_DIR=$folder; tests+=(TestActsCases)
  elif [ -d "$folder/tests/test-cases" ]; then
    export RUNG_GITLAB_CI_LOCAL_DIR=$folder; tests+=(TestGitLabCILocalsCases)
  elif [ -d "$folder/actions/checkout" ]; then
    export RUNG_ACTIONS_DIR=$folder; tests+=(TestPopularActionsRunAsTheyAre)
  else
    echo "$folder is none of the projects whose cases are known here" >&2
    exit 2
  fi
done
cd "$(dirname "$0")/.."
mkdir -p build
log=build/conformance.log
echo "what each case does is in $log"
go test ./e2e -count=1 -timeout=60m -v -run "^($(IFS='|'; echo "${tests[*]}"))\$" | tee "$log" | grep --line-buffered -E '^(ok|FAIL|---|panic)|--- FAIL|[0-9]+ of [0-9]+ cases'
