#!/usr/bin/env bash
# sanitize.sh - compute-sanitizer over the tests of this folder, on a card.
#
#   tests/gpu/sanitize.sh [memcheck | racecheck]...        both by default
#
#   memcheck    10,000 steps of changing sizes, with graphs (test_gpu_storm); every operator
#   racecheck   40 such steps of a small model, operator by operator, attention, moe and sampling, all without programmatic
#               dependent launch, which racecheck does not know
#
# One after another: programs that share a card take turns at every launch, and a tool makes each launch wait. On an H200 the
# storm takes 160 s under memcheck, a step of the small model about a second under racecheck.
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
    sed -n '2,14s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
command -v compute-sanitizer >/dev/null || { echo "sanitize: compute-sanitizer is not on the PATH" >&2; exit 1; }

code=0
"$build/tests/gpu/test_gpu_device" >/dev/null 2>&1 || code=$? # compute-sanitizer would not tell
[ $code -ne 77 ] || { echo "sanitize: skipped, there is no card" >&2; exit 77; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
check() { # tool test [VARIABLE=value]...
    local tool=$1 test=$2 code=0 begin=$SECONDS
    shift 2
    env "$@" compute-sanitizer --tool "$tool" --error-exitcode 99 "$build/tests/gpu/test_gpu_$test" >"$log" 2>&1 || code=$?
    [ $code -eq 0 ] || { failed=1; cat "$log"; }
    echo "sanitize: $tool $test $*: exit code $code in $((SECONDS - begin)) s; $(tail -n 1 "$log")"
}

for tool in "${tools[@]}"; do
    case $tool in
    memcheck)
        for test in storm operators linear moe attention sample; do
            check memcheck $test
        done
        for plan in 0 stream skinny-1 many; do
            check memcheck linear MINISGL_CUDA_LINEAR_PLAN=$plan
        done
        ;;
    racecheck)
        check racecheck storm MINISGL_CUDA_NO_PDL=1 MINISGL_STORM_STEPS=40 MINISGL_STORM_GRAPHS=0
        for test in attention sample moe; do
            check racecheck $test MINISGL_CUDA_NO_PDL=1
        done
        ;;
    *)
        echo "sanitize: memcheck or racecheck, not '$tool'" >&2
        exit 2
        ;;
    esac
done
exit $failed
