"""Thousands of requests at once, aborted, stopped and full, and processes killed in their midst; judge_traffic.py judges the frames.

MINISGL_TRAFFIC_REQUESTS (10000) says how many; MINISGL_TRAFFIC_SEED (1) draws them.
"""

import heapq
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from server import PATIENCE, PROCESSES, ROOT, Server, is_idle, run, sanitized, scaled
from tap import RECORD, Tap, read
from test_streams import start

NUM_REQUESTS = int(os.environ.get("MINISGL_TRAFFIC_REQUESTS", "10000"))
SEED = int(os.environ.get("MINISGL_TRAFFIC_SEED", "1"))
NUM_CLIENTS, NUM_ROUNDS = 4, 4
PAGE_SIZE = 16
SIM = ["--device", "sim", "--sim-step-us", 200, "--max-queued", 20000]


def judge(*paths):
    """Counts of ends by kind, and the faults."""
    script = ROOT / "tests/e2e/judge_traffic.py"
    result = subprocess.run([sys.executable, script, *paths], capture_output=True, text=True, timeout=scaled(300))
    assert result.stdout, result.stderr
    counts, *faults = result.stdout.splitlines()
    assert (result.returncode == 0) == (not faults), result
    return json.loads(counts), faults


def draw(rng, prefixes):
    """A third is to be aborted, a third ends in one of many stop ids, a third by length."""
    prompt = rng.choice(prefixes)[: rng.randrange(80)] + [rng.randrange(1700) for _ in range(rng.randrange(1, 40))]
    keys = {"input_ids": prompt, "want_ids": True, "temperature": 1.0, "seed": rng.randrange(1 << 30)}
    kind = rng.choice(("abort", "stop", "length"))
    if kind == "abort":
        keys.update(max_tokens=rng.randrange(1500, 1800), ignore_eos=True)
    elif kind == "stop":
        keys.update(max_tokens=400, stop_token_ids=rng.sample(range(2048), 64))
    else:
        keys.update(max_tokens=rng.randrange(1, 60), ignore_eos=True)
    return kind, keys


class Load:
    """So many requests of one client, sent as fast as they go, and aborts of them at random times."""

    def __init__(self, server, path, rng):
        self.tap = Tap(server, path, self.on_message)
        self.rng = rng
        self.open, self.uids = set(), {}
        self.aborts = []  # heap of (time, rid)
        self.num_sent = self.num_aborts = 0
        self.greeted = False
        while not self.greeted:
            self.tap.listen(0.1)

    def on_message(self, tap, message):
        kind = message["type"]
        if kind == "hello_ok":
            self.greeted = True
        elif kind == "accepted":
            self.uids[message["rid"]] = message["uid"]
        elif kind == "error":
            self.open.discard(message.get("rid"))
        elif kind == "deltas":
            for delta in message["deltas"]:
                if delta.get("finish"):
                    self.open.discard(delta["rid"])

    def send(self, prefixes, abort_within_s):
        kind, keys = draw(self.rng, prefixes)
        rid = f"r{self.num_sent}"
        self.num_sent += 1
        self.open.add(rid)
        self.tap.say("F", "generate", rid=rid, **keys)
        if kind == "abort":
            heapq.heappush(self.aborts, (time.monotonic() + self.rng.uniform(0, abort_within_s), rid))

    def abort_due(self):
        while self.aborts and self.aborts[0][0] <= time.monotonic():
            rid = heapq.heappop(self.aborts)[1]
            self.num_aborts += 1
            name = {"uid": self.uids[rid]} if rid in self.uids and self.rng.random() < 0.5 else {"target": rid}
            self.tap.say("F", "abort", rid=f"a{self.num_aborts}", **name)


def drive(loads, seconds):
    """Until every request has ended (by the clients' own account) and every abort is said."""
    deadline = time.monotonic() + seconds
    while any(load.open or load.aborts for load in loads):
        for load in loads:
            load.abort_due()
            load.tap.listen(0.001)
        assert time.monotonic() < deadline, [sorted(load.open)[:5] for load in loads]


def memory_kb(server):
    """RssAnon of each process."""
    sizes = {}
    for process in PROCESSES:
        lines = pathlib.Path(f"/proc/{server.pid(process)}/status").read_text().splitlines()
        sizes[process] = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return sizes


