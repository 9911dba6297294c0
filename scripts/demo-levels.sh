#!/usr/bin/env bash
# demo-levels.sh [FOLDER] runs the pipeline of examples/levels on each level of isolation that this machine has, through a GitLab and a
# runner, both of rung. The project is made in FOLDER (build/demo).
# Containers are made of busybox: that of this machine where it is a static program, else the image of that name.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-$PWD/build/demo}
rung=${RUNG:-bin/rung}
project=$folder/levels
rm -rf "$project" "$folder/images"
mkdir -p "$folder"
cp -R examples/levels "$project"
git -C "$project" init -q -b main
git -C "$project" add .
git -C "$project" -c user.name=Demo -c user.email=demo@example.com commit -qm "a pipeline for every level"

# The program ends with 5 where there is no configuration yet; what it says of the levels is the same.
levels=$("$rung" doctor --offline 2>/dev/null || true)
has() { awk -v level="$1" '$1 == "ok" && $2 == level { found = 1 } END { exit !found }' <<<"$levels"; }

# root makes the files of a system of busybox alone.
root() {
	local program
	program=$(command -v busybox) && ! ldd "$program" >/dev/null 2>&1 || return 1
	mkdir -p "$1"/{bin,etc,tmp,root,proc,sys,dev}
	cp "$program" "$1/bin/busybox"
	for name in $("$program" --list); do [ "$name" = busybox ] || ln -s busybox "$1/bin/$name"; done
	echo "root:x:0:0:root:/root:/bin/sh" >"$1/etc/passwd"
	echo "the service" >"$1/etc/hostname"
}

image=busybox:stable
if root "$folder/images/rung-demo:busybox"; then
	image=rung-demo:busybox
	export RUNG_SANDBOX_IMAGES=$folder/images
	docker info >/dev/null 2>&1 && tar -C "$folder/images/$image" -c . | docker import - "$image" >/dev/null
fi

for level in none cgroup container sandbox; do
	echo
	if ! has "$level"; then
		echo "Not on level $level: \`$rung doctor\` says what is missing here."
		continue
	fi
	run=("$rung" dev run "$project" --quiet --isolation "$level" --variable "LEVEL=$level")
	case $level in container | sandbox) run+=(--image "$image") ;; esac
	# Services need an engine. Where there is none, a sandbox reaches this machine at its own address.
	[ "$level" != sandbox ] || has container || run+=(--listen "$(hostname -I | cut -d ' ' -f 1):0")
	! has container || case $level in container | sandbox) run+=(--variable "SERVICE_IMAGE=$image") ;; esac
	echo "\$ ${run[*]}"
	"${run[@]}"
done
