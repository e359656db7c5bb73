#!/usr/bin/env python3
"""A fault of the card while streams run: an operator with a bad pointer (--fault-step).

The scheduler ends with a log line that names the step, the launcher with it, and every client has an error for each of its requests
within 5 s of that line. Skipped (77) where there is no card.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from server import CLIENT, Server, run, scaled  # noqa: E402 - of the folder above

FAULT_STEP = 1000
NUM_CLIENTS, NUM_REQUESTS, NUM_TOKENS = 3, 20, 1900
SKIPPED = 77


def start_client(server, folder, number):
    """`minisgl batch`, whose requests outlive the step of the fault."""
    lines = [
        {"id": i, "input_ids": [5 + number, 6 + i, 7], "max_tokens": NUM_TOKENS, "ignore_eos": True} for i in range(NUM_REQUESTS)
    ]
    source, target = pathlib.Path(folder) / f"{number}.in", pathlib.Path(folder) / f"{number}.out"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [str(CLIENT), "batch", str(source), "-o", str(target), "--name", server.name]
    process = subprocess.Popen(command, env=server.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return process, target


def check_clients(overlap):
    env = {} if overlap else {"MINISGL_DISABLE_OVERLAP_SCHEDULING": "1"}
    with Server("--device", "cuda", "--fault-step", FAULT_STEP, env=env) as server, tempfile.TemporaryDirectory() as folder:
        clients = [start_client(server, folder, number) for number in range(NUM_CLIENTS)]
        for process, target in clients:
            process.communicate(timeout=scaled(60))
            ended = datetime.datetime.now()
            answers = [json.loads(line) for line in target.read_text().splitlines()]
            assert len(answers) == NUM_REQUESTS, answers
            for answer in answers:
                assert answer.get("error", {}).get("code") in ("internal", "server_lost"), answer
        code = server.process.wait(timeout=scaled(20))
        log = server.log("scheduler")
        errors = re.findall(r"^minisgl-scheduler (\d+:\d+:\d+\.\d+) error: (.*)$", log, re.MULTILINE)
        assert len(errors) == 1, log
        time, message = errors[0]
        step = re.search(r"step (\d+)", message)
        assert step and FAULT_STEP <= int(step[1]) <= FAULT_STEP + 2, message
        assert "illegal" in message, message
        faulted = datetime.datetime.combine(ended.date(), datetime.time.fromisoformat(time))
        late = (ended - faulted).total_seconds()  # negative: the line is the scheduler's last deed
        late -= 86400 * round(late / 86400)  # of a midnight between the two
        assert late < scaled(5), f"clients ended {late:.1f} s after the fault"
        assert code == 1, f"launch.sh ended with {code}"
        print(f"overlap={overlap}: {message}; clients ended {late:.2f} s later", flush=True)


def test_fault_ends_every_request_with_overlap():
    check_clients(True)


def test_fault_ends_every_request_without_overlap():
    check_clients(False)


if __name__ == "__main__":
    try:
        with Server("--device", "cuda") as probe:
            pass
    except RuntimeError as error:
        reason = re.search("error: (.*(NVIDIA driver|minisgl_cuda.so).*)", str(error))
        if not reason:
            raise
        print(f"test_fault: skipped: {reason[1]}", file=sys.stderr)
        sys.exit(SKIPPED)
    sys.exit(run(globals()))
