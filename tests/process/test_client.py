#!/usr/bin/env python3
"""The command line client alone: the test is its server, all three processes of it, over real sockets."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

import zmq

import wire
from wire import PATIENCE, in_some_attempt, pack, scaled, unpack, wait_until

CLIENT = str(wire.BUILD / "tools/client/minisgl")
NO_TERMINAL = {"stdin": subprocess.DEVNULL}


class Server:
    """Answers generate with its own prompt, word by word; self.answer can be replaced."""

    def __init__(self, name="fake", parent=None):
        self.parent = parent or wire.folder()
        self.path = self.parent / name
        self.path.mkdir(mode=0o700)
        self.name = name
        self.heard = []
        self.told = []  # the commands that came to control endpoints
        self.is_silent = False
        self.is_stopping = False
        self.answer = self.echo
        self.rest = lambda: None  # called when nothing has arrived
        self.is_front_silent = False
        self.broken = ""  # what a `check` finds
        self.session, self.num_sent = 7, 0
        self.num_pending = 0
        self.has_tokenizer = True
        self.next_uid = (1 << 48) + 1
        self.model = wire.folder()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.is_bound = threading.Event()
        self.thread.start()
        assert self.is_bound.wait(PATIENCE)
        (self.path / "run.json").write_text(json.dumps({
            "name": name, "run": 5, "pid": os.getpid(), "model": str(self.model),
            "endpoints": {p: self.endpoint(p) for p in (
                "tokenizer", "detokenizer", "tokenizer_control", "scheduler_control", "detokenizer_control")},
        }))  # fmt: skip

    def endpoint(self, name):
        return f"ipc://{self.path}/{name}.ipc"

    def router(self, name):
        socket = wire.context.socket(zmq.ROUTER)
        socket.linger = 0
        socket.bind(self.endpoint(name))
        return socket

    def serve(self):
        self.front, self.reply = self.router("tokenizer"), self.router("detokenizer")
        controls = [self.router(f"{p}_control") for p in ("tokenizer", "scheduler", "detokenizer")]
        poller = zmq.Poller()
        for socket in (self.front, self.reply, *controls):
            poller.register(socket, zmq.POLLIN)
        self.is_bound.set()
        self.clients, alive = set(), 0
        while not self.is_stopping:
            ready = dict(poller.poll(20))
            if self.is_silent:
                continue
            if self.front not in ready:
                self.rest()
            if self.reply in ready:
                peer, frame = self.reply.recv_multipart()
                self.clients.add(peer)
                self.reply.send_multipart([peer, pack("hello_ok", session=self.session, sent=self.num_sent)])
            if self.front in ready and not self.is_front_silent:
                peer, frame = self.front.recv_multipart()
                message = unpack(frame)
                self.heard.append(message)
                self.take(peer, message)
            for socket in controls:
                if socket in ready:
                    *route, frame = socket.recv_multipart()
                    info = json.dumps({"queue": 0, "nested": {"a": 1}})
                    self.told.append(unpack(frame)["type"])
                    ok = self.told[-1] != "check" or not self.broken
                    socket.send_multipart([*route, pack("control_reply", ok=ok, info=info, message=self.broken)])
            if time.monotonic() - alive > 0.5:
                alive = time.monotonic()
                for peer in self.clients:
                    self.reply.send_multipart([peer, pack("alive", session=self.session, sent=self.num_sent)])
        for socket in (self.front, self.reply, *controls):
            socket.close()

    def take(self, peer, message):
        if message["type"] in ("tokenize", "render"):
            ids = [ord(c) for c in message["prompt"]]
            self.front.send_multipart([peer, pack("result", rid=message["rid"], ids=ids)])
        elif message["type"] == "info":
            self.take_info(peer, message)
        elif message["type"] == "abort":
            self.front.send_multipart([peer, pack("result", rid=message["rid"])])
            if message.get("uid", 0) > 1 << 48:
                self.deltas(peer, {"rid": self.rids[message["uid"]], "uid": message["uid"], "finish": "abort"})
        else:
            self.answer(peer, message)

    def take_info(self, peer, message):
        facts = {"model": str(self.model), "vocab_size": 100, "has_tokenizer": self.has_tokenizer}
        info = json.dumps(facts | {"pending": self.num_pending})
        self.front.send_multipart([peer, pack("result", rid=message["rid"], info=info)])

    def accept(self, peer, message):
        uid, self.next_uid = self.next_uid, self.next_uid + 1
        self.rids = getattr(self, "rids", {}) | {uid: message["rid"]}
        self.front.send_multipart([peer, pack("accepted", rid=message["rid"], uid=uid)])
        return {"rid": message["rid"], "uid": uid}

    def deltas(self, peer, *deltas):
        self.reply.send_multipart([peer, pack("deltas", deltas=list(deltas))])
        self.num_sent += 1

    def refuse(self, peer, message, code="invalid_request", words="no"):
        self.front.send_multipart([peer, pack("error", rid=message["rid"], code=code, message=words)])

    def echo(self, peer, message):
        names = self.accept(peer, message)
        if "messages" in message:
            words = [" ".join(m["content"] for m in json.loads(message["messages"]))]
        else:
            words = message.get("prompt", str(message.get("input_ids"))).split(" ")
        for i, word in enumerate(words):
            ids = {"ids": [i]} if message.get("want_ids") else {}
            self.deltas(peer, names | {"text": (" " if i else "") + word} | ids)
        end = {"finish": "length", "prompt_tokens": 7, "completion_tokens": len(words), "cached_tokens": 2}
        self.deltas(peer, names | end)

    def close(self):
        self.is_stopping = True
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def env(self):
        state = wire.folder()
        return dict(os.environ, MINISGL_RUN_DIR=str(self.parent), XDG_STATE_HOME=str(state), TERM="xterm")

    def run(self, *args, code=0, **options):
        options = {"timeout": scaled(PATIENCE), "text": True, "capture_output": True, "env": self.env()} | options
        if "input" not in options:
            options |= NO_TERMINAL
        result = subprocess.run([CLIENT, *map(str, args)], **options)
        assert result.returncode == code, (args, result)
        return result

    def start(self, *args):
        return subprocess.Popen(
            [CLIENT, *args], env=self.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **NO_TERMINAL
        )


def test_no_server():
    """CLI-01, first half."""
    folder = wire.folder()
    env = dict(os.environ, MINISGL_RUN_DIR=str(folder))

    def says_so_at_once():
        began = time.monotonic()
        result = subprocess.run([CLIENT, *args], env=env, capture_output=True, text=True, timeout=scaled(PATIENCE), **NO_TERMINAL)
        assert result.returncode == 1 and "running" in result.stderr, result
        assert time.monotonic() - began < scaled(2)

    for args in (["generate", "Hi"], ["chat"], ["status"], ["generate", "Hi", "--name", "x"], ["tokenize", "a"]):
        in_some_attempt(says_so_at_once)
    nowhere = f"ipc://{folder}/a,ipc://{folder}/b"
    result = subprocess.run(
        [CLIENT, "generate", "Hi", "--endpoint", nowhere], capture_output=True, text=True, timeout=scaled(PATIENCE), **NO_TERMINAL
    )
    assert result.returncode == 1 and result.stderr.endswith(" ms: is a server running there?\n"), result


def test_server_that_died_left_its_file():
    with Server() as server:
        run = json.loads((server.path / "run.json").read_text())
        dead = subprocess.Popen(["true"])
        dead.wait()
        (server.path / "run.json").write_text(json.dumps(run | {"pid": dead.pid}))
        for args in ([], ["--name", "fake"]):
            words = server.run("generate", "Hi", *args, code=1).stderr
            assert "running (in " in words and "start one with tools/launch.sh" in words, words
        (server.path / "scheduler.log").write_text("why")
        for args in ([], ["--name", "fake"]):
            words = server.run("generate", "Hi", *args, code=1).stderr
            assert "running" in words and f"has ended, see {server.path}/*.log; start one with" in words, words


def test_a_server_that_was_stopped_is_not_held_up_as_one_that_died():
    with Server() as server:
        (server.path / "run.json").unlink()  # as the launcher does
        (server.path / "scheduler.log").write_text("as asked")
        words = server.run("status", code=1).stderr
        assert words == f"minisgl: no server is running (in {server.parent}): start one with tools/launch.sh\n", words
        assert "it has ended, see" in server.run("status", "--name", "fake", code=1).stderr
        (server.path / "launcher.log").write_text("launch: minisgl-scheduler ended")
        assert f"'fake' has ended, see {server.path}/*.log" in server.run("status", code=1).stderr


def test_a_broken_file_of_a_server_is_named():
    with Server() as server:
        file = server.path / "run.json"
        good = file.read_text()
        for content, what in (("", "line 1"), (good[:60], "line 1"), ("{}", "name is missing"), ("[" * 70000, "bytes, more than")):
            file.write_text(content)
            words = server.run("generate", "Hi", "--name", "fake", code=1).stderr
            assert f"{file}: " in words and what in words, words


def test_default_is_the_server_that_is_not_named():
    with Server() as server, Server("other", server.parent) as other:
        words = server.run("generate", "Hi", code=1).stderr
        assert "several servers are running" in words and "give --name" in words, words
        with Server("default", server.parent) as default:
            assert server.run("generate", "Hi").stdout == "Hi"
            assert (len(default.heard), len(server.heard + other.heard)) == (1, 0)


def test_generate():
    with Server() as server:
        result = server.run("generate", "Once upon ä time")
        assert (result.stdout, result.stderr) == ("Once upon ä time", "")
        assert server.heard[-1]["prompt"] == "Once upon ä time"
        answer = json.loads(server.run("generate", "a b", "--json").stdout)
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 2}
        assert answer == {"uid": (1 << 48) + 2, "text": "a b", "output_ids": [0, 1], "finish_reason": "length", "usage": usage}
        assert server.run("generate", "-", input="from\nstdin").stdout == "from\nstdin"
        assert server.run("generate", "-", input="from\necho\n\n").stdout == "from\necho\n"
        result = server.run("generate", "x", "--verbose")
        assert (result.stdout, result.stderr) == ("x", f"minisgl: uid={server.next_uid - 1}\n")
        endpoints = f"{server.endpoint('tokenizer')},{server.endpoint('detokenizer')}"
        assert server.run("generate", "x", "--endpoint", endpoints).stdout == "x"
        assert server.run("generate", "--name", "fake", "--", "--dashes").stdout == "--dashes"


def test_options_arrive():
    with Server() as server:
        server.run(
            "generate", "--ids", "1, 2,3", "--max-tokens", 9, "--temperature=0.5", "--top-k", -1, "--top-p", 0.9,
            "--min-p", 0.1, "--seed", 12, "--stop", "a", "--stop", "b", "--ignore-eos",
        )  # fmt: skip
        message = server.heard[-1]
        assert message["input_ids"] in ([1, 2, 3], b"\1\0\0\0\2\0\0\0\3\0\0\0")
        assert (message["max_tokens"], message["temperature"], message["seed"]) == (9, 0.5, 12)
        server.run("generate", "x", "--seed", 2**64 - 1)
        assert server.heard[-1]["seed"] == 2**64 - 1
        assert message["stop"] == ["a", "b"] and message["ignore_eos"] is True
        assert message.get("top_k", 0) == 0 and abs(message["top_p"] - 0.9) < 1e-6
        server.run("generate", "plain")
        assert set(server.heard[-1]) == {"type", "v", "rid", "prompt"}, server.heard[-1]
        (server.model / "chat.json").write_text('[{"role": "user", "content": "Hello"}]')
        assert server.run("generate", "--messages", server.model / "chat.json").stdout == "Hello"


def test_messages_that_are_no_json_are_named():
    with Server() as server:
        file = server.model / "chat.json"
        for text, where in (('[{"role": "user",]', "line 1, column"), ("[\n{", "line 2, column"), ("", "line 1, column 1")):
            file.write_text(text)
            assert f"{file}: {where}" in server.run("generate", "--messages", file, code=1).stderr
            assert f"stdin: {where}" in server.run("generate", "--messages", "-", input=text, code=1).stderr
        assert not server.heard


def test_wrong_usage():
    with Server() as server:
        for args in (
            [], ["what"], ["generate"], ["generate", "a", "b"], ["generate", "a", "--what"],
            ["generate", "a", "--top-p", "2"], ["generate", "a", "--seed", 2**64], ["generate", "a", "--seed", "-1"], ["generate", "--ids", "1,,2"], ["generate", "a", "--stop", ""],
            ["batch"], ["bench", "latency", "--batches", "0"], ["abort", "x"], ["tokenize"], ["status", "more"],
            ["generate", "a", "--endpoint", "x"], ["generate", "a", "--endpoint", "x,y"], ["generate", "a", "--name", "a/b"],
            ["generate", "a", "--endpoint", "tcp://10.0.0.1:1,tcp://10.0.0.1:2"], ["generate", "a", "--curve-keys", "/nowhere"],
            ["chat", "--name", "fake", "--endpoint", "ipc:///a,ipc:///b"],
            ["status", "--endpoint", "ipc:///a,ipc:///b"], ["bench", "overlap", "--endpoint", "ipc:///a,ipc:///b"],
        ):  # fmt: skip
            result = server.run(*args, code=2)
            assert result.stderr and not result.stdout, (args, result)
        assert "'generat' (did you mean generate?)" in server.run("generat", "a", code=2).stderr
        assert "'--max-token' (did you mean --max-tokens?)" in server.run("generate", "a", "--max-token", 3, code=2).stderr
        assert "--endpoint" not in server.run("status", "--help").stdout
        words = server.run("generate", "--messages", "/nowhere.json", code=1).stderr
        assert "/nowhere.json" in words and "--help" not in words, words
        for command in ([], ["generate"], ["chat"], ["batch"], ["status"], ["tokenize"], ["abort"]):
            assert "usage: minisgl" in server.run(*command, "--help").stdout
            assert server.run(*command, "--version").stdout == server.run("--version").stdout
        assert re.fullmatch(r"minisgl \d+\.\d+\.\d+\n", server.run("--version").stdout)


def test_refused_request():
    with Server() as server:
        server.answer = lambda peer, message: server.refuse(peer, message, "too_long", "600 is more than 512")
        result = server.run("generate", "x", code=1)
        assert "too_long: 600 is more than 512" in result.stderr and not result.stdout
        answer = json.loads(server.run("generate", "x", "--json", code=1).stdout)
        assert answer == {"error": {"code": "too_long", "message": "600 is more than 512"}}


def test_a_model_that_takes_no_text_is_told_how():
    words = "prompt: this model has no tokenizer.json, it takes input_ids only"
    with Server() as server:
        server.answer = lambda peer, message: server.refuse(peer, message, words=words)
        assert server.run("generate", "x", code=1).stderr == f"minisgl: invalid_request: {words} (--ids)\n"


def test_a_model_without_tokenizer_answers_with_ids():
    """Of one that has a tokenizer, an answer without text is no text."""
    with Server() as server:

        def answer(peer, message):
            names = server.accept(peer, message)
            for id in (5, 6):
                server.deltas(peer, names | ({"ids": [id]} if message.get("want_ids") else {}))
            server.deltas(peer, names | {"finish": "stop", "prompt_tokens": 1, "completion_tokens": 2})

        server.answer = answer
        for has_tokenizer, said in ((False, "5 6"), (True, "")):
            server.has_tokenizer = has_tokenizer
            assert server.run("generate", "--ids", "1").stdout == said
            assert json.loads(server.run("generate", "--ids", "1", "--json").stdout)["output_ids"] == [5, 6]


def test_server_dies_within_an_answer():
    """CLI-01, second half."""
    with Server() as server:

        def answer(peer, message):
            server.deltas(peer, server.accept(peer, message) | {"text": "begun"})
            server.is_silent = True

        server.answer = answer
        began = time.monotonic()
        result = server.run("generate", "x", code=1)
        assert result.stdout == "begun" and "server_lost" in result.stderr, result
        assert 2.5 < time.monotonic() - began


def test_detokenizer_forgets_the_client():
    """As after a broken connection: it is greeted anew, and the request of the session before never ends."""
    with Server() as server:

        def answer(peer, message):
            server.deltas(peer, server.accept(peer, message) | {"text": "begun"})
            server.clients.clear()
            server.session, server.num_sent = 8, 0

        server.answer = answer
        began = time.monotonic()
        result = server.run("generate", "x", code=1)
        assert result.stdout == "begun" and "server_lost" in result.stderr, result
        assert 0.9 < time.monotonic() - began
        wait_until(lambda: server.heard[-1]["type"] == "abort")


def test_frames_are_lost_with_a_connection():
    with Server() as server:

        def answer(peer, message):
            server.deltas(peer, server.accept(peer, message) | {"text": "begun"})
            server.num_sent += 1  # the request's end, say

        server.answer = answer
        result = server.run("generate", "x", code=1)
        assert result.stdout == "begun" and "server_lost" in result.stderr, result


def test_tokenizer_is_silent():
    """The detokenizer lives: that says nothing of the tokenizer."""
    with Server() as server:
        server.is_front_silent = True
        for command in (["generate", "x"], ["tokenize", "x"]):
            began = time.monotonic()
            result = server.run(*command, code=1)
            assert "server_lost" in result.stderr, result
            assert 3.5 < time.monotonic() - began


def test_frame_for_the_tokenizer_is_lost():
    """It lives, and has nothing at work: the frame, or its answer, went down with a connection."""
    with Server() as server:
        server.answer = lambda peer, message: None
        result = server.run("generate", "x", code=1)
        assert "server_lost" in result.stderr, result


def test_tokenizer_is_busy():
    """A long prompt takes its time; `info` is answered meanwhile."""
    with Server() as server:
        waiting, asked = [], []

        def answer(peer, message):
            waiting.append((peer, message))

        def take_info(peer, message):
            asked.append(time.monotonic())
            info = json.dumps({"pending": 1})
            server.front.send_multipart([peer, pack("result", rid=message["rid"], info=info)])
            if len(asked) == 6:
                server.echo(*waiting.pop())

        server.answer, server.take_info = answer, take_info
        began = time.monotonic()
        assert server.run("generate", "long").stdout == "long"
        # Each second; each half while it is silent.
        assert len(asked) == 6 and asked[-1] - began > 3.4


def test_interrupt_aborts():
    with Server() as server:
        server.answer = lambda peer, message: server.deltas(peer, server.accept(peer, message) | {"text": "begun"})
        process = server.start("generate", "x")
        assert process.stdout.read(5) == "begun"
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=scaled(PATIENCE))
        assert process.returncode == 1 and "interrupted" in log and f"uid={1 + (1 << 48)}" in log
        wait_until(lambda: server.heard[-1]["type"] == "abort")
        assert server.heard[-1]["uid"] == 1 + (1 << 48)


def test_two_servers():
    with Server("one") as one, Server("two", one.parent):
        result = one.run("generate", "x", code=1)
        assert "--name" in result.stderr and "one" in result.stderr and "two" in result.stderr
        assert one.run("generate", "x", "--name", "two").stdout == "x"


def test_batch():
    lines = [
        {"id": "a", "prompt": "one two", "max_tokens": 5},
        {"id": 7, "messages": [{"role": "user", "content": "Hällo"}], "stop": "x"},
        {"id": None, "input_ids": [1, 2]},
        {"id": "bad", "prompt": "x", "max_tokens": 3.5},
        {"id": "n", "prompt": "x", "n": 2},
        {"id": "two", "prompt": "x", "input_ids": [1]},
        {"prompt": "no id", "seed": 2**64 - 1, "top_k": -1, "ignore_eos": True, "max_tokens": 10**18},
    ]
    with Server() as server:
        source, target = server.model / "in.jsonl", server.model / "out.jsonl"
        source.write_text("\n".join(map(json.dumps, lines)) + "\n\n{broken\n\n")
        result = server.run("batch", source, "-o", target, code=1)
        assert "4 of 8" in result.stderr, result
        out = [json.loads(line) for line in target.read_text().splitlines()]
        assert [answer.get("id") for answer in out] == ["a", 7, None, "bad", "n", "two", None, None]
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 2}
        assert out[0] == {
            "id": "a", "text": "one two", "output_ids": [0, 1], "finish_reason": "length", "usage": usage,
        }  # fmt: skip
        assert out[1]["text"] == "Hällo"
        for index, word in ((3, "max_tokens"), (4, "n:"), (5, "exactly one"), (3, "line 4: "), (7, "line 9, column 2")):
            assert out[index]["error"]["code"] == "invalid_request" and word in out[index]["error"]["message"]
        assert out[6]["text"] == "no id"
        assert server.heard[-1]["seed"] == 2**64 - 1
        assert server.heard[-1]["max_tokens"] == 2**31 - 1 and server.heard[-1]["stream"] is False
        assert server.run("batch", "-", input='{"prompt": "x"}').stdout.startswith('{"text":"x"')
        assert server.run("batch", "/nowhere", code=1).stderr


def test_batch_is_all_in_flight_and_in_order():
    with Server() as server:
        waiting = []

        def answer(peer, message):
            waiting.append((peer, message))
            if len(waiting) == 300:
                for at in reversed(waiting):
                    server.echo(*at)

        server.answer = answer
        text = "".join(json.dumps({"id": i, "prompt": f"p{i}"}) + "\n" for i in range(300))
        out = [json.loads(line) for line in server.run("batch", "-", input=text).stdout.splitlines()]
        assert [(a["id"], a["text"]) for a in out] == [(i, f"p{i}") for i in range(300)]


def test_batch_has_no_more_in_flight_than_a_queue_holds():
    num_lines, queue = 6000, 4096
    with Server() as server:
        waiting, most, num_left = [], 0, num_lines

        def answer(peer, message):
            nonlocal most
            waiting.append((peer, message["rid"]))
            most = max(most, len(waiting))

        def rest():
            nonlocal num_left
            if waiting and len(waiting) in (queue, num_left):
                ends = [{"rid": rid, "uid": 1, "text": "x", "finish": "length"} for _, rid in waiting]
                num_left -= len(ends)
                server.deltas(waiting[0][0], *ends)
                waiting.clear()

        server.answer, server.rest = answer, rest
        text = '{"prompt": "p"}\n' * num_lines
        out = [json.loads(line) for line in server.run("batch", "-", input=text).stdout.splitlines()]
        assert len(out) == num_lines and all(a["text"] == "x" for a in out)
        assert most == queue, most


def test_batch_sends_again_what_was_too_much():
    with Server() as server:
        waiting, refused = [], []

        def answer(peer, message):
            if len(waiting) == 20:
                refused.append(message["prompt"])
                server.refuse(peer, message, "overloaded", "20 wait already")
            else:
                waiting.append((peer, message))

        def rest():
            while waiting:
                server.echo(*waiting.pop())

        server.answer, server.rest = answer, rest
        text = "".join(json.dumps({"id": i, "prompt": f"p{i}"}) + "\n" for i in range(500))
        out = [json.loads(line) for line in server.run("batch", "-", input=text).stdout.splitlines()]
        assert [a.get("text") for a in out] == [f"p{i}" for i in range(500)]
        assert 0 < len(refused) < 2000, len(refused)


def test_tokenize_abort_status():
    with Server() as server:
        assert server.run("tokenize", "ab").stdout == "97,98\n"
        assert json.loads(server.run("tokenize", "ab", "--json").stdout) == {"ids": [97, 98]}
        server.run("abort", "12")
        assert server.heard[-1]["uid"] == 12
        status = json.loads(server.run("status", "--json").stdout)
        assert status["name"] == "fake" and status["scheduler"] == {"queue": 0, "nested": {"a": 1}}
        assert "nested.a" in server.run("status").stdout
        assert "invariants hold" in server.run("status", "--check").stdout
        server.broken = "page 7 is lost"
        result = server.run("status", "--check", code=1)
        assert "page 7 is lost" in result.stderr and "nested.a" in result.stdout, result


def test_chat_in_a_pipe():
    with Server() as server:
        result = server.run("chat", input="Hi\n/foo\n\nWörld\n/reset\nagain\n")
        assert result.stdout == "Hi\nHi Hi Wörld\nagain\n", result
        assert "unknown command '/foo'" in result.stderr and "\033" not in result.stdout + result.stderr
        roles = [[m["role"] for m in json.loads(h["messages"])] for h in server.heard]
        assert roles == [["user"], ["user", "assistant", "user"], ["user"]]
        server.run("chat", "--system", "Be brief.", input="/quit\nnever\n")
        assert len(server.heard) == 3


def test_chat_sampling():
    with Server() as server:
        config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
        (server.model / "generation_config.json").write_text(json.dumps(config))
        server.run("chat", "--top-p", "0.5", input="Hi\n")
        message = server.heard[-1]
        assert abs(message["temperature"] - 0.6) < 1e-6 and message["top_k"] == 20
        assert abs(message["top_p"] - 0.5) < 1e-6


def test_help_says_whose_defaults_there_are():
    """Of chat the model's own; of generate those of the protocol."""
    with Server() as server:
        for option, default in (("temperature", 0), ("top-k", 0), ("top-p", 1), ("min-p", 0)):
            for command, words in (("chat", f"(the model's, else {default})"), ("generate", f"({default})")):
                said = server.run(command, "--help").stdout.partition(f"--{option} ")[2].partition("  --")[0]
                assert words in said, (command, option, said)


