"""tools/timeline: the lesson prints what scheduler_proc/OVERLAP.md says, word by word; timeline.py counts and draws a known trace."""

import json
import subprocess
import sys
import xml.etree.ElementTree

from wire import ROOT, folder, run

PRINTED = """\
Order of events, one request of three tokens
  normal                  launch1 process1 launch2 process2 launch3 process3
  overlap                 launch1 launch2 process1 launch3 process2 process3
  process before launch   launch1 process1 launch2 process2 launch3 process3

max_tokens 3: what the user is told, (token, finished)
  normal: wasted rows 0
    mini-sglang's    (t1, -) (t2, -) (t3, finished)
    ours             (t1, -) (t2, -) (t3, finished)
  overlap: wasted rows 0
    mini-sglang's    (t1, -) (t2, finished) (t3, finished)
    ours             (t1, -) (t2, -) (t3, finished)

EOS as the third of eight tokens
  normal: wasted rows 0
    mini-sglang's    (t1, -) (t2, -) (EOS, finished)
    ours             (t1, -) (t2, -) (EOS, finished)
  overlap: wasted rows 1
    mini-sglang's    (t1, -) (t2, -) (EOS, finished) (t4, -)
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


def span(track, name, begin, end, **args):
    return {"name": name, "ph": "X", "pid": 1, "tid": track, "ts": begin, "dur": end - begin, "args": args}


def known_trace():
    """Steps of 100 us, formed 5 us before they are launched. Step 0 begins 5 us after its launch; step 1 is launched ahead and waits
    10 us for the device; step 2 is launched 30 us late; a sleep; step 3 begins as step 0 did."""
    events = []
    for step, launched, begin in ((0, 5, 10), (1, 60, 120), (2, 250, 260), (3, 955, 960)):
        events.append(span(1, "form", launched - 5, launched - 4, step=step))
        events.append(span(1, "launch", launched - 4, launched, step=step))
        events.append(span(1, "process", begin + 101, begin + 103, step=step, wasted=1 if step == 3 else 0))
        events.append(span(2, "decode", begin, begin + 100, step=step, rows=2, tokens=2))
    return [*events, span(1, "sleep", 400, 900)]


def test_timeline_counts_gaps_and_draws():
    path, picture = folder() / "trace.json", folder() / "picture.svg"
    path.write_text(json.dumps({"traceEvents": known_trace()}))
    command = [ROOT / "tools/timeline/timeline.py", f"{path}=a < b", "--json", "--svg", picture]
    printed = subprocess.run(
        [*command, "--from-step", "0", "--steps", "3"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    row = json.loads(printed)[0]
    assert (row["steps"], row["rows"], row["wasted_rows"]) == (4, 8, 1), row
    assert abs(row["device_idle_share"] - 70 / 470) < 1e-9, row  # 10, 10, 40 and 10 us; not the sleep
    assert abs(row["queue_empty_share"] - 40 / 470) < 1e-9, row
    assert abs(row["launched_ahead_share"] - 1 / 2) < 1e-9, row
    assert abs(row["cpu_us_per_step"]["process"] - 2) < 1e-9, row
    words = [e.text for e in xml.etree.ElementTree.parse(picture).iter() if e.tag.endswith("}text")]
    for expected in ("a < b", "decode 0", "decode 2"):
        assert expected in words, (expected, words)
    late = subprocess.run([*command, "--from-step", "9"], capture_output=True, text=True, timeout=60)
    assert late.returncode == 1 and "no step 9" in late.stderr and "--from-step" in late.stderr, late


def test_timeline_chooses_a_window_that_is_there():
    path, picture, program = folder() / "trace.json", folder() / "picture.svg", ROOT / "tools/timeline/timeline.py"

    def drawn(first, count, *options):
        events = [span(2, "decode", 100 * n, 100 * n + 90, step=n, rows=1) for n in range(first, first + count)]
        path.write_text(json.dumps({"traceEvents": events}))
        subprocess.run([program, path, "--svg", picture, *options], capture_output=True, timeout=60, check=True)
        words = [e.text or "" for e in xml.etree.ElementTree.parse(picture).iter() if e.tag.endswith("}text")]
        return [int(w.split()[1]) for w in words if w.startswith("decode ")][:6]

    assert drawn(1, 104) == [99, 100, 101, 102, 103, 104]
    assert drawn(1, 300) == [100, 101, 102, 103, 104, 105]
    assert drawn(1, 300, "--from-step", "7") == [7, 8, 9, 10, 11, 12]
    assert drawn(500, 3)[:3] == [500, 501, 502]


def test_timeline_leaves_no_picture_of_what_is_no_trace():
    picture, program = folder() / "picture.svg", ROOT / "tools/timeline/timeline.py"
    wrong = folder() / "wrong.json"
    for text in ("# A title\n", "[1, 2]", "{}", '{"traceEvents": 3}', '{"traceEvents": [{"ph": "X"}]}'):
        wrong.write_text(text)
        result = subprocess.run([program, wrong, "--svg", picture], capture_output=True, text=True, timeout=60)
        assert result.returncode == 1 and "it is no trace" in result.stderr and not picture.exists(), result
    wrong.write_text('{"traceEvents": []}')
    result = subprocess.run([program, wrong, "--svg", picture], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "no steps" in result.stderr and not picture.exists(), result
    assert "--from-step" not in result.stderr, result
    result = subprocess.run([program, "/nowhere"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (1, "timeline: /nowhere: No such file or directory\n"), result


def test_pictures_are_not_recorded_for_a_folder_that_is_not_there():
    command = [ROOT / "tools/timeline/make_pictures.sh", "/nowhere/pictures"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and not result.stdout and "/nowhere/pictures" in result.stderr, result


if __name__ == "__main__":
    sys.exit(run(globals()))