def test_each_request_ends_once():
    rng = random.Random(SEED)
    prefixes = [[rng.randrange(1700) for _ in range(80)] for _ in range(8)]
    per_round = NUM_REQUESTS // NUM_ROUNDS
    num_pages = per_round // 10 * 40  # a request needs some 40 pages
    sizes = []
    with Server(*SIM, "--num-pages", num_pages, "--page-size", PAGE_SIZE) as server:
        folder = pathlib.Path(server.folder)
        paths = [folder / f"client{n}.frames" for n in range(NUM_CLIENTS)]
        loads = [Load(server, path, random.Random(SEED * 100 + n)) for n, path in enumerate(paths)]
        began = time.monotonic()
        for _ in range(NUM_ROUNDS):
            for n in range(per_round):
                loads[n % NUM_CLIENTS].send(prefixes, min(per_round / 500, 0.6))
                if n % 50 == 0:
                    for load in loads:
                        load.abort_due()
                        load.tap.listen(0)
            drive(loads, scaled(600))
            status = server.wait_status(is_idle)
            pages = status["scheduler"]["pages"]
            assert pages["free"] + pages["cached"] == num_pages, pages
            assert status["scheduler"]["waiting_rows"] == 0, status
            sizes.append(memory_kb(server))
        seconds = time.monotonic() - began
        quiet = time.monotonic() + 1  # what comes behind an end would come now
        while time.monotonic() < quiet:
            for load in loads:
                load.tap.listen(0.01)
        for load in loads:
            load.tap.close()
        counts, faults = judge(*paths)
        print(f"{counts} in {seconds:.1f} s, RssAnon in kB after each round: {sizes}", flush=True)
        assert not faults, "\n".join(faults)
        assert counts["requests"] == per_round * NUM_ROUNDS
        for kind in ("abort", "stop", "length"):
            assert counts[kind] > counts["requests"] * 0.15, counts
        for process in PROCESSES:
            # A leak grows in each round; a queue that was once long on a busy machine keeps its memory, once.
            grown = [after[process] - before[process] for before, after in zip(sizes, sizes[1:])]
            assert sanitized.SANITIZED or (min(grown) < 1024 and sum(grown) < 64 * 1024), (process, sizes)
        assert_judge_sees_faults(paths[0], folder / "forged.frames")


def assert_judge_sees_faults(path, forged):
    """The same frames with one end twice, with one left out, with a delta of nobody."""
    records = list(read(path))
    last = max(i for i, (what, _, frame) in enumerate(records) if what == "R" and b"finish" in frame)
    for change in (records[: last + 1] + records[last:], records[:last] + records[last + 1 :]):
        with open(forged, "wb") as file:
            for what, time_ns, frame in change:
                file.write(RECORD.pack(what.encode(), time_ns, len(frame)) + frame)
        assert judge(forged)[1], "the judge sees nothing"


def kill_in_the_midst(victim, rng):
    with Server(*SIM) as server:
        path = pathlib.Path(server.folder) / "client.frames"
        load = Load(server, path, rng)
        prefixes = [[7] * 80]
        clients = [start(server, f"x {n}", "--max-tokens", 1900, "--ignore-eos") for n in range(2)]
        until = time.monotonic() + rng.uniform(0.2, 1.0)
        while time.monotonic() < until:
            while len(load.open) < 60:
                load.send(prefixes, 1.0)
            load.abort_due()
            load.tap.listen(0.002)
        load.tap.write("K")
        os.kill(server.pid(victim), signal.SIGKILL)
        # Until all have an end, or nothing has come for as long as makes them lost.
        while load.open and time.monotonic() < load.tap.heard + 3.2:
            load.tap.listen(0.05)
        load.tap.close()
        counts, faults = judge(path)
        assert not faults, (victim, faults)
        for client in clients:
            client.communicate(timeout=scaled(PATIENCE))
        assert server.process.wait(timeout=scaled(PATIENCE)) == 1
        server.start_again()
        began = time.monotonic()
        answer = json.loads(server.client("generate", "--json", "y", "--max-tokens", 5, "--ignore-eos").stdout)
        assert len(answer["output_ids"]) == 5
        print(f"{victim} killed: {counts}; served again after {time.monotonic() - began:.2f} s", flush=True)


def test_killed_processes():
    rng = random.Random(SEED)
    for victim in PROCESSES:
        kill_in_the_midst(victim, rng)


if __name__ == "__main__":
    sys.exit(run(globals()))
