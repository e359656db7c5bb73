#!/usr/bin/python3
"""What a person sees of a server on a GPU, measured at the client, with random weights: the rows of the README's table.

usage: tests/bench/bench_card.py [--passes N] [SHAPE]...       shapes: 0.6B 14B (both); MINISGL_BUILD names the build folder

Starts with nothing timed and again with all of it known; steps of 1, 16 and 64 streams beside the bytes that a step must read;
the offline load; prefill beside its operations. Medians of N passes (3).
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from bench_serving import bench, row  # noqa: E402 - beside this one
from server import DATA, Server  # noqa: E402

SHAPES = {
    "0.6B": {},
    "14B": {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_attention_heads": 40,
        "num_hidden_layers": 40,
        "tie_word_embeddings": False,
    },
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
}
STREAMS = (1, 16, 64)
PROMPT, OUTPUT = 128, 512  # of `bench latency`
PROMPTS = (64, 1024)  # of `bench prefill`


def model_of(shape, folder):
    """A model directory of Qwen3's tokenizer and this shape."""
    model = pathlib.Path(folder) / shape
    shutil.copytree(DATA / "qwen3", model)
    config = json.loads((model / "config.json").read_text()) | SHAPES[shape]
    (model / "config.json").write_text(json.dumps(config))
    return model, config


def multiplied(config):
    """Elements of the weights that every token is multiplied by, without the output layer."""
    hidden, head = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    return config["num_hidden_layers"] * hidden * (head * (2 * heads + 2 * kv_heads) + 3 * config["intermediate_size"])


def start(options, model, env):
    began = time.monotonic()
    server = Server(*options, model=model, env=env)
    return server, time.monotonic() - began


def measure(shape, args, folder):
    model, config = model_of(shape, folder)
    options = ("--device", args.device, "--dtype", "bfloat16", "--dummy-weights")
    env = {"XDG_CACHE_HOME": str(pathlib.Path(folder) / "cache"), "LOG_LEVEL": "debug"}
    output_layer = config["hidden_size"] * config["vocab_size"]
    kv_bytes = 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]  # of a position
    server, cold_s = start(options, model, env)
    server.close()
    server, warm_s = start(options, model, env)
    with server:
        parts = re.search(r"start: (.*)", server.log("scheduler"))
        row(f"{shape}: start, nothing timed before", f"{cold_s:.2f} s")
        row(f"{shape}: start", f"{warm_s:.2f} s", parts[1] if parts else "")
        passes = ("--passes", str(args.passes))
        for streams in STREAMS:
            latency = bench(server, "latency", "--batches", str(streams), *passes)
            moved = 2 * (multiplied(config) + output_layer) + streams * (PROMPT + OUTPUT / 2) * kv_bytes
            row(f"{shape}: {streams} streams, a step", f"{latency['step']:.3f} ms", f"{moved / latency['step'] / 1e9:.2f} TB/s of what it reads")
        offline = bench(server, "offline", *passes)
        row(f"{shape}: offline load", f"{offline['output']:.0f} tok/s", f"{offline['wall']:.2f} s")
        prefill = bench(server, "prefill", *passes)
        flop = PROMPTS[0] * PROMPTS[1] * 2 * multiplied(config)
        flop += PROMPTS[0] * PROMPTS[1] ** 2 * 2 * config["num_hidden_layers"] * config["num_attention_heads"] * config["head_dim"]
        row(f"{shape}: prefill of {PROMPTS[0]} x {PROMPTS[1]}", f"{prefill['wall']:.3f} s", f"{flop / prefill['wall'] / 1e12:.0f} TFLOP/s")
        server.client("status", "--check")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], metavar="SHAPE")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--device", default="cuda", help="another one shows only that this script works")
    args = parser.parse_args()
    for shape in args.shapes or ("0.6B", "14B"):
        with tempfile.TemporaryDirectory() as folder:
            measure(shape, args, folder)


if __name__ == "__main__":
    main()
