#!/usr/bin/env bash
# Tests what a change touches: the packages that differ from BASE (main), those that import them, and the rules of the house.
set -euo pipefail
cd "$(dirname "$0")/.."

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

packages=("$module/internal/house")
if [ "${#changed[@]}" -gt 0 ]; then
  list=$(printf '%s\n' "${changed[@]}" | sort -u)
  # Commands and end-to-end tests depend on everything; those that import a changed package are built, and tested by "make test".
  while IFS= read -r package; do
    packages+=("$package")
  done < <(go list -f '{{.ImportPath}} {{join .Imports " "}}' ./... | awk -v changed="$list" '
    BEGIN { n = split(changed, names, "\n"); for (i = 1; i <= n; i++) wanted[names[i]] = 1 }
    { if ($1 in wanted) { print $1; next } if ($1 ~ /\/(cmd|e2e|bench)(\/|$)/) next; for (i = 2; i <= NF; i++) if ($i in wanted) { print $1; next } }')
fi
printf 'testing %s\n' "${packages[@]#"$module"/}"
go build ./...
go vet "${packages[@]}"
go test "${packages[@]}"
