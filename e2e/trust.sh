#!/usr/bin/env bash
# A job whose steps come from a Git server, a zip and a container registry: run, locked, bundled, signed, verified, and replayed
# with the network cut. docs/trust.md tells it step by step.
#
#	e2e/trust.sh            # builds what it needs, works in a folder of its own
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap '[ -z "$servers" ] || kill "$servers"; chmod -R u+w "$work"; rm -rf "$work"' EXIT
servers=

(cd "$root" && go build -o "$work/bin/" ./cmd/step-runner ./e2e/servers)
export PATH="$work/bin:$PATH" STEP_RUNNER_CACHE="$work/cache" HOME="$work/home"
mkdir "$HOME" "$work/job"
cd "$work/job"

say() { printf '\n# %s\n' "$1"; }

say "three steps, each with its author"
mkdir -p authors/hello authors/count authors/shout
cat >authors/hello/step.yml <<'EOF'
spec:
  inputs:
    name: {type: string}
  outputs:
    greeting: {type: string}
---
run:
  - name: say
    script: echo '{"name":"greeting","value":"hello ${{ inputs.name }}"}' >>"${{ output_file }}"
outputs:
  greeting: ${{ steps.say.outputs.greeting }}
EOF
cat >authors/count/step.yml <<'EOF'
spec:
  inputs:
    text: {type: string}
  outputs:
    letters: {type: number}
---
exec: {command: ["${{ step_dir }}/count", "${{ inputs.text }}", "${{ output_file }}"]}
EOF
printf '#!/bin/sh\nprintf '\''{"name":"letters","value":%%d}\\n'\'' "${#1}" >>"$2"\n' >authors/count/count
chmod +x authors/count/count
cat >authors/shout/step.yml <<'EOF'
spec:
  inputs:
    text: {type: string}
---
run:
  - script: echo "${{ inputs.text }}!" | tr a-z A-Z
EOF

say "one is in a Git repository, one in a zip, one in a registry"
servers srv &
servers=$!
until [ -f srv/servers.env ]; do sleep 0.05; done
. ./srv/servers.env
git init -q -b main srv/repos/acme/steps
mkdir srv/repos/acme/steps/steps
cp -r authors/hello srv/repos/acme/steps/steps/
git -C srv/repos/acme/steps add .
git -C srv/repos/acme/steps -c user.name=acme -c user.email=acme@example.com commit -qm "hello"
git -C srv/repos/acme/steps tag v1
mkdir -p srv/files/steps
cp -r authors/count srv/files/steps/
step-runner oci push authors/shout "$REGISTRY/acme/shout:1.0.0"

say "the job names them where everybody finds them; sources.toml says where they are for us"
cat >sources.toml <<EOF
[[source]]
match = "gitlab.example.com/"
replace = "$GIT_SERVER/"

[[source]]
match = "downloads.example.com/"
replace = "$FILE_SERVER/"

[[source]]
match = "registry.example.com/"
replace = "http://$REGISTRY/"
EOF
cat >steps.yml <<'EOF'
- name: hello
  step: gitlab.example.com/acme/steps/-/hello@v1
  inputs: {name: "${{ env.WHO }}"}
  env: {WHO: world}
- name: count
  step: https://downloads.example.com/steps.zip/-/count
  inputs: {text: "${{ steps.hello.outputs.greeting }}"}
- name: shout
  step: registry.example.com/acme/shout:1
  inputs: {text: "${{ steps.hello.outputs.greeting }} has ${{ steps.count.outputs.letters }} letters"}
EOF
step-runner ci steps.yml --sources sources.toml --output-file trace.json

say "what ran, to the commit"
step-runner trace show -vv trace.json

say "locked: a tag that moves changes nothing any more"
step-runner lock steps.yml --sources sources.toml
cat steps.lock
step-runner ci steps.yml --sources sources.toml --locked --output-file trace.json

say "signed and verified"
ssh-keygen -q -t ed25519 -N '' -C ci -f ci-key
step-runner trace sign --key ci-key trace.json
step-runner trace verify --key ci-key.pub trace.json

say "a changed trace does not verify"
sed 's/hello world/hello mars!/' trace.json >changed.json
if step-runner trace verify --key ci-key.pub --envelope trace.json.dsse changed.json; then exit 1; fi

say "bundled: the trace and everything that ran, in one file"
step-runner trace bundle trace.json -o job.bundle --sources sources.toml

say "the same anywhere"
"$root/e2e/anywhere.sh" trace.json --sources sources.toml

say "replayed elsewhere, with the network cut and an empty cache"
kill "$servers"
wait "$servers" || true
servers=
rm sources.toml
mkdir ../elsewhere
STEP_RUNNER_CACHE="$work/empty" step-runner replay job.bundle --offline --work-dir ../elsewhere
