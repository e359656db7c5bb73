"""Loads that make requests wait for one another: the text is the one that each has alone, and no page is lost."""

import collections
import json
import random
import sys
import tempfile

from cases import CPU32, PROMPT, SIM, Client, Refused, collect, held, is_idle, pool_check, refusal, start_all
from server import Server, run

FAST = [*SIM, "--sim-step-us", 50]
KEYS = {"ignore_eos": True, "want_ids": True}
ROOMY = [*FAST, "--num-pages", 4096, "--page-size", 16]


def prompt_of(seed, length):
    return [random.Random(seed).randrange(3, 1700) for _ in range(length)]


def reference(requests, *options):
    """Each alone, with room, without cache."""
    with Server(*(options or ROOMY), "--cache-type", "naive") as server, Client(server.run_dir) as client:
        return [client.generate(**request)["ids"] for request in requests]


def ids_of(answers):
    return [answer["ids"] for answer in answers]


def test_sch_06_a_heavy_head_is_served():
    """First come, first served: 20 light ones wait behind a head that needs 60 % of the pool, and all end."""
    options = [*SIM, "--sim-step-us", 20000, "--num-pages", 100, "--page-size", 16]
    with Server(*options) as server, Client(server.run_dir) as client:
        half, _ = client.start(input_ids=prompt_of(1, 10), max_tokens=790, **KEYS)  # 16 s, unless it is aborted
        next(client.stream(half))
        head = client.send("generate", input_ids=prompt_of(2, 930), max_tokens=30, **KEYS)
        light = [client.send("generate", input_ids=prompt_of(n, 20), max_tokens=5, **KEYS) for n in range(3, 23)]
        status = server.wait_status(lambda status: status["scheduler"]["queued"] + status["scheduler"]["running"] == 22)
        assert (status["scheduler"]["queued"], status["scheduler"]["running"]) == (21, 1), status
        client.send("abort", target=half)
        ends = {half: client.whole(half)}
        assert ends[half]["finish"] == "abort"
        for rid in [head, *light]:
            client.answer(rid)
            ends[rid] = client.whole(rid)
        assert ends[half]["first_token_ns"] < ends[head]["first_token_ns"]
        # None passes the head, and none waits for its end: they run beside it.
        assert all(ends[head]["first_token_ns"] <= ends[rid]["first_token_ns"] for rid in light)
        assert all(ends[rid]["last_token_ns"] < ends[head]["last_token_ns"] for rid in light)
        pool_check(server)


def test_sch_07_a_stream_goes_on_while_prompts_come():
    """prefill-first: eight chunks at most pass a stream; mixed: none does. The trace tells, whatever the host's clock does."""
    for policy in ("prefill-first", "mixed"):
        options = [*SIM, "--sim-step-us", 5000, "--max-prefill-length", 256, "--policy", policy, "--num-pages", 8192]
        with tempfile.NamedTemporaryFile(suffix=".json") as trace, Server(*options, "--trace", trace.name) as server:
            with Client(server.run_dir) as client:
                with held(server.pid("scheduler")):
                    stream, _ = client.start(input_ids=prompt_of(1, 10), max_tokens=60, **KEYS)
                    others = [client.start(input_ids=prompt_of(n, 1500), max_tokens=1, **KEYS)[0] for n in range(2, 12)]
                assert client.whole(stream)["completion_tokens"] == 60
                for rid in others:
                    client.whole(rid)
                server.wait_status(is_idle)
            server.stop()
            kinds = [event["name"] for event in json.load(trace)["traceEvents"] if event.get("tid") == 2 and event["ph"] == "X"]
        chunks = max(len(run) for run in "".join(kind[0] for kind in kinds).split("d"))
        assert kinds.count("prefill") > 50, kinds  # 15,000 tokens
        if policy == "mixed":
            assert len(kinds) < 90, kinds  # not 60 of the stream beside as many of the prompts
        else:
            assert chunks <= 8 + 1, kinds  # its own is one of the first


