# Keeps copies of programs in a cache folder of the user. Arguments: MODE SUM NAME.
#   find   prints "found PATH" if there is a copy whose SHA-256 is SUM, else "missing"
#   store  makes one of standard input and prints "found PATH", or "damaged" if something else has arrived
LC_ALL=C
export LC_ALL
umask 077
mode=$1 sum=$2 name=$3
IFS='
'
set -f

hash() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"
  elif command -v shasum >/dev/null; then shasum -a 256 <"$1"
  elif command -v openssl >/dev/null; then openssl dgst -sha256 -r <"$1"
  elif command -v sha256 >/dev/null; then sha256 -q <"$1"
  else
    echo "there is no program for SHA-256: install sha256sum, shasum or openssl" >&2
    exit 1
  fi | cut -c 1-64
}

# folders prints the folders that may hold copies. The last is for users whose home is missing, read-only or may not hold programs.
folders() {
  test -z "$XDG_CACHE_HOME" || echo "$XDG_CACHE_HOME/rung/programs"
  test -z "$HOME" || echo "$HOME/.cache/rung/programs"
  echo "${TMPDIR:-/tmp}/rung-programs-$(id -u)"
}

# own checks that nobody else can have put anything into a folder.
own() {
  test ! -h "$1" && test "$(find "$1" -prune -type d -user "$(id -u)" ! -perm -020 ! -perm -002)" = "$1" && return
  echo "$1 does not belong to this user alone"
  return 1
}

# usable makes a folder and checks that programs in it may run. It prints why not.
usable() {
  mkdir -p "$1" && own "$1" || return 1
  probe=$1/.probe-$$
  # cat says why it cannot write, which the printf of some shells does not
  if said=$(printf '#!/bin/sh\nexit 0\n' | cat 2>&1 >"$probe"); then
    chmod 700 "$probe" && "$probe"
    code=$?
  else
    code=1
    echo "cannot write into $1: $said"
  fi
  rm -f "$probe"
  return "$code"
}

case $mode in
find)
  for folder in $(folders); do
    file=$folder/$sum/$name
    if test -x "$file" && own "$folder" >/dev/null && test "$(hash "$file")" = "$sum"; then
      touch "$folder/$sum" 2>/dev/null # it is in use
      echo "found $file"
      exit 0
    fi
  done
  echo missing
  ;;
store)
  for folder in $(folders); do
    if why=$(usable "$folder" 2>&1); then
      break
    fi
    echo "$why" >&2
    folder=
  done
  test -n "$folder" || exit 1
  set +f
  for old in "$folder"/*; do # copies that nobody has used for long
    test -z "$(find "$old" -prune -mtime +30 2>/dev/null)" || rm -rf "$old"
  done
  temp=$folder/.incoming-$$
  trap 'rm -f "$temp"' EXIT
  trap 'exit 1' HUP INT TERM PIPE
  cat >"$temp" || exit 1
  if test "$(hash "$temp")" != "$sum"; then
    echo damaged
    exit 0
  fi
  chmod 755 "$temp" && mkdir -p "$folder/$sum" && chmod 700 "$folder/$sum" && mv -f "$temp" "$folder/$sum/$name" || exit 1
  echo "found $folder/$sum/$name"
  ;;
esac
