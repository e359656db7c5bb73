#!/usr/bin/env bash
# test.sh - builds minisgl and passes every test.
#
#   tools/test.sh                    installs what is missing, builds, runs all suites
#   tools/test.sh --suite unit ...   only these suites (unit, process, e2e, gpu, mutation)
#   tools/test.sh --sanitize         unit, process and e2e under AddressSanitizer and UBSan, in a build folder of its own
#   tools/test.sh --thread-sanitize  unit tests with threads, process and e2e under ThreadSanitizer, likewise
#   tools/test.sh --no-setup         takes the packages for granted
#
# On two cores about 12 minutes, 3 to 4 of them the build; a suite alone is shorter.
# Build and tests are told on stderr as they go: lines of ninja and meson, and what failed tests said. The verdict is on
# stdout: a line per failed program, those that were skipped and why (no GPU), and last `N passed, N failed`.
# Exit code 1 when one failed.
set -euo pipefail
script=$(realpath "$0")
cd "${script%/*}/.."

suites=()
setup=yes
build=${MINISGL_BUILD:-build}
meson_options=()
sanitized_suites=()
test_options=()
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"
        exit 0
        ;;
    --suite)
        [ $# -ge 2 ] || { echo "test: --suite needs a name" >&2; exit 2; }
        suites+=(--suite "$2")
        shift
        ;;
    --sanitize)
        build='build-asan'
        meson_options=('-Db_sanitize=address,undefined' -Db_lundef=false --buildtype=debugoptimized -Dcuda=disabled)
        sanitized_suites=(--suite unit --suite process --suite e2e)
        # CK_FORK: a child of Check would look for leaks of its parent. Not detect_stack_use_after_return: gcc 12 does
        # not align its stacks for 64-byte vectors (gcc bug 110027).
        export CK_FORK=no MINISGL_TIME_SCALE=${MINISGL_TIME_SCALE:-5}
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
        export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp:print_suppressions=0}
        export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:abort_on_error=1:print_stacktrace=1}
        ;;
    --thread-sanitize)
        build='build-tsan'
        meson_options=(-Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized -Dcuda=disabled)
        sanitized_suites=(--suite threads --suite process --suite e2e)
        export CK_FORK=no MINISGL_TIME_SCALE=${MINISGL_TIME_SCALE:-10}
        export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$PWD/tests/tsan.supp:ignore_noninstrumented_modules=0}
        ;;
    --no-setup) setup=no ;;
    *)
        echo "test: unknown option '$1' (try --help)" >&2
        exit 2
        ;;
    esac
    shift
done

[ $setup = no ] || tools/setup.sh --packages
if [ ! -f "$build/build.ninja" ]; then
    meson setup "$build" "${meson_options[@]}" >&2
fi
if [ ${#sanitized_suites[@]} -gt 0 ]; then
    test_options=(--timeout-multiplier "$MINISGL_TIME_SCALE")
    [ ${#suites[@]} -gt 0 ] || suites=("${sanitized_suites[@]}")
fi
ninja -C "$build" >&2
rm -f "$build/meson-logs/testlog.json"
meson test -C "$build" --no-rebuild --print-errorlogs "${test_options[@]}" "${suites[@]}" >&2 || true
exec python3 tests/summary.py "$build/meson-logs/testlog.json"
