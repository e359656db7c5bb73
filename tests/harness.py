"""What process and whole-pipeline tests share: where things are, waits with a bound, and the run of a file's tests."""

import os
import pathlib
import re
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("MINISGL_BUILD", ROOT / "build"))

sys.path.insert(0, str(ROOT / "tests"))
import sanitized  # noqa: E402 - of this folder, whoever imports
from sanitized import scaled  # noqa: E402


def wait_until(condition, seconds=10, pause=0.02):
    """Waits until condition() holds; returns what it returned."""
    deadline = time.monotonic() + scaled(seconds)
    while not (value := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(pause)
    return value


def run(cases):
    """Runs a module's functions test_* (those that match the first argument, if there is one); prints
    `N passed, N failed`; returns the exit code."""
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    passed = failed = 0
    for name, function in list(cases.items()):
        if not name.startswith("test_") or not callable(function) or not wanted.search(name):
            continue
        began = time.monotonic()
        try:
            function()
            sanitized.check()
            passed += 1
            print(f"ok {name} {time.monotonic() - began:.2f} s", flush=True)
        except Exception:  # noqa: BLE001 - the report of a test
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
