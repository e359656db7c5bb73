"""What tests of one process need: the messages of proto/PROTOCOL.md, sockets, and the process itself."""

import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

import msgpack
import zmq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, PATIENCE, ROOT, held, in_some_attempt, run, sanitized, scaled, wait_until  # noqa: E402, F401 - of the folder above

TIMEOUT_MS = int(scaled(PATIENCE * 1000))

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

    def stop(self, number=signal.SIGTERM, timeout=PATIENCE):
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