def test_sch_10_one_request_against_the_pool():
    with Server(*FAST, "--num-pages", 64, "--page-size", 4) as server, Client(server.run_dir) as client:
        for length, max_tokens in ((10, 5000), (250, 7), (250, 6), (250, 100), (255, 1), (256, 1), (256, 5), (300, 1)):
            try:
                answer = client.generate(input_ids=[7] * length, max_tokens=max_tokens, **KEYS)
                assert answer["finish"] == "length"
                assert 1 <= answer["completion_tokens"] <= max_tokens
                assert length + answer["completion_tokens"] <= 64 * 4 + 1, (length, answer)
            except Refused as error:
                assert error.code == "too_long" and length >= 256, (length, error)
                assert str(length) in error.message and "25" in error.message, error
        pool_check(server)


def test_sch_14_late_admission_behind_a_shared_prefix():
    shared = prompt_of(0, 96)
    requests = [{"input_ids": shared + prompt_of(n, 5 + n), "max_tokens": 80, **KEYS} for n in range(1, 9)]
    alone = reference(requests)
    for page, policy in ((16, "prefill-first"), (4, "mixed"), (1, "mixed")):
        pages = 18 * 16 // page  # one request and a half
        options = [*FAST, "--num-pages", pages, "--page-size", page, "--policy", policy, "--max-prefill-length", 40]
        with Server(*options) as server, Client(server.run_dir) as client:
            for _ in range(2):
                answers = start_all(client, requests)
                assert ids_of(answers) == alone, (page, policy)
                for request, answer in zip(requests, answers):
                    assert answer["prompt_tokens"] == len(request["input_ids"])
                    assert answer["completion_tokens"] == 80
            assert any(answer["cached_tokens"] >= 64 for answer in answers)
            pool_check(server)


def wave_of(rng, size):
    """So many requests, of which one ends with each step; then a prompt of as many chunks of 64 tokens: the next wave comes behind it."""
    lengths = rng.sample(range(1, size + 1), size)
    wave = [{"input_ids": prompt_of(rng.random(), 1), "max_tokens": length, **KEYS} for length in lengths]
    return [*wave, {"input_ids": prompt_of(rng.random(), 64 * size), "max_tokens": 1, **KEYS}]


def steps_of(trace):
    """The rows of each step, and the share of the steps that were launched before the one before them was processed."""
    events = [event for event in json.load(trace)["traceEvents"] if event["ph"] == "X"]
    rows = [event["args"]["rows"] for event in events if event["tid"] == 2]
    launched, processed = ({e["args"]["step"]: e["ts"] for e in events if e["name"] == name} for name in ("launch", "process"))
    return rows, sum(launched[step + 1] < processed[step] for step in processed if step + 1 in launched) / len(rows)


def total_of(status):
    """How many requests the scheduler has taken so far."""
    return sum(status["scheduler"][key] for key in ("queued", "running", "finished", "aborted"))


def test_ovl_03_batches_of_changing_size():
    """10,000 steps that are larger or smaller than the one before, with either loop: no text depends on the loop.

    All of a lot is queued before its first step, so which sizes there are does not depend on how fast it is sent.
    """
    rng = random.Random(3)
    lots = [sum((wave_of(rng, size) for size in [1, 7, 64, 3, 30, 2, 17, 64, 1, 5] * 6), []) for _ in range(10)]
    options = [*ROOMY, "--max-seq-len-override", 65536, "--max-prefill-length", 64]
    seen = {}
    for overlap in ("0", "1"):
        env = {"MINISGL_DISABLE_OVERLAP_SCHEDULING": overlap}
        with tempfile.NamedTemporaryFile(suffix=".json") as trace, Server(*options, "--trace", trace.name, env=env) as server:
            with Client(server.run_dir) as client:
                assert server.status()["scheduler"]["overlap"] == (overlap == "0")
                seen[overlap], num_sent = [], 0
                for lot in lots:
                    # All pages are a gate's own: the others wait. Several, one behind the other, hold as long as any host needs.
                    gates = [client.start(input_ids=[5], max_tokens=65536, **KEYS)[0] for _ in range(8)]
                    rids = [client.send("generate", **request) for request in lot]
                    num_sent += len(gates) + len(lot)
                    server.wait_status(lambda status: total_of(status) == num_sent)
                    for gate in gates:
                        client.send("abort", target=gate)
                    assert [client.whole(gate)["finish"] for gate in gates][-1] == "abort"
                    seen[overlap] += ids_of(collect(client, rids))
                pool_check(server)
            server.stop()
            steps, ahead = steps_of(trace)
            changes = sum(a != b for a, b in zip(steps, steps[1:]))
            print(f"{len(steps)} steps, {changes} of another size than the one before, {ahead:.2%} launched ahead", flush=True)
            assert changes > 10000
            assert ahead > 0.9 if overlap == "0" else ahead == 0
    assert seen["0"] == seen["1"]


