#!/usr/bin/env python3
"""Judges what clients of a server saw, from the frames that tap.py wrote down and from nothing else.

usage: judge_traffic.py FILE...        one file for each client; prints counts as JSON, then faults, if any; exit code 1 with faults

Each request that was said has exactly one end, and nothing comes behind it. An end is: an error that names it, on either socket, or a
delta with a finish. If a process was killed while it was open, 3 s without a frame on the reply socket are an end too (server_lost);
every open request ends within 30 s of that. An end by length has max_tokens tokens, one by stop ends in a token that may end it, one by
abort was asked for; the ids that came are as many as the usage says.
"""

import collections
import json
import sys

import msgpack

from tap import read

LOST_NS, BOUND_NS = 3_000_000_000, 30_000_000_000
EOS = (1788, 1790)  # of the demo model


class Request:
    def __init__(self, message):
        self.asked = message
        self.uid = None
        self.num_accepted = self.num_ids = 0
        self.last_id = None
        self.aborted = False
        self.ends = []  # (time, kind)


class Judge:
    def __init__(self, path):
        self.path = path
        self.requests, self.by_uid = {}, {}
        self.exchanges = {}  # rid of an abort -> answers
        self.faults = []
        self.killed_ns = None
        self.last_frame_ns = self.silence_ns = None

    def fault(self, words):
        self.faults.append(f"{self.path}: {words}")

    def said(self, message):
        if message["type"] == "generate":
            self.requests[message["rid"]] = Request(message)
        elif message["type"] == "abort":
            self.exchanges[message["rid"]] = 0
            request = self.requests.get(message.get("target")) or self.by_uid.get(message.get("uid"))
            if request:
                request.aborted = True

    def end(self, rid, time_ns, kind):
        request = self.requests.get(rid)
        if request is None:
            self.fault(f"an end ({kind}) of a request that nobody made: {rid}")
            return
        if request.ends:
            self.fault(f"{rid}: {kind} behind its end by {request.ends[0][1]}")
        request.ends.append((time_ns, kind))

    def heard_front(self, message, time_ns):
        rid = message.get("rid")
        if message["type"] == "accepted":
            request = self.requests[rid]
            request.num_accepted += 1
            request.uid = message["uid"]
            self.by_uid[request.uid] = request
        elif rid in self.exchanges:
            self.exchanges[rid] += 1
        elif message["type"] == "error":
            self.end(rid, time_ns, f"error {message['code']}")
        else:
            self.fault(f"unexpected {message}")

    def heard_delta(self, delta, time_ns):
        rid = delta["rid"]
        request = self.requests.get(rid)
        if request is None:
            self.fault(f"a delta of a request that nobody made: {delta}")
            return
        ids = delta.get("ids") or []
        if isinstance(ids, bytes):
            ids = [int.from_bytes(ids[i : i + 4], "little") for i in range(0, len(ids), 4)]
        if request.ends:
            self.fault(f"{rid}: a delta behind its end by {request.ends[0][1]}: {delta}")
        if request.uid not in (None, delta["uid"]):
            self.fault(f"{rid}: accepted as {request.uid}, answered as {delta['uid']}")
        request.num_ids += len(ids)
        request.last_id = ids[-1] if ids else request.last_id
        if delta.get("finish"):
            self.judge_end(rid, request, delta)
            self.end(rid, time_ns, delta["finish"])

    def judge_end(self, rid, request, delta):
        asked, count = request.asked, delta.get("completion_tokens", 0)
        ends = [*asked.get("stop_token_ids", []), *([] if asked.get("ignore_eos") else EOS)]
        if request.num_ids != count:
            self.fault(f"{rid}: {request.num_ids} ids came, {count} are in the usage")
        if delta["finish"] == "length" and count != asked["max_tokens"]:
            self.fault(f"{rid}: ended by length with {count} of {asked['max_tokens']} tokens")
        if delta["finish"] == "stop" and request.last_id not in ends:
            self.fault(f"{rid}: ended by stop with token {request.last_id}")
        if delta["finish"] == "abort" and not request.aborted:
            self.fault(f"{rid}: aborted by nobody")
        if delta["finish"] == "error" and self.killed_ns is None:
            self.fault(f"{rid}: {delta.get('error')} {delta.get('message')}")

    def take(self, what, time_ns, frame):
        if what == "K":
            self.killed_ns = time_ns
            return
        if what == "E" or what == "R":
            if self.last_frame_ns and time_ns - self.last_frame_ns > LOST_NS and self.silence_ns is None:
                self.silence_ns = self.last_frame_ns + LOST_NS
            self.last_frame_ns = time_ns
        if what == "E":
            return
        message = msgpack.unpackb(frame)
        if what in "Ss":
            self.said(message)
        elif what == "F":
            self.heard_front(message, time_ns)
        elif message["type"] == "deltas":
            for delta in message["deltas"]:
                self.heard_delta(delta, time_ns)
        elif message["type"] == "error":
            self.end(message.get("rid"), time_ns, f"error {message['code']}")

    def verdict(self):
        for rid, request in self.requests.items():
            if not request.ends and self.killed_ns and self.silence_ns:
                self.end(rid, self.silence_ns, "server_lost")
            if not request.ends:
                self.fault(f"{rid}: no end")
            elif self.killed_ns and request.ends[0][0] > self.killed_ns + BOUND_NS:
                late_s = (request.ends[0][0] - self.killed_ns) / 1e9
                self.fault(f"{rid}: its end came {late_s:.1f} s after the kill")
            if request.num_accepted > 1:
                self.fault(f"{rid}: accepted {request.num_accepted} times")
        if not self.killed_ns:
            for rid, count in self.exchanges.items():
                if count != 1:
                    self.fault(f"abort {rid}: {count} answers")


def main():
    counts, faults = collections.Counter(), []
    for path in sys.argv[1:]:
        judge = Judge(path)
        for record in read(path):
            judge.take(*record)
        judge.verdict()
        counts["requests"] += len(judge.requests)
        counts.update(request.ends[0][1] for request in judge.requests.values() if request.ends)
        faults += judge.faults
    print(json.dumps(counts))
    for fault in faults[:50]:
        print(fault)
    return 1 if faults or not counts["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
