"""A client of minisgl, written from proto/PROTOCOL.md alone: two DEALER sockets, and msgpack."""

import itertools
import json
import os
import pathlib
import time

import msgpack
import zmq

PATIENCE = float(os.environ.get("MINISGL_TIME_SCALE", "1"))  # times: longer where the programs are slow
LOST_S = 3.0 * PATIENCE  # silence after which the server counts as lost
HELLO_S = 1.0  # silence after which one says hello again


class Refused(Exception):
    """An `error` answer, or the `error` that ended a request."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.message, self.rid = error.get("code"), error.get("message", ""), error.get("rid")


class Client:
    """Client("/run/user/1000/minisgl/default"), or Client(front="ipc://...", reply="ipc://...")."""

    def __init__(self, run_dir=None, front=None, reply=None, identity=None, hello=True):
        if run_dir is not None:
            endpoints = json.loads((pathlib.Path(run_dir) / "run.json").read_text())["endpoints"]
            front, reply = endpoints["tokenizer"], endpoints["detokenizer"]
        self.identity = identity or b"\x01" + os.urandom(15)
        self.context = zmq.Context()
        self.front, self.reply = self._dealer(front), self._dealer(reply)
        self.names = (f"r{n}" for n in itertools.count(1))
        self.answers = {}  # rid -> its answer on the front socket
        self.deltas = {}  # rid -> deltas (and errors) not fetched yet
        self.greeted = False
        self.heard = self.hailed = time.monotonic()
        if hello:
            self.hello()

    def _dealer(self, endpoint):
        socket = self.context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, self.identity)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        return socket

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.destroy(linger=0)

    def hello(self, timeout=10):
        self._say_hello()
        self._until(lambda: self.greeted, timeout)

    def _say_hello(self):
        self.hailed = time.monotonic()
        self.reply.send(msgpack.packb({"type": "hello", "v": 1}))

    def send(self, kind, rid=None, **keys):
        """One frame on the front socket; returns its rid."""
        rid = rid or next(self.names)
        frame = {"type": kind, "v": 1, "rid": rid, **keys}
        for key in ("messages", "tools", "kwargs"):
            if isinstance(frame.get(key), (list, dict)):
                frame[key] = json.dumps(frame[key])
        self.front.send(msgpack.packb(frame))
        return rid

    def answer(self, rid, timeout=30):
        self._until(lambda: rid in self.answers, timeout)
        message = self.answers.pop(rid)
        if message["type"] == "error":
            raise Refused(message)
        return message

    def ask(self, kind, **keys):
        return self.answer(self.send(kind, **keys))

    def info(self):
        return json.loads(self.ask("info")["info"])

    def start(self, **keys):
        """`generate`; returns the rid and the uid of the accepted request."""
        accepted = self.ask("generate", **keys)
        return accepted["rid"], accepted["uid"]

    def stream(self, rid, timeout=60):
        """The deltas of a request; the last one has a `finish`. Raises Refused for an `error`."""
        while True:
            self._until(lambda: self.deltas.get(rid), timeout)
            delta = self.deltas[rid].pop(0)
            if delta.get("type") == "error" or delta.get("finish"):
                del self.deltas[rid]
            if delta.get("type") == "error":
                raise Refused(delta)
            yield delta
            if delta.get("finish"):
                return

    def whole(self, rid, timeout=60):
        """All deltas of a request as one: texts and ids joined, the rest as in the last."""
        text, ids, delta = "", [], {}
        for delta in self.stream(rid, timeout):
            text += delta.get("text", "")
            ids += token_ids(delta.get("ids"))
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}  # what is not given is 0
        return {**usage, **delta, "text": text, "ids": ids}

    def generate(self, **keys):
        return self.whole(self.start(**keys)[0])

    def pump(self, timeout_s=0.1):
        """Takes what has come on both sockets, waiting for the first of it; keeps the registration alive."""
        poller = zmq.Poller()
        poller.register(self.front, zmq.POLLIN)
        poller.register(self.reply, zmq.POLLIN)
        for socket, _ in poller.poll(int(timeout_s * 1000)):
            while socket.poll(0):
                message = msgpack.unpackb(socket.recv())
                self._take_reply(message) if socket is self.reply else self._take_front(message)
        now = time.monotonic()
        if self.greeted and now - max(self.heard, self.hailed) > HELLO_S:
            self._say_hello()

    def _take_front(self, message):
        self.answers[message.get("rid")] = message

    def _take_reply(self, message):
        self.heard = time.monotonic()
        self.greeted |= message["type"] == "hello_ok"
        if message["type"] == "error":
            self.deltas.setdefault(message.get("rid"), []).append(message)
        for delta in message.get("deltas", []):
            self.deltas.setdefault(delta["rid"], []).append(delta)

    def _until(self, condition, timeout):
        end = time.monotonic() + timeout * PATIENCE
        while not condition():
            self.pump(min(0.1, max(0.001, end - time.monotonic())))
            now = time.monotonic()
            if self.greeted and now - self.heard > LOST_S:
                raise Refused({"code": "server_lost", "message": "no sign of life"})
            if now > end and not condition():
                raise TimeoutError("no answer in time")


def token_ids(ids):
    """Ids come as an array, or as the bytes of little-endian int32."""
    if isinstance(ids, bytes):
        return [int.from_bytes(ids[i : i + 4], "little") for i in range(0, len(ids), 4)]
    return list(ids or [])
