"""tools/timeline/overlap_lesson.sh prints what scheduler_proc/OVERLAP.md says, word by word."""

import subprocess
import sys

from wire import ROOT, run

PRINTED = """\
Order of events, one request of three tokens
  normal                  launch1 process1 launch2 process2 launch3 process3
  overlap                 launch1 launch2 process1 launch3 process2 process3
  process before launch   launch1 process1 launch2 process2 launch3 process3

max_tokens 3: what the user is told, (token, finished)
  normal: wasted rows 0
    reference's way  (t1, -) (t2, -) (t3, finished)
    ours             (t1, -) (t2, -) (t3, finished)
  overlap: wasted rows 0
    reference's way  (t1, -) (t2, finished) (t3, finished)
    ours             (t1, -) (t2, -) (t3, finished)

EOS as the third of eight tokens
  normal: wasted rows 0
    reference's way  (t1, -) (t2, -) (EOS, finished)
    ours             (t1, -) (t2, -) (EOS, finished)
  overlap: wasted rows 1
    reference's way  (t1, -) (t2, -) (EOS, finished) (t4, -)
    ours             (t1, -) (t2, -) (EOS, finished)
"""


def test_the_lesson_prints_what_it_teaches():
    printed = subprocess.run(
        [ROOT / "tools/timeline/overlap_lesson.sh"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert printed == PRINTED, printed


def test_the_text_shows_what_is_printed():
    text = (ROOT / "scheduler_proc/OVERLAP.md").read_text(encoding="utf-8")
    for line in filter(None, PRINTED.splitlines()):
        assert line in text, line


if __name__ == "__main__":
    sys.exit(run(globals()))
