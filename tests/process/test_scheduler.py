#!/usr/bin/env python3
"""minisgl-scheduler alone: the test is its tokenizer and its detokenizer, over real sockets."""

import atexit
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import zmq

import wire
from wire import ROOT, PATIENCE, Process, Socket, held, in_some_attempt, scaled, wait_until

DEMO = ROOT / "tools/demo_model"
TINY = ROOT / "tests/data/tiny_models"
CLIENT = b"\x01" + bytes(15)


class Scheduler(Process):
    def __init__(self, *options, model=DEMO, env=None):
        self.path = wire.folder()
        self.detokenizer = Socket(zmq.PULL, self.endpoint("detokenizer"), bind=True)
        os.environ.pop("MINISGL_DISABLE_OVERLAP_SCHEDULING", None)
        os.environ.update(env or {})
        super().__init__(
            "scheduler_proc/minisgl-scheduler", "--model", model, "--endpoint", self.endpoint("scheduler"),
            "--detokenizer", self.endpoint("detokenizer"), "--control", self.endpoint("control"), *options,
        )  # fmt: skip
        os.environ.pop("MINISGL_DISABLE_OVERLAP_SCHEDULING", None)
        atexit.register(self.process.kill)
        self.input = Socket(zmq.PUSH, self.endpoint("scheduler"))
        self.control = Socket(zmq.REQ, self.endpoint("control"))
        self.answers = {}

    def endpoint(self, name):
        return f"ipc://{self.path}/{name}.ipc"

    def request(self, uid, ids, client=CLIENT, **keys):
        sampling = {"max_tokens": 16, "seed": 0, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        sampling |= {"ignore_eos": False, "stop_token_ids": []}
        packed = struct.pack(f"<{len(ids)}i", *ids)
        keys = {"reply_to": b"r%d" % uid} | sampling | keys
        self.input.say("request", uid=uid, client=client, input_ids=packed, **keys)

    def wait(self, *uids, timeout_s=PATIENCE):
        """Reads until each of these requests has ended; their answers: tokens, finish, more of the first row."""
        deadline = time.monotonic() + scaled(timeout_s)
        while not all(self.answers.get(uid, {}).get("finish") for uid in uids):
            message = self.detokenizer.hear(timeout_ms=max(0, int((deadline - time.monotonic()) * 1000)))
            assert message, (uids, self.answers)
            self.take(message)
        return [self.answers[uid] for uid in uids]

    def take(self, message):
        if message["type"] == "rejected":
            answer = {"tokens": [], "finish": "rejected", **message}
            self.answers.setdefault(("rejected", message["uid"]), answer)
            self.answers.setdefault(message["uid"], answer)
            return
        assert message["type"] == "tokens", message
        for uid, token, finish, *more in message["rows"]:
            first = uid not in self.answers
            answer = self.answers.setdefault(uid, {"tokens": [], "finish": None})
            assert not answer["finish"], (uid, "after its end")
            more = more[0] if more and more[0] else {}
            assert first == ("reply_to" in more), (uid, more)
            answer.update(more)
            if token is not None:
                answer["tokens"].append(token)
            answer["finish"] = finish

    def stats(self):
        answer = self.control.ask("stats")
        assert answer["ok"], answer
        return json.loads(answer["info"])

    def check_empty(self):
        """Nobody holds a page or a row; a short request works at once."""
        deadline = time.monotonic() + scaled(PATIENCE)
        while True:
            stats = self.stats()
            pages = stats["pages"]
            total = stats["engine"]["num_pages"]
            if (stats["queued"], stats["running"], stats["waiting_rows"]) == (0, 0, 0):
                assert pages["free"] + pages["cached"] == total, pages
                assert pages["private"] == pages["protected"] == 0, pages
                break
            assert time.monotonic() < deadline, stats
            time.sleep(0.01)
        assert self.control.ask("check")["ok"]
        uid = 1 << 40 | len(self.answers)
        self.request(uid, [1, 2, 3, 4, 5], max_tokens=1, ignore_eos=True)
        (answer,) = self.wait(uid)
        assert answer["finish"] == "length" and len(answer["tokens"]) == 1, answer
        return stats


def golden(folder):
    with open(folder / "golden.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def sure(row):
    return row["output_ids"][: row["min_margin_at"]] if row["min_margin"] < 1e-3 else row["output_ids"]


def check_golden(scheduler, rows, base):
    for index, row in enumerate(rows):
        scheduler.request(base + index, row["input_ids"], max_tokens=200)
    for row, answer in zip(rows, scheduler.wait(*range(base, base + len(rows)))):
        want = sure(row)
        assert answer["tokens"][: len(want)] == want, (want, answer)
        assert answer["prompt_tokens"] == len(row["input_ids"])
        if want is row["output_ids"]:
            assert answer["finish"] == row["finish_reason"] and len(answer["tokens"]) == len(want), answer


def test_demo_model_answers_as_transformers_with_both_loops():
    for loop in ("", "1"):
        scheduler = Scheduler("--dtype", "float32", "--shutdown-grace", 100, env={"MINISGL_DISABLE_OVERLAP_SCHEDULING": loop})
        rows = golden(DEMO) if not loop else golden(DEMO)[:4]
        check_golden(scheduler, rows, 1)
        check_golden(scheduler, sorted(rows, key=lambda row: len(row["input_ids"]))[-4:], 1001)  # warm
        stats = scheduler.check_empty()
        assert stats["overlap"] == (not loop), stats
        assert 0 <= stats["device_idle_share"] < 1, stats  # how small is for a bench to say
        assert stats["cached_tokens"] > 0 or loop, stats
        code, seconds, log = scheduler.stop()
        assert code == 0 and seconds < scaled(30), (code, seconds, log)  # there is nothing to wait for


def test_wrong_requests_are_refused_and_disturb_nobody():
    options = ["--max-seq-len-override", 512, "--max-running-requests", 4, "--sim-step-us", 20000]
    scheduler = Scheduler("--device", "sim", *options)
    scheduler.request(1, [1, 2, 3], max_tokens=150, ignore_eos=True)
    while 1 not in scheduler.answers:
        scheduler.take(scheduler.detokenizer.hear())
    scheduler.request(1, [9, 9, 9])  # a uid in use
    for uid, length in ((2, 513), (3, 512)):
        scheduler.request(uid, [7] * length)
        (answer,) = scheduler.wait(uid)
        assert answer["finish"] == "rejected" and answer["code"] == "too_long", answer
        assert str(length) in answer["message"] and "512" in answer["message"], answer
    scheduler.request(4, [7] * 511, ignore_eos=True)
    scheduler.request(5, [])
    scheduler.request(6, [1, 1 << 20])
    one, long, empty, outside = scheduler.wait(1, 4, 5, 6)
    assert long["finish"] == "length" and len(long["tokens"]) == 1, long
    assert empty["finish"] == outside["finish"] == "rejected", (empty, outside)
    assert one["finish"] == "length" and len(one["tokens"]) == 150, one
    assert ("rejected", 1) in scheduler.answers
    scheduler.input.socket.send(b"\xc1garbage")
    scheduler.input.socket.send(b"\x91" * 100000)
    scheduler.input.say("ping")
    scheduler.check_empty()
    assert scheduler.stats()["frames_dropped"] == 3


def test_aborts_end_queued_and_running_requests():
    scheduler = Scheduler("--device", "sim", "--max-running-requests", 1, "--sim-step-us", 20000)
    other = b"\x02" + bytes(15)
    scheduler.request(1, [1, 2, 3], max_tokens=1000, ignore_eos=True)
    scheduler.request(2, [1, 2, 3], client=other)
    scheduler.request(3, [1, 2, 3], client=other)
    scheduler.input.say("abort", uid=99)
    scheduler.input.say("abort", client=other)
    two, three = scheduler.wait(2, 3)
    assert two["finish"] == three["finish"] == "abort" and not two["tokens"] + three["tokens"], (two, three)
    scheduler.input.say("abort", uid=1)
    (one,) = scheduler.wait(1)
    assert one["finish"] == "abort" and len(one["tokens"]) < 1000
    scheduler.check_empty()


def test_sim_text_does_not_depend_on_company_chunks_pages_or_loop():
    prompts = [[(uid * 7 + i) % 2000 for i in range(3 + 37 * uid % 300)] for uid in range(1, 25)]
    prompts += [prompts[5][:], prompts[5] + [1, 2], prompts[7][:40]]
    seen = {}
    for options, loop in (
        (["--page-size", 1], ""), (["--page-size", 16, "--max-prefill-length", 64], "1"),
        (["--page-size", 4, "--max-prefill-length", 7, "--policy", "mixed", "--max-running-requests", 5], ""),
        (["--page-size", 1, "--cache-type", "naive", "--max-prefill-length", 5], ""),
    ):  # fmt: skip
        scheduler = Scheduler("--device", "sim", "--sim-step-us", 0, *options,
                              env={"MINISGL_DISABLE_OVERLAP_SCHEDULING": loop})  # fmt: skip
        for uid, ids in enumerate(prompts, 1):
            scheduler.request(uid, ids, max_tokens=40, temperature=float(uid % 2), seed=uid)
        for uid, answer in enumerate(scheduler.wait(*range(1, len(prompts) + 1)), 1):
            assert seen.setdefault(uid, answer["tokens"]) == answer["tokens"], (options, loop, uid)
        scheduler.check_empty()
        scheduler.stop()


def test_idle_costs_nothing_and_ends_at_once():
    scheduler = Scheduler("--shutdown-grace", 100)

    def cpu():
        fields = pathlib.Path(f"/proc/{scheduler.process.pid}/stat").read_text().rsplit(")")[1].split()
        return int(fields[11]) + int(fields[12])

    def it_sleeps():
        before = cpu()
        time.sleep(1)
        assert cpu() - before <= 1  # hundredths of a second

    scheduler.check_empty()
    in_some_attempt(it_sleeps)
    code, seconds, _ = scheduler.stop()
    assert code == 0 and seconds < scaled(30)


def test_sigterm_lets_streams_finish_within_the_grace():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 15000, "--shutdown-grace", 100)
    for uid in range(1, 5):
        scheduler.request(uid, [uid], max_tokens=200, ignore_eos=True)  # 3 s
    while 4 not in scheduler.answers:
        scheduler.take(scheduler.detokenizer.hear())
    scheduler.process.send_signal(signal.SIGTERM)
    while "draining" not in scheduler.process.stderr.readline():
        pass
    scheduler.request(9, [1])
    *streams, late = scheduler.wait(1, 2, 3, 4, 9)
    assert all(s["finish"] == "length" and len(s["tokens"]) == 200 for s in streams)
    assert late["finish"] == "rejected" and late["code"] == "shutting_down", late
    code, _, log = scheduler.stop(None)
    assert code == 0, log


def test_what_outlasts_the_grace_gets_a_reason():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 5000, "--shutdown-grace", 0.2, "--max-running-requests", 2)
    for uid in range(1, 5):
        scheduler.request(uid, [uid], max_tokens=2000, ignore_eos=True)
    while 2 not in scheduler.answers:
        scheduler.take(scheduler.detokenizer.hear())
    scheduler.process.send_signal(signal.SIGTERM)
    for answer in scheduler.wait(1, 2, 3, 4):
        assert answer["finish"] == "error" and answer["error"] == "shutting_down", answer
    code, _, log = scheduler.stop(None)
    assert code == 0, log


