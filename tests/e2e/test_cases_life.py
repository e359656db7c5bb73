"""Ends of processes, at the worst moment; and what a long life may not do to memory."""

import collections
import os
import pathlib
import resource
import signal
import sys
import time

import msgpack
import protocol_client
import zmq
from cases import PATIENCE, PROMPT, SANITIZED, SIM, SLACK, Client, Refused, in_some_attempt, pool_check, refusal, start_all, wait_until
from server import PROCESSES, Server, run

LONG = {"prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True}
SLOW = [*SIM, "--sim-step-us", 5000]
SLOWER = [*SIM, "--sim-step-us", 20000]  # 38 s for a long one: what ends before it has not waited for it
SOON = 20 * SLACK


def is_gone(pid):
    """True when there is no such process, not even as a zombie."""
    return not pathlib.Path(f"/proc/{pid}").exists()


def endings_of(client, rid, timeout=PATIENCE):
    """How an accepted request ended: a finish, or the code of its error."""
    try:
        return client.whole(rid, timeout)["finish"]
    except Refused as error:
        return error.code


def anonymous_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("RssAnon", "VmSwap"))) / 1024


def test_ipc_02_killed_and_started_again():
    with Server(*SIM) as first:
        again = ["--run-dir", first.folder]
        try:
            Server(*SIM, *again).close()
        except RuntimeError as error:
            assert "already" in str(error) or "running" in str(error), error
        else:
            raise AssertionError("a second server of the same name started")
        with Client(first.run_dir) as client:
            assert client.generate(prompt=PROMPT, max_tokens=2, ignore_eos=True)["finish"]
        os.kill(first.pid("scheduler"), signal.SIGKILL)
        assert first.process.wait(timeout=PATIENCE * SLACK) == 1
        assert not (first.run_dir / "run.json").exists()
        # The same folder, with what a killed one leaves in it.
        (first.run_dir / "scheduler.ipc").touch()
        second = Server(*SIM, *again, wait=False)
        with second:
            second.run_dir = first.run_dir
            second.wait_ready()
            with Client(second.run_dir) as client:
                assert client.generate(prompt=PROMPT, max_tokens=2, ignore_eos=True)["finish"] == "length"


def test_ipc_03_each_process_killed_under_32_streams():
    for process in PROCESSES:
        with Server(*SLOWER) as server, Client(server.run_dir) as client:
            client.LOST_S = protocol_client.Client.LOST_S * SLACK
            rids = [client.send("generate", **LONG) for _ in range(32)]
            for rid in rids:
                client.answer(rid)
            next(client.stream(rids[0]))
            pids = {name: server.pid(name) for name in PROCESSES}
            began = time.monotonic()
            os.kill(pids[process], signal.SIGKILL)
            how = [endings_of(client, rid) for rid in rids]
            assert set(how) <= {"server_lost", "shutting_down", "abort", "error"}, (process, how)
            assert server.process.wait(timeout=PATIENCE * SLACK) == 1, process
            assert time.monotonic() - began < SOON, process
            said = server.process.stderr.read()
            assert process in said and "signal 9" in said, said
            assert all(is_gone(pid) for pid in pids.values()), process


def test_ipc_06_an_end_at_any_moment():
    """The server ends within the last steps of requests: each that was accepted has its last message."""
    accepted = 0
    for delay in (0, 2, 4, 6, 8, 10, 12, 15, None):
        with Server(*SIM, "--sim-step-us", 1000, "--shutdown-grace", 0) as server, Client(server.run_dir) as client:
            client.info()  # the front socket is connected
            rids = [client.send("generate", prompt=PROMPT, max_tokens=n, ignore_eos=True) for n in (1, 4, 8, 12)]
            if delay is None:  # one of them has begun
                wait_until(lambda: client.pump() or any(client.answers.values()))
            else:
                time.sleep(delay / 1000)
            server.process.send_signal(signal.SIGTERM)
            for rid in rids:
                try:
                    client.answer(rid)
                except Refused as error:
                    assert error.code in ("shutting_down", "server_lost"), error
                    continue
                accepted += 1
                assert endings_of(client, rid) in ("length", "error", "shutting_down"), (delay, rid)
            assert server.process.wait(timeout=PATIENCE * SLACK) == 0, (delay, server.process.stderr.read())
    assert accepted


