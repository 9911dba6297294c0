#!/usr/bin/env bash
# Tests what a change touches: the packages that differ from BASE (main), those that import them, and the rules of the house.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/flags.sh

base=${BASE:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
module=$(go list -m)

# The folders of changed files, up to the first that is a package: testdata and embedded files count for the package above them.
changed=()
while IFS= read -r folder; do
  while [ "$folder" != . ] && ! compgen -G "$folder/*.go" >/dev/null; do
    folder=$(dirname "$folder")
  done
  [ "$folder" = . ] || changed+=("$module/$folder")
done < <({ git diff --name-only "$base" -- && git ls-files --others --exclude-standard; } | xargs -r -n1 dirname | sort -u)

packages=("$module/internal/house") checked=()
if [ "${#changed[@]}" -gt 0 ]; then
  list=$(printf '%s\n' "${changed[@]}" | sort -u)
  while IFS= read -r package; do
    checked+=("$package")
    case ${package#"$module"/} in
      cmd/* | e2e | e2e/* | bench) # these import everything: they are tested when they change themselves, and by make test
        grep -qxF "$package" <<<"$list" && packages+=("$package") ;;
      internal/house) ;;
      *) packages+=("$package") ;;
    esac
  done < <(go list -f '{{.ImportPath}} {{join .Imports " "}}' ./... | awk -v changed="$list" '
    BEGIN { n = split(changed, names, "\n"); for (i = 1; i <= n; i++) wanted[names[i]] = 1 }
    { for (i = 1; i <= NF; i++) if ($i in wanted) { print $1; next } }')
fi
printf 'testing %s\n' "${packages[@]#"$module"/}"
[ "${#checked[@]}" = 0 ] || go vet "${checked[@]}"
go test "${packages[@]}"
