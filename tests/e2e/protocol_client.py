"""A whole client of minisgl, written from proto/PROTOCOL.md alone: two DEALER sockets, and msgpack."""

import collections
import itertools
import json
import os
import pathlib
import time

import msgpack
import zmq


class Refused(Exception):
    """An `error`, on either socket; or `server_lost`, which a client says to itself."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Client:
    """client = Client("/run/user/1000/minisgl/default")
    for delta in client.stream(client.send("generate", prompt="Once upon", max_tokens=20)): print(delta["text"])"""

    HELLO_S, LOST_S = 1.0, 3.0  # silence after which one says hello again; after which the server counts as lost

    def __init__(self, run_dir, hello=True):
        endpoints = json.loads((pathlib.Path(run_dir) / "run.json").read_text())["endpoints"]
        self.identity, self.context, self.poller = b"\x01" + os.urandom(15), zmq.Context(), zmq.Poller()
        self.front, self.reply = self._dealer(endpoints["tokenizer"]), self._dealer(endpoints["detokenizer"])
        self.rids = (f"r{n}" for n in itertools.count(1))
        self.answers, self.deltas = collections.defaultdict(list), collections.defaultdict(list)  # by rid, not yet taken
        self.is_registered, self.heard, self.hailed = False, time.monotonic(), 0.0
        self.session, self.num_heard, self.is_lost = 0, 0, False  # num_heard: frames about requests, in this session
        if hello:
            self.hello()
            self.wait(lambda: self.is_registered)

    def _dealer(self, endpoint):
        socket = self.context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, self.identity)
        socket.connect(endpoint)
        self.poller.register(socket, zmq.POLLIN)
        return socket

    def hello(self):
        self.hailed = time.monotonic()
        self.reply.send(msgpack.packb({"type": "hello", "v": 1}))

    def send(self, kind, rid=None, **keys):
        """One frame on the front socket; returns its rid."""
        texts = {key: json.dumps(keys[key]) for key in ("messages", "tools", "kwargs") if key in keys}
        frame = {"type": kind, "v": 1, "rid": rid or next(self.rids), **keys, **texts}
        self.front.send(msgpack.packb(frame))
        return frame["rid"]

    def answer(self, rid, timeout=30):
        return self._take(self.answers[rid], timeout)

    def stream(self, rid, timeout=60):
        """The deltas of an accepted request; the last one has a `finish`."""
        delta = {}
        while not delta.get("finish"):
            delta = self._take(self.deltas[rid], timeout)
            yield delta

    def _take(self, messages, timeout):
        self.wait(lambda: messages, timeout)
        message = messages.pop(0)
        if message.get("type") == "error":
            raise Refused(message["code"], message["message"])
        return message

    def wait(self, condition, timeout=10):
        end = time.monotonic() + timeout
        while not condition():
            self.pump()
            if time.monotonic() > end and not condition():
                raise TimeoutError("no answer in time")
            if not condition() and (self.is_lost or self.is_registered and time.monotonic() - self.heard > self.LOST_S):
                raise Refused("server_lost", "no sign of life, or frames lost with a connection")

    def pump(self, timeout=0.1):
        """Takes what has come on both sockets, waiting for the first of it; stays registered."""
        for socket, _ in self.poller.poll(timeout * 1000):
            while socket.poll(0):
                message = msgpack.unpackb(socket.recv())
                self.take_reply(message) if socket is self.reply else self.answers[message.get("rid")].append(message)
        if self.is_registered and time.monotonic() - max(self.heard, self.hailed) > self.HELLO_S:
            self.hello()

    def take_reply(self, message):
        self.heard = time.monotonic()
        if message["type"] in ("hello_ok", "alive"):
            now = message["session"], message.get("sent", 0)
            self.is_lost |= self.is_registered and now != (self.session, self.num_heard)
            self.is_registered, (self.session, self.num_heard) = True, now
        self.num_heard += message["type"] == "deltas" or (message["type"] == "error" and "uid" in message)
        for one in message.get("deltas", [message] if message["type"] == "error" else []):
            self.deltas[one.get("rid")].append(one)
