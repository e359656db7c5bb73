#!/usr/bin/env bash
# sanitize.sh - compute-sanitizer over the tests of this folder, on a card.
#
#   tests/gpu/sanitize.sh [memcheck | racecheck]...        both by default
#
#   memcheck    10,000 steps of changing sizes, with graphs (test_gpu_storm); operators, attention, golden answers
#   racecheck   300 such steps operator by operator, without programmatic dependent launch, which racecheck does not know
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
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
command -v compute-sanitizer >/dev/null || { echo "sanitize: compute-sanitizer is not on the PATH" >&2; exit 1; }

failed=0
check() { # tool test [VARIABLE=value]...
    local tool=$1 test=$2 code=0
    shift 2
    env "$@" compute-sanitizer --tool "$tool" --error-exitcode 99 "$build/tests/gpu/test_gpu_$test" || code=$?
    [ $code -ne 77 ] || { echo "sanitize: skipped, there is no card" >&2; exit 77; }
    [ $code -eq 0 ] || failed=1
    echo "sanitize: $tool $test: exit code $code"
}

for tool in "${tools[@]}"; do
    case $tool in
    memcheck)
        for test in storm operators attention golden; do
            check memcheck $test
        done
        ;;
    racecheck)
        check racecheck storm MINISGL_STORM_STEPS=300 MINISGL_STORM_GRAPHS=0 MINISGL_CUDA_NO_PDL=1
        ;;
    *)
        echo "sanitize: memcheck or racecheck, not '$tool'" >&2
        exit 2
        ;;
    esac
done
exit $failed
