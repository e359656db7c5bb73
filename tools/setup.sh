#!/usr/bin/env bash
# setup.sh - installs what building and testing minisgl needs on Debian 12, then builds its programs.
#
#   tools/setup.sh               packages that are missing (apt, as root or through sudo), then the build
#   tools/setup.sh --packages [MORE ...]   only the packages, and these
#   tools/setup.sh --check       only looks: says what is missing; exit 0 when nothing is
#
# Doing it twice changes nothing. The CUDA toolkit is used when it is there and is never asked for.
set -euo pipefail
script=$(realpath "$0")
cd "${script%/*}/.."

packages=(
    build-essential meson ninja-build pkg-config # the build
    libzmq3-dev libczmq-dev libmsgpack-dev       # pipes and messages
    libedit-dev                                  # line editing in minisgl chat
    check python3 python3-zmq python3-msgpack    # tests
)
build=${MINISGL_BUILD:-build}

say() { printf 'setup: %s\n' "$*" >&2; }

# One at a time: two would build in one folder. The lock is on this script, for that is there already.
exec {lock}<"$script"
await_turn() {
    flock -n "$lock" && return
    say "another setup.sh is at work here: waiting for it"
    flock "$lock"
}

missing_packages() {
    local name
    for name in "${packages[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
    done
}

install_packages() {
    local missing root=()
    await_turn
    mapfile -t missing < <(missing_packages)
    if [ ${#missing[@]} -eq 0 ]; then
        say "all ${#packages[@]} packages are installed"
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "need root or sudo to install: ${missing[*]}"; exit 1; }
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

case ${1:-} in
--help | -h)
    sed -n '2,8s/^# \{0,1\}//p' "$script"
    exit 0
    ;;
--check)
    mapfile -t missing < <(missing_packages)
    if [ ${#missing[@]} -gt 0 ]; then
        say "missing packages: ${missing[*]}"
        exit 1
    fi
    flock -n "$lock" || { say "another setup.sh is at work here"; exit 1; }
    [ -f "$build/build.ninja" ] || { say "not built yet ($build)"; exit 1; }
    ninja -C "$build" -n programs | grep -q 'no work to do' || { say "not built to its end, or of older sources ($build)"; exit 1; }
    say "nothing is missing"
    exit 0
    ;;
--packages)
    packages+=("${@:2}")
    install_packages
    exit 0
    ;;
'') ;;
*)
    say "unknown option '$1' (try --help)"
    exit 2
    ;;
esac

install_packages
if [ ! -f "$build/build.ninja" ]; then
    say "configuring $build"
    meson setup "$build" >&2
fi
say "building $build"
ninja -C "$build" programs >&2
