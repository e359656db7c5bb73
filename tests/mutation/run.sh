#!/usr/bin/env bash
# run.sh: puts each fault of the six rules back (ruleN.patch, applied to a copy of the sources) and
# expects exactly test N of tests/unit/test_scheduler_rules.c to fail, and the random test to fail
# too, with a short replay. Prints the table; exit code 1 when a fault is not caught as it should be.
#
#   run.sh          the six
#   run.sh 4 5      these alone
#   run.sh --all    then the mechanical mutants (mutate.py)
#   run.sh --show   the six, with their shortest replays
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mode=
rules=
for arg in "$@"; do
  case $arg in
  [1-6]) rules="$rules $arg" ;;
  --all | --show) mode=$arg ;;
  --help | -h) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "run.sh: unknown argument '$arg'" >&2; exit 2 ;;
  esac
done
work=$(mktemp -d "${TMPDIR:-/tmp}/mutation.XXXXXX")
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}

copy() { # DIR: the sources that the core and its tests need
  mkdir -p "$1/tests/unit"
  cp -r "$root/common" "$root/proto" "$root/kernels" "$root/scheduler_proc" "$1/"
  cp "$root"/tests/unit/*.[ch] "$1/tests/unit/"
}

core_files() { # the list in scheduler_proc/meson.build
  sed -n '/^scheduler_core_lib =/,/include_directories/p' "$root/scheduler_proc/meson.build" |
    grep -o "'[a-z_]*\.c'" | tr -d "'" | sed 's|^|scheduler_proc/|'
}

build() { # DIR
  (cd "$1" && for test in rules random; do
    # shellcheck disable=SC2046
    $cc -std=c11 -O1 -D_GNU_SOURCE -I. -o "$test" $(core_files) common/status.c common/arena.c \
      tests/unit/fake_model.c tests/unit/rig.c tests/unit/traffic.c tests/unit/traffic_run.c \
      "tests/unit/test_scheduler_$test.c" $(pkg-config --cflags --libs check) &
  done; wait %1 && wait %2)
}

failed=0
printf '%-8s' rule
for n in 1 2 3 4 5 6; do printf ' test%s' "$n"; done
printf '  random test\n'
for rule in none ${rules:-1 2 3 4 5 6}; do
  dir=$work/$rule
  copy "$dir"
  [ "$rule" = none ] || patch -s -p1 -d "$dir" <"$here/rule$rule.patch"
  build "$dir"
  printf '%-8s' "$rule"
  CK_VERBOSITY=verbose "$dir/rules" >"$dir/rules.out" 2>&1 || true
  for n in 1 2 3 4 5 6; do
    verdict=FAIL
    grep -q ":P:.*:rule_${n}_" "$dir/rules.out" && verdict=pass
    want=pass
    [ "$rule" = "$n" ] && want=FAIL
    [ "$verdict" = "$want" ] || { verdict="$verdict!"; failed=1; }
    printf ' %-5s' "$verdict"
  done
  if MINISGL_RANDOM_STEPS=100000 "$dir/random" >"$dir/random.out" 2>&1; then
    verdict="passes"
    [ "$rule" = none ] || failed=1
  else
    messages=$(grep -c '^  \(submit\|abort\|flush\)' "$dir/random.out" || true)
    verdict="$(grep -m1 '^seed' "$dir/random.out") ($messages messages)"
    [ "$rule" != none ] && [ "$messages" -gt 0 ] && [ "$messages" -le 10 ] || failed=1
  fi
  printf '  %s\n' "$verdict"
  [ "$mode" != --show ] || [ "$rule" = none ] || sed -n '/^shortest/,/=>/p' "$dir/random.out"
  rm -rf "$dir"
done
[ "$mode" != --all ] || python3 "$here/mutate.py" || failed=1
exit $failed
