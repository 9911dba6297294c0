#!/usr/bin/env bash
# Replays a trace elsewhere, and fails unless the replay is the same to the byte in the comparable form: from a bundle, in another folder, with
# another HOME and an empty cache; for root as another user; and with a container engine (RUNG_TEST_ENGINE) in a container. A run that was in a
# container is replayed in one of its image. A run on this machine that starts containers (--starts-containers) is replayed in another folder
# only: another user, and a container without a network, do not reach the engine.
# Whoever calls it stands in the folder of the run; the files of its project, if it is a job of one, are there.
#
#	e2e/anywhere.sh [--starts-containers] TRACE [FLAG…]     # FLAGs are for the bundle: where its components are from
set -euo pipefail
starts=
if [ "$1" = --starts-containers ]; then
  starts=1
  shift
fi
trace=$1
shift
there=$(mktemp -d)
trap 'chmod -R u+w "$there"; rm -rf "$there"' EXIT
program=$(command -v step-runner)
other=65534 # nobody

step-runner trace export --format comparable "$trace" >"$there/recorded"
step-runner trace bundle "$trace" -o "$there/run.bundle" "$@" >"$there/bundled" || { cat "$there/bundled"; exit 1; }
cp "$program" "$there/step-runner"
chmod 755 "$there"
chmod 644 "$there/run.bundle"

same() { # same WHERE FOLDER COMMAND…: COMMAND runs step-runner in FOLDER
  local where=$1 folder=$2 out
  shift 2
  out=$("$@" replay "$there/run.bundle" --offline --output-file "$folder.again" 2>"$folder.err") || {
    printf 'the replay of %s %s is different:\n%s\n' "$trace" "$where" "$out" >&2
    cat "$folder.err" >&2
    exit 1
  }
  step-runner trace export --format comparable "$folder.again" >"$folder.comparable"
  if ! diff "$there/recorded" "$folder.comparable" >"$folder.diff"; then
    printf 'the comparable form of the replay of %s %s is another:\n' "$trace" "$where" >&2
    head -n 40 "$folder.diff" >&2
    exit 1
  fi
}

folder() { # folder NAME: a folder, and beside it those of its user; with the files of the project, if the run had some
  local folder=$there/$1/here
  mkdir -p "$there/$1/home" "$there/$1/tmp"
  if grep -q '"project": ' "$trace"; then
    cp -R . "$folder"
    if [ -d "$folder/.rung/cache" ]; then # as the run found it
      cp -pR .rung/cache/. "$folder/.rung/cache/"
      find "$folder/.rung/cache" -type f -newermt "$(sed -n 's/^    "started": "\(.*\)".*/\1/p' "$trace" | head -n 1)" -delete
    fi
  else
    mkdir "$folder"
  fi
  echo "$folder"
}

run() { # run FOLDER ARGUMENT…: as a user who has nothing but PATH
  local dir
  dir=$(dirname "$1")
  cd "$1"
  shift
  env -i "${engine[@]}" PATH="$PATH" HOME="$dir/home" TMPDIR="$dir/tmp" "${as[@]}" "$there/step-runner" "$@"
}

as=() engine=()
if [ -n "$starts" ] || grep -q '"level": "container"' "$trace"; then
  engine=("DOCKER_HOST=$RUNG_TEST_ENGINE")
fi
there1=$(folder one)
same "in another folder" "$there1" run "$there1"
if [ "${#engine[@]}" = 0 ] && [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  there2=$(folder two)
  chown -R "$other:$other" "$there/two"
  as=(setpriv "--reuid=$other" "--regid=$other" --clear-groups)
  same "by another user" "$there2" run "$there2"
fi
if [ "${#engine[@]}" = 0 ] && [ -n "${RUNG_TEST_ENGINE:-}" ]; then
  there3=$(folder three)
  root=$there/root
  mkdir -p "$root"/{usr,etc,tmp}
  mounts=()
  for dir in bin sbin lib lib64; do
    if [ -L "/$dir" ]; then
      cp -P "/$dir" "$root/"
    elif [ -d "/$dir" ]; then
      mkdir "$root/$dir"
      mounts+=(--volume "/$dir:/$dir:ro")
    fi
  done
  image=rung-anywhere:$$
  tar c -C "$root" . | docker --host "$RUNG_TEST_ENGINE" import - "$image" >/dev/null
  trap 'docker --host "$RUNG_TEST_ENGINE" rmi --force "$image" >/dev/null; chmod -R u+w "$there"; rm -rf "$there"' EXIT
  same "in a container" "$there3" docker --host "$RUNG_TEST_ENGINE" run --rm --network none --volume /usr:/usr:ro --volume /etc:/etc:ro "${mounts[@]}" \
    --volume "$there:$there" --workdir "$there3" --env HOME=/tmp --env PATH="$PATH" "$image" "$there/step-runner"
fi
echo "the same anywhere: $(basename "$trace")"
