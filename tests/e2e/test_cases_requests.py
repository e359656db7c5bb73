"""Requests at the edge of what is allowed, and beyond it: each is answered by name and disturbs nobody."""

import json
import struct
import sys
import tempfile

import msgpack
import zmq
from cases import CPU32, PROMPT, SIM, Client, model_copy, pool_check, refusal, start_all, token_ids
from server import DATA, Server, run

TINY = DATA / "tiny_models"


def test_sch_01_empty_prompts():
    with Server(*SIM) as server, Client(server.run_dir) as client:
        for keys in ({"prompt": ""}, {"input_ids": []}, {"input_ids": b""}, {"messages": []}):
            error = refusal(client.generate, **keys)
            assert error.code == "invalid_request" and next(iter(keys)) in error.message, error
            assert client.generate(prompt=PROMPT, max_tokens=2, ignore_eos=True)["finish"] == "length"
        pool_check(server)


def test_sch_02_prompts_at_the_limit():
    with Server(*SIM, "--max-seq-len-override", 512) as server, Client(server.run_dir) as client:
        assert client.info()["max_seq_len"] == 512
        for length in (513, 512):
            error = refusal(client.generate, input_ids=[7] * length, max_tokens=5)
            assert error.code == "too_long"
            assert str(length) in error.message and ("511" in error.message or "512" in error.message), error
        one = client.generate(input_ids=[7] * 511, max_tokens=5, ignore_eos=True, want_ids=True)
        assert one["finish"] == "length" and len(one["ids"]) == one["completion_tokens"] == 1
        pool_check(server)


def test_sch_04_odd_max_tokens():
    with Server(*SIM, "--sim-step-us", 100, "--max-seq-len-override", 300) as server, Client(server.run_dir) as client:
        for wrong in (0, -1, -5, 10**18, 1e18, 3.5, 3.0, "10", [10], True, 2**31, 2**64 - 1, -(2**63)):
            error = refusal(client.generate, prompt=PROMPT, max_tokens=wrong)
            assert error.code == "invalid_request" and "max_tokens" in error.message, (wrong, error)
        giant = client.generate(prompt=PROMPT, max_tokens=2**31 - 1, ignore_eos=True)
        assert giant["finish"] == "length"
        assert giant["prompt_tokens"] + giant["completion_tokens"] == 300, giant
        pool_check(server)


def test_sch_09_each_of_several_end_ids_ends():
    keys = {"prompt": PROMPT, "max_tokens": 60, "want_ids": True}
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        whole = client.generate(**keys, ignore_eos=True)
    ends = whole["ids"][25]
    cut_ids = whole["ids"][: whole["ids"].index(ends) + 1]
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder, generation_config={"eos_token_id": [1790, ends]})
        with Server(*CPU32, model=model) as server, Client(server.run_dir) as client:
            cut = client.generate(**keys)
            assert cut["finish"] == "stop" and cut["ids"] == cut_ids, cut
            assert whole["text"].startswith(cut["text"]) and cut["completion_tokens"] == len(cut_ids)
            assert client.generate(**keys, ignore_eos=True)["ids"] == whole["ids"]
            chat = client.generate(messages=[{"role": "user", "content": "Hello"}], max_tokens=200, want_ids=True)
            assert chat["finish"] == "stop" and chat["ids"][-1] in (1790, ends), chat
            pool_check(server)


def test_sch_09_the_tokenizers_own_end_token_ends():
    ends = {"eos_token_id": 1788}
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder, config=ends, generation_config=ends)  # tokenizer_config.json says <|im_end|>
        with Server(*CPU32, model=model) as server, Client(server.run_dir) as client:
            chat = client.generate(messages=[{"role": "user", "content": "Hello"}], max_tokens=200, want_ids=True)
            assert chat["finish"] == "stop" and chat["ids"][-1] == 1790, chat
            assert "<|" not in chat["text"]
            pool_check(server)


def test_sch_09_the_marker_is_not_in_the_text():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        answer = client.generate(messages=[{"role": "user", "content": "Hello"}], max_tokens=200, want_ids=True)
        assert answer["finish"] == "stop" and answer["ids"][-1] == 1790
        assert answer["text"] and "<|" not in answer["text"], answer
        shown = client.generate(
            messages=[{"role": "user", "content": "Hello"}], max_tokens=200, skip_special=False, want_ids=True
        )
        assert shown["ids"] == answer["ids"]
        pool_check(server)


