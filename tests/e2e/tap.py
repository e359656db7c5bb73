"""A client that writes down every frame that passes its two sockets, as it was, before it looks into it.

A record: what (1 byte: S said to front, s said to reply, F heard from front, R heard from reply, K a process was killed, E end of
listening), time in ns (8 bytes, little-endian), size (4 bytes), the frame. judge_traffic.py reads them.
"""

import os
import struct
import time

import msgpack
import zmq

RECORD = struct.Struct("<cqI")


class Tap:
    """A client's sockets. on_message(tap, message) is called for each one heard, behind the writing."""

    def __init__(self, server, path, on_message):
        self.identity = b"\x01" + os.urandom(15)
        self.file = open(path, "ab", buffering=1 << 20)
        self.on_message = on_message
        self.heard = time.monotonic()
        self.hailed = 0.0
        self.context = zmq.Context()
        self.poller = zmq.Poller()
        self.sockets = {}
        for letter, endpoint in (("F", server.endpoint("tokenizer")), ("R", server.endpoint("detokenizer"))):
            socket = self.context.socket(zmq.DEALER)
            socket.linger = 0
            socket.sndhwm = socket.rcvhwm = 0
            socket.setsockopt(zmq.ROUTING_ID, self.identity)
            socket.connect(endpoint)
            self.poller.register(socket, zmq.POLLIN)
            self.sockets[letter] = socket

    def write(self, what, frame=b""):
        self.file.write(RECORD.pack(what.encode(), time.monotonic_ns(), len(frame)) + frame)

    def say(self, letter, kind, **keys):
        frame = msgpack.packb({"type": kind, "v": 1, **keys})
        self.write({"F": "S", "R": "s"}[letter], frame)
        self.sockets[letter].send(frame)

    def hail(self):
        """hello, at the start and after each second of silence."""
        now = time.monotonic()
        if now - max(self.heard, self.hailed) > 1 or not self.hailed:
            self.hailed = now
            self.say("R", "hello")

    def listen(self, timeout_s):
        """All that is there, after at most that long."""
        self.hail()
        ready = dict(self.poller.poll(max(timeout_s, 0) * 1000))
        for letter, socket in self.sockets.items():
            if socket not in ready:
                continue
            while True:
                try:
                    frame = socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break
                self.write(letter, frame)
                if letter == "R":
                    self.heard = time.monotonic()
                self.on_message(self, msgpack.unpackb(frame))

    def close(self):
        self.write("E")
        self.file.close()
        self.context.destroy(linger=0)


def read(path):
    """(what, time_ns, frame) of each record."""
    with open(path, "rb") as file:
        while header := file.read(RECORD.size):
            what, time_ns, size = RECORD.unpack(header)
            yield what.decode(), time_ns, file.read(size)
