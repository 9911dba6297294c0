#!/usr/bin/env bash
# Runs a command with a container engine of its own: engine.sh COMMAND…
#
# The engine (dockerd) has its files in a temporary folder, and ends with the command, however that ends. Its address is in
# RUNG_TEST_ENGINE, which tests look at, and that by which containers reach this machine in RUNG_TEST_ENGINE_ADDRESS. Where no engine can be started it says why and runs the command without. It has the runtime runsc
# where RUNG_RUNSC names that program, or scripts/runsc.sh has built it.
set -uo pipefail

if [ "$#" = 0 ]; then
  echo "usage: engine.sh COMMAND…" >&2
  exit 2
fi

without() { # without REASON: runs the command as it is
  echo "note: no container engine: $1; tests that need one will skip themselves" >&2
  unset RUNG_TEST_ENGINE RUNG_TEST_ENGINE_ADDRESS
  exec "${command[@]}"
}

command=("$@")
[ -z "${RUNG_TEST_ENGINE:-}" ] || exec "${command[@]}" # there is one already
[ "$(id -u)" = 0 ] || without "dockerd needs root"
command -v dockerd >/dev/null || without "dockerd is not installed (Debian's package docker.io)"

command -v ip >/dev/null || without "ip is not installed (Debian's package iproute2)"

folder=$(mktemp -d "${TMPDIR:-/tmp}/rung-engine.XXXXXX")
engine= running=
bridge=rung$$ # of its own: with none, dockerd would remove the docker0 of an engine that this machine has
# One of some for tests of networks (RFC 2544) that nothing beside it has: this machine and containers reach each other there.
for i in 0 1 2 3 4 5; do
  address=198.18.$((250 + ($$ + i) % 6)).1
  ip -brief address | grep -q " $address/" || break
done

# Ends the command and the engine, unmounts what a killed engine would leave, and removes its files.
cleanup() {
  trap - EXIT
  if [ -n "$running" ]; then # all that the command has started, too
    kill -"${signal:-TERM}" -- "-$running" 2>/dev/null
    wait "$running" 2>/dev/null
  fi
  if [ -n "$engine" ] && kill "$engine" 2>/dev/null; then
    for _ in $(seq 100); do
      kill -0 "$engine" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$engine" 2>/dev/null
    wait "$engine" 2>/dev/null
  fi
  # The engine's containerd is a process of its own, which ends with it unless it was killed.
  [ ! -f "$folder/exec/containerd/containerd.pid" ] || kill -9 "$(cat "$folder/exec/containerd/containerd.pid")" 2>/dev/null
  pkill -9 -f -- "-address $folder/exec/containerd/containerd.sock" 2>/dev/null # what it has left of containers that ended with it
  awk -v folder="$folder/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r | while IFS= read -r mount; do
    umount -l "$mount" 2>/dev/null
  done
  ip link delete "$bridge" 2>/dev/null
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'signal=INT; exit 130' INT
trap 'exit 143' TERM HUP

# A session of its own, so that an interrupt at the terminal does not reach it. It leaves the network of this machine alone: its
# containers reach each other on networks that are made for them, and nothing else.
if ! ip link add "$bridge" type bridge 2>"$folder/log" || ! ip address add "$address/24" dev "$bridge" 2>>"$folder/log"; then
  reason=$(cat "$folder/log")
  cleanup
  without "no network for it: $reason"
fi
ip link set "$bridge" up
runtimes=()
runsc=${RUNG_RUNSC:-$(cd "$(dirname "$0")/.." && pwd)/build/runsc}
[ ! -x "$runsc" ] || runtimes=(--add-runtime "runsc=$runsc")
setsid dockerd --host "unix://$folder/docker.sock" --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
  --bridge "$bridge" --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
  ${runtimes[@]+"${runtimes[@]}"} \
  >"$folder/log" 2>&1 </dev/null &
engine=$!
started=
for _ in $(seq 300); do
  if grep -q 'API listen on' "$folder/log" && [ -S "$folder/docker.sock" ]; then
    started=1
    break
  fi
  kill -0 "$engine" 2>/dev/null || break
  sleep 0.1
done
if [ -z "$started" ]; then
  reason=$(tail -n 3 "$folder/log" | tr '\n' ' ')
  cleanup
  without "dockerd does not start: $reason"
fi

export RUNG_TEST_ENGINE="unix://$folder/docker.sock" RUNG_TEST_ENGINE_ADDRESS=$address
set -m # a group of its own, so that all of it can be ended
"${command[@]}" <&0 &
running=$!
set +m
wait "$running"
code=$?
running=
exit "$code"
