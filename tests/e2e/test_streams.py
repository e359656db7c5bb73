"""Text through the three processes: stop strings, aborts, clients that go, servers that stop."""

import json
import os
import signal
import subprocess
import sys
import time

from server import CLIENT, PATIENCE, Server, held, is_idle, run, scaled

LONG = ["--max-tokens", 1900, "--ignore-eos"]
SLOW = ["--device", "sim", "--sim-step-us", 20000]  # 38 s for a long one: what ends before it has not waited for it
SOON = scaled(20)


def generate(server, *args):
    return json.loads(server.client("generate", "--json", *args).stdout)


def start(server, *args, **options):
    command = [str(CLIENT), "generate", *map(str, args), "--name", server.name]
    return subprocess.Popen(
        command, env=server.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def test_stop_strings_cut_the_same_text():
    with Server("--device", "sim") as server:
        whole = generate(server, "A text", "--max-tokens", 300, "--ignore-eos")
        text = whole["text"]
        assert len(whole["output_ids"]) == 300
        for begin, size in ((40, 1), (50, 5), (300, 40), (len(text) - 3, 3)):
            stop = text[begin : begin + size]
            cut = generate(server, "A text", *LONG, "--stop", "never to be found", "--stop", stop)
            assert cut["text"] == text[: text.index(stop)], (stop, cut)
            assert cut["finish_reason"] == "stop"
            used = cut["usage"]["completion_tokens"]
            assert cut["output_ids"] == whole["output_ids"][:used]
        server.wait_status(is_idle)


def test_streams_equal_whole_answers():
    requests = [
        {"id": i, "prompt": f"Number {i}", "max_tokens": 50 + i, "ignore_eos": True} for i in range(40)
    ]
    with Server("--device", "sim") as server:
        answers = server.batch(requests)
        for request, answer in list(zip(requests, answers))[::8]:
            client = start(server, request["prompt"], "--max-tokens", request["max_tokens"], "--ignore-eos")
            text, _ = client.communicate(timeout=scaled(PATIENCE))
            assert text.decode() == answer["text"], request


def test_abort_from_another_client():
    """ABT-06: the first client gets a last message."""
    with Server(*SLOW) as server:
        client = start(server, "x", *LONG)
        assert client.stdout.read(1)
        server.client("abort", (1 << 48) + 1)
        _, log = client.communicate(timeout=scaled(PATIENCE))
        assert client.returncode == 1 and b"abort" in log, log
        server.wait_status(is_idle)
        server.client("abort", 12345)  # nobody's: no error


def test_killed_clients_leave_nothing():
    """ABT-01 and ABT-02: streaming and not."""
    with Server(*SLOW, "--max-running-requests", 8) as server:
        clients = [start(server, f"x {i}", *LONG) for i in range(20)]
        whole = os.path.join(server.folder, "whole.jsonl")
        with open(whole, "w", encoding="utf-8") as file:
            file.write(json.dumps({"prompt": "y", "max_tokens": 1900, "ignore_eos": True}))
        batch = subprocess.Popen(
            [str(CLIENT), "batch", whole, "--name", server.name], env=server.env, stdout=subprocess.PIPE
        )
        assert clients[0].stdout.read(1)
        server.wait_status(lambda s: s["tokenizer"]["accepted"] == 21)
        for client in (*clients, batch):
            client.kill()
            client.wait()
        server.wait_status(is_idle)
        assert generate(server, "z", "--max-tokens", 3)["finish_reason"] == "length"
        assert server.log("detokenizer").count("client gone") <= 20


def test_sigterm_ends_streams_with_a_reason():
    """SHD-02."""
    with Server(*SLOW) as server:
        clients = [start(server, f"x {i}", *LONG) for i in range(4)]
        for client in clients:
            assert client.stdout.read(1)
        began = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - began < SOON
        for client in clients:
            _, log = client.communicate(timeout=scaled(PATIENCE))
            assert client.returncode == 1 and b"shutting_down" in log, log


def test_server_lost():
    """CLI-01: nobody is left to say anything."""
    with Server(*SLOW) as server:
        client = start(server, "x", *LONG)
        assert client.stdout.read(1)
        pids = [server.process.pid, *(server.pid(p) for p in ("tokenizer", "scheduler", "detokenizer"))]
        with held(*pids):
            _, log = client.communicate(timeout=scaled(PATIENCE))
        assert client.returncode == 1 and b"server_lost" in log, log


def test_bench_overlap_runs_both_loops():
    """A line for each number of streams; the server has its own loop again, whichever that is."""
    for disable, overlap in (("0", True), ("1", False)):
        with Server("--device", "sim", env={"MINISGL_DISABLE_OVERLAP_SCHEDULING": disable}) as server:
            load = ["--batches", "2,8", "--output-tokens", 50, "--passes", 2, "--warmup", 0]
            lines = server.client("bench", "overlap", "--json", *load).stdout.splitlines()
            rows = [json.loads(line) for line in lines]
            assert [row["streams"] for row in rows] == [2, 8] and "weight_bytes" in rows[0], rows
            assert all(row["normal_ms"] > 0 and row["overlap_ms"] > 0 for row in rows), rows
            status = server.status()["scheduler"]
            assert status["overlap"] == overlap
            assert status["decode_tokens"] >= 2 * 2 * (2 + 8) * 49, status
            assert server.log("scheduler").count("loop overlap=no") == 4 + (not overlap)


if __name__ == "__main__":
    sys.exit(run(globals()))
