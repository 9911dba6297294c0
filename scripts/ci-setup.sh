#!/usr/bin/env bash
# Installs the programs that some tests use and others do not need: a browser for the trace page, tmux for the terminal
# view, protoc for the generated code, gRPC for Python, Node for actions, tools that steps run, and a container engine. On a machine that
# cannot install them it says so and goes on; whether a test may then skip itself is decided where the tests are run.
set -uo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # need COMMAND PACKAGE…
  command -v "$1" >/dev/null || missing+=("${@:2}")
}
need gcc gcc libc6-dev
need git git
need make make
need protoc protobuf-compiler libprotobuf-dev
need tmux tmux
need chromium chromium
need setsid util-linux
need dash dash
need zsh zsh
need ssh-keygen openssh-client
# Hosts behind SSH, and a login shell that is not POSIX.
command -v sshd >/dev/null || test -x /usr/sbin/sshd || missing+=(openssh-server)
need tcsh tcsh
need openssl openssl
need sha256sum coreutils
# JavaScript actions, and the packages that the test actions in e2e/actions are built on.
need node nodejs
need npm npm
# A container engine, and what images for it are made of.
need dockerd docker.io
need ip iproute2
need docker docker.io
# What gives sandboxes a network where no engine does.
need slirp4netns slirp4netns
# A registry that images are pushed to.
need docker-registry docker-registry
# What reads the units of services.
need systemd-analyze systemd
# What boots a machine with systemd, where services are run.
need systemd-nspawn systemd-container
# What an API server of Kubernetes keeps its objects in.
need etcd etcd-server
# A machine to reach over SSH.
need sshd openssh-server
# What packages are tried with.
need rpm rpm
need busybox busybox-static
# The Python client among the examples. Other Pythons than Debian's do not see its packages.
/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || missing+=(python3 python3-grpcio python3-protobuf)
# Servers in Python that plugins are tried with.
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
/usr/bin/python3 -c 'import websockets' 2>/dev/null || missing+=(python3 python3-websockets)

if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]}"
  scripts/install.sh "${missing[@]}" || echo "note: not everything is installed; tests that need it will skip themselves"
fi
exit 0
