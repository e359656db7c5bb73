"""What clumsy users do: more lines than any queue holds, outputs that are closed or full."""

import subprocess
import sys

from server import CLIENT, PATIENCE, Server, is_idle, run, scaled


def test_a_batch_of_more_lines_than_all_queues_hold():
    with Server("--device", "sim") as server:
        answers = server.batch([{"id": i, "prompt": "hi", "max_tokens": 1} for i in range(30000)])
        assert [a["id"] for a in answers] == list(range(30000))
        errors = [a["error"] for a in answers if "error" in a]
        assert not errors, (len(errors), errors[0])
        server.wait_status(is_idle)


def test_a_batch_of_which_the_server_refuses_most():
    slow = ["--sim-step-us", 10000, "--max-running-requests", 16]  # 1,600 a second: the client sends more, whatever the host
    with Server("--device", "sim", "--max-queued", 64, *slow) as server:
        answers = server.batch([{"id": i, "prompt": "hi", "max_tokens": 1} for i in range(1000)])
        assert [a["id"] for a in answers] == list(range(1000))
        assert all("text" in a for a in answers)
        assert server.wait_status(is_idle)["detokenizer"]["refused"] > 0


def test_an_output_that_takes_nothing_is_a_failure():
    with Server("--device", "sim") as server:
        for command in ("generate hi --max-tokens 3", "generate hi --max-tokens 3 --json", "status", "tokenize hi"):
            for redirection in (">/dev/full", ">&-", ">&- <&-"):
                done = subprocess.run(
                    ["bash", "-c", f"{CLIENT} {command} --name {server.name} {redirection}"],
                    env=server.env,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=scaled(PATIENCE),
                )
                assert done.returncode == 1 and "stdout cannot be written" in done.stderr, (command, redirection, done)


if __name__ == "__main__":
    sys.exit(run(globals()))
