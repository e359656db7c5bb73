"""What clumsy users do: more lines than any queue holds, outputs that are closed or full."""

import subprocess
import sys

from server import CLIENT, Server, is_idle, run, scaled


def test_a_batch_of_more_lines_than_all_queues_hold():
    with Server("--device", "sim") as server:
        answers = server.batch([{"id": i, "prompt": "hi", "max_tokens": 1} for i in range(30000)])
        assert [a["id"] for a in answers] == list(range(30000))
        errors = [a["error"] for a in answers if "error" in a]
        assert not errors, (len(errors), errors[0])
        assert is_idle(server.status())


def test_a_batch_of_which_the_server_refuses_most():
    with Server("--device", "sim", "--max-queued", 64) as server:
        answers = server.batch([{"id": i, "prompt": "hi", "max_tokens": 1} for i in range(5000)])
        assert [a["id"] for a in answers] == list(range(5000))
        assert all("text" in a for a in answers)
        status = server.status()
        assert is_idle(status) and status["detokenizer"]["refused"] > 0


def test_an_output_that_takes_nothing_is_a_failure():
    with Server("--device", "sim") as server:
        for command in ("generate hi --max-tokens 3", "generate hi --max-tokens 3 --json", "status", "tokenize hi"):
            for redirection in (">/dev/full", ">&-", ">&- <&-"):
                done = subprocess.run(
                    ["bash", "-c", f"{CLIENT} {command} --name {server.name} {redirection}"],
                    env=server.env,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=scaled(20),
                )
                assert done.returncode == 1 and "stdout cannot be written" in done.stderr, (command, redirection, done)


if __name__ == "__main__":
    sys.exit(run(globals()))