def test_the_ends_of_a_long_queue_come_in_frames_that_a_link_takes():
    """4096 requests with all the stop strings that one may have: 68 MB of reply_to."""
    in_some_attempt(ends_of_a_long_queue, 3)  # it leaves them a second to arrive


def ends_of_a_long_queue():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 100000, "--shutdown-grace", 0, "--max-running-requests", 1)
    num = 4096
    for uid in range(1, num + 1):
        scheduler.request(uid, [5] * 4, max_tokens=500, ignore_eos=True, reply_to=bytes(16600))
    while scheduler.stats()["queued"] < num - 1:
        pass
    scheduler.process.send_signal(signal.SIGTERM)
    ended = set()
    while len(ended) < num:
        assert scheduler.detokenizer.socket.poll(scaled(10000)), len(ended)
        frame = scheduler.detokenizer.socket.recv()
        assert len(frame) < 16 << 20, len(frame)
        ended |= {row[0] for row in wire.unpack(frame)["rows"] if row[2]}
    code, _, log = scheduler.stop(None)
    assert code == 0, log


def test_a_detokenizer_that_takes_nothing_stops_the_steps_not_the_process():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 0, "--max-running-requests", 64, "--shutdown-grace", 0.2)
    scheduler.detokenizer.close()
    for uid in range(1, 65):
        scheduler.request(uid, [uid], max_tokens=2000, ignore_eos=True)
    before, deadline = None, time.monotonic() + scaled(PATIENCE)
    while True:
        stats = scheduler.stats()
        if stats["steps"] == before and stats["running"] == 64 and stats["unsent_bytes"] > 0:
            break
        before = stats["steps"]
        assert time.monotonic() < deadline, stats
        time.sleep(0.2)
    assert 0 < stats["steps"] < 1900, stats
    code, _, log = scheduler.stop()
    assert code == 0, log


