#!/usr/bin/env bash
# GitHub Actions on this machine, as users meet them: a job that mixes actions, GitLab Steps and scripts, locked, bundled and replayed
# offline; a workflow whose jobs share outputs and artifacts; and with a container engine (RUNG_TEST_ENGINE) container actions, jobs in
# containers, and services.
#
#	e2e/actions.sh            # builds what it needs, works in a folder of its own
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

(cd "$root" && CGO_ENABLED=0 go build -o "$work/bin/" ./cmd/step-runner)
export PATH="$work/bin:$PATH" STEP_RUNNER_CACHE="$work/cache" HOME="$work/home"
mkdir "$HOME"
git config --global user.name "A Person"
git config --global user.email person@example.com

say() { printf '\n# %s\n' "$1"; }

say "a job with actions of a repository and of its own, beside GitLab Steps and a script"
cp -R "$root/examples/actions" "$work/job"
cd "$work/job"
./repositories.sh
step-runner run steps.yml --sources sources.toml --output-file trace.json
step-runner trace show trace.json
step-runner compile steps.yml >job.json
grep -q '"action": "octo/greet@v1"' job.json
step-runner describe action:octo/sum/count@v1 --sources sources.toml

say "locked: a tag that moves does not move it"
step-runner lock steps.yml --sources sources.toml
grep -q 'https://github.com/octo/sum' steps.lock
echo 'throw new Error("moved")' >github/octo/greet/main.js
git -C github/octo/greet commit -qam "two"
git -C github/octo/greet tag --force v1 >/dev/null
step-runner run steps.yml --sources sources.toml --locked --refresh
printf -- '- action: octo/sum/count@v1\n  inputs: {file: steps.yml}\n- action: octo/other@v1\n' >more.yml
code=0
step-runner run more.yml --sources sources.toml --locked || code=$?
test "$code" = 4

say "the same anywhere"
"$root/e2e/anywhere.sh" trace.json --sources sources.toml

say "a bundle replays in an empty folder, with the repositories and the cache gone"
step-runner trace bundle trace.json -o "$work/job.bundle"
mkdir "$work/empty"
cd "$work/empty"
rm -rf "$work/job"
chmod -R u+w "$work/cache" && rm -rf "$work/cache"
step-runner replay "$work/job.bundle" --offline