def test_rad_02_prompts_of_whole_pages_twice():
    with Server(*CPU32, "--page-size", 16) as server, Client(server.run_dir) as client:
        for pages in (1, 2, 3):
            request = {"input_ids": prompt_of(pages, 16 * pages), "max_tokens": 20, **KEYS}
            cold, warm = client.generate(**request), client.generate(**request)
            assert cold["ids"] == warm["ids"] and cold["cached_tokens"] == 0
            assert 16 * (pages - 1) <= warm["cached_tokens"] < 16 * pages, warm
        pool_check(server)


def test_rad_03_short_prompts_then_a_long_one():
    with Server(*FAST, "--page-size", 16, "--num-pages", 64) as server, Client(server.run_dir) as client:
        short = [{"input_ids": prompt_of(n, 17), "max_tokens": 2, **KEYS} for n in range(100)]
        long = {"input_ids": prompt_of(1000, 900), "max_tokens": 60, **KEYS}
        alone = reference([*short[:5], long])
        assert ids_of(start_all(client, short))[:5] == alone[:5]
        assert server.status()["scheduler"]["pages"]["cached"] >= 25
        assert client.generate(**long)["ids"] == alone[-1]
        assert ids_of(start_all(client, short))[:5] == alone[:5]
        pool_check(server)


def test_rad_05_a_stream_while_others_force_eviction():
    stream = {"input_ids": prompt_of(1, 60), "max_tokens": 500, **KEYS}
    (alone,) = reference([stream])
    with Server(*FAST, "--page-size", 4, "--num-pages", 256) as server, Client(server.run_dir) as client:
        client.generate(**{**stream, "max_tokens": 1})  # the prefix is in the tree, the stream locks it
        rid, _ = client.start(**stream)
        others = [{"input_ids": prompt_of(n, 30), "max_tokens": 2, **KEYS} for n in range(10, 510)]
        others[100:100] = [{**stream, "max_tokens": 3}]
        answers = start_all(client, others)
        assert all(answer["finish"] == "length" for answer in answers)
        assert client.whole(rid)["ids"] == alone
        assert answers[100]["ids"] == alone[:3]
        pool_check(server)


def test_rad_06_a_row_is_used_again():
    first, second = ({"input_ids": prompt_of(n, 50), "max_tokens": 30, **KEYS} for n in (1, 2))
    options = [*CPU32, "--page-size", 4]
    with Server(*options, "--cache-type", "naive") as server, Client(server.run_dir) as client:
        off = [client.generate(**r)["ids"] for r in (first, second)]
    with Server(*options, "--max-running-requests", 1) as server, Client(server.run_dir) as client:
        for _ in range(2):
            assert [client.generate(**r)["ids"] for r in (first, second)] == off
        assert client.generate(**first)["cached_tokens"] > 40
        pool_check(server)