def test_sch_11_one_uid_twice():
    with Server(*SIM, "--sim-step-us", 5000) as server, Client(server.run_dir) as client:
        keys = {"prompt": PROMPT, "ignore_eos": True, "want_ids": True}
        alone = client.generate(**keys, max_tokens=100)["ids"]
        rid, uid = client.start(rid="first", **keys, max_tokens=1900)  # 9.5 s
        client.wait(lambda: client.deltas[rid])
        push = client.context.socket(zmq.PUSH)
        push.connect(f"ipc://{server.run_dir}/scheduler.ipc")
        twin = {
            "type": "request", "v": 1, "run": server.ready["run"], "uid": uid, "client": client.identity,
            "input_ids": struct.pack("<3i", 9, 8, 7), "max_tokens": 50, "seed": 1, "temperature": 0.0, "top_k": 0,
            "top_p": 1.0, "min_p": 0.0, "ignore_eos": True,
            "reply_to": msgpack.packb({"client": client.identity, "rid": "second"}),
        }  # fmt: skip
        push.send(msgpack.packb(twin))
        error = refusal(lambda: list(client.stream("second")))
        assert error.code == "invalid_request" and "uid" in error.message, error
        client.wait(lambda: sum(len(token_ids(delta["ids"])) for delta in client.deltas[rid]) >= 100)
        client.ask("abort", target=rid)
        first = client.whole(rid)
        assert first["ids"][:100] == alone and first["completion_tokens"] == len(first["ids"])
        pool_check(server)


def test_one_rid_twice_is_two_requests():
    with Server(*SIM, "--sim-step-us", 1000) as server, Client(server.run_dir) as client:
        first = client.start(rid="same", prompt=PROMPT, max_tokens=3, ignore_eos=True)
        list(client.stream("same"))
        second = client.start(rid="same", prompt=PROMPT, max_tokens=3, ignore_eos=True)
        assert first[1] != second[1] and client.whole("same")["finish"] == "length"
        pool_check(server)


def test_smp_01_tiny_temperatures():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        keys = {"prompt": PROMPT, "max_tokens": 40, "want_ids": True, "seed": 7}
        greedy = client.generate(**keys, temperature=0)
        for tiny in (1e-4, 1e-5, 1e-30, 5e-324):
            assert client.generate(**keys, temperature=tiny)["ids"] == greedy["ids"], tiny
        pool_check(server)


def test_smp_03_odd_top_k():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        keys = {"prompt": PROMPT, "max_tokens": 40, "want_ids": True, "seed": 11, "temperature": 1.5}
        off = client.generate(**keys)["ids"]
        for same in (9999999, 0, -1, 2**31 - 1):
            assert client.generate(**keys, top_k=same)["ids"] == off, same
        greedy = client.generate(prompt=PROMPT, max_tokens=40, want_ids=True)["ids"]
        assert client.generate(**keys, top_k=1)["ids"] == greedy != off
        for wrong in (0.01, -2, "5", 2**31):
            error = refusal(client.generate, **keys, top_k=wrong)
            assert error.code == "invalid_request" and "top_k" in error.message, (wrong, error)
        pool_check(server)


def test_smp_04_odd_top_p():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        # A temperature of 100 makes the distribution flat, one of 0.5 peaked.
        for temperature in (0.5, 100):
            keys = {"prompt": PROMPT, "max_tokens": 40, "want_ids": True, "seed": 3, "temperature": temperature}
            off = client.generate(**keys)["ids"]
            assert client.generate(**keys, top_p=1)["ids"] == client.generate(**keys, top_p=1.0)["ids"] == off
            greedy = client.generate(prompt=PROMPT, max_tokens=40, want_ids=True)["ids"]
            for tiny in (0, 1e-9, 1e-300):
                assert client.generate(**keys, top_p=tiny)["ids"] == greedy, (temperature, tiny)
        for key, wrong in (("top_p", 1.5), ("top_p", -0.1), ("min_p", 1.1), ("min_p", -1), ("temperature", 101)):
            error = refusal(client.generate, prompt=PROMPT, **{key: wrong})
            assert error.code == "invalid_request" and key in error.message, (key, wrong, error)
        pool_check(server)


def test_smp_05_and_07_company_and_seeds():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        base = {"max_tokens": 30, "ignore_eos": True, "want_ids": True}
        greedy = [{**base, "prompt": f"{PROMPT} number {n}"} for n in range(8)]
        sampled = [{**base, "prompt": f"{PROMPT} number {n}", "temperature": 1.0, "seed": n + 1} for n in range(8)]
        alone = [client.generate(**keys)["ids"] for keys in greedy + sampled]
        mixed = [keys for pair in zip(greedy, sampled) for keys in pair]
        company = [answer["ids"] for answer in start_all(client, mixed)]
        assert company[0::2] == alone[:8], "greedy rows differ in company"
        assert company[1::2] == alone[8:], "seeded rows differ in company"
        one, again, two = (client.generate(**base, prompt=PROMPT, temperature=1.0, seed=s)["ids"] for s in (1, 1, 2))
        assert one == again != two
        drawn = {tuple(client.generate(**base, prompt=PROMPT, temperature=1.0)["ids"]) for _ in range(3)}
        assert len(drawn) == 3, "a seed that is not given is drawn"
        assert client.generate(**base, prompt=PROMPT, temperature=1.0, seed=2**64 - 1)["finish"] == "length"
        pool_check(server)


