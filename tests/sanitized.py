"""What tests of processes do for builds with sanitizers: every report fails a test, and limits of time are wider.

tools/test.sh --sanitize and --thread-sanitize set MINISGL_TIME_SCALE, by which the tests multiply what they
grant the programs; 1 otherwise. Reports of all programs that a test starts, children of children too, go to
files in a folder of its own, where check() finds them.
"""

import atexit
import os
import pathlib
import shutil
import tempfile

TIME_SCALE = float(os.environ.get("MINISGL_TIME_SCALE", "1"))
SANITIZED = TIME_SCALE > 1  # memory is no measure then: what is freed is kept, to be watched

_folder = pathlib.Path(tempfile.mkdtemp(prefix="minisgl-reports-", dir="/tmp"))

for _name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    _given = os.environ.get(_name)
    os.environ[_name] = (_given + ":" if _given else "") + f"log_path={_folder}/report"


def scaled(seconds):
    return seconds * TIME_SCALE


def check():
    """Fails with the reports that have come since the last call."""
    reports = []
    for path in sorted(_folder.iterdir()):
        reports.append(f"{path.name}: {path.read_text(errors='replace')}")
        path.unlink()
    assert not reports, "\n".join(reports)


def check_log(text):
    """UBSan beside AddressSanitizer writes to stderr whatever log_path says."""
    assert "runtime error:" not in text and "WARNING: ThreadSanitizer" not in text, text


@atexit.register
def _check_last():
    """What ends with the test program itself: this runs behind the clean-up of all that import this module."""
    failed = None
    try:
        check()
    except AssertionError as error:
        failed = error
    shutil.rmtree(_folder, ignore_errors=True)
    if failed:
        print(f"FAILED at the end:\n{failed}", flush=True)
        os._exit(1)