def test_chat_with_a_server_given_by_its_endpoints():
    """Its own word says which model it is; what is not on this host is said."""
    with Server() as server:
        endpoints = f"{server.endpoint('tokenizer')},{server.endpoint('detokenizer')}"
        (server.model / "generation_config.json").write_text('{"do_sample": true, "temperature": 0.75}')
        server.run("chat", "--endpoint", endpoints, input="Hi\n")
        assert server.heard[-1]["temperature"] == 0.75
        (server.model / "generation_config.json").unlink()
        result = server.run("chat", "--endpoint", endpoints, input="Hi\n")
        assert f"{server.model} has no generation_config.json here" in result.stderr and "temperature" not in server.heard[-1]


def test_bench_says_what_went_wrong():
    with Server() as server:
        server.answer = lambda peer, message: server.refuse(peer, message, "too_long", "3000 is more than 2047")
        result = server.run("bench", "latency", "--batches", "2", "--passes", "2", "--warmup", "0", "--json", code=1)
        assert json.loads(result.stdout)["errors"] == 4
        assert "4 requests ended with an error; the first: too_long: 3000 is more than 2047" in result.stderr
        result = server.run("bench", "latency", "--batches", "2", "--passes", "2", "--warmup", "0", code=1)
        assert not result.stdout and "too_long" in result.stderr


