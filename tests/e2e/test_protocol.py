"""The protocol as a client in another language meets it: proto/PROTOCOL.md, by protocol_client.py."""

import sys

import protocol_client
from cases import PROMPT, SLACK, Client, Refused, refusal, token_ids
from server import Server, in_some_attempt, run

SLOW = ["--device", "sim", "--sim-step-us", 5000]


def test_the_client_of_the_document():
    with Server(*SLOW) as server:
        client = protocol_client.Client(server.run_dir)
        client.LOST_S = Client.LOST_S
        streams = {}

        def it_streams():
            client.send("generate", rid, prompt=PROMPT, max_tokens=20)
            streams[rid] = [d.get("text", "") for d in client.stream(rid)]
            assert client.answer(rid)["type"] == "accepted" and len(streams[rid]) > 1

        for rid in ("one", "two"):
            in_some_attempt(it_streams)
        assert "".join(streams["one"]) == server.client("generate", PROMPT, "--max-tokens", 20).stdout.rstrip("\n")
        assert "".join(streams["one"]) == "".join(streams["two"])
        assert refusal(client.answer, client.send("generate", prompt=PROMPT, max_tokens=0)).code == "invalid_request"
        client.context.destroy(linger=0)


def test_info_tokenize_render_and_generate():
    with Server() as server, Client(server.run_dir) as client:
        info = client.info()
        assert info["protocol"] == 1 and info["has_tokenizer"] and info["has_chat_template"]
        assert info["run"] == server.ready["run"]

        ids = token_ids(client.ask("tokenize", prompt=PROMPT)["ids"])
        assert ids and all(0 <= i < info["vocab_size"] for i in ids)
        by_text = client.generate(prompt=PROMPT, max_tokens=20, ignore_eos=True, want_ids=True)
        assert by_text["text"] and len(by_text["ids"]) == 20 and by_text["finish"] == "length"
        assert (by_text["prompt_tokens"], by_text["completion_tokens"]) == (len(ids), 20)
        assert by_text["first_token_ns"] <= by_text["last_token_ns"]
        packed = b"".join(i.to_bytes(4, "little") for i in ids)
        for same in (ids, packed):
            by_ids = client.generate(input_ids=same, max_tokens=20, ignore_eos=True, want_ids=True)
            assert (by_ids["text"], by_ids["ids"]) == (by_text["text"], by_text["ids"])

        messages = [{"role": "user", "content": "Tell me a story."}]
        rendered = client.ask("render", messages=messages)
        assert "Tell me a story." in rendered["text"]
        chat_ids = token_ids(rendered["ids"])
        assert chat_ids == token_ids(client.ask("tokenize", messages=messages)["ids"])
        by_messages = client.generate(messages=messages, max_tokens=12, want_ids=True)
        by_ids = client.generate(input_ids=chat_ids, max_tokens=12, want_ids=True)
        assert by_messages["ids"] == by_ids["ids"] and by_messages["prompt_tokens"] == len(chat_ids)


def test_deltas_stream_or_come_at_once():
    with Server(*SLOW) as server, Client(server.run_dir) as client:

        def deltas_stream():
            rid, _ = client.start(prompt=PROMPT, max_tokens=30, ignore_eos=True)
            deltas = list(client.stream(rid))
            assert len(deltas) > 10 / SLACK and all(d["rid"] == rid for d in deltas)
            return deltas

        deltas = in_some_attempt(deltas_stream)
        rid, _ = client.start(prompt=PROMPT, max_tokens=30, ignore_eos=True, stream=False)
        (delta,) = client.stream(rid)
        assert delta["text"] == "".join(d.get("text", "") for d in deltas)


def test_two_requests_interleave():
    with Server(*SLOW) as server, Client(server.run_dir) as client:
        alone = [client.generate(prompt=p, max_tokens=40, ignore_eos=True)["text"] for p in (PROMPT, "A dog")]
        order, take = [], client.take_reply

        def record(message):
            order.extend(d["rid"] for d in message.get("deltas", []))
            take(message)

        client.take_reply = record

        def they_interleave():
            order.clear()
            rids = [client.start(prompt=p, max_tokens=40, ignore_eos=True)[0] for p in (PROMPT, "A dog")]
            assert [client.whole(rid)["text"] for rid in rids] == alone
            changes = sum(a != b for a, b in zip(order, order[1:]))
            assert changes > 10 / SLACK, order

        in_some_attempt(they_interleave)


