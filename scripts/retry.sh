#!/usr/bin/env bash
# retry.sh FILE DEFERRED COMMAND… runs the few tests that FILE names, which build/testreport -retry has written, a second time: each alone, by
# COMMAND, which is "go test" with its flags. One that fails again has failed; one that passes is named as flaky. Without tests in FILE it
# fails. DEFERRED is for build/testreport.
set -euo pipefail
cd "$(dirname "$0")/.."

file=$1 deferred=$2
shift 2
[ -s "$file" ] || exit 1
while read -r package name; do
  echo
  echo "once more, alone: $package $name"
  "$@" -count=1 -run "^$name\$" -json "$package" </dev/null | build/testreport -skips internal/house/allowed-skips.txt -deferred "$deferred"
done <"$file"
echo "flaky, to be mended: failed beside other tests, passed alone:"
sed 's/^/  /' "$file"