def test_bench_measures_prompts_that_are_computed():
    """The cache is emptied before each run, or the prompts are others each time; rows that nothing was measured of are left out."""

    def prompts():
        ids, server.heard = [bytes(h["input_ids"]) for h in server.heard if "input_ids" in h], []
        return ids

    with Server() as server:

        def answer(peer, message):
            names, tokens = server.accept(peer, message), message["max_tokens"]
            for i in range(tokens - 1):
                server.deltas(peer, names | {"ids": [i]})
            end = {"finish": "length", "prompt_tokens": 7, "completion_tokens": tokens, "cached_tokens": 2}
            server.deltas(peer, names | {"ids": [9]} | end)

        server.answer = answer
        command = ("bench", "latency", "--batches", "2,3", "--prompt-tokens", 20, "--output-tokens", 5, "--passes", 1)
        table = server.run(*command).stdout
        assert server.told == ["flush_cache"] * 4, server.told
        assert all(word in table for word in ("latency batch 3: ", "tpot_p50", "gap_max", "cached_share          0.286")), table
        first = prompts()
        server.run(*command)
        assert prompts() == first and len(first) == 10
        endpoints = ("--endpoint", f"{server.endpoint('tokenizer')},{server.endpoint('detokenizer')}")
        server.told = []
        server.run(*command, *endpoints)
        drawn = prompts()
        server.run(*command, *endpoints)
        assert not set(drawn) & set(prompts()) and not set(drawn) & set(first) and not server.told
        server.run(*command, *endpoints, "--seed", 1)
        assert prompts() == first
        table = server.run("bench", "prefill", "--requests", 2, "--prompt-tokens", 9, "--passes", 1).stdout
        assert "ttft_p50" in table and not any(word in table for word in ("tpot", "gap", "step", " 0.000 ms")), table
        documented = (wire.ROOT / "tools/client/README.md").read_text()
        for line in server.run(*command, "--json").stdout.splitlines():
            assert all(f"`{key}`" in documented for key in json.loads(line)), line
        for batches in ("0", "", "1,,2", "1,x"):
            assert "--batches takes" in server.run("bench", "latency", "--batches", batches, code=2).stderr
        usage = server.run("bench", "--help").stdout
        assert all(word in usage for word in ("ttft", "tpot", "gap", "prefix cache"))


