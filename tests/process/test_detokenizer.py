#!/usr/bin/env python3
"""minisgl-detokenizer alone: the test is its scheduler and its clients, over real sockets."""

import json
import os
import signal
import sys
import time

import msgpack
import zmq

import wire
from wire import Process, Socket, held, in_some_attempt, pack, scaled, wait_until

TOKENS = [b"Hello", b" world", b"\xe4\xb8", b"\x96", b"EN", b"D!", b" long" * 200]
HELLO, WORLD, HALF, OTHER_HALF, EN, D, LONG, EOS = range(8)


def write_model(path):
    """A byte-level vocabulary of the tokens above, and one special token."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    vocab = {"".join(letters[byte] for byte in token): i for i, token in enumerate(TOKENS)}
    special = {"id": EOS, "content": "<eos>", "single_word": False, "lstrip": False, "rstrip": False}
    decoder = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [special | {"normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": decoder,
        "post_processor": None,
        "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))


class Detokenizer(Process):
    def __init__(self, *options, has_tokenizer=True):
        self.path = wire.folder()
        if has_tokenizer:
            write_model(self.path)
        self.scheduler = Socket(zmq.PULL, self.endpoint("scheduler"), bind=True)
        super().__init__(
            "detokenizer_proc/minisgl-detokenizer", "--model", self.path,
            "--input", self.endpoint("input"), "--scheduler", self.endpoint("scheduler"),
            "--endpoint", self.endpoint("reply"), "--control", self.endpoint("control"), *options,
        )  # fmt: skip
        self.input = Socket(zmq.PUSH, self.endpoint("input"))
        self.control = Socket(zmq.REQ, self.endpoint("control"))

    def endpoint(self, name):
        return f"ipc://{self.path}/{name}.ipc"

    def client(self, hello=True, receive_mark=1000):
        identity = b"\x01" + os.urandom(15)
        client = Socket(zmq.DEALER, self.endpoint("reply"), identity=identity, receive_mark=receive_mark)
        client.identity = identity
        if hello:
            assert client.ask("hello")["type"] == "hello_ok"
        return client

    def step(self, *rows, **keys):
        self.input.say("tokens", step_end_ns=time.monotonic_ns(), rows=list(rows), **keys)

    def last_step(self, *rows):
        """Of a scheduler that ends with it: the frame has left it when this returns."""
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.linger = -1
            socket.connect(self.endpoint("input"))
            socket.send(pack("tokens", step_end_ns=time.monotonic_ns(), rows=list(rows)))

    def stats(self):
        answer = self.control.ask("stats")
        assert answer["ok"], answer
        return json.loads(answer["info"])

    def wait_stats(self, **expected):
        def ask():
            stats = self.stats()
            return stats if all(stats[key] == value for key, value in expected.items()) else None

        return wait_until(ask, pause=0.01)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.wait_stats(open_requests=0, tombstones=0)
        code, _, self.log = self.stop()
        assert code == 0, (code, self.log)
        assert "runtime error" not in self.log and "Sanitizer" not in self.log, self.log


def first(uid, client, token, finish=None, rid=None, **keys):
    reply_to = {"client": client.identity, "rid": rid or f"r{uid}", **keys}
    more = {"reply_to": msgpack.packb(reply_to), "prompt_tokens": 5, "cached_tokens": 3}
    return [uid, token, finish, more]


def one_delta(client):
    message = client.hear()
    assert message and message["type"] == "deltas" and len(message["deltas"]) == 1, message
    return message["deltas"][0]


def test_deltas_then_terminal():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(7, client, HELLO))
        assert one_delta(client) == {"rid": "r7", "uid": 7, "text": "Hello"}
        d.step([7, WORLD, None])
        assert one_delta(client)["text"] == " world"
        d.step([7, EOS, "stop"])
        end = one_delta(client)
        assert end["finish"] == "stop" and "text" not in end
        assert (end["prompt_tokens"], end["completion_tokens"], end["cached_tokens"]) == (5, 3, 3)
        assert 0 < end["first_token_ns"] < end["last_token_ns"] <= time.monotonic_ns()
        assert client.hear(timeout_ms=100) is None


def test_one_frame_per_client_and_step():
    with Detokenizer() as d:
        a, b = d.client(), d.client()
        d.step(*[first(i, a if i % 2 else b, HELLO) for i in range(1, 257)])
        for client in (a, b):
            message = client.hear()
            assert len(message["deltas"]) == 128
            assert [delta["uid"] % 2 for delta in message["deltas"]] == [client is a] * 128
        d.step(*[[i, None, "length"] for i in range(1, 257)])
        assert len(a.hear()["deltas"]) == len(b.hear()["deltas"]) == 128


def test_character_over_two_steps():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(1, client, HALF))
        d.step([1, OTHER_HALF, None])
        assert one_delta(client)["text"] == "世"
        d.step([1, HALF, "length"])
        assert one_delta(client)["text"] == "\ufffd"


def test_options_of_a_request():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(1, client, EOS, "stop", skip_special=False, want_ids=True))
        end = one_delta(client)
        assert (end["text"], end["ids"]) == ("<eos>", [EOS])
        d.step(first(2, client, HELLO, stream=False))
        d.step([2, WORLD, None])
        assert client.hear(timeout_ms=100) is None
        d.step([2, EOS, "length"])
        assert one_delta(client)["text"] == "Hello world"


def test_model_without_tokenizer():
    with Detokenizer(has_tokenizer=False) as d:
        client = d.client()
        d.step(first(1, client, 5, want_ids=True, stop=["END"]), [1, 123456789, "length"])
        end = one_delta(client)
        assert end["ids"] == [5, 123456789] and "text" not in end and end["completion_tokens"] == 2


def test_stop_string_found_late():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(4, client, HELLO, stop=["END"]))
        d.step([4, EN, None])
        assert one_delta(client)["text"] == "Hello"
        d.step([4, D, None])
        end = one_delta(client)
        assert end["finish"] == "stop" and "text" not in end and end["completion_tokens"] == 3
        abort = d.scheduler.hear()
        assert (abort["type"], abort["uid"]) == ("abort", 4)
        d.step([4, WORLD, None])
        d.wait_stats(tombstones=1)
        d.step([4, None, "abort"])
        d.wait_stats(tombstones=0)
        assert client.hear(timeout_ms=100) is None


def test_uid_again_after_its_end():
    with Detokenizer() as d:
        client = d.client()
        for _ in range(3):
            d.step(first(7, client, HALF, stop=["END"]), [7, EN, None], [7, None, "abort"])
            end = one_delta(client)
            assert (end["text"], end["finish"]) == ("\ufffdEN", "abort")


def test_refusal():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(5, client, HELLO))
        one_delta(client)
        reply_to = msgpack.packb({"client": client.identity, "rid": "long"})
        d.input.say("rejected", uid=5, code="too_long", message="prompt 600, limit 512", reply_to=reply_to)
        error = client.hear()
        assert (error["type"], error["rid"], error["code"]) == ("error", "long", "too_long")
        assert error["message"] == "prompt 600, limit 512"
        d.step([5, WORLD, "stop"])
        assert one_delta(client)["text"] == " world"


def test_error_of_the_scheduler():
    with Detokenizer() as d:
        client = d.client()
        d.step(first(5, client, HELLO), [5, None, "error", {"error": "internal"}])
        end = one_delta(client)
        assert (end["text"], end["finish"], end["error"]) == ("Hello", "error", "internal")
        assert end["message"]


def test_client_that_never_said_hello():
    with Detokenizer() as d:
        client = d.client(hello=False)
        d.step(first(9, client, HELLO))
        assert d.scheduler.hear()["uid"] == 9
        assert d.scheduler.hear()["client"] == client.identity
        d.step([9, WORLD, None])
        d.step([9, None, "abort"])
        d.wait_stats(tombstones=0, clients=0)
        assert d.scheduler.hear(timeout_ms=100) is None


def test_client_gone():
    with Detokenizer() as d:
        client, other = d.client(), d.client()
        d.step(first(1, client, HELLO), first(2, client, HELLO, stream=False), first(3, other, HELLO))
        assert client.hear() and other.hear()
        identity = client.identity
        client.close()
        # Nothing is sent to it: `alive` finds out.
        abort = d.scheduler.hear()
        assert (abort["type"], abort["client"]) == ("abort", identity)
        d.step([1, None, "abort"], [2, None, "abort"], [3, WORLD, "stop"])
        assert one_delta(other)["text"] == " world"
        d.wait_stats(clients=1, open_requests=0)


def test_hello_twice_and_reconnect():
    with Detokenizer() as d:
        client = d.client()
        assert client.ask("hello")["type"] == "hello_ok"
        again = Socket(zmq.DEALER, d.endpoint("reply"), identity=client.identity)
        again.identity = client.identity
        assert again.ask("hello")["type"] == "hello_ok"
        d.step(first(1, again, HELLO, "length"))
        assert one_delta(again)["text"] == "Hello"
        assert d.stats()["clients"] == 1


def test_session_and_count_tell_what_was_lost():
    with Detokenizer() as d:
        client = d.client(hello=False)
        hello_ok = client.ask("hello")
        session = hello_ok["session"]
        assert session > 0 and hello_ok.get("sent", 0) == 0
        d.step(first(1, client, HELLO))
        assert client.hear()
        d.input.say("rejected", uid=2, code="too_long", message="no", reply_to=first(2, client, 0)[3]["reply_to"])
        assert client.hear()["type"] == "error"
        assert client.ask("nonsense")["type"] == "error"  # of no request: not counted
        d.step([1, WORLD, "stop"])
        assert client.hear()
        again = client.ask("hello")
        assert (again["session"], again["sent"]) == (session, 3)
        alive = client.hear(skip=())
        assert (alive["type"], alive["session"], alive["sent"]) == ("alive", session, 3)
        client.close()
        d.wait_stats(clients=0)
        back = Socket(zmq.DEALER, d.endpoint("reply"), identity=client.identity)
        hello_ok = back.ask("hello")
        assert hello_ok["session"] != session and hello_ok.get("sent", 0) == 0


def test_alive_twice_a_second():
    def attempt():
        began = time.monotonic()
        client = d.client()
        for _ in range(4):
            assert client.hear(skip=())["type"] == "alive"
        assert 1.2 < time.monotonic() - began < scaled(3)

    with Detokenizer() as d:
        in_some_attempt(attempt)


def test_slow_client_coalesces_then_ends():
    with Detokenizer("--slow-client-bytes", 100000) as d:
        slow, other = d.client(receive_mark=1), d.client()
        d.step(first(1, slow, HELLO), first(2, other, HELLO))
        sent = 0
        while sent < 20000 and d.scheduler.hear(timeout_ms=0) is None:
            d.step(*[[1, LONG, None]] * 16, [2, WORLD, None])
            sent += 16
            assert other.hear()
        assert sent < 20000, "the slow client was never ended"
        d.step([1, None, "abort"], [2, WORLD, "stop"])
        assert one_delta(other)["finish"] == "stop"
        text, end = "", None
        while not end:
            message = slow.hear()
            assert message, (len(text), d.stats())
            for delta in message["deltas"]:
                text += delta.get("text", "")
                end = delta if "finish" in delta else None
        assert (end["finish"], end["error"]) == ("error", "slow_client")
        assert text.startswith("Hello long long") and d.stats()["slow_clients"] == 1
        # It reads again, so it is served again.
        d.step(first(3, slow, HELLO, "length"))
        assert one_delta(slow)["text"] == "Hello"
    assert d.log.count(f"slow client={slow.identity[:4].hex()} requests ended") == 1, d.log


def test_frames_of_another_run():
    with Detokenizer("--run", 7) as d:
        client = d.client()
        d.step(first(1, client, HELLO), run=6)
        d.step(first(1, client, WORLD, "stop"), run=7)
        assert one_delta(client)["text"] == " world"
        assert d.stats()["frames_dropped"] == 1


def test_garbage_is_survived():
    with Detokenizer() as d:
        client = d.client()
        for frame in (b"", b"\xc1", b"\x91" * 100000, os.urandom(1000), pack("deltas"), pack("tokens", rows=7)):
            d.input.socket.send(frame)
            client.socket.send(frame)
        d.step([99, HELLO, None])  # never began
        assert d.scheduler.hear()["uid"] == 99
        d.step([5, HELLO, None, {"reply_to": b"\xc1"}])
        assert d.scheduler.hear()["uid"] == 5
        d.step([5, None, "abort"])
        d.step(first(1, client, HELLO, "length"))
        message = client.hear(skip=("alive", "error"))
        assert message["deltas"][0]["text"] == "Hello"


def test_what_a_client_may_not_say():
    with Detokenizer() as d:
        client = d.client()
        error = client.ask("generate", rid="x", prompt="Hi")
        assert (error["type"], error["code"]) == ("error", "invalid_request")
        nameless = Socket(zmq.DEALER, d.endpoint("reply"))
        error = nameless.ask("hello")
        assert (error["type"], error["code"]) == ("error", "invalid_request")


def test_control():
    with Detokenizer() as d:
        assert d.control.ask("ping")["ok"]
        assert d.control.ask("log_level", level="debug")["ok"]
        assert not d.control.ask("log_level", level="loud")["ok"]
        assert not d.control.ask("flush_cache")["ok"]
        assert "tokenizer" in d.control.ask("drain")["message"]
        assert d.stats()["process"] == "minisgl-detokenizer"
        assert not d.control.ask("nonsense")["ok"]


def test_a_control_endpoint_beyond_loopback_is_refused_in_its_own_words():
    path = wire.folder()
    write_model(path)
    options = ["--input", f"ipc://{path}/i", "--scheduler", f"ipc://{path}/s", "--endpoint", f"ipc://{path}/e"]
    try:
        Process("detokenizer_proc/minisgl-detokenizer", "--model", path, *options, "--control", "tcp://0.0.0.0:7777")
    except RuntimeError as error:
        assert "loopback" in str(error) and "--curve-keys" not in str(error), error
    else:
        raise AssertionError("it was opened")


def test_many_streams():
    """DET-08: 5000 open streams, each with its own stop string."""
    with Detokenizer() as d:
        client = d.client()
        num = 5000
        d.step(*[first(i, client, HALF, stop=[f"stop {i}"]) for i in range(1, num + 1)])
        assert d.wait_stats(open_requests=num)["stop_automata"] == num
        d.step(*[[i, OTHER_HALF, "length"] for i in range(1, num + 1)])
        seen = set()
        while len(seen) < num:
            for delta in client.hear()["deltas"]:
                assert (delta["text"], delta["finish"]) == ("世", "length")
                seen.add(delta["uid"])


def test_what_has_arrived_before_a_signal_is_read_to_its_end():
    d = Detokenizer()
    client = d.client()
    num = 500  # frames: more than one turn reads
    d.step(*[first(i, client, HELLO, stream=False) for i in range(1, num + 1)])
    d.wait_stats(open_requests=num)
    with held(d.process.pid):
        for i in range(1, num + 1):
            d.step([i, WORLD, "length"])
        d.process.send_signal(signal.SIGTERM)
    ends = []
    while len(ends) < num:
        ends += client.hear()["deltas"]
    assert {end["finish"] for end in ends} == {"length"}
    code, _, log = d.stop(None)
    assert code == 0, log
    d.scheduler.close()


def test_it_is_read_to_its_end_though_the_process_stands_still_meanwhile():
    d = Detokenizer()
    client = d.client()
    num_frames, num_rows = 500, 40
    frames = [range(first, first + num_rows) for first in range(1, num_frames * num_rows, num_rows)]
    for uids in frames:
        d.step(*[first(uid, client, HELLO, stream=False) for uid in uids])
    d.wait_stats(open_requests=num_frames * num_rows)
    with held(d.process.pid):
        for uids in frames:
            d.step(*[[uid, WORLD, "length"] for uid in uids])
        d.process.send_signal(signal.SIGTERM)
    ends = client.hear()["deltas"]
    with held(d.process.pid):
        time.sleep(0.7)  # longer than it waits for what may still come
    while len(ends) < num_frames * num_rows:
        ends += client.hear()["deltas"]
    assert {end["finish"] for end in ends} == {"length"}
    assert d.stop(None)[0] == 0
    d.scheduler.close()


def test_signals_end_streams_with_a_reason():
    for number in (signal.SIGTERM, signal.SIGINT):
        d = Detokenizer()
        client = d.client()
        d.step(*[first(i, client, HELLO) for i in range(1, 5)])
        assert len(client.hear()["deltas"]) == 4
        code, _, _ = d.stop(number)
        assert code == 0
        ends = client.hear()["deltas"]
        assert [(end["finish"], end["error"]) for end in ends] == [("error", "shutting_down")] * 4
        d.scheduler.close()


def test_idle_stop_is_quick():
    def attempt():
        d = Detokenizer()
        d.client()
        code, seconds, _ = d.stop()
        assert code == 0 and seconds < scaled(1)

    in_some_attempt(attempt)


def test_last_message_arrives_at_exit():
    """IPC-06: the end of a request and of the process in the same millisecond."""
    for _ in range(20):
        d = Detokenizer()
        client = d.client()
        d.step(first(1, client, HELLO))
        one_delta(client)
        d.last_step([1, WORLD, "length"])
        code, _, log = d.stop()
        assert code == 0, log
        assert one_delta(client)["finish"] == "length"
        d.scheduler.close()


if __name__ == "__main__":
    sys.exit(wire.run(dict(globals())))
