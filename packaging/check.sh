#!/usr/bin/env bash
# Tries what `make dist` made for this machine's architecture, as far as the machine has the tools: check.sh [DIST]
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(cd "${1:-build/dist}" && pwd)
arch=$(go env GOARCH)

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)
echo "checksums: fine"

# As a user installs it, from a folder that is laid out like a release.
mkdir -p "$temp/releases/download" && ln -s "$dist" "$temp/releases/download/v1"
STEP_RUNNER_URL=file://$temp/releases packaging/install.sh v1 "$temp/bin"
cat >"$temp/steps.yml" <<<'- {name: hello, script: echo hello from a package}'
(cd "$temp" && bin/step-runner run steps.yml --progress plain) | grep "hello from a package"

files="usr/bin/step-runner usr/share/man/man1/step-runner-run.1.gz usr/share/bash-completion/completions/step-runner
  usr/share/zsh/site-functions/_step-runner usr/share/fish/vendor_completions.d/step-runner.fish
  usr/share/step-runner/schemas/steps.schema.json
  usr/bin/rung usr/share/man/man1/rung-register.1.gz usr/share/bash-completion/completions/rung usr/share/zsh/site-functions/_rung
  usr/share/fish/vendor_completions.d/rung.fish"
holds() { # holds PACKAGE LIST: the list of a package's files has all that should be in it
  for file in $files; do
    grep -qE "^(\./|/)?$file\$" "$2" || { echo "$1 has no $file" >&2; exit 1; }
  done
  echo "$(basename "$1"): fine"
}
if command -v dpkg >/dev/null && [ "$(id -u)" = 0 ]; then
  package=$(ls "$dist"/*_"$arch".deb)
  mkdir -p "$temp/root/var/lib/dpkg/info" "$temp/root/var/lib/dpkg/updates" && touch "$temp/root/var/lib/dpkg/status"
  dpkg --root="$temp/root" -i "$package" >/dev/null
  (cd "$temp/root" && find . -type f) >"$temp/list"
  holds "$package" "$temp/list"
  chroot "$temp/root" /usr/bin/step-runner version
  chroot "$temp/root" /usr/bin/rung --version
  dpkg --root="$temp/root" --remove step-runner >/dev/null
  [ ! -e "$temp/root/usr/bin/step-runner" ] || { echo "removing the package leaves the program" >&2; exit 1; }
else
  echo "note: the deb is not tried: that needs dpkg, and root"
fi
for package in "$dist"/*.rpm; do
  command -v rpm >/dev/null || { echo "note: the rpm is not tried: there is no rpm"; break; }
  rpm -K --nosignature "$package" >/dev/null
  rpm -qlp "$package" >"$temp/list" 2>/dev/null
  holds "$package" "$temp/list"
done
for package in "$dist"/*.apk; do # three gzip streams, which tar reads as one
  tar -tzf "$package" >"$temp/list" 2>/dev/null
  holds "$package" "$temp/list"
done
for program in step-runner rung; do
  image=$(basename "$dist/$program"-*-oci.tar)
  grep -q "  $image\$" "$dist/SHA256SUMS" || { echo "SHA256SUMS does not have $image" >&2; exit 1; }
  index=$(tar -xOf "$dist/$image" index.json | grep -o 'sha256:[0-9a-f]*')
  tar -xOf "$dist/$image" "blobs/sha256/${index#sha256:}" >"$temp/index"
  for archive in "$dist"/step-runner-*-linux-*.tar.gz; do
    platform=${archive##*-linux-} platform=${platform%.tar.gz}
    grep -q "\"architecture\":\"$platform\",\"os\":\"linux\"" "$temp/index" || { echo "$image has nothing for linux/$platform" >&2; exit 1; }
  done
  echo "$image: fine"
done
