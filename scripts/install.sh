#!/usr/bin/env bash
# Installs Debian packages, and says what to do where that is not possible: install.sh PACKAGE…
set -euo pipefail

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "please install: $* (these are Debian's package names)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 || {
  apt-get update -qq # the package lists may be missing or old
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