def test_bench_takes_the_options_of_its_load():
    with Server() as server:
        server.run("bench", "offline", "--requests", 3, "--passes", 1, "--warmup", 0)
        lengths = [h["max_tokens"] for h in server.heard if "input_ids" in h]
        assert lengths == [845, 312, 607], lengths  # as the list begins
        for load, option, takers in (
            ("offline", "--batches", "latency, overlap"), ("offline", "--prompt-tokens", "latency, overlap, prefill, serve"),
            ("latency", "--requests", "offline, prefill, serve"), ("latency", "--rate", "serve"), ("prefill", "--prefixes", "serve"),
            ("overlap", "--prefix-tokens", "serve"), ("serve", "--batches", "latency, overlap"),
        ):  # fmt: skip
            words = server.run("bench", load, option, 2, code=2).stderr
            assert f"{option} is for {takers}, not for {load}" in words, words
        assert "--requests 257: the list of offline has 256" in server.run("bench", "offline", "--requests", 257, code=2).stderr
        assert "133,966" in server.run("bench", "--help").stdout


def test_bench_that_is_interrupted():
    with Server() as server:
        ended, slow = [], []

        def answer(peer, message):
            if len(ended) < 3:
                ended.append(message)
                server.echo(peer, message)
            else:
                slow.append((peer, server.accept(peer, message)))

        def rest():
            for peer, names in slow:
                server.deltas(peer, names | {"ids": [1]})

        server.answer, server.rest = answer, rest
        terminal = Terminal(server, "bench", "latency", "--batches", "4", "--prompt-tokens", "2", "--output-tokens", "100")
        terminal.expect("latency batch 4, run 1 of 4")
        terminal.expect("/400 tokens")
        terminal.type("\x03")
        terminal.expect("of what had come when it was interrupted")
        terminal.expect("output")
        terminal.expect("ttft_p50")
        terminal.expect("interrupted after 3 of 4 requests")
        assert terminal.end() == 1