def test_shd_02_short_streams_end_well():
    with Server(*SLOW, "--shutdown-grace", 20) as server, Client(server.run_dir) as client:
        rids = [client.send("generate", prompt=PROMPT, max_tokens=100, ignore_eos=True) for _ in range(4)]
        for rid in rids:
            assert client.answer(rid)
        next(client.stream(rids[0]))
        server.process.send_signal(signal.SIGTERM)
        for rid in rids:
            last = client.whole(rid)
            assert last["finish"] == "length" and last["completion_tokens"] == 100, last
        assert server.process.wait(timeout=PATIENCE * SLACK) == 0


def test_shd_02_streams_get_a_reason():
    with Server(*SLOWER) as server, Client(server.run_dir) as client:
        rids = [client.send("generate", **LONG) for _ in range(4)]
        for rid in rids:
            assert client.answer(rid)
        next(client.stream(rids[0]))
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        how = [endings_of(client, rid) for rid in rids]
        assert set(how) <= {"abort", "error", "shutting_down"}, how
        assert server.process.wait(timeout=PATIENCE * SLACK) == 0
        assert time.monotonic() - began < SOON


def test_drained_processes_let_streams_end():
    """`drain` of the front or of the scheduler: what was accepted goes on, nothing new is, then the server ends."""
    for process in ("tokenizer", "scheduler"):
        with Server(*SLOW, "--shutdown-grace", 20) as server, Client(server.run_dir) as client:
            rid, _ = client.start(prompt=PROMPT, max_tokens=100, ignore_eos=True)
            next(client.stream(rid))
            control = client.context.socket(zmq.REQ)
            control.connect(server.endpoint(process + "_control"))
            control.send(msgpack.packb({"type": "drain", "v": 1}))
            assert msgpack.unpackb(control.recv())["ok"]
            assert endings_of(client, rid) == "length", process
            assert server.process.wait(timeout=PATIENCE * SLACK) == 0
            said = server.process.stderr.read()
            assert f"minisgl-{process} ended (exit code 0)" in said, said


def test_shd_03_a_second_signal_ends_at_once():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Server(*SLOWER, "--shutdown-grace", 60) as server, Client(server.run_dir) as client:
            rids = [client.send("generate", **LONG) for _ in range(32)]
            for rid in rids:
                client.answer(rid)
            pids = [server.pid(name) for name in PROCESSES]
            server.process.send_signal(number)
            wait_until(lambda: "draining" in server.log("tokenizer"))  # the launcher has taken the first
            began = time.monotonic()
            server.process.send_signal(number)
            assert server.process.wait(timeout=PATIENCE * SLACK) == 130
            assert time.monotonic() - began < SOON
            assert all(is_gone(pid) for pid in pids)


def test_tok_12_a_megabyte_while_eight_stream():
    with Server(*SLOW) as server, Client(server.run_dir) as client, Client(server.run_dir) as other:
        arrivals, take = {}, client.take_reply

        def note(message):
            for delta in message.get("deltas", []):
                arrivals.setdefault(delta["rid"], []).append(time.monotonic())
            take(message)

        def streams_go_on():
            arrivals.clear()
            client.take_reply = take
            rids = [client.start(prompt=f"{PROMPT} {n}", max_tokens=100, ignore_eos=True)[0] for n in range(8)]
            client.take_reply = note
            big = other.send("generate", prompt="Once upon a time there was a fox. " * 30000, max_tokens=5)
            for rid in rids:
                assert client.whole(rid)["finish"] == "length"
            assert refusal(other.answer, big).code == "too_long"
            longest = max(b - a for times in arrivals.values() for a, b in zip(times, times[1:]))
            assert longest < 0.4 * SLACK, longest  # 0.2 on a machine that does nothing else

        in_some_attempt(streams_go_on, 10)
        pool_check(server)


