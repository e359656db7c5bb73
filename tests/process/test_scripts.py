#!/usr/bin/env python3
"""The scripts: each says how it is used; tools/setup.sh, with a package manager and a build that are played by others, in a copy of its folder."""

import json
import os
import shutil
import subprocess
import sys

import wire
from wire import PATIENCE, ROOT, scaled, wait_until

FAKES = {
    "dpkg-query": "echo installed",
    "meson": 'mkdir -p "$2" && touch "$2/build.ninja"',
    # Builds until it is told to end; with -n it says what there is to do.
    "ninja": """
case $* in *-n*) [ -e "$0.built" ] && echo 'ninja: no work to do.' || echo '[1/1] Linking'; exit ;; esac
echo begin >>"$0.log"
until [ -e "$0.end" ]; do sleep 0.02; done
touch "$0.built"
echo end >>"$0.log"
""",
}


SCRIPTS = (
    *("tools/" + name for name in ("bundle.sh", "get_model.sh", "launch.sh", "setup.sh", "test.sh", "gen_jinja_unicode.py")),
    *("tools/timeline/" + name for name in ("make_pictures.sh", "overlap_lesson.sh", "timeline.py")),
    "tests/gpu/sanitize.sh", "tests/mutation/run.sh", "tests/mutation/mutate.py", "tests/summary.py",
    "tests/bench/bench_card.py", "tests/bench/bench_encode.py", "tests/bench/bench_serving.py", "tests/fuzz/diff_encode.py", "tests/fuzz/diff_jinja.py",
)  # fmt: skip


def test_scripts_say_how_they_are_used():
    for script in SCRIPTS:
        command = [ROOT / script, "--help"]
        if script.endswith(".py"):
            command.insert(0, sys.executable)
        done = subprocess.run(command, capture_output=True, text=True, timeout=scaled(2 * PATIENCE))
        assert done.returncode == 0 and script.rpartition("/")[2] in done.stdout and not done.stderr, (script, done)


def test_the_summary_counts_and_says_what_was_skipped():
    tests = (
        {"name": "check", "result": "OK", "stdout": "100%: Checks: 3, Failures: 0, Errors: 0\n"},
        {"name": "python", "result": "FAIL", "stdout": "4 passed, 1 failed\n"},
        {"name": "card", "result": "SKIP", "stdout": "", "stderr": "card: skipped: no NVIDIA driver\n"},
        {"name": "rig", "result": "SKIP", "stderr": "a line\nrig: skipped: no NVIDIA driver\n"},
        {"name": "mute", "result": "SKIP"},
    )
    log = wire.folder() / "testlog.json"
    log.write_text("".join(json.dumps(test) + "\n" for test in tests))
    done = subprocess.run([sys.executable, ROOT / "tests/summary.py", log], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "FAILED python (FAIL)",
        "2 programs skipped (no NVIDIA driver): card, rig",
        "1 program skipped (no reason given): mute",
        "7 passed, 1 failed",
    ], done


def clone():
    """(its setup.sh, the folder of the fakes, an environment in which they are found)"""
    folder = wire.folder()
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/setup.sh", folder / "tools")
    for name, text in FAKES.items():
        (folder / name).write_text("#!/bin/sh\n" + text)
        (folder / name).chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "MINISGL_BUILD"}
    return folder / "tools/setup.sh", folder, env | {"PATH": f"{folder}:{os.environ['PATH']}"}


def check(setup, env):
    done = subprocess.run([setup, "--check"], env=env, capture_output=True, text=True, timeout=scaled(PATIENCE))
    return done.returncode, done.stderr


def test_a_second_one_waits_for_the_first():
    setup, folder, env = clone()
    assert check(setup, env)[0] == 1
    log = folder / "ninja.log"
    first = subprocess.Popen([setup], env=env, stderr=subprocess.DEVNULL)
    wait_until(log.exists)
    code, words = check(setup, env)
    assert code == 1 and "at work here" in words, (code, words)
    second = subprocess.Popen([setup], env=env, stderr=subprocess.PIPE, text=True)
    assert "waiting for it" in second.stderr.readline()
    assert log.read_text() == "begin\n"
    (folder / "ninja.end").touch()
    assert first.wait(scaled(PATIENCE)) == 0
    second.communicate(timeout=scaled(PATIENCE))
    assert second.returncode == 0 and log.read_text() == "begin\nend\n" * 2, log.read_text()
    assert check(setup, env) == (0, "setup: nothing is missing\n")


def test_check_sees_a_build_that_was_cut_off():
    setup, folder, env = clone()
    (folder / "build").mkdir()
    (folder / "build/build.ninja").touch()
    code, words = check(setup, env)
    assert code == 1 and "not built to its end" in words, (code, words)


if __name__ == "__main__":
    sys.exit(wire.run(dict(globals())))