class Terminal:
    """The client at a terminal."""

    def __init__(self, server, *args):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [CLIENT, *args], env=server.env(), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, text, seconds=PATIENCE):
        deadline = time.monotonic() + scaled(seconds)
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, (text, self.seen)
            if select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        self.seen = self.seen.split(text, 1)[1]

    def prompt(self):
        """Its prompt, when it reads the line itself: what is typed before that, the terminal would take."""
        self.expect("> ")
        wait_until(lambda: not termios.tcgetattr(self.master)[3] & termios.ICANON, pause=0.005)

    def end(self):
        code = self.process.wait(timeout=scaled(PATIENCE))
        os.close(self.master)
        return code


def test_chat_at_a_terminal():
    """CLI-03."""
    with Server() as server:
        terminal = Terminal(server, "chat")
        terminal.prompt()
        terminal.type("/foo\r")
        terminal.expect("unknown command '/foo'")
        terminal.prompt()
        terminal.type("žlutý\r")
        terminal.expect("\nžlutý")
        terminal.prompt()
        terminal.type("eins\rzwei\rdrei ß\r")
        wait_until(lambda: len(server.heard) == 2)
        assert json.loads(server.heard[1]["messages"])[-1]["content"] == "eins\nzwei\ndrei ß"
        terminal.expect("drei ß\r\n")
        terminal.prompt()
        # Ctrl-C within an answer ends the answer, twice.
        server.answer = lambda peer, message: server.deltas(peer, server.accept(peer, message) | {"text": "begun"})
        for _ in range(2):
            terminal.type("long\r")
            terminal.expect("begun")
            terminal.type("\x03")
            terminal.expect("(interrupted)")
            terminal.prompt()
            wait_until(lambda: server.heard[-1]["type"] == "abort")
        # At the prompt it drops the line; when there is none, a hint.
        terminal.type("half a line")
        terminal.expect("half a line")
        terminal.type("\x03")
        terminal.prompt()
        assert "Ctrl-D leaves" not in terminal.seen
        terminal.type("\x03")
        terminal.expect("\r\n(Ctrl-D leaves)\r\n")
        terminal.prompt()
        server.answer = server.echo
        terminal.type("/reset\r")
        terminal.expect("(forgotten)")
        terminal.prompt()
        terminal.type("end\r")
        terminal.expect("\nend")
        assert json.loads(server.heard[-1]["messages"]) == [{"role": "user", "content": "end"}]
        terminal.prompt()
        terminal.type("\x04")
        assert terminal.end() == 0


