#!/usr/bin/env bash
# engines.sh [PACKAGE…] runs the tests of the packages, or of every package that asks executor/executortest/enginetest, or executor/host/hosttest, for what a bare machine does not
# have: a container engine, which is started for them, gVisor's runsc, Buildah, an S3 server, the servers of a Kubernetes cluster and Helm, which are built, and servers such as sshd. A test that is skipped for want of one is a failure
# here, unless internal/house/allowed-skips.txt lists it.
#
# With RUNG_CI=1 it runs only the tests that test.sh has just left to it.
set -euo pipefail
cd "$(dirname "$0")/.."

helpers='/executor/(executortest/enginetest|host/hosttest|kubernetes/kubetest)$'
packages=("$@")
[ "$#" -gt 0 ] || while IFS= read -r package; do
  packages+=("$package")
done < <(go list -f '{{range .TestImports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... |
  awk -v helpers="$helpers" '$2 ~ helpers { print $1 }' | sort -u)
only=()
if [ "${RUNG_CI:-}" = 1 ] && [ "$#" = 0 ] && [ -s build/engines.txt ]; then
  mapfile -t packages < <(cut -d' ' -f1 build/engines.txt | sort -u)
  only=(-run "^($(cut -d' ' -f2 build/engines.txt | sort -u | paste -sd'|' -))\$")
fi
[ "${#packages[@]}" -gt 0 ] || { echo "no package has tests that need an engine" >&2; exit 1; }

mkdir -p build
rm -f build/retry.txt
[ "$(go env GOOS)" != linux ] || { scripts/runsc.sh build/runsc && scripts/buildah.sh build/buildah; }
scripts/versitygw.sh build/versitygw
scripts/fake-gcs-server.sh build/fake-gcs-server
[ "$(go env GOOS)" != linux ] || { scripts/kubernetes.sh build/kubernetes && scripts/helm.sh build/helm; }
. scripts/flags.sh # those programs have flags of their own
go build -o build/testreport ./internal/house/cmd/testreport
# What every level's tests put into environments is built here once, and not in each package.
go build -o build/tested/step-runner ./cmd/step-runner
export RUNG_TEST_PROGRAM=$PWD/build/tested/step-runner
# Most of these tests wait: for engines, for limits of time. With one test per core in each package the cores would be idle for more than half of the time.
cores=$(getconf _NPROCESSORS_ONLN)
# Lint vets what is tested (scripts/lint.sh).
# A package may take longer than the ten minutes that go test allows by itself, where others use the machine.
scripts/engine.sh go test -vet=off -p $((cores + 1)) -parallel $((cores > 4 ? cores : 4)) -timeout 25m -count=1 ${only[@]+"${only[@]}"} -json "${packages[@]}" |
  build/testreport -skips internal/house/allowed-skips.txt -retry build/retry.txt ||
  { [ "${RUNG_CI:-}" = 1 ] && scripts/retry.sh build/retry.txt "" scripts/engine.sh go test -vet=off -timeout 25m; }
