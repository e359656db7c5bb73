"""Requests that somebody ends, clients that go, frames that are none: nothing stays behind, nothing comes late."""

import json
import random
import sys
import time

import msgpack
import zmq
from cases import PROMPT, SIM, SLACK, Client, collect, held, is_idle, pool_check, wait_until
from server import Server, run

LONG = {"prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True}
SLOW = [*SIM, "--sim-step-us", 20000]  # 38 s for a long one: whoever waits for its end waits too long


def test_sch_13_after_200_aborts_the_next_starts_at_once():
    with Server(*SLOW, "--num-pages", 256) as server, Client(server.run_dir) as client:
        rids = [client.send("generate", **LONG) for _ in range(200)]
        for rid in rids:
            client.send("abort", target=rid)
        for answer in collect(client, rids):
            assert answer["finish"] == "abort", answer
        began = time.monotonic()
        assert client.generate(prompt=PROMPT, max_tokens=1, ignore_eos=True)["finish"] == "length"
        assert time.monotonic() - began < 20 * SLACK
        pool_check(server)


def test_abt_01_clients_that_go_at_the_fifth_token():
    with Server(*SIM, "--sim-step-us", 5000, "--max-seq-len-override", 5000) as server:
        for _ in range(20):
            with Client(server.run_dir) as client:
                rid, _ = client.start(prompt=PROMPT, max_tokens=4000, ignore_eos=True)
                stream = client.stream(rid)
                for _ in range(5):
                    next(stream)
        server.wait_status(is_idle)
        for process in ("scheduler", "detokenizer", "tokenizer"):
            assert len(server.log(process).splitlines()) <= 20 + 5, server.log(process)
        status = pool_check(server)
        assert status["scheduler"]["aborted"] == 20
        assert status["scheduler"]["decode_tokens"] < 20 * 4000


def test_abt_02_a_client_that_goes_and_asked_for_no_stream():
    with Server(*SLOW) as server:
        with Client(server.run_dir) as client:
            client.start(**LONG, stream=False)
            time.sleep(1)
            assert server.status()["scheduler"]["running"] == 1, server.status()
        server.wait_status(is_idle)
        assert server.status()["scheduler"]["aborted"] == 1
        pool_check(server)


def detokenizer_stats(server):
    with zmq.Context() as context, context.socket(zmq.REQ) as control:
        control.connect(server.endpoint("detokenizer_control"))
        control.send(msgpack.packb({"type": "stats", "v": 1}))
        return json.loads(msgpack.unpackb(control.recv())["info"])


def test_what_was_on_its_way_when_its_client_went_is_not_computed():
    """The client's end overtakes requests that the scheduler has not read: the first of them to run ends all. Two at a time would
    take some 300 steps to begin."""
    options = [*SIM, "--sim-step-us", 50000, "--max-running-requests", 2]
    with Server(*options) as server:
        with held(server.pid("scheduler")):
            with Client(server.run_dir) as client:
                for _ in range(300):
                    client.start(**LONG)
            wait_until(lambda: detokenizer_stats(server)["clients"] == 0)
        status = server.wait_status(is_idle)
        assert status["scheduler"]["aborted"] == 300 and status["scheduler"]["steps"] < 100, status
        pool_check(server)


def test_abt_03_and_06_queued_requests():
    options = [*SLOW, "--max-running-requests", 1]
    with Server(*options) as server, Client(server.run_dir) as client, Client(server.run_dir) as other:
        first, _ = client.start(**LONG)
        second, _ = client.start(**LONG)
        third, third_uid = client.start(**LONG)
        fourth, _ = client.start(prompt=PROMPT, max_tokens=3, ignore_eos=True)
        client.ask("abort", target=second)
        other.ask("abort", uid=third_uid)  # from a second client
        for rid in (second, third):
            told = client.whole(rid)
            assert told["finish"] == "abort" and told["completion_tokens"] == 0 and not told["text"], told
        # They were told while the first one ran, which none of it has disturbed.
        status = server.status()["scheduler"]
        assert (status["running"], status["queued"], status["aborted"]) == (1, 1, 2), status
        client.ask("abort", target=first)
        ended = client.whole(first)
        assert ended["finish"] == "abort" and ended["completion_tokens"] > 0, ended
        assert client.whole(fourth)["completion_tokens"] == 3
        status = pool_check(server)
        assert status["scheduler"]["aborted"] == 3


def test_abt_06_a_running_one_from_another_client():
    with Server(*SLOW) as server, Client(server.run_dir) as client, Client(server.run_dir) as other:
        rid, uid = client.start(**LONG)
        next(client.stream(rid))
        other.ask("abort", uid=uid)
        last = client.whole(rid)
        assert last["finish"] == "abort" and last["completion_tokens"] >= 1, last
        pool_check(server)


def test_ovl_01_and_04_aborts_in_flight():
    random.seed(1)
    with Server(*SIM, "--sim-step-us", 5000, "--num-pages", 64, "--page-size", 4) as server, Client(server.run_dir) as client:
        ended, late, take = set(), [], client.take_reply

        def watch(message):
            for delta in message.get("deltas", []):
                if delta["rid"] in ended:
                    late.append(delta)
                if delta.get("finish"):
                    ended.add(delta["rid"])
            take(message)

        client.take_reply = watch
        for _ in range(100):  # 2,000 in all
            rids = []
            for _ in range(20):
                tokens = random.randint(1, 3)
                rids.append(client.send("generate", input_ids=[random.randint(5, 9)] * 6, max_tokens=tokens))
            for rid in random.sample(rids, 14):
                time.sleep(random.random() * 0.002)
                client.send("abort", target=rid)
            for answer in collect(client, rids):
                assert answer["finish"] in ("length", "abort", "stop"), answer
                assert answer["completion_tokens"] <= 3
        client.pump(0.3)
        assert not late, late
        status = pool_check(server)
        assert status["scheduler"]["aborted"] > 50 < status["scheduler"]["finished"]


def test_ipc_05_nesting_and_garbage():
    with Server(*SIM) as server, Client(server.run_dir) as client:

        def answer(message):
            client.front.send(msgpack.packb({"type": "generate", "v": 1, **message}))
            client.wait(lambda: client.answers[message["rid"]])
            return client.answers[message["rid"]].pop()

        for number, text in enumerate(("[" * 100000, '[{"a":' * 50000, '{"role":"user","content":' * 20000)):
            refused = answer({"rid": f"deep{number}", "messages": text})
            assert refused["type"] == "error" and refused["code"] == "invalid_request", refused
            assert "messages" in refused["message"], refused
        deep = b"\x84" + b"".join(msgpack.packb(x) for x in ("type", "generate", "v", 1, "rid", "deep", "x"))
        endless = (b"\xdf\xff\xff\xff\xff", b"\x81\xa4type\xdb\xff\xff\xff\xff")
        for bad in (b"\x91" * 100000, deep + b"\x91" * 100000 + b"\xc0", *endless):
            client.front.send(bad)
            client.reply.send(bad)
        template = [{"role": "user", "content": "x" * 10}]
        refused = answer({"rid": "kw", "messages": '[{"role":"user","content":"a"}]', "kwargs": "[" * 100000})
        assert refused["type"] == "error" and "kwargs" in refused["message"], refused
        assert client.generate(messages=template, max_tokens=2, ignore_eos=True)["finish"] == "length"
        pool_check(server)


if __name__ == "__main__":
    sys.exit(run(globals()))
