"""wire.py for unittest: a directory, sockets and processes that end with each test.

The test is everybody else: it binds or connects the other ends with pyzmq, sends msgpack maps and
looks at those that come. Nothing sleeps: all waits are for a message or for an end, with a bound.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import msgpack
import zmq

from wire import BUILD, PATIENCE, ROOT, sanitized, scaled, unpack

WAIT_S = scaled(float(os.environ.get("MINISGL_TEST_WAIT", PATIENCE)))
DATA = os.environ.get("MINISGL_TEST_DATA", str(ROOT / "tests/data"))
DEMO_MODEL = str(ROOT / "tools/demo_model")

CLIENT = bytes(range(1, 17))
OTHER_CLIENT = bytes(range(101, 117))


def pack(**keys):
    """A frame of any keys; the version is put in unless the test says otherwise."""
    return msgpack.packb({"v": 1, **keys})


class ProcessTest(unittest.TestCase):
    """A directory under /tmp, sockets and processes that end with the test."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="minisgl-test-")
        self.context = zmq.Context()
        self.processes = []
        self.sockets = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        for socket in self.sockets:
            socket.close(0)
        self.context.destroy(linger=0)
        shutil.rmtree(self.dir)
        sanitized.check()

    def endpoint(self, name):
        return f"ipc://{self.dir}/{name}.ipc"

    def socket(self, kind, name, bind=False, identity=None):
        socket = self.context.socket(kind)
        self.sockets.append(socket)
        socket.linger = 0
        socket.rcvtimeo = int(WAIT_S * 1000)
        socket.sndtimeo = int(WAIT_S * 1000)
        if identity:
            socket.setsockopt(zmq.ROUTING_ID, identity)
        if bind:
            socket.bind(self.endpoint(name))
        else:
            socket.connect(self.endpoint(name))
        return socket

    def start(self, program, *args, ready=True, **kwargs):
        """Starts a program of the build; waits for its ready line."""
        path = os.path.join(BUILD, program)
        process = subprocess.Popen([path, *args], stdout=subprocess.PIPE, text=True, **kwargs)
        self.processes.append(process)
        if ready:
            line = process.stdout.readline()
            self.assertIn("ready", line, f"{program} said {line!r}, exit code {process.poll()}")
        return process

    def receive(self, socket):
        return unpack(socket.recv())

    def ask(self, socket, **keys):
        """One frame, one answer."""
        socket.send(pack(**keys))
        return self.receive(socket)

    def assert_silent(self, socket, ms=200):
        """Nothing more is there. (The one wait for something that must not come.)"""
        if socket.poll(ms):
            self.fail(f"unexpected message: {unpack(socket.recv())}")

    def stop(self, process, number=signal.SIGTERM, within_s=PATIENCE):
        process.send_signal(number)
        return process.wait(timeout=scaled(within_s))
