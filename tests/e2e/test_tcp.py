"""The three processes and the client over tcp:// with CURVE keys, as on several hosts."""

import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import zmq.auth

from server import BUILD, CLIENT, DEMO, PATIENCE, run, scaled

NAMES = ("tokenizer", "scheduler", "detokenizer", "client")


def make_keys(folder, names):
    """A folder for each: its own pair, and the public halves of all the others."""
    for name in names:
        (folder / name).mkdir()
        zmq.auth.create_certificates(folder / name, "own")
    for name in names:
        for other in names:
            if other != name:
                shutil.copy(folder / other / "own.key", folder / name / f"{other}.key")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start(folder, name, **endpoints):
    options = [text for key, value in endpoints.items() for text in (f"--{key}", value)]
    process = subprocess.Popen(
        [BUILD / f"{name}_proc/minisgl-{name}", "--model", DEMO, "--curve-keys", folder / name, *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert "ready" in process.stdout.readline(), name
    return process


def test_clients_with_a_known_key_are_served_and_no_others():
    with tempfile.TemporaryDirectory(prefix="minisgl-test-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        make_keys(folder, NAMES)
        (folder / "stranger").mkdir()
        zmq.auth.create_certificates(folder / "stranger", "own")
        for known in NAMES[:3]:
            shutil.copy(folder / known / "own.key", folder / "stranger" / f"{known}.key")
        front, requests, tokens, reply = free_ports(4)
        to = "tcp://127.0.0.1:%d"
        at = "tcp://0.0.0.0:%d"
        processes = [
            start(folder, "scheduler", endpoint=at % requests, detokenizer=to % tokens),
            start(folder, "detokenizer", input=at % tokens, endpoint=at % reply, scheduler=to % requests),
            start(folder, "tokenizer", endpoint=at % front, scheduler=to % requests),
        ]
        try:
            for keys, wanted in (("client", 0), ("stranger", 1), (None, 1)):
                options = ["--curve-keys", folder / keys] if keys else []
                done = subprocess.run(
                    [CLIENT, "generate", "Once upon a time", "--max-tokens", "8", *options,
                     "--endpoint", f"{to % front},{to % reply}"],
                    capture_output=True, text=True, timeout=scaled(PATIENCE),
                )  # fmt: skip
                assert done.returncode == wanted, (keys, done)
                assert bool(done.stdout) == (wanted == 0), (keys, done)
        finally:
            for process in processes:
                process.terminate()
        assert [process.wait(scaled(PATIENCE)) for process in processes] == [0, 0, 0]


if __name__ == "__main__":
    sys.exit(run(globals()))
