#!/usr/bin/env python3
"""Each request has one end, whatever becomes of connections and of single processes."""

import socket
import subprocess
import sys
import tempfile
import threading

from cases import SIM, Client, held, pool_check, wait_until
from server import CLIENT, PATIENCE, Server, run, scaled

SLOW = [*SIM, "--sim-step-us", 20000]


class Proxy:
    """Between a client and an ipc endpoint; cut() breaks what is connected, with all that is on the way."""

    def __init__(self, folder, target):
        self.path = f"{folder}/proxy.ipc"
        self.endpoint = f"ipc://{self.path}"
        self.target = target.removeprefix("ipc://")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.pairs, self.swallows, self.max_bytes, self.num_swallowed = [], False, None, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            self.pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(65536):
                self.swallows |= self.max_bytes is not None and len(data) > self.max_bytes
                if self.swallows:
                    self.num_swallowed += len(data)
                else:
                    sink.sendall(data)
        except OSError:
            pass
        self.end(source, sink)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)
        self.swallows, self.max_bytes = False, None


def start_client(server, front, reply, *args):
    return subprocess.Popen(
        [CLIENT, *map(str, args), "--endpoint", f"{front},{reply}"], env=server.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def assert_lost(process):
    """It says so, and neither waits on nor takes what came for a whole answer. (After how long: tests/unit/test_losses.c.)"""
    _, log = process.communicate(timeout=scaled(PATIENCE))
    assert process.returncode == 1 and "server_lost" in log, (process.returncode, log)


def test_reply_connection_is_cut():
    """The detokenizer finds nobody to send to, or a new connection; frames are lost in either case."""
    with Server(*SLOW) as server, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        proxy = Proxy(folder, server.endpoint("detokenizer"))
        process = start_client(
            server, server.endpoint("tokenizer"), proxy.endpoint, "generate", "Once", "--max-tokens", 1000, "--ignore-eos"
        )
        assert process.stdout.read(10)
        proxy.swallows = True  # some of the text is on the way when the line breaks
        wait_until(lambda: proxy.num_swallowed)
        proxy.cut()
        assert_lost(process)
        pool_check(server)


def test_front_connection_is_cut_before_the_answer():
    """What was on the line is lost: the frame or its answer."""
    with Server(*SLOW) as server, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        proxy = Proxy(folder, server.endpoint("tokenizer"))
        command = [server, proxy.endpoint, server.endpoint("detokenizer"), "generate", "word " * 300, "--max-tokens", 5]
        proxy.max_bytes = 1000  # the request is swallowed; ZeroMQ's greeting is not
        process = start_client(*command)
        wait_until(lambda: proxy.swallows)
        proxy.cut()  # and from now on all comes through
        assert_lost(process)
        proxy.swallows = True
        assert_lost(start_client(*command))
        proxy.cut()
        pool_check(server)


def test_tokenizer_stops_answering():
    """Requests that it has passed on end as they would; those that it has not are lost to the client."""
    with Server(*SLOW) as server, Client(server.run_dir) as client:
        rid, _ = client.start(prompt="Once", max_tokens=100, ignore_eos=True, want_ids=True)
        client.wait(lambda: client.deltas[rid])  # accepted is not yet passed on
        with held(server.pid("tokenizer")):
            process = start_client(
                server, server.endpoint("tokenizer"), server.endpoint("detokenizer"), "generate", "Once", "--max-tokens", 5
            )
            answer = client.whole(rid)
            assert (answer["finish"], len(answer["ids"])) == ("length", 100)
            assert_lost(process)
        pool_check(server)


def test_detokenizer_stops_answering():
    with Server(*SLOW) as server:
        process = start_client(
            server, server.endpoint("tokenizer"), server.endpoint("detokenizer"),
            "generate", "Once", "--max-tokens", 500, "--ignore-eos",
        )  # fmt: skip
        assert process.stdout.read(10)
        with held(server.pid("detokenizer")):
            assert_lost(process)
        pool_check(server)


if __name__ == "__main__":
    sys.exit(run(dict(globals())))