def test_res_01_memory_is_flat():
    """5,000 requests of 300 tokens, the same prompt: nothing grows behind the first 500 (but the ring of the last 16,384 rids)."""
    request = {"prompt": PROMPT, "max_tokens": 300, "ignore_eos": True}
    with Server(*SIM, "--sim-step-us", 20) as server, Client(server.run_dir) as client:
        sizes = []
        for _ in range(10):
            for answer in start_all(client, [request] * 500):
                assert answer["completion_tokens"] == 300
            sizes.append([anonymous_mib(server.pid(name)) for name in PROCESSES])
        print([[round(size, 1) for size in of_process] for of_process in zip(*sizes)], flush=True)
        # A leak grows each time; a queue that was long for once, since a process stood still, keeps its memory.
        for of_process in zip(*sizes):
            grown = sorted(b - a for a, b in zip(of_process, of_process[1:]))
            assert SANITIZED or (len(grown) * grown[len(grown) // 2] < 4 and sum(grown) < 64), sizes
        pool_check(server)


class Crowd:
    """So many connected clients in one thread; ends: (client, rid) of each request with how it ended."""

    def __init__(self, server, size):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * size + 1000), hard))
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, 2 * size + 10)
        self.pairs = [self.connect(server, number) for number in range(size)]
        self.greeted, self.ends = set(), {}

    def connect(self, server, number):
        pair = []
        for process in ("tokenizer", "detokenizer"):
            socket = self.context.socket(zmq.DEALER)
            socket.setsockopt(zmq.ROUTING_ID, b"\x01" + number.to_bytes(15, "big"))
            socket.connect(server.endpoint(process))
            pair.append(socket)
        pair[1].send(msgpack.packb({"type": "hello", "v": 1}))
        return pair

    def pump(self):
        """Takes what has come for anyone."""
        for number, pair in enumerate(self.pairs):
            for socket in pair:
                while socket.poll(0):
                    self.take(number, msgpack.unpackb(socket.recv()))

    def take(self, number, message):
        if message["type"] == "hello_ok":
            self.greeted.add(number)
        for one in message.get("deltas", [message]):
            how = one.get("finish") or (one["code"] if one.get("type") == "error" else None)
            if how:
                assert (number, one["rid"]) not in self.ends, one
                self.ends[number, one["rid"]] = how

    def close(self):
        self.context.destroy(linger=0)


def test_res_04_more_than_can_wait():
    """20,000 requests within 2 s (of a host that is not busy), from 1,000 connections: each is served or told that the server is full, and nothing grows.
    The server takes less than a thousand a second, so that most find it full, however fast or slow the host."""
    size, each = 1000, 20
    with Server(*SIM, "--sim-step-us", 20000, "--max-running-requests", 16, "--max-queued", 500) as server:
        crowd = Crowd(server, size)
        wait_until(lambda: crowd.pump() or len(crowd.greeted) == size)
        before = [anonymous_mib(server.pid(name)) for name in PROCESSES]
        began = time.monotonic()
        for n in range(each):
            request = {"type": "generate", "v": 1, "rid": f"r{n}", "input_ids": [5, 6], "max_tokens": 2, "ignore_eos": True}
            for front, _ in crowd.pairs:
                front.send(msgpack.packb(request))
        seconds = time.monotonic() - began
        wait_until(lambda: crowd.pump() or len(crowd.ends) == size * each)
        after = [anonymous_mib(server.pid(name)) for name in PROCESSES]
        ends = collections.Counter(crowd.ends.values())
        print(f"{dict(ends)}, sent in {seconds:.2f} s, MiB before {before}, after {after}", flush=True)
        assert ends.keys() == {"length", "overloaded"} and ends["length"] >= 500, ends
        assert SANITIZED or all(b < a + 64 for a, b in zip(before, after)), (before, after)
        crowd.close()
        pool_check(server)


if __name__ == "__main__":
    sys.exit(run(globals()))