def test_control():
    scheduler = Scheduler("--device", "sim")
    assert scheduler.control.ask("ping")["ok"]
    scheduler.request(1, list(range(64)), max_tokens=2)
    scheduler.wait(1)
    assert scheduler.stats()["pages"]["cached"] > 0
    assert scheduler.control.ask("flush_cache")["ok"]
    assert scheduler.stats()["pages"]["cached"] == 0
    assert scheduler.control.ask("log_level", level="debug")["ok"]
    assert not scheduler.control.ask("log_level", level="loud")["ok"]
    for command, overlap in (("normal_loop", False), ("overlap_loop", True)):
        assert scheduler.control.ask(command)["ok"]
        assert scheduler.stats()["overlap"] == overlap
    assert not scheduler.control.ask("generate", rid="a", prompt="b")["ok"]
    assert scheduler.control.ask("drain")["ok"]
    assert scheduler.process.wait(timeout=scaled(PATIENCE)) == 0


def test_frames_that_do_not_end_do_not_hold_up_a_drain():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 1000)
    scheduler.request(1, [1], max_tokens=100, ignore_eos=True)
    scheduler.take(scheduler.detokenizer.hear())
    assert scheduler.control.ask("drain")["ok"]
    deadline = time.monotonic() + scaled(PATIENCE)
    while scheduler.process.poll() is None:
        assert time.monotonic() < deadline
        scheduler.input.say("abort", uid=2)
        time.sleep(0.001)
    assert scheduler.process.returncode == 0
    answer = scheduler.wait(1)[0]
    assert (answer["finish"], len(answer["tokens"])) == ("length", 100), answer