def test_smp_06_nan_logits():
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder, TINY / "llama")
        data = bytearray((model / "model.safetensors").read_bytes())
        (size,) = struct.unpack("<Q", data[:8])
        entry = json.loads(data[8 : 8 + size])["model.embed_tokens.weight"]
        row = 8 + size + entry["data_offsets"][0] + 77 * entry["shape"][1] * 2
        data[row : row + 2] = b"\xc0\x7f"  # a bfloat16 NaN in the row of token 77
        (model / "model.safetensors").write_bytes(data)
        with Server("--page-size", 4, model=model) as server, Client(server.run_dir) as client:
            keys = {"max_tokens": 20, "ignore_eos": True, "want_ids": True}
            alone = client.generate(input_ids=[5, 6, 7], **keys)["ids"]
            prompts = ([5, 6, 7], [5, 6, 77], *[[77]] * 20, [5, 6, 7])
            fine, *bad, also = start_all(client, [{**keys, "input_ids": p} for p in prompts])
            assert fine["ids"] == also["ids"] == alone
            for answer in bad:
                assert answer["finish"] == "error" and answer["error"] == "internal", answer
                assert answer["message"], answer
            assert 1 <= server.log("scheduler").count("NaN") < 10  # a line per second at most
            pool_check(server)


def test_smp_08_what_cannot_be_given():
    with Server(*SIM) as server, Client(server.run_dir) as client:
        vocab = client.info()["vocab_size"]
        for key, value in (
            ("logprobs", True), ("logprobs", 5), ("top_logprobs", 20), ("top_logprobs", 1000000), ("prompt_logprobs", 1),
            ("stop_token_ids", [10**6]), ("stop_token_ids", [vocab]), ("stop_token_ids", [-1]),
            ("stop_token_ids", [2**31]), ("stop_token_ids", list(range(65))), ("stop_token_ids", 5),
            ("logit_bias", {"5": 1}), ("response_format", {"type": "json_object"}), ("repetition_penalty", 1.1),
            ("n", 2), ("best_of", 2), ("presence_penalty", 0.1), ("frequency_penalty", -1), ("min_tokens", 1),
            ("echo", True), ("suffix", "x"),
        ):  # fmt: skip
            error = refusal(client.generate, prompt=PROMPT, max_tokens=2, **{key: value})
            assert error.code == "invalid_request" and key in error.message, (key, value, error)
        fine = client.generate(prompt=PROMPT, max_tokens=2, ignore_eos=True, stop_token_ids=[vocab - 1])
        assert fine["completion_tokens"] >= 1
        for ids in ([vocab], [5, 2**31 - 1], [-1], [5.0]):
            error = refusal(client.generate, input_ids=ids, max_tokens=2)
            assert error.code == "invalid_request" and "input_ids" in error.message, (ids, error)
        pool_check(server)


def test_tok_10_nul_in_a_prompt():
    with Server(*CPU32) as server, Client(server.run_dir) as client:
        ids = token_ids(client.ask("tokenize", prompt="a\0b")["ids"])
        assert len(ids) >= 3 and ids != token_ids(client.ask("tokenize", prompt="a")["ids"])
        rendered = client.ask("render", messages=[{"role": "user", "content": "a\0b"}])
        assert "a\0b" in rendered["text"]
        answer = client.generate(prompt="a\0b", max_tokens=3, ignore_eos=True)
        assert answer["prompt_tokens"] == len(ids)
        # A stop string may hold one; so may a name.
        assert client.generate(rid="r\0s", prompt="x", max_tokens=3, ignore_eos=True, stop="a\0b")["rid"] == "r\0s"
        pool_check(server)


def test_tok_10_an_added_token_of_5000_bytes():
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder)
        path = model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        long = "<" + "x" * 4998 + ">"
        new = max([t["id"] for t in tokenizer["added_tokens"]] + list(tokenizer["model"]["vocab"].values())) + 1
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        tokenizer["added_tokens"].append({"id": new, "content": long, **flags})
        path.write_text(json.dumps(tokenizer))
        with Server(*CPU32, model=model) as server, Client(server.run_dir) as client:
            assert new in token_ids(client.ask("tokenize", prompt=f"a {long} b")["ids"])
            assert client.generate(prompt=f"a {long} b", max_tokens=3, ignore_eos=True)["finish"] == "length"
            pool_check(server)


if __name__ == "__main__":
    sys.exit(run(globals()))
