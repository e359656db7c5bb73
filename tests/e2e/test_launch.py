"""The launcher: one command to a text, names, locks, dead children, stale files, ends."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from server import BUILD, CLIENT, PATIENCE, PROCESSES, ROOT, Server, golden, held, run, DEMO, scaled, wait_until

LAUNCH = str(ROOT / "tools/launch.sh")


def launch(*args, folder, timeout=2 * PATIENCE, env=None, cwd=None):
    env = dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD), **(env or {}))
    return subprocess.run(
        [LAUNCH, *args], env=env, capture_output=True, text=True, timeout=scaled(timeout), stdin=subprocess.DEVNULL, cwd=cwd
    )


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except OSError:
        return False


def wait_gone(pids, seconds=PATIENCE):
    deadline = time.monotonic() + scaled(seconds)
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, [p for p in pids if is_alive(p)]
        time.sleep(0.02)


def test_once_prints_the_completion_alone():
    row = next(r for r in golden(DEMO) if r["prompt"] == "Once upon a time")
    with tempfile.TemporaryDirectory() as folder:
        result = launch("--once", "Once upon a time", "--dtype", "float32", folder=folder)
        assert os.listdir(folder) == [], os.listdir(folder)  # nothing is left
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(row["text"][:40]), result.stdout
    assert "\033" not in result.stdout


def test_stop_beside_once_is_a_string_that_ends_the_text():
    with tempfile.TemporaryDirectory() as folder:
        assert launch("--detach", folder=folder).returncode == 0
        result = launch("--once", "Once upon a time", "--stop", ".", "--name", "other", folder=folder)
        assert result.returncode == 0 and result.stdout and "." not in result.stdout, result
        result = launch("--stop", "--nmae", "default", folder=folder)
        assert result.returncode == 2 and "--nmae" in result.stderr, result
        result = launch("--detach", "--stop", folder=folder)
        assert result.returncode == 2 and "do not go together" in result.stderr, result
        assert launch("--stop", folder=folder).returncode == 0


def test_a_signal_ends_once_with_no_answer():
    for stage in ("start", "answer"):
        with tempfile.TemporaryDirectory() as folder:
            started = subprocess.Popen(
                [LAUNCH, "--device", "sim", "--sim-step-us", "100000", "--once", "A text", "--ignore-eos"],
                env=dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if stage == "start":
                while not (pathlib.Path(folder) / "default/launcher.pid").exists():
                    time.sleep(0.001)
            else:
                started.stdout.read(1)
            began = time.monotonic()
            started.terminate()
            _, words = started.communicate(timeout=scaled(PATIENCE))
            assert started.returncode in (130, -signal.SIGTERM), (stage, started.returncode, words)
            assert time.monotonic() - began < scaled(30), stage  # the answer takes 100 s


def test_a_process_that_dies_ends_once_and_is_named():
    with tempfile.TemporaryDirectory(prefix="minisgl-test-", dir="/tmp") as folder:
        options = "--device", "sim", "--sim-step-us", "20000", "--max-tokens", "1900", "--ignore-eos"
        for process in ("scheduler", "tokenizer", "detokenizer"):
            env = dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD))
            once = subprocess.Popen(
                [LAUNCH, "--once", "Once", *options], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert once.stdout.read(1), once.communicate()
            os.kill(int((pathlib.Path(folder) / f"default/{process}.pid").read_text()), signal.SIGKILL)
            _, said = once.communicate(timeout=scaled(PATIENCE))
            assert once.returncode == 1 and f"minisgl-{process} ended (signal 9)" in said, (process, said)


def test_a_server_needs_nobody_to_read_that_it_is_ready():
    with tempfile.TemporaryDirectory(prefix="minisgl-test-", dir="/tmp") as folder:
        env = dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD))
        with open("/dev/full", "w") as full:
            server = subprocess.Popen([LAUNCH, "--device", "sim"], env=env, stdout=full, stderr=subprocess.PIPE, text=True)
            assert "serves all the same" in server.stderr.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(scaled(PATIENCE)) == 0, server.stderr.read()
        assert not list(pathlib.Path(folder, "default").glob("*.pid"))


def test_a_foreign_directory_in_tmp_is_not_taken():
    parent = pathlib.Path(f"/tmp/minisgl-{os.getuid()}")
    env = {k: v for k, v in os.environ.items() if k not in ("MINISGL_RUN_DIR", "XDG_RUNTIME_DIR")}
    env["MINISGL_BUILD"] = str(BUILD)
    if parent.exists():
        return  # somebody's servers are there
    parent.mkdir()
    parent.chmod(0o777)
    try:
        for command in ([LAUNCH, "--device", "sim"], [CLIENT, "status"]):
            result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=scaled(PATIENCE))
            assert result.returncode == 1 and "not a directory of yours alone" in result.stderr, result
    finally:
        parent.rmdir()


def test_detach_and_stop():
    with tempfile.TemporaryDirectory() as folder:
        result = launch("--detach", "--name", "one", folder=folder)
        assert result.returncode == 0, result.stderr
        assert "minisgl 'one' is ready" in result.stdout, result.stdout
        pids = [int((pathlib.Path(folder) / "one" / f"{p}.pid").read_text()) for p in (*PROCESSES, "launcher")]
        assert all(map(is_alive, pids))
        result = launch("--stop", "--name", "one", folder=folder)
        assert result.returncode == 0, result.stderr
        wait_gone(pids)
        done = subprocess.run([CLIENT, "status"], env=dict(os.environ, MINISGL_RUN_DIR=folder), capture_output=True, text=True)
        assert f"no server is running (in {folder}): start one" in done.stderr, done
        result = launch("--stop", "--name", "one", folder=folder)
        assert result.returncode == 1 and "no server named 'one'" in result.stderr, result.stderr


def test_the_command_to_try_works_where_the_caller_stands():
    with tempfile.TemporaryDirectory() as folder:
        for cwd in (folder, ROOT):
            said = launch("--detach", "--device", "sim", "--sim-step-us", "0", folder=folder, cwd=cwd).stdout
            command = said.partition("Try: ")[2]
            program = str(CLIENT.relative_to(ROOT)) if cwd == ROOT and CLIENT.is_relative_to(ROOT) else str(CLIENT)
            assert command == f'{program} generate "Once upon a time"\n', said
            env = dict(os.environ, MINISGL_RUN_DIR=folder)
            done = subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, timeout=scaled(PATIENCE))
            assert done.returncode == 0 and done.stdout, done
            assert launch("--stop", folder=folder).returncode == 0
        model = pathlib.Path(folder) / "model"
        model.mkdir()
        shutil.copy(DEMO / "config.json", model)
        said = launch("--detach", "--device", "sim", "--sim-step-us", "0", "--model", str(model), folder=folder, cwd=folder).stdout
        assert said.endswith("generate --ids 1,2,3\n"), said
        command = said.partition("Try: ")[2]
        done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, timeout=scaled(PATIENCE))
        assert done.returncode == 0 and re.fullmatch(rb"\d+( \d+)+", done.stdout), done
        assert launch("--stop", folder=folder).returncode == 0


def test_on_a_terminal_it_says_what_stops_it():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD))
        ours, theirs = os.openpty()
        started = subprocess.Popen([LAUNCH, "--device", "sim"], env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # of a terminal that nobody has open any more
            while text := os.read(ours, 1000):
                said += text
                if said.endswith(b"Ctrl-C stops it.\r\n"):
                    started.send_signal(signal.SIGINT)
        os.close(ours)
        assert started.wait(scaled(PATIENCE)) == 0 and said.endswith(b"\rminisgl 'default' has stopped.\r\n"), said


def test_what_needs_no_build_is_checked_before_it():
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "clone/tools"
        clone.mkdir(parents=True)
        shutil.copy(LAUNCH, clone)
        (clone / "setup.sh").write_text("#!/bin/sh\necho building >&2\nexit 1\n")
        (clone / "setup.sh").chmod(0o755)
        env = {name: value for name, value in os.environ.items() if name != "MINISGL_BUILD"} | {"MINISGL_RUN_DIR": folder}
        for model, words in (("/nowhere", "/nowhere: no such directory"), (folder, "is no Hugging Face directory"), (DEMO, "building")):
            command = [str(clone / "launch.sh"), "--model", str(model)]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=scaled(PATIENCE))
            assert words in done.stderr and ("building" in done.stderr) == (model == DEMO), done


def test_detach_says_why_it_did_not_start():
    with Server() as server:
        result = launch("--detach", "--name", server.name, folder=server.folder)
        assert result.returncode == 1 and "is running" in result.stderr, result
        result = launch("--detach", "--name", "other", "--page-size", "0", folder=server.folder)
        assert result.returncode == 2 and "page-size" in result.stderr, result
        left = os.listdir(server.run_dir) + os.listdir(pathlib.Path(server.folder) / "other")
        assert not [n for n in left if n.startswith(("launcher.log.", "ready"))], left


def test_without_a_device_the_way_to_the_cpu_is_told():
    hint = "launch: leave out --device cuda to run on the CPU\n"
    with tempfile.TemporaryDirectory() as folder:
        env = {"MINISGL_CUDA_MODULE": f"{folder}/none.so"}
        for mode in ([], ["--detach"], ["--once", "Once"]):
            result = launch(*mode, "--device", "cuda", folder=folder, env=env)
            assert result.returncode == 1 and "none.so: cannot open" in result.stderr and hint in result.stderr, result
        result = launch("--device", "cuda", "--page-size", "0", folder=folder, env=env)
        assert result.returncode == 2 and hint not in result.stderr, result


def test_a_disk_that_is_full_half_way_through_the_start_is_named():
    """It shows before anything is started: later the log has no room for the reason either."""
    limit = 'ulimit -f 32; exec "$@"'  # a write beyond 32 KiB fails, as on a full disk
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-c", limit, "-", LAUNCH, "--device", "sim", "--detach"],
            env=dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD)),
            capture_output=True,
            text=True,
            timeout=scaled(PATIENCE),
        )
        if done.returncode == 0:
            launch("--stop", folder=folder)
        assert done.returncode == 1 and "cannot be written to: is the disk full?" in done.stderr, done
        assert os.listdir(f"{folder}/default") == []


def test_a_signal_at_any_moment_of_the_start():
    for i in range(12):
        with tempfile.TemporaryDirectory() as folder:
            started = subprocess.Popen(
                [LAUNCH, "--device", "sim"],
                env=dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            while not (pathlib.Path(folder) / "default/launcher.pid").exists():
                time.sleep(0.001)
            time.sleep(0.005 * i)
            started.terminate()
            _, words = started.communicate(timeout=scaled(PATIENCE))
            assert started.returncode in (0, -signal.SIGTERM) and words == "", (i, started.returncode, words)


def test_an_interrupted_detach_leaves_no_server():
    with tempfile.TemporaryDirectory() as folder:
        started = subprocess.Popen(
            [LAUNCH, "--detach", "--device", "sim"],
            env=dict(os.environ, MINISGL_RUN_DIR=folder, MINISGL_BUILD=str(BUILD)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        pid_file = pathlib.Path(folder) / "default/launcher.pid"
        while not pid_file.exists() or not pid_file.read_text().strip():
            time.sleep(0.001)
        started.terminate()
        started.wait(scaled(PATIENCE))
        wait_gone([int(pid_file.read_text())])
        left = [n for n in os.listdir(pathlib.Path(folder) / "default") if n.startswith("launcher.log.")]
        assert not left, left


def test_paths_with_blanks_quotes_and_letters_beyond_ascii():
    odd = "a b 'c' \"d\" $e \\f \u00fc"
    with tempfile.TemporaryDirectory() as folder:
        model, run_dir = pathlib.Path(folder) / odd, pathlib.Path(folder) / ("r" + odd)
        model.symlink_to(DEMO)
        result = launch("--model", str(model), "--device", "sim", "--detach", folder=str(run_dir))
        assert result.returncode == 0, result
        try:
            done = subprocess.run(
                [str(BUILD / "tools/client/minisgl"), "generate", "Once", "--max-tokens", "3"],
                env=dict(os.environ, MINISGL_RUN_DIR=str(run_dir)),
                capture_output=True,
            )
            assert done.returncode == 0 and done.stdout, done
        finally:
            assert launch("--stop", folder=str(run_dir)).returncode == 0


def test_second_server_of_a_name_is_refused():
    with Server() as server:
        result = launch("--name", server.name, folder=server.folder)
        assert result.returncode == 1, result
        assert "is running" in result.stderr and "--stop" in result.stderr, result.stderr
        # and the first has not been disturbed
        assert server.client("generate", "Once", "--max-tokens", "3").stdout


def test_a_dead_child_stops_all_and_is_named():
    for victim in PROCESSES:
        with Server() as server:
            pids = [server.pid(p) for p in PROCESSES]
            os.kill(server.pid(victim), signal.SIGKILL)
            assert server.process.wait(timeout=scaled(PATIENCE)) == 1
            words = server.process.stderr.read()
            assert words == f"launch: minisgl-{victim} ended (signal 9)\n", words  # what it did before is no cause
            wait_gone(pids)


def test_what_it_complained_of_before_a_signal_is_shown():
    with Server() as server:
        with open(server.run_dir / "scheduler.log", "a") as log:
            log.write("minisgl-scheduler 12:00:00.000 warn: the last words\n")
        os.kill(server.pid("scheduler"), signal.SIGKILL)
        assert server.process.wait(timeout=scaled(PATIENCE)) == 1
        words = server.process.stderr.read()
        assert "ended (signal 9): minisgl-scheduler 12:00:00.000 warn: the last words\n" in words, words


def test_a_child_that_dies_at_the_moment_of_readiness_is_named():
    """The launcher has not begun to watch; bash has its own words for a job that was killed."""
    for victim in PROCESSES:
        with Server("--device", "sim", wait=False) as server:
            while not (server.run_dir / "run.json").exists():
                assert server.process.poll() is None
            with held(server.process.pid):
                os.kill(server.pid(victim), signal.SIGKILL)
            assert server.process.wait(timeout=scaled(PATIENCE)) == 1
            words = server.process.stderr.read()
            assert f"minisgl-{victim} ended (signal 9)" in words and "Killed" not in words, words


def test_what_a_server_in_the_background_died_of_is_kept():
    with tempfile.TemporaryDirectory() as folder:
        assert launch("--detach", "--device", "sim", folder=folder).returncode == 0
        run_dir = pathlib.Path(folder) / "default"
        launcher = int((run_dir / "launcher.pid").read_text())
        os.kill(int((run_dir / "scheduler.pid").read_text()), signal.SIGKILL)
        wait_gone([launcher])
        assert "minisgl-scheduler ended (signal 9)" in (run_dir / "launcher.log").read_text()
        done = subprocess.run([CLIENT, "status"], env=dict(os.environ, MINISGL_RUN_DIR=folder), capture_output=True, text=True)
        assert f"see {run_dir}/*.log" in done.stderr, done


def test_a_process_that_fails_while_it_stops_is_named():
    for ask in (lambda server: server.process.terminate(), lambda server: os.kill(server.pid("tokenizer"), signal.SIGTERM)):
        with Server("--device", "sim", "--sim-step-us", "10000", "--shutdown-grace", "20") as server:
            tokenizer, scheduler = server.pid("tokenizer"), server.pid("scheduler")
            stream = subprocess.Popen(
                [CLIENT, "generate", "Once", "--max-tokens", "100000", "--ignore-eos", "--name", server.name],
                env=server.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            with stream:
                assert stream.stdout.read(1)
                ask(server)
                wait_gone([tokenizer])
                os.kill(scheduler, signal.SIGKILL)
                assert server.process.wait(timeout=scaled(PATIENCE)) == 1
                stream.terminate()
            words = server.process.stderr.read()
            assert "minisgl-scheduler ended (signal 9)" in words and "Killed" not in words, words


def test_a_process_that_does_not_stop_is_named():
    for victim in ("detokenizer", "scheduler"):
        with Server("--device", "sim", "--shutdown-grace", "0.1") as server:
            os.kill(server.pid(victim), signal.SIGSTOP)
            server.process.terminate()
            assert server.process.wait(timeout=scaled(PATIENCE)) == 1
            words = server.process.stderr.read()
            assert f"minisgl-{victim} did not stop" in words, words


def test_children_die_with_the_launcher():
    with Server() as server:
        pids = [server.pid(p) for p in PROCESSES]
        server.process.kill()
        wait_gone(pids)


def test_a_launcher_that_dies_at_the_start_leaves_no_child():
    """Before setpriv has asked for a signal at its end; the one here is that slow."""
    with tempfile.TemporaryDirectory() as folder:
        slow = pathlib.Path(folder) / "setpriv"
        slow.write_text(
            '#!/bin/sh\necho $$ >>"$0.pids"\nwhile kill -0 "$PPID" 2>/dev/null; do sleep 0.02; done\n'
            f'exec {shutil.which("setpriv")} "$@"\n'
        )
        slow.chmod(0o755)
        with Server("--device", "sim", env={"PATH": f"{folder}:{os.environ['PATH']}"}, wait=False) as server:
            told = pathlib.Path(f"{slow}.pids")
            wait_until(lambda: told.exists() and len(told.read_text().split()) == len(PROCESSES))
            pids = [int(pid) for pid in told.read_text().split()]
            try:
                server.process.kill()
                server.process.wait()
                wait_gone(pids)
            finally:
                for pid in filter(is_alive, pids):
                    os.kill(pid, signal.SIGKILL)


def test_stale_files_do_not_matter():
    with Server() as server:
        pids = [server.pid(p) for p in PROCESSES]
        server.process.kill()
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        wait_gone(pids)
        again = subprocess.Popen(
            [LAUNCH, "--name", server.name],
            env=server.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        server.process = again
        (server.run_dir / "run.json").unlink(missing_ok=True)
        server.wait_ready()
        assert server.client("generate", "Once", "--max-tokens", "3").stdout


def test_a_stale_number_stops_no_other_server():
    with Server("--device", "sim") as server:
        left = pathlib.Path(server.folder) / "left"
        left.mkdir()
        (left / "lock").touch()
        (left / "launcher.pid").write_text(f"{server.process.pid}\n")
        done = launch("--stop", "--name", "left", folder=server.folder)
        assert done.returncode == 1 and "no server named 'left' is running" in done.stderr, done
        assert server.client("generate", "Once", "--max-tokens", "3").stdout


def test_idle_server_stops_fast():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Server("--shutdown-grace", "100") as server:  # there is nothing to wait for
            began = time.monotonic()
            assert server.stop(number) == 0
            assert time.monotonic() - began < scaled(30)


def test_wrong_usage_says_what_is_wrong():
    with tempfile.TemporaryDirectory() as folder:
        for args, words in (
            (["--what"], "unknown option '--what'"),
            (["--model"], "--model needs a value"),
            (["--model", ""], "--model needs a value"),
            (["--run-dir="], "--run-dir needs a value"),
            (["--dtype", ""], "--dtype needs a value"),
            (["--dtype"], "--dtype needs a value"),
            (["--name", "a/b"], "--name takes"),
            (["stray"], "unexpected argument"),
            (["--page-size", "0"], "page-size"),
            (["--model", "/nowhere"], "/nowhere: no such directory"),
            (["--shutdown-grace", "1e1"], "--shutdown-grace takes"),
            (["--endpoint", "tcp://127.0.0.1:5000"], "by hand"),
            (["--once", "--max-tokens", "3", "Hi"], "--once took '--max-tokens'"),
        ):
            result = launch(*args, folder=folder)
            assert result.returncode == 2 and words in result.stderr, (args, result)
        result = launch("--run-dir", "/proc/x", "--device", "sim", folder=folder)
        assert result.returncode == 1 and result.stderr.startswith("launch: /proc/x/default cannot be made: "), result
        assert "--run-dir or MINISGL_RUN_DIR" in result.stderr, result
        file = str(DEMO / "config.json")
        for args, parent in ((["--run-dir", file], folder), ([], file)):
            result = launch(*args, folder=parent)
            by = "--run-dir " if args else "MINISGL_RUN_DIR="
            assert result.returncode == 1 and result.stderr == f"launch: {by}{file}: is no directory\n", result
        for mode in ([], ["--detach"]):
            result = launch(*mode, "--run-dir", f"{folder}/{'é' * 40}", folder=folder)
            assert result.returncode == 2 and "too long for socket paths" in result.stderr, result
        assert os.listdir(folder) == ["default"], os.listdir(folder)
        result = launch("--help", folder=folder)
        assert result.returncode == 0 and "--once" in result.stdout


def test_run_directory_is_private():
    with Server() as server:
        assert server.run_dir.stat().st_mode & 0o777 == 0o700
        for path in server.run_dir.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path


if __name__ == "__main__":
    sys.exit(run(globals()))
