#!/usr/bin/env bash
# Builds everything that a release holds, into build/dist: archives and lists of materials for every platform, packages for Linux, OCI
# images, the Homebrew formula, instance-group plugins, checksums. The same commit gives the same bytes: DIST_TWICE=1 builds twice and compares.
#
# TARGETS names the platforms, PLUGIN_TARGETS those of plugins where they are others, VERSION the release, DIST_URL where archives will be downloaded from.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=${TARGETS:-linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64 windows/arm64 freebsd/amd64}
plugin_targets=${PLUGIN_TARGETS:-$targets}
programs=(step-runner rung)
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
export VERSION=$version
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
url=${DIST_URL:-https://github.com/rungci/rung/releases/download/$version}

# Packages need a version that their systems can sort.
PACKAGE_VERSION=0.0.0-git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y%m%d)
if [[ $version =~ ^v?([0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]*)?)$ ]]; then
  PACKAGE_VERSION=${BASH_REMATCH[1]}
fi
export PACKAGE_VERSION

plugin() { # plugin NAME WORK OUT: one file for each platform
  local name=$1 work=$PWD/$2 out=$PWD/$3 target platform extension
  for target in $plugin_targets; do
    platform=${target/\//-} extension=
    [ "${target%/*}" != windows ] || extension=.exe
    scripts/plugin-build.sh "$name" "$target" "$work/plugins/$platform/group-plugin-$name$extension"
    gzip -9nc "$work/plugins/$platform/group-plugin-$name$extension" >"$out/group-plugin-$name-$version-$platform$extension.gz"
  done
  echo "built group-plugin-$name"
}

plugins() { # plugins WORK OUT: each is a module of its own; all at once, since one core links and compresses each
  local module process processes=()
  for module in plugins/*/go.mod; do
    plugin "$(basename "$(dirname "$module")")" "$1" "$2" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do
    wait "$process"
  done
}

dist() { # dist WORK OUT
  local work=$1 out=$2 target platform package program shell runner=$1/host/step-runner
  rm -rf "$work" "$out"
  mkdir -p "$work/share/completions" "$out"
  for target in $targets; do
    GOOS=${target%/*} GOARCH=${target#*/} scripts/build.sh "$work/${target/\//-}/" "${programs[@]/#/./cmd/}"
    echo "built for $target"
  done

  scripts/build.sh "$work/host/" "${programs[@]/#/./cmd/}"
  for program in "${programs[@]}"; do
    for shell in bash zsh fish; do
      "$work/host/$program" completion "$shell" >"$work/share/completions/$program.$shell"
    done
    "$work/host/$program" completion powershell >"$work/share/completions/$program.ps1"
  done
  scripts/man.sh "$work/share/man"
  scripts/schemas.sh "$runner" "$work/share/schemas"
  for page in "$work"/share/man/*.1; do
    gzip -9nc "$page" >"$page.gz"
  done
  cp LICENSE README.md "$work/share/"

  go run ./internal/house/cmd/release -version "$version" -work "$work" -out "$out" \
    -formula packaging/homebrew/step-runner.rb.tmpl -url "$url"

  for target in $targets; do
    [ "${target%/*}" = linux ] || continue
    platform=${target/\//-}
    for package in deb rpm apk; do
      ARCH=${platform#linux-} WORK=$work/$platform SHARE=$work/share \
        go tool -modfile=scripts/tools/nfpm.mod nfpm package --config packaging/nfpm.yaml --packager "$package" --target "$out/" >/dev/null
    done
  done
  echo "packaged $PACKAGE_VERSION as deb, rpm and apk"

  # Images of nothing but the programs: COPY --from brings them into other images, and "bootstrap" step-runner into environments. That of rung has
  # both, as it expects step-runner beside it.
  local runners=() rungs=()
  for target in $targets; do
    platform=${target/\//-}
    [ "${target%/*}" = linux ] || continue
    runners+=(--platform "$target=$work/$platform/step-runner=step-runner")
    rungs+=(--platform "$target=$work/$platform")
  done
  if [ "${#runners[@]}" -gt 0 ]; then
    mkdir -p "$work/image" && cp LICENSE "$work/image/"
    "$runner" oci build "$work/image" "${runners[@]}" --entrypoint /step-runner -o "$out/step-runner-$version-oci.tar" >/dev/null
    "$runner" oci build "$work/image" "${rungs[@]}" --entrypoint /rung -o "$out/rung-$version-oci.tar" >/dev/null
  fi

  plugins "$work" "$out"
  cp packaging/install.sh "$out/"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
}

dist build/dist-work build/dist
if [ "${DIST_TWICE:-}" = 1 ]; then
  dist build/dist-work-2 build/dist-2
  diff build/dist/SHA256SUMS build/dist-2/SHA256SUMS || { echo "the second build has other bytes than the first" >&2; exit 1; }
  rm -rf build/dist-work-2 build/dist-2
  echo "built twice: the same bytes"
fi
ls -l build/dist