def test_invariants_are_walked_on_request():
    scheduler = Scheduler("--device", "sim", "--page-size", 4, "--num-pages", 200, "--max-prefill-length", 32)
    for uid in range(1, 65):
        scheduler.request(uid, list(range(uid % 5, 60 + uid)), max_tokens=20, ignore_eos=True)
    for _ in range(30):
        answer = scheduler.control.ask("check")
        assert answer["ok"], answer
    scheduler.wait(*range(1, 65))
    scheduler.check_empty()
    assert scheduler.stop()[0] == 0


def test_frames_of_another_run_are_dropped():
    scheduler = Scheduler("--device", "sim", "--run", 5)
    scheduler.request(1, [1], run=4)
    scheduler.request(2, [1], run=5, max_tokens=1)
    scheduler.request(3, [1], max_tokens=1)
    scheduler.wait(2, 3)
    assert 1 not in scheduler.answers and scheduler.stats()["frames_dropped"] == 1


def test_trace_shows_the_overlap():
    path = wire.folder() / "trace.json"
    step_us = 10000
    scheduler = Scheduler("--device", "sim", "--sim-step-us", step_us, "--trace", path)
    scheduler.stats()  # it is connected
    with held(scheduler.process.pid):
        for uid in range(1, 5):
            scheduler.request(uid, [uid] * 10, max_tokens=120, ignore_eos=True)
    scheduler.wait(1, 2, 3, 4)
    code, _, log = scheduler.stop()
    assert code == 0, log
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    launched, processed = ({e["args"]["step"]: e for e in events if e["name"] == name} for name in ("launch", "process"))
    ended = {e["args"]["step"]: e["ts"] + e["dur"] for e in events if e["tid"] == 2}
    steps = [k for k in ended if k + 1 in launched and k > 3]
    assert len(steps) > 100, len(steps)
    # The order of calls is the loop's own, whatever else the host does.
    assert all(launched[k + 1]["ts"] < processed[k]["ts"] for k in steps)
    if scaled(1) > 1:
        return  # what follows is about speed
    # A launch that waited for the device would end ahead of no step, and take as long as one. A busy host delays some.
    ahead = sum(launched[k + 1]["ts"] + launched[k + 1]["dur"] < ended[k] for k in steps)
    assert ahead > len(steps) / 10, (ahead, len(steps))
    durations = sorted(e["dur"] for e in launched.values())
    assert durations[len(durations) // 2] < step_us / 2, durations[-10:]


def test_trace_and_stats_tell_the_same():
    """Each request has its span, pages are counted after each step; shares and CPU times in stats are those of the trace."""
    path = wire.folder() / "trace.json"
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 1000, "--num-pages", 64, "--page-size", 4, "--trace", path,
                          env={"MINISGL_DISABLE_OVERLAP_SCHEDULING": "1"})  # fmt: skip
    for uid in range(1, 9):
        scheduler.request(uid, [uid] * 20, max_tokens=50, ignore_eos=True)
    scheduler.request(9, [1] * 300)  # more than there is room for, ever
    scheduler.input.say("abort", uid=8)
    scheduler.wait(*range(1, 10))
    asked_us = time.monotonic_ns() / 1000
    stats = scheduler.stats()
    assert scheduler.stop()[0] == 0
    events = json.loads(path.read_text())["traceEvents"]
    spans = {uid: [e["ph"] for e in events if e.get("id") == str(uid)] for uid in range(1, 10)}
    assert all(spans[uid] == ["b", "n", "e"] for uid in range(1, 8)), spans
    assert spans[9] == ["b", "e"] and spans[8][0] == "b" and spans[8][-1] == "e", spans
    pages = [e["args"] for e in events if e["ph"] == "C"]
    assert len(pages) == stats["steps"] and all(sum(p.values()) == 64 for p in pages), pages[:3]
    told = json.loads(subprocess.check_output([ROOT / "tools/timeline/timeline.py", "--json", path]))[0]
    # Both are sums of the same figures, cut to three and four decimals; only the loop's last turns are in the trace alone.
    received_us = sum(e["dur"] for e in events if e.get("name") == "receive" and e["ts"] + e["dur"] < asked_us)
    at_least = {**told["cpu_us_per_step"], "receive": received_us / told["steps"]}
    for phase, us in stats["cpu_us_per_step"].items():
        assert at_least[phase] - 0.002 < us < told["cpu_us_per_step"][phase] + 0.002, (phase, stats, at_least, told)
    assert stats["queue_empty_share"] > 0, stats
    for share in ("queue_empty_share", "device_idle_share"):
        assert abs(stats[share] - told[share]) < 0.0002, (stats, told)


