#!/usr/bin/env bash
# sanitize.sh - compute-sanitizer over the tests of this folder, on a card.
#
#   tests/gpu/sanitize.sh [memcheck | racecheck]...        both by default
#
#   memcheck    10,000 steps of changing sizes, with graphs (test_gpu_storm, in 8 parts side by side); every operator
#   racecheck   320 such steps (in 8 parts) operator by operator, attention, moe and sampling, all without programmatic
#               dependent launch, which racecheck does not know
#
# Needs compute-sanitizer on the PATH and a build with the CUDA module (MINISGL_BUILD, default: build). Exit code 77 without a card.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${MINISGL_BUILD:-build}
export MINISGL_CUDA_MODULE=${MINISGL_CUDA_MODULE:-$build/kernels/cuda/minisgl_cuda.so}
export MINISGL_TEST_DATA=${MINISGL_TEST_DATA:-$PWD/tests/data}
export MINISGL_CUDA_NO_TIMING=1 # timing runs each product some hundred times
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck)

case ${1:-} in
--help | -h)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
command -v compute-sanitizer >/dev/null || { echo "sanitize: compute-sanitizer is not on the PATH" >&2; exit 1; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
names=()
pids=()
check() { # tool name test [VARIABLE=value]...: in the background
    local tool=$1 name=$2 test=$3
    shift 3
    env "$@" compute-sanitizer --tool "$tool" --error-exitcode 99 "$build/tests/gpu/test_gpu_$test" \
        >"$logs/$tool-$name" 2>&1 &
    names+=("$tool-$name")
    pids+=($!)
}

storm() { # tool, steps of a part [VARIABLE=value]...
    local tool=$1 steps=$2
    shift 2
    for part in 1 2 3 4 5 6 7 8; do
        check "$tool" "storm-$part" storm MINISGL_STORM_STEPS="$steps" MINISGL_STORM_SEED="$part" "$@"
    done
}

for tool in "${tools[@]}"; do
    case $tool in
    memcheck)
        storm memcheck 1250
        for test in operators linear moe attention sample; do
            check memcheck $test $test
        done
        check memcheck linear-split linear MINISGL_CUDA_LINEAR_PLAN=0
        ;;
    racecheck)
        storm racecheck 40 MINISGL_STORM_GRAPHS=0 MINISGL_CUDA_NO_PDL=1
        for test in attention moe sample; do
            check racecheck $test $test MINISGL_CUDA_NO_PDL=1
        done
        ;;
    *)
        echo "sanitize: memcheck or racecheck, not '$tool'" >&2
        exit 2
        ;;
    esac
done

failed=0
for i in "${!pids[@]}"; do
    code=0
    wait "${pids[i]}" || code=$?
    [ $code -ne 77 ] || { echo "sanitize: skipped, there is no card" >&2; exit 77; }
    [ $code -eq 0 ] || { failed=1; cat "$logs/${names[i]}"; }
    echo "sanitize: ${names[i]}: exit code $code; $(tail -n 1 "$logs/${names[i]}")"
done
exit $failed
