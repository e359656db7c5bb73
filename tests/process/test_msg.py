"""minisgl-msg: JSON lines to frames and back, on every kind of socket."""
import json
import os
import subprocess
import time
import unittest

import msgpack
import zmq

from process_harness import CLIENT, ProcessTest, WAIT_S, pack
from wire import BUILD, unpack

MSG = os.path.join(BUILD, "tools/msg/minisgl-msg")


class MsgTest(ProcessTest):
    def run_msg(self, *args, lines=()):
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([MSG, *args], input=text, capture_output=True, text=True, timeout=WAIT_S)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_send_makes_the_frames_of_the_protocol(self):
        pull = self.socket(zmq.PULL, "a", bind=True)
        code, _, errors = self.run_msg(
            "send", "--push", "--connect", self.endpoint("a"),
            lines=[{"type": "request", "uid": 2**64 - 1, "client": CLIENT.hex(), "input_ids": [1, 70000],
                    "temperature": 0.5, "reply_to": {"client": CLIENT.hex(), "rid": "r"}},
                   {"type": "generate", "v": None, "messages": [{"role": "user", "content": "é"}], "stop": "x"},
                   "\n", {"$raw": "c0ff"}])
        self.assertEqual((code, errors), (0, ""))
        request = self.receive(pull)
        self.assertEqual(request["input_ids"], b"\x01\0\0\0\x70\x11\x01\0")
        self.assertEqual((request["uid"], request["client"], request["v"]), (2**64 - 1, CLIENT, 1))
        self.assertEqual(unpack(request["reply_to"]), {"client": CLIENT, "rid": "r"})
        generate = self.receive(pull)
        self.assertNotIn("v", generate)
        self.assertEqual(json.loads(generate["messages"]), [{"role": "user", "content": "é"}])
        self.assertEqual(pull.recv(), b"\xc0\xff")

    def test_send_says_when_nobody_is_there(self):
        for args in (("--push", "--connect"), ("--push", "--bind"), ("--dealer", "--connect")):
            code, _, errors = self.run_msg("send", *args, self.endpoint("nobody"), lines=[{"type": "ping"}])
            self.assertEqual(code, 1)
            self.assertIn("nobody is there", errors)

    def test_send_answers_as_a_router_and_as_a_control_endpoint(self):
        """A line's peer is the asker's identity; of a --rep, with a byte that says whether its frame had an empty part."""
        for kind, flag in (("--router", ""), ("--rep", "00")):
            for attempt in range(50):  # until the asker is there; nothing says when it is
                client = self.socket(zmq.DEALER, f"{kind}{attempt}", identity=CLIENT)
                command = [MSG, "send", kind, "--bind", self.endpoint(f"{kind}{attempt}")]
                server = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.processes.append(server)
                time.sleep(0.1 * (attempt + 1))
                line = json.dumps({"type": "alive", "peer": CLIENT.hex() + flag}) + "\n"
                _, errors = server.communicate(line, WAIT_S)
                if server.returncode == 0:
                    break
                self.assertIn("not connected", errors)
            self.assertEqual(self.receive(client), {"type": "alive", "v": 1})

    def test_recv_prints_what_comes(self):
        push = self.socket(zmq.PUSH, "a")
        reply_to = msgpack.packb({"client": CLIENT, "rid": "r"})
        push.send(pack(type="tokens", rows=[[2**63, 5, None, {"reply_to": reply_to}], [2, None, "stop"]]))
        push.send(pack(type="rejected", reply_to=b"\xc1", text=None, number=1.5))
        push.send(b"\x93")
        code, lines, _ = self.run_msg("recv", "--pull", "--bind", self.endpoint("a"), "--count", "3")
        self.assertEqual(code, 0)
        self.assertEqual(lines[0]["rows"],
                         [[2**63, 5, None, {"reply_to": {"client": CLIENT.hex(), "rid": "r"}}], [2, None, "stop"]])
        self.assertEqual(lines[1], {"v": 1, "type": "rejected", "reply_to": "c1", "text": None, "number": 1.5})
        self.assertEqual(lines[2], {"$raw": "93"})

    def test_a_frame_of_a_hundred_thousand_levels_is_printed_as_bytes(self):
        push = self.socket(zmq.PUSH, "a")
        nested = b"\x01"
        for _ in range(5000):
            nested = msgpack.packb({"reply_to": nested})
        deep = b"\x81\xa1a" + b"\x91" * 100000 + b"\xc0"
        push.send(nested)
        push.send(deep)
        code, lines, _ = self.run_msg("recv", "--pull", "--bind", self.endpoint("a"), "--count", "2")
        self.assertEqual(code, 0)
        self.assertEqual(lines[1], {"$raw": deep.hex()})
        levels = 0
        while isinstance(lines[0], dict):
            lines[0], levels = lines[0]["reply_to"], levels + 1
        self.assertLess(levels, 100)

    def test_request_and_answer_between_two(self):
        rep = subprocess.Popen([MSG, "recv", "--rep", "--bind", self.endpoint("a"), "--count", "1"],
                               stdout=subprocess.PIPE, text=True)
        self.processes.append(rep)
        code, lines, errors = self.run_msg("request", "--req", "--connect", self.endpoint("a"), "--timeout", "1",
                                           lines=[{"type": "ping"}])
        self.assertEqual((code, lines), (1, []))  # nobody answers
        self.assertIn("no answer", errors)
        line = json.loads(rep.stdout.readline())
        self.assertEqual(line["type"], "ping")
        self.assertIn("peer", line)

    def test_a_dealer_talks_to_a_router(self):
        router = self.socket(zmq.ROUTER, "a", bind=True)
        dealer = subprocess.Popen(
            [MSG, "request", "--dealer", "--identity", CLIENT.hex(), "--connect", self.endpoint("a"), "--count", "2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(dealer)
        dealer.stdin.write('{"type":"hello"}\n')
        dealer.stdin.close()
        peer, frame = router.recv_multipart()
        self.assertEqual((peer, unpack(frame)), (CLIENT, {"type": "hello", "v": 1}))
        router.send_multipart([peer, pack(type="hello_ok")])
        router.send_multipart([peer, pack(type="alive")])
        self.assertEqual([json.loads(line)["type"] for line in dealer.stdout], ["hello_ok", "alive"])
        self.assertEqual(dealer.wait(WAIT_S), 0)

    def test_wrong_usage_is_said(self):
        for args, says in [(["send"], "--push"), (["send", "--pull", "--connect", "ipc:///x"], "only receives"),
                           (["recv", "--pull"], "--connect"), (["what"], "send, recv"), ([], "send, recv"),
                           (["send", "--dealer", "--identity", "00", "--connect", "ipc:///x"], "--identity")]:
            code, _, errors = self.run_msg(*args)
            self.assertEqual(code, 2, args)
            self.assertIn(says, errors)
        code, _, errors = self.run_msg("send", "--push", "--connect", self.endpoint("a"), lines=["{nonsense\n"])
        self.assertEqual(code, 1)
        self.assertIn("line 1", errors)


if __name__ == "__main__":
    unittest.main()
