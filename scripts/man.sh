#!/usr/bin/env bash
# Writes the man pages of all programs to a folder: man.sh DIR. SOURCE_DATE_EPOCH is their date.
set -euo pipefail
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
go test ./cmd/step-runner ./cmd/rung -count=1 -run '^TestEveryCommandHasAManPage$' -man "$dir" >/dev/null