def replay(path):
    program = wire.BUILD / "scheduler_proc/minisgl-scheduler"
    return subprocess.run([program, "--replay", path], capture_output=True, text=True, timeout=scaled(PATIENCE))


def test_a_recorded_run_replays():
    """With either policy, and with loops changed in its midst: the same steps, bit by bit; what is not so is seen."""
    for policy in ("prefill-first", "mixed"):
        path = wire.folder() / "record"
        options = ["--record", path, "--policy", policy, "--max-prefill-length", 32, "--sim-step-us", 100]
        scheduler = Scheduler("--device", "sim", *options)
        for uid in range(1, 30):
            scheduler.request(uid, [uid % 5] * (uid * 3), max_tokens=uid)
        scheduler.input.say("abort", uid=7)
        for command in ("normal_loop", "overlap_loop"):
            assert scheduler.control.ask(command)["ok"]
        scheduler.wait(*range(1, 30))
        assert scheduler.stop()[0] == 0
        result = replay(path)
        assert result.returncode == 0 and "the same" in result.stdout and "29 requests" in result.stdout, result
        log, codes = path.read_bytes(), []
        for part in range(1, 16):  # some of it changes no step: whose a request is, where its answer goes
            at = len(log) * part // 16
            path.write_bytes(log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :])
            codes.append(replay(path).returncode)
        assert set(codes) <= {0, 1} and codes.count(1) > 5, codes
    result = replay(ROOT / "README.md")
    assert result.returncode == 1 and not result.stdout and "README.md: not a scheduler's log" in result.stderr, result


def test_a_full_disk_ends_trace_and_record_but_not_the_server():
    for option in ("--trace", "--record"):
        scheduler = Scheduler("--device", "sim", "--sim-step-us", 100, option, "/dev/full")
        for uid in range(1, 41):
            scheduler.request(uid, [uid] * 50, max_tokens=50, ignore_eos=True)
            scheduler.wait(uid)
        log = os.read(scheduler.process.stderr.fileno(), 1 << 16).decode()  # while it serves
        assert log.count(f"/dev/full: No space left on device: the {option[2:]} ends here") == 1, log
        scheduler.check_empty()
        code, _, log = scheduler.stop()
        assert code == 1 and "not all of it could be written" in log and "ends here" not in log, (code, log)