def test_abort_by_target_and_by_uid():
    with Server(*SLOW) as server, Client(server.run_dir) as client, Client(server.run_dir) as other:
        for key in ("target", "uid"):
            rid, uid = client.start(prompt=PROMPT, max_tokens=1900, ignore_eos=True)
            next(client.stream(rid))
            answer = (client if key == "target" else other).ask("abort", **{key: rid if key == "target" else uid})
            assert set(answer) <= {"type", "v", "rid"} and answer["type"] == "result"
            last = client.whole(rid)
            assert last["finish"] == "abort" and 0 < last["completion_tokens"] < 1900
        # At once behind its request, before anything is known of it; then again, and of nobody.
        rid = client.send("generate", prompt=PROMPT, max_tokens=1900, ignore_eos=True)
        client.ask("abort", target=rid)
        assert client.answer(rid)["type"] == "accepted"
        assert client.whole(rid)["finish"] == "abort"
        for _ in range(2):
            client.ask("abort", target=rid)
            client.ask("abort", target="nobody")
            client.ask("abort", uid=2**63)


def test_stop_strings_and_stop_ids():
    with Server("--device", "sim") as server, Client(server.run_dir) as client:
        whole = client.generate(prompt=PROMPT, max_tokens=60, ignore_eos=True, want_ids=True)
        stop = whole["text"][20:26]
        for one_or_many in (stop, ["never to be found", stop]):
            cut = client.generate(prompt=PROMPT, max_tokens=60, ignore_eos=True, want_ids=True, stop=one_or_many)
            assert cut["finish"] == "stop" and cut["text"] == whole["text"][: whole["text"].index(stop)]
            assert cut["ids"] == whole["ids"][: cut["completion_tokens"]]
        end = whole["ids"][30]
        cut = client.generate(prompt=PROMPT, max_tokens=60, ignore_eos=True, want_ids=True, stop_token_ids=[end])
        assert cut["finish"] == "stop"
        assert cut["ids"] == whole["ids"][: whole["ids"].index(end) + 1]


def test_errors_name_the_key():
    with Server() as server, Client(server.run_dir) as client:
        good = {"prompt": PROMPT, "max_tokens": 3}
        for key, value in (
            ("max_tokens", 3.5), ("max_tokens", 0), ("temperature", -1), ("temperature", float("nan")), ("top_p", 1.5),
            ("top_k", -2), ("min_p", "x"), ("seed", -1), ("stop", [""]), ("stop_token_ids", [-1]), ("stream", 1),
            ("messages", "[]"), ("n", 2), ("logprobs", True), ("prompt", 5), ("input_ids", [1, 2]),
        ):  # fmt: skip
            error = refusal(client.generate, **{**good, key: value})
            assert error.code == "invalid_request" and key in error.message, (key, value, error)
        assert refusal(client.generate, max_tokens=3).code == "invalid_request"
        assert refusal(client.ask, "no_such_type").code == "invalid_request"
        assert refusal(client.generate, input_ids=[1] * 5000, max_tokens=3).code == "too_long"
        # What asks for nothing is no request for it; unknown keys are ignored; nil is "not given".
        client.generate(**good, n=1, logprobs=False, presence_penalty=0, surprise={"a": 1}, top_k=None)
        # Frames that are none get no answer and do no harm.
        for frame in (b"", b"\xc1", b"\x93\x01\x02\x03", b"\x80"):
            client.front.send(frame)
        assert client.generate(**good)["finish"]


def test_without_hello_a_request_is_aborted():
    with Server(*SLOW) as server, Client(server.run_dir, hello=False) as client:
        _, uid = client.start(prompt=PROMPT, max_tokens=1900, ignore_eos=True)
        assert uid > 0
        client.hello()
        assert client.generate(prompt=PROMPT, max_tokens=3, ignore_eos=True)["finish"] == "length"


def test_alive_comes_and_its_end_is_noticed():
    with Server(*SLOW) as server, Client(server.run_dir) as client:
        rid, _ = client.start(prompt=PROMPT, max_tokens=1900, ignore_eos=True)
        next(client.stream(rid))
        server.stop()
        try:
            last = client.whole(rid)
            assert last["finish"] in ("abort", "error"), last
        except Refused as error:
            assert error.code in ("server_lost", "shutting_down"), error


if __name__ == "__main__":
    sys.exit(run(globals()))
