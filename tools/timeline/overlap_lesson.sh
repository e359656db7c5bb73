#!/usr/bin/env bash
# overlap_lesson.sh - runs overlap_lesson.c: the order of events in the normal loop, in the overlap loop and in an overlap
# loop that processes before it launches; then what a user is told at the end of a request, in mini-sglang's way and in ours.
# scheduler_proc/OVERLAP.md explains what it prints.
set -eu
usage() { # the comment at the top of this file
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit "$1"
}
[ $# -eq 0 ] || { [[ $1 == -h || $1 == --help ]] && usage 0 || usage 2 >&2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${MINISGL_BUILD:-$root/build}
program=$build/tools/timeline/overlap_lesson
[ -x "$program" ] || {
    [ -f "$build/build.ninja" ] || meson setup "$build" "$root" >&2
    ninja -C "$build" tools/timeline/overlap_lesson >&2
}
exec "$program"
