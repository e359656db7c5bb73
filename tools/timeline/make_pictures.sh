#!/usr/bin/env bash
# make_pictures.sh [OUT] - records traces of both loops on `sim` at 0.8 ms a step and on the CPU back end with the demo model, draws
# them as OUT/sim.svg and OUT/cpu.svg, and prints the table of each. OUT: this folder by default.
#
# STREAMS_SIM (256) and STREAMS_CPU (16) streams run at a time. On a host of two cores the CPU back end gets one of them (THREADS_CPU),
# so that the scheduler has one to overlap on.
set -euo pipefail
usage() { # the comment at the top of this file
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit "$1"
}
case ${1:-} in
-h | --help) usage 0 ;;
-*) usage 2 >&2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$here}
[ -d "$out" ] && [ -w "$out" ] || { echo "make_pictures: $out is no folder that can be written to" >&2; exit 2; }
build=${MINISGL_BUILD:-$root/build}
work=$(mktemp -d /tmp/minisgl-pictures.XXXXXX)
trap '[ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT

record() { # NAME NORMAL(0|1) STREAMS TOKENS option...: $work/NAME.json
    local name=$1 normal=$2 streams=$3 tokens=$4
    shift 4
    MINISGL_RUN_DIR=$work MINISGL_DISABLE_OVERLAP_SCHEDULING=$normal \
        "$root/tools/launch.sh" --detach --name picture --trace "$work/$name.json" "$@" >/dev/null
    MINISGL_RUN_DIR=$work "$build/tools/client/minisgl" bench latency --name picture --batches "$streams" \
        --prompt-tokens 64 --output-tokens "$tokens" --passes 1 --warmup 1 >"$work/$name.txt"
    MINISGL_RUN_DIR=$work "$root/tools/launch.sh" --stop --name picture 2>/dev/null
}

draw() { # NAME STREAMS TITLE
    "$here/timeline.py" "$work/$1.normal.json=normal loop, $3, $2 streams" "$work/$1.overlap.json=overlap loop, $3, $2 streams" \
        --svg "$out/$1.svg" --from-step 200 --steps 5
}

sim=${STREAMS_SIM:-256}
record sim.normal 1 "$sim" 512 --device sim --sim-step-us 800
record sim.overlap 0 "$sim" 512 --device sim --sim-step-us 800
draw sim "$sim" "sim, 0.8 ms a step"
cpu=${STREAMS_CPU:-16}
record cpu.normal 1 "$cpu" 512 --device cpu --threads "${THREADS_CPU:-1}"
record cpu.overlap 0 "$cpu" 512 --device cpu --threads "${THREADS_CPU:-1}"
draw cpu "$cpu" "CPU, demo model"
