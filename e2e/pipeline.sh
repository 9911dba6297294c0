#!/usr/bin/env bash
# A .gitlab-ci.yml on this machine: listed, linted, run job by job and as a whole, its jobs replayed, compiled and run as steps. With a
# container engine (RUNG_TEST_ENGINE) also a job in an image with a service.
#
#	e2e/pipeline.sh            # builds what it needs, works in a folder of its own
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# Of this machine: with empty ones our own pipeline would fetch and build for minutes.
GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE)
export GOMODCACHE GOCACHE

(cd "$root" && CGO_ENABLED=0 go build -o "$work/bin/" ./cmd/step-runner)
export PATH="$work/bin:$PATH" STEP_RUNNER_CACHE="$work/cache" HOME="$work/home"
mkdir "$HOME"
git config --global user.name "A Person"
git config --global user.email person@example.com

say() { printf '\n# %s\n' "$1"; }

say "a project"
cp -R "$root/examples/pipeline" "$work/project"
cd "$work/project"
git init -q -b main
git remote add origin https://gitlab.example.com/group/project.git
git add .
git commit -qm "one"

say "what is in the pipeline, and why"
step-runner check
step-runner local --list --all

say "one job, as the first invocation of all asked for it"
step-runner local .gitlab-ci.yml --format gitlab-ci --job-name hello-world --output-file "$work/hello.json"
step-runner replay "$work/hello.json"

say "the whole pipeline: stages, needs, a matrix, caches, artifacts, dotenv variables"
step-runner local --isolation none --manual release --output-dir "$work/traces"
test -f .rung/releases/v1.0.0.json
test -d .rung/cache
step-runner replay "$work/traces/test.json"

say "the same anywhere"
# The two builds begin at the same time without a cache, and which of them saves it is chance: they are tried where it has been saved.
step-runner local --isolation none --manual release --output-dir "$work/again" --progress quiet
cp -R "$root/examples/levels" "$work/levels"
(
  cd "$work/levels"
  git init -q -b main
  git add .
  git commit -qm "one"
  step-runner local --isolation none --output-dir "$work/levels-traces" --progress quiet
  "$root/e2e/anywhere.sh" "$work/levels-traces/test.json"
)
for trace in "$work/hello.json" "$work"/traces/{hello-world,test,release}.json "$work"/again/*.json; do
  "$root/e2e/anywhere.sh" "$trace"
done

say "the work tree is as it was"
test -z "$(git status --porcelain)"

say "a job is steps of the catalog, and those can be run by themselves"
step-runner compile .gitlab-ci.yml --job-name hello-world >"$work/job.yml"
grep -q 'builtin://git/checkout' "$work/job.yml"
mkdir "$work/empty"
(cd "$work/empty" && step-runner run "$work/job.yml")
test -f "$work/empty/hello.txt"

say "our own pipeline"
git clone -q "$root" "$work/rung"
cd "$work/rung"
cp "$root/.gitlab-ci.yml" .
step-runner check
# Without its checks: go vet for every system takes minutes in a folder that it has not seen.
step-runner local test demo --needs --isolation none --variable GOMODCACHE --variable GOCACHE \
  --variable TEST_PACKAGES=./steps/plan/... --progress plain

if [ -z "${RUNG_TEST_ENGINE:-}" ]; then
  echo "no container engine (RUNG_TEST_ENGINE): images and services are not tried"
  exit 0
fi

say "images for containers, made of busybox"
export DOCKER_HOST=$RUNG_TEST_ENGINE
mkdir -p "$work/image/bin" "$work/image/www" "$work/image/tmp"
cp "$(command -v busybox)" "$work/image/bin/busybox"
for name in sh cat echo grep wget httpd mkdir date test id ls; do
  ln -s busybox "$work/image/bin/$name"
done
echo "hello from the service" >"$work/image/www/index.html"
tar c -C "$work/image" . | docker import --change 'EXPOSE 8080' - rung-e2e/tools:1 >/dev/null
trap 'docker rmi --force rung-e2e/tools:1 >/dev/null; chmod -R u+w "$work"; rm -rf "$work"' EXIT

say "a classic job with an image, a service, a cache, artifacts, a matrix, rules, extends and includes"
cd "$work/project"
cat >services.yml <<'EOF'
include: /ci/base.yml
classic:
  extends: .cached
  image: rung-e2e/tools:1
  services:
    - name: rung-e2e/tools:1
      alias: web
      command: [httpd, -f, -p, "8080", -h, /www]
  parallel:
    matrix:
      - PAGE: [index.html]
  rules:
    - if: $CI_COMMIT_BRANCH == "main"
  script:
    - wget -qO- http://web:8080/$PAGE >page.txt
    - grep service page.txt
  artifacts:
    paths: [page.txt]
EOF
sed -i 's|include: /ci/base.yml|include:\n  - local: /ci/base.yml\n    inputs: {greeting: Hello}|' services.yml
step-runner local services.yml --job-name classic --output-dir "$work/traces"
grep -q "hello from the service" "$work"/traces/classic*.json
step-runner replay "$work"/traces/classic*.json
"$root/e2e/anywhere.sh" "$work"/traces/classic*.json
test -z "$(docker ps --all --quiet --filter ancestor=rung-e2e/tools:1)" # those of other tests are not ours
