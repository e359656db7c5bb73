"""Adds up a meson test log: usage summary.py testlog.json. The last line is `N passed, N failed`.

Before it, one line per failed program, and one per reason for which programs were skipped (`NAME: skipped: REASON` on stderr).
A program says how many tests it held by Check's closing line or by a line `N passed, N failed` of its own;
one that says neither counts as one test.
"""

import json
import re
import sys

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
SKIPPED = re.compile(r"^\S+: skipped: (.+)$", re.M)


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
    skipped = {}  # reason: names
    try:
        lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
    except OSError as error:
        print(f"no test ran: {error}", file=sys.stderr)
        lines = []
    for line in lines:
        test = json.loads(line)
        if test["result"] == "SKIP":
            reason = SKIPPED.search(test.get("stderr") or test.get("stdout") or "")
            skipped.setdefault(reason[1] if reason else "no reason given", []).append(test["name"])
            continue
        ok, bad = count(test["result"], test.get("stdout", ""))
        passed += ok
        failed += bad
        if bad:
            print(f"FAILED {test['name']} ({test['result']})")
    for reason, names in skipped.items():
        print(f"{len(names)} program{'s' * (len(names) > 1)} skipped ({reason}): {', '.join(names)}")
    if not lines:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