def test_rad_08_partial_matches():
    base = prompt_of(1, 320)
    for cut in (160, 163, 159):  # on a page's border, behind it, before it
        forks = [{"input_ids": base[:cut] + prompt_of(n, 320 - cut), "max_tokens": 4, **KEYS} for n in (7, 8, 9)]
        requests = [{"input_ids": base, "max_tokens": 4, **KEYS}, *forks]
        alone = reference(requests)
        with Server(*FAST, "--page-size", 16, "--num-pages", 256) as server, Client(server.run_dir) as client:
            one_by_one = [client.generate(**request) for request in requests]
            assert ids_of(one_by_one) == ids_of(start_all(client, requests)) == alone
            assert [a["cached_tokens"] for a in one_by_one] == [0] + [cut // 16 * 16] * 3
            pool_check(server)


def test_rad_09_cold_warm_alone_and_in_company():
    with Server(*CPU32, "--page-size", 4) as server, Client(server.run_dir) as client:
        request = {"prompt": PROMPT + " there was a dog", "max_tokens": 25, **KEYS}
        cold = client.generate(**request)["ids"]
        for _ in range(20):
            assert client.generate(**request)["ids"] == cold
        company = [{"prompt": f"{PROMPT} number {n}", "max_tokens": 20, **KEYS} for n in range(31)]
        company.insert(13, request)
        assert start_all(client, company)[13]["ids"] == cold
        pool_check(server)


def test_chk_01_02_06_prompts_around_a_chunk():
    lengths = (63, 64, 65, 70, 127, 128, 129, 192)
    requests = [{"input_ids": prompt_of(n, n), "max_tokens": 8, **KEYS} for n in lengths]
    stream = {"input_ids": prompt_of(1, 9), "max_tokens": 200, **KEYS}
    whole = [*CPU32, "--page-size", 1, "--max-prefill-length", 8192]
    alone = reference([*requests, stream], *whole)
    for cache in ("radix", "naive"):
        for policy in ("prefill-first", "mixed"):
            options = [*CPU32, "--page-size", 1, "--max-prefill-length", 64, "--cache-type", cache, "--policy", policy]
            with Server(*options) as server, Client(server.run_dir) as client:
                rid, _ = client.start(**stream)  # decodes beside them
                for request, ids in zip(requests, alone):
                    answer = client.generate(**request)
                    assert answer["ids"] == ids and answer["completion_tokens"] == 8, (cache, policy, answer)
                assert client.whole(rid)["ids"] == alone[-1]
                pool_check(server)


def test_chk_04_a_prompt_of_20_chunks_twice():
    request = {"input_ids": prompt_of(4, 640), "max_tokens": 5, **KEYS}
    with Server(*FAST, "--max-prefill-length", 32, "--page-size", 8) as server, Client(server.run_dir) as client:
        cold = client.generate(**request)
        steps = server.status()["scheduler"]["steps"]
        warm = client.generate(**request)
        assert steps >= 20 + 4 and cold["ids"] == warm["ids"]
        assert cold["cached_tokens"] == 0 and warm["cached_tokens"] >= 632, warm
        assert server.status()["scheduler"]["steps"] - steps <= 8
        pool_check(server)


def test_res_02_all_ends_mixed():
    """10,000 requests: a third aborted, a third stopped, a third at its limit, prefixes shared, a pool that is always full."""
    rng = random.Random(5)
    prefixes = [prompt_of(n, 40) for n in range(4)]
    options = [*FAST, "--num-pages", 200, "--page-size", 4, "--max-prefill-length", 50]
    ends = collections.Counter()
    with Server(*options) as server, Client(server.run_dir) as client:
        running, doomed = [], []
        for number in range(10000):
            prompt = rng.choice(prefixes)[: rng.randint(1, 40)] + prompt_of(rng.random(), rng.randint(1, 10))
            keys = {"input_ids": prompt, "max_tokens": rng.randint(1, 30)}
            if number % 3 == 0:
                keys.update(max_tokens=200, ignore_eos=True)
            elif number % 3 == 1:
                keys["stop_token_ids"] = [rng.randrange(2048) for _ in range(64)]
                keys["stop"] = ["e", "a", "\n"]
            running.append(client.send("generate", **keys))
            if number % 3 == 0:
                doomed.append(running[-1])
            if len(doomed) > rng.randint(1, 9):
                client.send("abort", target=doomed.pop(rng.randrange(len(doomed))))
            if len(running) > 60:  # some run, the others wait
                ends.update(answer["finish"] for answer in collect(client, running[:20]))
                del running[:20]
        ends.update(answer["finish"] for answer in collect(client, running))
        print(dict(ends), flush=True)
        assert ends.keys() == {"stop", "length", "abort"} and min(ends.values()) > 2000, ends
        pool_check(server)


def test_a_full_queue_refuses_and_recovers():
    options = [*SIM, "--max-queued", 10, "--max-running-requests", 2, "--sim-step-us", 5000]
    with Server(*options) as server, Client(server.run_dir) as client:
        answers = start_all(client, [{"prompt": PROMPT, "max_tokens": 20, "ignore_eos": True}] * 100)
        refused = [a for a in answers if isinstance(a, Refused)]
        assert refused and all(a.code == "overloaded" and "10" in a.message for a in refused), refused[:1]
        assert all(a["completion_tokens"] == 20 for a in answers if not isinstance(a, Refused))
        assert len(answers) - len(refused) >= 10
        assert refusal(client.generate, prompt=PROMPT, max_tokens=0).code == "invalid_request"
        pool_check(server)


if __name__ == "__main__":
    sys.exit(run(globals()))
