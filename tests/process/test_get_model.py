"""tools/get_model.sh against a small server with the hub's routes: redirects, cut connections, checksums, gates."""

import hashlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SMOLLM2_BYTES = 269060552
WEIGHTS = bytes(range(256)) * 12000  # 3 MB: several chunks
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "README.md": b"not wanted",
    "pytorch_model.bin": b"not wanted either",
}


def blob_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    """The hub, and on another port the storage that it redirects large files to."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, code, data=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        state, path = self.server.state, self.path
        state.requests.append(
            (self.server.server_port, path, self.headers.get("Range"), self.headers.get("Authorization"))
        )
        if path.startswith("/api/models/org/gated"):
            self.reply(401)
        elif path.startswith("/api/models/org/name/revision/"):
            siblings = []
            for name, data in FILES.items():
                entry = {"rfilename": name, "size": len(data), "blobId": blob_hash(data)}
                if name == "model.safetensors":
                    entry["lfs"] = {"sha256": hashlib.sha256(WEIGHTS).hexdigest(), "size": len(data)}
                siblings.append(entry)
            self.reply(200, json.dumps({"sha": COMMIT, "siblings": siblings}).encode())
        elif path.startswith(f"/org/name/resolve/{COMMIT}/"):
            name = path.rsplit("/", 1)[1]
            if name == "model.safetensors":
                self.reply(302, Location=f"http://127.0.0.1:{state.storage_port}/blob")
            else:
                self.reply(200, FILES[name])
        elif path == "/blob":
            self.blob(state)
        else:
            self.reply(404)

    def blob(self, state):
        start = int((self.headers.get("Range") or "bytes=0-")[6:].split("-")[0])
        data = state.blob[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if state.cuts > 0:
            state.cuts -= 1
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(data)


class State:
    def __init__(self):
        self.requests, self.cuts, self.blob, self.storage_port = [], 0, WEIGHTS, 0


class GetModel(unittest.TestCase):
    def setUp(self):
        self.state = State()
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) for _ in range(2)]
        for server in self.servers:
            server.state = self.state
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.state.storage_port = self.servers[1].server_port
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "out"

    def tearDown(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.folder.cleanup()

    def get(self, *args, hub=None, out=None, **more):
        env = dict(
            os.environ,
            HF_ENDPOINT=hub or f"http://127.0.0.1:{self.servers[0].server_port}",
            HF_TOKEN="secret",
            MINISGL_RETRY_SCALE="0.01",
            no_proxy="127.0.0.1",
            **more,
        )
        command = [str(ROOT / "tools/get_model.sh"), *args, "--out", str(out or self.out)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    def test_fetches_what_a_server_needs(self):
        result = self.get("org/name")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            sorted(p.name for p in self.out.iterdir()), ["config.json", "model.safetensors", "tokenizer.json"]
        )
        self.assertEqual((self.out / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertIn("tools/launch.sh --model", result.stderr)

    def test_token_goes_to_the_hub_only(self):
        self.get("org/name")
        for port, _, _, token in self.state.requests:
            expected = "Bearer secret" if port == self.servers[0].server_port else None
            self.assertEqual(token, expected)

    def test_goes_on_after_a_cut(self):
        self.state.cuts = 2
        result = self.get("org/name")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.out / "model.safetensors").read_bytes(), WEIGHTS)
        ranges = [r for port, path, r, _ in self.state.requests if path == "/blob"]
        self.assertEqual(len(ranges), 3)
        self.assertTrue(all(ranges[1:]), ranges)

    def test_second_call_fetches_nothing(self):
        self.get("org/name")
        self.state.requests.clear()
        result = self.get("org/name")
        self.assertEqual(result.returncode, 0)
        self.assertIn("already there", result.stderr)
        self.assertEqual([p for _, p, _, _ in self.state.requests if "/resolve/" in p], [])

    def test_wrong_bytes_are_refused(self):
        self.state.blob = WEIGHTS[:-1] + b"x"
        result = self.get("org/name")
        self.assertEqual(result.returncode, 1)
        self.assertIn("checksum", result.stderr)
        self.assertFalse((self.out / "model.safetensors").exists())

    def test_says_what_is_wrong(self):
        for args, words, code in (
            (["org/gated"], "HF_TOKEN", 1),
            (["org/none"], "not found", 1),
            (["nonsense"], "neither", 2),
            (["--what"], "unknown option", 2),
        ):
            result = self.get(*args)
            self.assertEqual(result.returncode, code)
            self.assertIn(words, result.stderr)

    def test_where_it_cannot_write_it_fetches_nothing(self):
        for model in ("smollm2", "org/name"):
            for out, reason in (("/proc/x", "No such file or directory"), (str(ROOT / "README.md"), "is no directory")):
                result = self.get(model, out=out)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stderr, f"get_model: --out {out}: {reason}\n")
        self.assertEqual(self.state.requests, [])

    def test_nothing_is_left_of_nothing(self):
        self.assertEqual(self.get("org/none").returncode, 1)
        self.assertFalse(self.out.exists())

    def test_a_cache_that_cannot_be_made_is_named_with_another_way(self):
        result = self.get("smollm2", XDG_CACHE_HOME="/proc/x")
        self.assertEqual(result.returncode, 1)
        self.assertIn("get_model: /proc/x/minisgl/get_model: No such file or directory: XDG_CACHE_HOME", result.stderr)
        self.assertFalse(self.out.exists())

    def test_smollm2_that_is_there_is_not_made_again(self):
        self.out.mkdir()
        with open(self.out / "model.safetensors", "wb") as file:
            file.truncate(SMOLLM2_BYTES)  # of holes
        for is_whole in (False, True):
            result = self.get("smollm2", XDG_CACHE_HOME="/proc/x")  # where it must begin anew it fails
            self.assertEqual(result.returncode == 0 and "already there" in result.stderr, is_whole, result.stderr)
            (self.out / "tokenizer_config.json").touch()

    def test_a_hub_that_is_not_there_is_named(self):
        with socket.socket() as taken:  # bound, and nobody listens
            taken.bind(("127.0.0.1", 0))
            hub = f"http://127.0.0.1:{taken.getsockname()[1]}"
            result = self.get("org/name", hub=hub)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"org/name at main, from {hub}: Connection refused (HF_ENDPOINT names another hub)", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    outcome = unittest.main(exit=False, argv=[sys.argv[0]]).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
