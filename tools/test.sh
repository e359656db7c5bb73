#!/usr/bin/env bash
# test.sh - builds minisgl and passes every test.
#
#   tools/test.sh                    installs what is missing, builds, runs all suites
#   tools/test.sh --suite unit ...   only these suites (unit, process, e2e, gpu, mutation)
#   tools/test.sh --sanitize         the same under AddressSanitizer and UBSan, in a build folder of its own
#   tools/test.sh --thread-sanitize  unit tests of the device, process and e2e tests under ThreadSanitizer
#   tools/test.sh --no-setup         takes the packages for granted
#
# Prints one line per failed test, the skipped ones, and last `N passed, N failed`. Exit code 1 when one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

suites=()
setup=yes
build=${MINISGL_BUILD:-build}
meson_options=()
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
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
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
        export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
        ;;
    --thread-sanitize)
        build='build-tsan'
        meson_options=(-Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized -Dcuda=disabled)
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
ninja -C "$build" >&2
rm -f "$build/meson-logs/testlog.json"
meson test -C "$build" --no-rebuild --print-errorlogs "${suites[@]}" >&2 || true
exec python3 tests/summary.py "$build/meson-logs/testlog.json"
