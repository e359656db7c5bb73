"""Adds up a meson test log: usage summary.py testlog.json. The last line is `N passed, N failed`.

A program says how many tests it held by Check's closing line or by a line `N passed, N failed` of its own;
one that says neither counts as one test.
"""

import json
import re
import sys

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def count(result, output):
    """(passed, failed) of one program."""
    failed_run = result not in ("OK", "EXPECTEDFAIL")
    for checks, failures, errors in CHECK.findall(output)[-1:]:
        failed = int(failures) + int(errors)
        return int(checks) - failed, max(failed, int(failed_run))
    for passed, failed in PLAIN.findall(output)[-1:]:
        return int(passed), max(int(failed), int(failed_run))
    return int(not failed_run), int(failed_run)


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("--help", "-h"):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    passed = failed = 0
    skipped = []
    try:
        lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
    except OSError as error:
        print(f"no test ran: {error}", file=sys.stderr)
        lines = []
    for line in lines:
        test = json.loads(line)
        if test["result"] == "SKIP":
            skipped.append(test["name"])
            continue
        ok, bad = count(test["result"], test.get("stdout", ""))
        passed += ok
        failed += bad
        if bad:
            print(f"FAILED {test['name']} ({test['result']})")
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    if not lines:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
