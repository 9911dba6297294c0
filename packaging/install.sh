#!/bin/sh
# Downloads step-runner and rung, and checks them: install.sh [VERSION [DIR]]. VERSION is a release (v1.2.3), or "latest"; DIR defaults to /usr/local/bin
# for root and ~/.local/bin for others. STEP_RUNNER_URL is where releases are, such as a mirror or file:///folder.
set -eu

version=${1:-latest}
if [ "$(id -u)" = 0 ]; then dir=/usr/local/bin; else dir=$HOME/.local/bin; fi
dir=${2:-$dir}
releases=${STEP_RUNNER_URL:-https://github.com/rungci/rung/releases}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}
fetch() { # fetch URL FILE
  if command -v curl >/dev/null; then
    curl -fsSL --retry 3 -o "$2" "$1" || fail "cannot download $1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1" || fail "cannot download $1"
  else
    fail "curl or wget is needed"
  fi
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
FreeBSD) os=freebsd ;;
*) fail "there is no build for $(uname -s); go install github.com/rungci/rung/cmd/step-runner@latest builds one" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no build for $(uname -m); go install github.com/rungci/rung/cmd/step-runner@latest builds one" ;;
esac

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
if [ "$version" = latest ]; then base=$releases/latest/download; else base=$releases/download/$version; fi
fetch "$base/SHA256SUMS" "$temp/SHA256SUMS"
archive=$(sed -n "s/^[0-9a-f]*  \(step-runner-.*-$os-$arch\.tar\.gz\)\$/\1/p" "$temp/SHA256SUMS")
[ -n "$archive" ] || fail "the release has no archive for $os/$arch"
fetch "$base/$archive" "$temp/$archive"

want=$(sed -n "s/^\([0-9a-f]*\)  $archive\$/\1/p" "$temp/SHA256SUMS")
if command -v sha256sum >/dev/null; then got=$(sha256sum "$temp/$archive"); else got=$(shasum -a 256 "$temp/$archive"); fi
[ "${got%% *}" = "$want" ] || fail "$archive has the checksum ${got%% *}, not $want"

mkdir -p "$dir"
tar -xzf "$temp/$archive" -C "$temp"
for program in step-runner rung; do
  [ -e "$temp/${archive%.tar.gz}/$program" ] || continue # a release from before rung
  mv "$temp/${archive%.tar.gz}/$program" "$dir/$program.new"
  mv "$dir/$program.new" "$dir/$program" # a program that runs cannot be written over
done
echo "installed $("$dir/step-runner" version) in $dir"
