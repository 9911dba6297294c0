#!/usr/bin/env bash
# A newcomer's first minutes: a fresh clone, an empty home, hardly any environment, then the commands of README.md from top to bottom.
# Prints each as the README shows it, "$ command" and all that it prints. Run as root, the newcomer is an ordinary user if mounts are
# allowed, because a build and a job must not need root.
#
#	e2e/newcomer.sh            # works in a folder of its own
#
# Uncommitted changes of files that Git knows are part of the clone. `make test` is only looked up: it would run this script again.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

package=github.com/rungci/rung/cmd/step-runner

fail() { echo "newcomer: $1" >&2; exit 1; }

# prepare clones the repository into $work and chooses who the newcomer is.
prepare() {
	work=$(mktemp -d /tmp/new.XXXXXX) # short: sockets have paths of at most 100 bytes
	trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
	mkdir "$work/home" "$work/tmp" "$work/cache" "$work/mod" "$work/upper" "$work/overlay"
	git clone -q --depth 1 "file://$root" "$work/rung" 2>/dev/null
	git -C "$root" diff --binary HEAD | git -C "$work/rung" apply --allow-empty

	# The caches on this machine are shared: nothing is downloaded, and only what changed is compiled. Another user cannot write to
	# them, and Go insists on a cache that it can write to: what it adds goes to a layer on top.
	local cache mod environment
	cache=$(go env GOCACHE) mod=$(go env GOMODCACHE)
	environment=("HOME=$work/home" "TMPDIR=$work/tmp" "PATH=$PATH" LANG=C.UTF-8 GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-mod=readonly)
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && unshare --mount true 2>/dev/null; then
		chmod 755 "$work"
		chown -R 65534:65534 "$work"
		unshare --mount bash -euc '
			mount -t overlay -o "lowerdir=$1,upperdir=$3/upper,workdir=$3/overlay" overlay "$3/cache"
			chown 65534:65534 "$3/cache" "$3/cache"/*/
			mount --bind -o ro "$2" "$3/mod"; shift 3
			exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --no-new-privs "$@"' \
			- "$cache" "$mod" "$work" env -i "${environment[@]}" "GOCACHE=$work/cache" "GOMODCACHE=$work/mod" \
			bash "$work/rung/e2e/newcomer.sh" read-me </dev/null
	else
		env -i "${environment[@]}" "GOCACHE=$cache" "GOMODCACHE=$mod" bash "$work/rung/e2e/newcomer.sh" read-me </dev/null
	fi
}

# commands prints the commands of README.md: those of its sh blocks, a line each, and those of its transcripts, with "$ " before them.
# Every block starts in the clone.
commands() {
	awk '/^```/ { block = block ? "" : $0; if (block) print "cd \"$root\""; next }
		block == "```sh" { sub(/ +# .*/, ""); print }
		block == "```console" && /^\$ / { print }' README.md
}

# run runs a command of an sh block. One that fails ends the script; what it prints is shown then.
run() {
	case $1 in
		"go install "*@latest) # there is no network: the package exists, and this clone's build of it stands for the release's
			[ "$(go list -buildvcs=false "$(sed 's/go install \(.*\)@latest/\1/' <<<"$1")")" = "$package" ]
			scripts/build.sh "$HOME/go/bin/step-runner" "$package" ;;
		"cd ~/src/my-project") # a repository of the newcomer's
			mkdir -p ~/src/my-project
			cp -R examples/pipeline/. ~/src/my-project
			cd ~/src/my-project
			git init -q -b main ;;
		"git clone "*) ;; # done: this is the clone
		"make test") make --dry-run test >/dev/null ;;
		*)
			[ "$1" = 'cd "$root"' ] || echo "run: $1"
			if ! eval "$1" >"$HOME/output" 2>&1; then
				cat "$HOME/output"
				fail "this command of README.md failed: $1"
			fi ;;
	esac
}

read_me() {
	cd "$root"
	local line tried=0
	while IFS= read -r -u3 line; do
		tried=$((tried + 1))
		case $line in
			"$ "*) # a transcript: the caller compares what it prints; some commands are meant to fail
				printf '```console\n%s\n' "$line"
				{ (eval "${line#"$ "}") || true; } 2>&1 | sed "s|$root/||g"
				printf '```\n' ;;
			*) run "$line" ;;
		esac
	done 3< <(commands)
	[ "$tried" -gt 0 ] || fail "README.md has no commands"

	# A project elsewhere, in a folder whose name has a space, from a folder inside it.
	mkdir ~/"My projects"
	cp -R ~/src/my-project ~/"My projects/shop"
	cd ~/"My projects/shop"
	run "(cd src && step-runner local hello-world)"
	[ "$(git status --porcelain --untracked-files=all | grep -c '^?? \.rung/')" = 0 ] || fail "what jobs leave in .rung would be committed"

	# Of step-runner no file is in the home folder but its cache and the key that proves it: no record of a run that is not cleaned up.
	local left
	left=$(cd && find . -type f ! -path ./output ! -path './src/*' ! -path './My projects/*' ! -path './go/*' ! -path './.cache/*' ! -path './.config/go/*' ! -path ./.config/rung/cache.key)
	[ -z "$left" ] || fail "this is left in the home folder: $left"
}

case ${1:-} in
	"") prepare ;;
	read-me) read_me ;;
	*) fail "usage: newcomer.sh" ;;
esac