def test_a_file_that_may_not_grow_ends_trace_and_record_but_not_the_server():
    """The system says that with a signal, which ends a process that does not care."""
    for option in ("--trace", "--record"):
        path = wire.folder() / "file"
        scheduler = Scheduler("--device", "sim", "--sim-step-us", 0, option, path)
        resource.prlimit(scheduler.process.pid, resource.RLIMIT_FSIZE, (1000, 1000))
        for uid in range(1, 41):
            scheduler.request(uid, [uid] * 50, max_tokens=50, ignore_eos=True)
            scheduler.wait(uid)
        scheduler.check_empty()
        code, _, log = scheduler.stop()
        assert code == 1 and f"{path}: File too large: the {option[2:]} ends here" in log, (code, log)
        assert path.stat().st_size == 1000


def test_a_change_of_loops_changes_no_token():
    """Streams run while the loop is told to change again and again: each token comes once, and none is another."""
    seen = []
    for changes in (0, 200):
        scheduler = Scheduler("--device", "sim", "--sim-step-us", 50)
        for uid in range(1, 21):
            scheduler.request(uid, [uid] * uid, max_tokens=400 + uid, ignore_eos=True)
        for change in range(changes):
            assert scheduler.control.ask(("normal_loop", "overlap_loop")[change % 2])["ok"]
        seen.append([answer["tokens"] for answer in scheduler.wait(*range(1, 21))])
        assert [len(tokens) for tokens in seen[-1]] == [400 + uid for uid in range(1, 21)]
        scheduler.check_empty()
        assert scheduler.stop()[0] == 0
    assert seen[0] == seen[1]


def test_storms_of_requests_and_aborts_leave_nothing_behind():
    seen = {}
    for loop in ("", "1"):
        scheduler = Scheduler("--device", "sim", "--sim-step-us", 0, "--max-running-requests", 16, "--num-pages", 300,
                              "--page-size", 4, "--max-prefill-length", 48,
                              env={"MINISGL_DISABLE_OVERLAP_SCHEDULING": loop})  # fmt: skip
        chance = random.Random(1)

        def storm(uids):
            for uid in uids:
                ids = [uid % 7] * chance.randrange(1, 40) + [uid % 3] * chance.randrange(60)
                scheduler.request(uid, ids, max_tokens=chance.randrange(1, 12), ignore_eos=True)
                if uid % 3 == 0:
                    scheduler.input.say("abort", uid=chance.randrange(max(1, uid - 40), uid + 1))

        scheduler.stats()  # it is connected
        with held(scheduler.process.pid):
            storm(range(1, 501))  # of these many are aborted before they run, however fast it is
        storm(range(501, 2001))
        for uid, answer in enumerate(scheduler.wait(*range(1, 2001)), 1):
            before = seen.setdefault(uid, answer["tokens"])
            shorter = min(len(before), len(answer["tokens"]))
            assert answer["finish"] in ("length", "abort") and before[:shorter] == answer["tokens"][:shorter], uid
            if answer["finish"] == "length":
                seen[uid] = answer["tokens"]
        stats = scheduler.check_empty()
        assert stats["aborted"] > 100 and stats["finished"] > 1000, stats
        assert scheduler.stop()[0] == 0


def test_positions_that_the_model_never_saw_are_warned_of():
    positions = json.loads((DEMO / "config.json").read_text())["max_position_embeddings"]
    for override, warned in ((positions, False), (positions + 1, True)):
        scheduler = Scheduler("--max-seq-len-override", override)
        code, _, log = scheduler.stop()
        assert code == 0 and (f"{override} is beyond" in log and f"{positions}," in log) == warned, log


def test_more_threads_than_processors_are_warned_of():
    processors = os.sysconf("SC_NPROCESSORS_ONLN")
    for threads, warned in ((1, False), (processors + 1, True)):
        code, _, log = Scheduler("--threads", threads).stop()
        assert code == 0 and (f"--threads {threads} is more than the {processors} processors" in log) == warned, log


def test_large_tables_are_told_with_what_makes_them_smaller():
    for running, told in ((4, False), (80, True)):
        options = "--device", "sim", "--max-seq-len-override", 1_000_000, "--num-pages", 65536
        scheduler = Scheduler(*options, "--max-running-requests", running)
        code, _, log = scheduler.stop()
        assert code == 0 and ("tables for 80 requests of 1000000 tokens" in log) == told, log


