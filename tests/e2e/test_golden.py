"""Golden answers through the three processes: the ids that Hugging Face gives, under every way of scheduling."""

import itertools
import sys

from server import DATA, DEMO, Server, golden, run

# (cache, prefill budget, page size)
SHAPES = [("radix", 8192, 1), ("naive", 5, 1), ("radix", 7, 4), ("radix", 64, 16)]
TINY = ["llama", "qwen2", "qwen3", "qwen3_yarn", "mistral", "qwen3_moe"]


def expected_ids(row):
    """The ids that any right implementation gives: up to a near tie, where another order of sums may choose otherwise."""
    ids = row["output_ids"]
    return ids[: row["min_margin_at"]] if row["min_margin"] < 1e-3 else ids


def requests(rows, ignore_eos):
    for index, row in enumerate(rows):
        limit = len(row["output_ids"]) if ignore_eos else 200
        yield {
            "id": str(index),
            "input_ids": row["input_ids"],
            "max_tokens": limit,
            "temperature": 0,
            "ignore_eos": ignore_eos,
        }


def compare(rows, answers, where):
    assert len(answers) == len(rows), where
    for row, answer in zip(rows, answers):
        assert "error" not in answer, (where, answer)
        want = expected_ids(row)
        assert answer["output_ids"][: len(want)] == want, (where, answer["id"], want, answer["output_ids"])
        if want is row["output_ids"]:
            assert len(answer["output_ids"]) == len(want), (where, answer["id"])


def serve_golden(model, ignore_eos, shapes=SHAPES, policies=("prefill-first", "mixed"), threads=(2,)):
    rows = golden(model)
    lists = list(requests(rows, ignore_eos))
    for (cache, budget, page), policy, overlap, count in itertools.product(shapes, policies, (True, False), threads):
        where = f"{model.name} {cache} budget {budget} page {page} {policy} overlap {overlap} threads {count}"
        options = ["--dtype", "float32", "--cache-type", cache, "--max-prefill-length", budget, "--page-size", page]
        options += ["--policy", policy, "--threads", count]
        env = {} if overlap else {"MINISGL_DISABLE_OVERLAP_SCHEDULING": "1"}
        with Server(*options, model=model, env=env) as server:
            cold = server.batch(lists)
            compare(rows, cold, where + " cold")
            warm = server.batch(lists)
            compare(rows, warm, where + " warm")
            alone = server.batch(lists[:1])
            compare(rows[:1], alone, where + " alone")
            cached = sum(a["usage"]["cached_tokens"] for a in warm)
            long_enough = any(len(r["input_ids"]) > 2 * page for r in rows)
            assert (cached > 0) == (cache == "radix" and long_enough), (where, cached)


def test_demo_model_in_every_shape():
    serve_golden(DEMO, ignore_eos=False)


def test_demo_model_threads():
    serve_golden(DEMO, ignore_eos=False, shapes=SHAPES[3:], policies=("mixed",), threads=(1, 2))


def test_demo_model_on_a_slow_device():
    rows = golden(DEMO)
    for overlap in (True, False):
        env = {} if overlap else {"MINISGL_DISABLE_OVERLAP_SCHEDULING": "1"}
        with Server("--dtype", "float32", "--op-delay-us", 20, env=env) as server:
            compare(rows, server.batch(list(requests(rows, False))), f"slow device, overlap {overlap}")


def test_demo_model_text_and_chat():
    rows = golden(DEMO)
    lines = []
    for index, row in enumerate(rows):
        key = "prompt" if isinstance(row["prompt"], str) else "messages"
        lines.append({"id": index, key: row["prompt"], "max_tokens": 200})
    with Server("--dtype", "float32") as server:
        answers = server.batch(lines)
        compare(rows, answers, "text")
        for row, answer in zip(rows, answers):
            assert answer["usage"]["prompt_tokens"] == len(row["input_ids"]), (row["prompt"], answer)
            if expected_ids(row) is row["output_ids"]:
                assert answer["text"] == row["text"], (row["text"], answer["text"])
                assert answer["finish_reason"] == row["finish_reason"], answer


def test_tiny_models():
    for name in TINY:
        serve_golden(DATA / "tiny_models" / name, True, shapes=[SHAPES[2]], policies=("mixed",))


if __name__ == "__main__":
    sys.exit(run(globals()))
