#!/bin/sh
# Makes a folder of Git repositories, github/, of the actions in repositories/. Each has the tag v1.
set -eu
cd "$(dirname "$0")"
for action in repositories/*/*; do
  repository=github/${action#repositories/}
  mkdir -p "$(dirname "$repository")"
  cp -R "$action" "$repository"
  git -C "$repository" init -q -b main
  git -C "$repository" add .
  git -C "$repository" -c user.name=Octo -c user.email=octo@example.com commit -qm "v1"
  git -C "$repository" tag v1
done
