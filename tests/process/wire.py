"""What tests of one process need: the messages of proto/PROTOCOL.md, sockets, and the process itself."""

import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

import msgpack
import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MINISGL_BUILD", ROOT / "build"))

sys.path.insert(0, str(ROOT / "tests"))
import sanitized  # noqa: E402 - of the folder above
from sanitized import scaled  # noqa: E402

TIMEOUT_MS = int(scaled(10000))

context = zmq.Context()


def pack(kind, **keys):
    return msgpack.packb({"type": kind, "v": 1, **keys})


def unpack(frame):
    return msgpack.unpackb(frame, strict_map_key=False)


class Socket:
    """A ZeroMQ socket that says and hears messages."""

    def __init__(self, kind, endpoint, bind=False, identity=None, receive_mark=1000):
        self.socket = context.socket(kind)
        self.socket.linger = 0
        self.socket.rcvtimeo = TIMEOUT_MS
        self.socket.rcvhwm = receive_mark
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        if bind:
            self.socket.bind(endpoint)
        else:
            self.socket.connect(endpoint)

    def say(self, kind, **keys):
        self.socket.send(pack(kind, **keys))

    def hear(self, skip=("alive",), timeout_ms=TIMEOUT_MS):
        """The next message that is none of skip; None when none comes in time."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            if not self.socket.poll(left_ms):
                return None
            message = unpack(self.socket.recv())
            if message["type"] not in skip:
                return message

    def ask(self, kind, **keys):
        self.say(kind, **keys)
        return self.hear()

    def close(self):
        self.socket.close()


class Process:
    """One of the server's processes, from its start to its end."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen(
            [str(BUILD / program), *map(str, options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        readable, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_MS / 1000)
        self.ready = self.process.stdout.readline() if readable else ""
        if "ready" not in self.ready:
            self.process.kill()
            raise RuntimeError(f"{program} is not ready: {self.process.stderr.read()}")

    def stop(self, number=signal.SIGTERM, timeout=10):
        """Returns exit code, seconds that it took, and the log."""
        began = time.monotonic()
        if self.process.poll() is None and number is not None:
            self.process.send_signal(number)
        try:
            _, log = self.process.communicate(timeout=scaled(timeout))
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        sanitized.check_log(log)
        return self.process.returncode, time.monotonic() - began, log


def folder():
    """A folder for sockets and files of one test, gone at the end of the program."""
    made = tempfile.TemporaryDirectory(prefix="minisgl-test-", dir="/tmp")
    folders.append(made)
    return pathlib.Path(made.name)


folders = []


def run(cases):
    """Runs the functions named test_*; prints `N passed, N failed`; returns the exit code."""
    import traceback

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