def test_chat_whose_server_was_stopped():
    with Server() as server:
        launcher = subprocess.Popen(["sleep", "100"])
        run = json.loads((server.path / "run.json").read_text())
        (server.path / "run.json").write_text(json.dumps(run | {"pid": launcher.pid}))
        terminal = Terminal(server, "chat")
        terminal.expect(f"{server.model}\r\n/help lists")
        terminal.prompt()
        launcher.kill()
        launcher.wait()
        terminal.type("Hi\r")
        terminal.expect("the server 'fake' is gone: tools/launch.sh starts one again")
        assert terminal.end() == 1
        endpoints = f"{server.endpoint('tokenizer')},{server.endpoint('detokenizer')}"
        chat = Terminal(server, "chat", "--endpoint", endpoints)
        chat.prompt()
        server.is_silent = True
        chat.type("Hi\r")
        chat.expect("the server of ipc://")
        chat.expect("does not answer any more")
        assert chat.end() == 1


def test_chat_quit_leaves_no_blank_line():
    with Server() as server:
        terminal = Terminal(server, "chat")
        terminal.prompt()
        terminal.type("/quit\r")
        terminal.expect("/quit\r\n")
        terminal.process.wait(timeout=scaled(PATIENCE))
        left = terminal.seen
        if select.select([terminal.master], [], [], 0.1)[0]:
            try:
                left += os.read(terminal.master, 100).decode()
            except OSError:
                pass
        assert "\n" not in left, left
        assert terminal.end() == 0


def test_batch_at_a_terminal():
    """The bar is off the line before an answer stands there."""
    in_some_attempt(batch_at_a_terminal)  # of answers that come together, one count is drawn


def batch_at_a_terminal():
    with Server() as server:
        waiting = []
        server.answer = lambda peer, message: waiting.append((peer, message, time.monotonic() + 0.05 * len(waiting)))
        server.rest = lambda: server.echo(*waiting.pop(0)[:2]) if waiting and waiting[0][2] < time.monotonic() else None
        (server.model / "in.jsonl").write_text('{"prompt": "x"}\n' * 12)
        terminal = Terminal(server, "batch", str(server.model / "in.jsonl"))
        seen = ""
        try:
            while piece := os.read(terminal.master, 4096).decode():
                seen += piece
        except OSError:
            pass
        assert terminal.end() == 0
        lines = [line.rsplit("\033[K", 1)[-1] for line in seen.split("\r\n")]
        assert len(lines) == 14 and not lines[-1], lines
        assert all(json.loads(line)["text"] == "x" for line in lines[:12]), lines
        assert lines[12].endswith("100 %  12/12 requests") and seen.count("100 %") == 1 and "  5/12 requests" in seen


if __name__ == "__main__":
    sys.exit(wire.run(dict(globals())))
