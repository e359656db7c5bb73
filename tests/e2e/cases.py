"""What the files test_cases_*.py share. Each of their tests names the situation that it rebuilds."""

import json
import pathlib
import shutil
import struct
import time

import protocol_client
from protocol_client import Refused
from server import DEMO, PATIENCE, held, in_some_attempt, is_idle, sanitized, wait_until  # noqa: F401

PROMPT = "Once upon a time"
SIM = ["--device", "sim"]
CPU32 = ["--dtype", "float32"]
SLACK = sanitized.TIME_SCALE  # what bounds of time are multiplied with
SANITIZED = sanitized.SANITIZED


class Client(protocol_client.Client):
    """With what tests do all the time, and with more patience."""

    LOST_S = PATIENCE * SLACK

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.destroy(linger=0)

    def wait(self, condition, timeout=PATIENCE):
        super().wait(condition, timeout * SLACK)

    def answer(self, rid, timeout=PATIENCE):
        return super().answer(rid, timeout)

    def ask(self, kind, **keys):
        return self.answer(self.send(kind, **keys))

    def info(self):
        return json.loads(self.ask("info")["info"])

    def start(self, **keys):
        """`generate`; returns the rid and the uid of the accepted request."""
        accepted = self.ask("generate", **keys)
        return accepted["rid"], accepted["uid"]

    def whole(self, rid, timeout=PATIENCE):
        """All deltas of a request as one: texts and ids joined, the rest as in the last; what is not given is 0."""
        deltas = list(self.stream(rid, timeout))
        text, ids = "".join(d.get("text", "") for d in deltas), sum((token_ids(d.get("ids")) for d in deltas), [])
        return {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, **deltas[-1], "text": text, "ids": ids}

    def generate(self, **keys):
        return self.whole(self.start(**keys)[0])


def token_ids(ids):
    """Ids come as an array, or as the bytes of little-endian int32."""
    return list(struct.unpack(f"<{len(ids) // 4}i", ids) if isinstance(ids, bytes) else ids or [])


def refusal(function, *args, **keys):
    """Calls; returns what it was refused with."""
    try:
        answer = function(*args, **keys)
    except Refused as error:
        return error
    raise AssertionError(f"{args} {keys} was not refused: {answer}")


def pool_check(server):
    """Idle: free pages + cached pages = all pages, nothing is locked, and a request of 5 tokens works at once."""
    status = server.wait_status(is_idle)
    scheduler = status["scheduler"]
    pages = scheduler["pages"]
    assert pages["free"] + pages["cached"] == scheduler["engine"]["num_pages"], pages
    assert pages["evictable"] == pages["cached"], pages
    with Client(server.run_dir) as client:

        def works_at_once():
            began = time.monotonic()
            answer = client.generate(input_ids=[5, 6, 7], max_tokens=5, ignore_eos=True, want_ids=True)
            seconds = time.monotonic() - began
            assert answer["finish"] == "length" and len(answer["ids"]) == 5, answer
            assert seconds < 2 * SLACK, "a request of 5 tokens took long"

        in_some_attempt(works_at_once)
    return status


def start_all(client, requests):
    """Sends all, waits for all; returns the answers in order. A refusal is an answer, too."""
    rids = [client.send("generate", **request) for request in requests]
    return collect(client, rids)


def collect(client, rids, timeout=PATIENCE):
    answers = []
    for rid in rids:
        try:
            client.answer(rid, timeout)
            answers.append(client.whole(rid, timeout))
        except Refused as error:
            answers.append(error)
    return answers


def model_copy(folder, source=DEMO, **changes):
    """A copy of a model with keys of its JSON files changed: config={"head_dim": 3}, generation_config={...}."""
    folder = pathlib.Path(folder) / "model"
    shutil.copytree(source, folder)
    for file, keys in changes.items():
        path = folder / f"{file}.json"
        content = json.loads(path.read_text())
        for key, value in keys.items():
            if value is None:
                content.pop(key, None)
            else:
                content[key] = value
        path.write_text(json.dumps(content))
    return folder
