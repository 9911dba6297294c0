#!/usr/bin/env bash
{
  mark=@rung
  mark="${mark}NONCE"
  test ! -p "$0" || exec <"$0"
  echo "${mark}hello $(uname -s) $(uname -m)"
  answer=
  IFS= read -r answer
  echo "${mark}heard $answer"
  echo "Running on $(uname -n)..."
  exit 0
}