say "a workflow: a matrix, a composite action, outputs, conditions, a workflow that it calls"
cp -R "$root/examples/workflow" "$work/project"
cd "$work/project"
git init -q -b main
git add .
git commit -qm "one"
ci=.github/workflows/ci.yml
step-runner check "$ci"
step-runner local "$ci" --list
step-runner local "$ci" --output-dir "$work/traces"
test -z "$(git status --porcelain)"
for trace in "$work"/traces/*.json; do
  step-runner replay "$trace"
  "$root/e2e/anywhere.sh" "$trace"
done

say "artifacts between its jobs, by what is behind the toolkit's packages"
mkdir -p .github/actions/artifact
cat >.github/actions/artifact/action.yml <<'EOF'
name: Artifact
description: Keeps a file for later jobs, or brings it back.
inputs:
  name: {description: Of the artifact., required: true}
  file: {description: To keep; none brings it back.}
outputs:
  text: {description: What it holds.}
runs: {using: node20, main: main.js}
EOF
cat >.github/actions/artifact/main.js <<'EOF'
const fs = require('fs')
const token = process.env.ACTIONS_RUNTIME_TOKEN
const scopes = JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).scp.split(' ')
const [, run, job] = scopes.find(scope => scope.startsWith('Actions.Results:')).split(':')
const ids = {workflow_run_backend_id: run, workflow_job_run_backend_id: job}
const name = process.env.INPUT_NAME

async function call(method, more) {
  const url = new URL(`/twirp/github.actions.results.api.v1.ArtifactService/${method}`, process.env.ACTIONS_RESULTS_URL)
  const headers = {Authorization: `Bearer ${token}`, 'Content-Type': 'application/json'}
  const answer = await fetch(url, {method: 'POST', headers, body: JSON.stringify({...ids, name, ...more})})
  if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

async function main() {
  if (process.env.INPUT_FILE) {
    const body = fs.readFileSync(process.env.INPUT_FILE)
    const {signed_upload_url: url} = await call('CreateArtifact', {version: 7, mime_type: 'text/plain'})
    const headers = {'x-ms-blob-type': 'BlockBlob'}
    const put = await fetch(url, {method: 'PUT', headers, body})
    if (!put.ok) throw new Error(`upload: ${put.status}`)
    await call('FinalizeArtifact', {size: String(body.length)})
    return console.log(`kept ${name}`)
  }
  const {signed_url: url} = await call('GetSignedArtifactURL')
  const text = (await (await fetch(url)).text()).trim()
  fs.appendFileSync(process.env.GITHUB_OUTPUT, `text=${text}\n`)
}
main().catch(error => { console.log(`::error::${error.message}`); process.exitCode = 1 })
EOF
cat >.github/workflows/artifacts.yml <<'EOF'
on: push
jobs:
  make:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: echo "made of ${{ github.ref_name }}" >made.txt
      - {uses: ./.github/actions/artifact, with: {name: made, file: made.txt}}
  use:
    needs: make
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - {id: take, uses: ./.github/actions/artifact, with: {name: made}}
      - run: echo "the artifact says '${{ steps.take.outputs.text }}'"
EOF
git add .
git commit -qm "two"
step-runner local .github/workflows/artifacts.yml --output-dir "$work/traces"
step-runner replay "$work/traces/make.json"
step-runner replay "$work/traces/use.json"
"$root/e2e/anywhere.sh" "$work/traces/make.json"
"$root/e2e/anywhere.sh" "$work/traces/use.json"

if [ -z "${RUNG_TEST_ENGINE:-}" ]; then
  echo "no container engine (RUNG_TEST_ENGINE): container actions, jobs in containers and services are not tried"
  exit 0
fi

say "images for containers, made of busybox"
export DOCKER_HOST=$RUNG_TEST_ENGINE
mkdir -p "$work/image/bin" "$work/image/www" "$work/image/tmp"
cp "$(command -v busybox)" "$work/image/bin/busybox"
for name in sh cat echo grep wget httpd mkdir date test id ls wc; do
  ln -s busybox "$work/image/bin/$name"
done
echo "hello from the service" >"$work/image/www/index.html"
tar c -C "$work/image" . | docker import --change 'EXPOSE 8080' - rung-e2e/box:1 >/dev/null
trap 'docker rmi --force $(docker images --quiet rung-action) rung-e2e/box:1 >/dev/null; chmod -R u+w "$work"; rm -rf "$work"' EXIT

box=$work/servers/octo/box
mkdir -p "$box" .github/actions/lines .github/actions/wrap
cat >"$box/action.yml" <<'EOF'
name: Box
description: Says something in a container.
inputs:
  word: {description: What to say., required: true}
outputs:
  said: {description: What was said.}
runs:
  using: docker
  image: Dockerfile
  pre-entrypoint: pre.sh
  entrypoint: main.sh
  post-entrypoint: post.sh
  args: ["${{ inputs.word }}", two words]
  env: {EXTRA: "of ${{ inputs.word }}"}
EOF
printf 'FROM rung-e2e/box:1\nCOPY pre.sh main.sh post.sh /bin/\n' >"$box/Dockerfile"
cat >"$box/pre.sh" <<'EOF'
#!/bin/sh
echo "the box is opened for $INPUT_WORD"
echo "box=opened" >>"$GITHUB_STATE"
EOF
cat >"$box/main.sh" <<'EOF'
#!/bin/sh
set -e
echo "in $(pwd), $STATE_box: $1 | $2 | $EXTRA"
echo "said=$1 and $2" >>"$GITHUB_OUTPUT"
echo "BOXED=$1" >>"$GITHUB_ENV"
mkdir left
echo "$1" >left/behind.txt
EOF
cat >"$box/post.sh" <<'EOF'
#!/bin/sh
echo "the box is closed, it was $STATE_box"
EOF
chmod +x "$box"/*.sh
git -C "$box" init -q -b main
git -C "$box" add .
git -C "$box" commit -qm "one"
git -C "$box" tag v1
cat >.github/actions/lines/action.yml <<'EOF'
name: Lines
inputs: {file: {required: true}}
outputs: {lines: {description: How many.}}
runs: {using: docker, image: Dockerfile, args: ["${{ inputs.file }}"]}
EOF
printf 'FROM rung-e2e/box:1\nCOPY lines.sh /bin/\nENTRYPOINT ["/bin/lines.sh"]\n' >.github/actions/lines/Dockerfile
printf '#!/bin/sh\necho "lines=$(wc -l <"$1")" >>"$GITHUB_OUTPUT"\n' >.github/actions/lines/lines.sh
chmod +x .github/actions/lines/lines.sh
cat >.github/actions/wrap/action.yml <<'EOF'
name: Wrap
outputs: {lines: {value: "${{ steps.in.outputs.lines }}"}}
runs:
  using: composite
  steps:
    - {shell: bash, run: 'printf "1\n2\n" >two.txt'}
    - {id: in, uses: ./.github/actions/lines, with: {file: two.txt}}
EOF
cat >.github/workflows/containers.yml <<'EOF'
on: push
jobs:
  actions:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: docker://rung-e2e/box:1
        with: {entrypoint: /bin/echo, args: from an image}
      - {id: box, uses: octo/box@v1, with: {word: hush}}
      - run: |
          echo "the box said ${{ steps.box.outputs.said }}, $BOXED"
          grep hush left/behind.txt
          test -z "${DOCKER_HOST:-}"
      - {id: wrap, uses: ./.github/actions/wrap}
      - run: echo "${{ steps.wrap.outputs.lines }} lines, by a container in a composite action"
  inside:
    runs-on: ubuntu-latest
    container: rung-e2e/box:1
    services:
      web: {image: "rung-e2e/box:1", command: "httpd -f -p 8080 -h /www"}
    steps:
      - uses: actions/checkout@v4
      - run: wget -qO- http://web:8080/index.html | grep service; cat VERSION
  beside:
    runs-on: ubuntu-latest
    services:
      web:
        image: rung-e2e/box:1
        command: httpd -f -p 8080 -h /www
        ports: [8080]
    steps:
      - run: |
          exec 3<>"/dev/tcp/localhost/${{ job.services.web.ports[8080] }}"
          printf 'GET /index.html HTTP/1.0\r\n\r\n' >&3
          echo "beside: $(grep service <&3)"
EOF
printf '[[source]]\nmatch = "github.com/"\nreplace = "file://%s/"\n' "$work/servers" >"$work/sources.toml"
git add .
git commit -qm "three"

say "container actions, a job in a container, and services"
step-runner local .github/workflows/containers.yml --sources "$work/sources.toml" --output-dir "$work/traces"
step-runner replay "$work/traces/actions.json" --sources "$work/sources.toml"
step-runner replay "$work/traces/inside.json"
step-runner replay "$work/traces/beside.json"
"$root/e2e/anywhere.sh" "$work/traces/inside.json"
"$root/e2e/anywhere.sh" --starts-containers "$work/traces/actions.json" --sources "$work/sources.toml"
"$root/e2e/anywhere.sh" --starts-containers "$work/traces/beside.json"
test -z "$(git status --porcelain)"
test -z "$(docker ps --all --quiet --filter ancestor=rung-e2e/box:1)" # those of other tests are not ours
