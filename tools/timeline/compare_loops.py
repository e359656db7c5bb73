#!/usr/bin/env python3
"""The same load with the overlap loop and with the normal one: milliseconds a step, and the gain.

usage: compare_loops.py [--device sim|cpu|cuda] [--model DIR] [--step-us N,N] [--batches N,N] [--seconds S] [--passes N]

For each step time (of sim; another device has its own) and each loop a server is started, and `minisgl bench latency` keeps so many
streams busy. A cell is "normal / overlap = gain" in milliseconds between two tokens of a stream, medians over the passes.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MINISGL_BUILD", ROOT / "build"))


def serve_and_measure(options, env, bench):
    """Milliseconds a step by batch size, of one server."""
    with tempfile.TemporaryDirectory(prefix="minisgl-compare-", dir="/tmp") as folder:
        env = dict(os.environ, MINISGL_RUN_DIR=folder, **env)
        launch = [str(ROOT / "tools/launch.sh"), "--name", "compare"]
        subprocess.run([*launch, "--detach", *options], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            lines = subprocess.run(
                [str(BUILD / "tools/client/minisgl"), "bench", "latency", "--json", "--name", "compare", *bench],
                env=env,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout.splitlines()
        finally:
            subprocess.run([*launch, "--stop"], env=env, check=True, stderr=subprocess.DEVNULL)
    rows = map(json.loads, lines)
    return {int(row["load"].split()[-1]): row["step"] for row in rows}


def compare(args, step_us):
    """Two tables, normal and overlap, of one step time."""
    tokens = max(32, min(1500, int(args.seconds * 1e6 / max(step_us or 2000, 100))))
    options = ["--device", args.device, *(["--model", args.model] if args.model else [])]
    if step_us is not None:
        options += ["--sim-step-us", str(step_us)]
    bench = ["--batches", args.batches, "--prompt-tokens", "16", "--output-tokens", str(tokens)]
    bench += ["--passes", str(args.passes), "--warmup", "1"]
    return [
        serve_and_measure(options, {"MINISGL_DISABLE_OVERLAP_SCHEDULING": normal}, bench) for normal in ("1", "0")
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--model", help="a Hugging Face directory (the demo model)")
    parser.add_argument("--step-us", default="100,200,400,800,2000,5000", help="of sim: microseconds of a step")
    parser.add_argument("--batches", default="1,16,64,256", help="streams at a time")
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long a pass lasts (0.5)")
    parser.add_argument("--passes", type=int, default=3, help="of each cell (3)")
    args = parser.parse_args()
    sizes = [int(size) for size in args.batches.split(",")]
    print("| step | " + " | ".join(f"{size} stream{'s' * (size > 1)}" for size in sizes) + " |")
    print("| --- " * (len(sizes) + 1) + "|")
    steps = [int(step) for step in args.step_us.split(",")] if args.device == "sim" else [None]
    for step_us in steps:
        normal, overlap = compare(args, step_us)
        cells = [f"{normal[n]:.3f} / {overlap[n]:.3f} = {normal[n] / overlap[n]:.2f}" for n in sizes]
        title = f"{step_us / 1000:g} ms" if step_us is not None else args.device
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


main()
