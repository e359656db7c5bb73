"""What process and whole-pipeline tests share: where things are, waits with a bound, and the run of a file's tests.

No test may depend on how fast its host is, nor on whether a process stands still for a second. So what must hold is waited for, and
PATIENCE is for hangs alone; a process is held where a test needs it (held()); what a rule forbids takes far longer than what is
granted to what it allows; and a rule that is about time itself is asked several times (in_some_attempt()).
"""

import contextlib
import os
import pathlib
import re
import signal
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("MINISGL_BUILD", ROOT / "build"))

sys.path.insert(0, str(ROOT / "tests"))
import sanitized  # noqa: E402 - of this folder, whoever imports
from sanitized import scaled  # noqa: E402


PATIENCE = 60  # seconds, scaled: what has not come then does not come


def wait_until(condition, seconds=PATIENCE, pause=0.02):
    """Waits until condition() holds; returns what it returned."""
    deadline = time.monotonic() + scaled(seconds)
    while not (value := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(pause)
    return value


@contextlib.contextmanager
def held(*pids):
    """Within it these processes stand still: what is sent to them is there, all of it, when they go on."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def in_some_attempt(attempt, number=5):
    """Calls attempt until no assertion of it fails. Without the rule that it tests, each must fail; a host that was busy elsewhere
    spoils some."""
    for left in reversed(range(number)):
        try:
            return attempt()
        except AssertionError:
            if not left:
                raise


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