def test_nan_logits_end_the_request_that_has_them():
    model = wire.folder() / "model"
    shutil.copytree(TINY / "llama", model)
    data = bytearray((model / "model.safetensors").read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8 : 8 + size])["model.embed_tokens.weight"]
    row = 8 + size + entry["data_offsets"][0] + 77 * entry["shape"][1] * 2
    data[row : row + 2] = b"\xc0\x7f"  # a bfloat16 NaN
    (model / "model.safetensors").write_bytes(data)
    scheduler = Scheduler("--page-size", 4, "--max-prefill-length", 16, model=model)
    scheduler.request(1, [5, 6, 7], max_tokens=50, ignore_eos=True)
    others = range(2, 22)
    for uid in others:
        scheduler.request(uid, [5, 6, 7, 8, 77] * (2 + uid % 2), max_tokens=5)
    one, *bad = scheduler.wait(1, *others)
    assert all(answer["finish"] == "error" and answer["error"] == "internal" for answer in bad), bad
    assert one["finish"] == "length" and len(one["tokens"]) == 50
    scheduler.check_empty()
    code, _, log = scheduler.stop()
    assert code == 0 and 1 <= log.count("NaN") < 10, log  # a line per second at most


def test_a_step_that_hangs_ends_the_process_by_name():
    scheduler = Scheduler("--device", "sim", "--sim-step-us", 60_000_000, "--step-timeout", 1)
    scheduler.request(1, [5, 6, 7])
    code, _, log = scheduler.stop(number=None)
    assert code == 1 and "--step-timeout" in log.splitlines()[-1], (code, log)


def test_weights_that_are_cut_while_in_use_are_named():
    model = wire.folder() / "model"
    shutil.copytree(TINY / "llama", model)
    scheduler = Scheduler(model=model)
    os.truncate(model / "model.safetensors", 8)
    scheduler.request(1, [5, 6, 7])
    code, _, log = scheduler.stop(number=None)
    assert code == -signal.SIGBUS and "a file of the model was cut" in log, (code, log)


def test_start_fails_by_name():
    path = wire.folder()
    program = wire.BUILD / "scheduler_proc/minisgl-scheduler"
    sockets = ["--endpoint", f"ipc://{path}/s", "--detokenizer", f"ipc://{path}/d"]

    def start(model, *options):
        result = subprocess.run(
            [program, "--model", model, *sockets, *options], capture_output=True, text=True, timeout=scaled(PATIENCE)
        )
        return result.returncode, result.stderr

    def broken(name, **files):
        model = path / name
        shutil.copytree(TINY / "qwen3", model)
        for file, text in files.items():
            file = {"index": "model.safetensors.index.json", "config": "config.json"}.get(file, file)
            if text is None:
                (model / file).unlink()
            else:
                (model / file).write_text(text)
        return model

    config = (TINY / "qwen3/config.json").read_text()
    untied = path / "untied"
    shutil.copytree(TINY / "qwen2", untied)
    tied = (untied / "config.json").read_text()
    (untied / "config.json").write_text(tied.replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    for model, wanted in (
        (path / "nothing", "config.json"),
        (broken("shard", **{"model-00002-of-00003.safetensors": None}), "model-00002-of-00003.safetensors"),
        (broken("lfs", **{"model-00001-of-00003.safetensors": "version https://git-lfs.github.com/spec/v1\n"}), "LFS"),
        (broken("nan", config=config.replace('"vocab_size": 320', '"vocab_size": NaN')), "config.json"),
        (broken("heads", config=config.replace('"num_attention_heads": 4', '"num_attention_heads": 0')),
         "num_attention_heads"),
        (untied, "lm_head.weight"),
        (broken("deep", config="[" * 5000000), "config.json"),
    ):  # fmt: skip
        code, log = start(model)
        assert code == 1 and wanted in log and len(log.splitlines()) == 1, (code, log, wanted)
    code, log = start(DEMO, "--page-size", "0")
    assert code == 2 and "--page-size" in log, (code, log)
    code, log = start(DEMO, "--max-running-requests", "4097")
    assert code == 2 and "--max-running-requests" in log and "4096" in log, (code, log)
    code, log = start(DEMO, "--num-pages", "70000000")
    assert code == 2 and "--num-pages" in log and "67108862" in log, (code, log)
    code, log = start(DEMO, "--num-pages", "4", "--page-size", "16", "--endpoint", "bad://")
    assert code == 1, (code, log)


if __name__ == "__main__":
    sys.exit(wire.run(globals()))
