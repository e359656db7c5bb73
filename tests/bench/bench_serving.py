#!/usr/bin/python3
"""What a person sees of a server on the CPU, measured at the client, beside the machine's own ceilings of the same run.

usage: tests/bench/bench_serving.py [--no-smollm2]       (MINISGL_BUILD names the build folder)

Start, idle load, first token, a whole `minisgl generate`; SmolLM2 in bfloat16: decode against the read bandwidth, prefill
against the matrix rate of a 2048-cube, sixteen streams against one; memory of each process. Medians.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from server import BUILD, CLIENT, PROCESSES, Server, smollm2  # noqa: E402


def row(what, value, compared=""):
    print(f"{what:<52} {value:>16}   {compared}", flush=True)


def median_ready(model, count):
    """Seconds from the launcher's start to run.json, which it writes just before its ready line."""
    times = []
    for _ in range(count):
        began = time.monotonic()
        with Server(model=model):
            times.append(time.monotonic() - began)
    return statistics.median(times)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid, what):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def bench(server, *args):
    out = server.client("bench", *args, "--json", timeout=600).stdout
    return json.loads(out.splitlines()[-1])


def ceilings():
    """(GB/s of reads, GFLOP/s of the 2048-cube): the first lines that bench_cpu_ops prints, measured now."""
    reads, rates = 0.0, []
    with subprocess.Popen([str(BUILD / "tests/bench/bench_cpu_ops")], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            found = re.match(r"(reading memory|linear of a 2048-cube|oneDNN, the same)\s+([\d.]+) G", line)
            if found and found.group(1) == "reading memory":
                reads = float(found.group(2))
            elif found:
                rates.append(float(found.group(2)))
            elif reads and rates:
                break
        process.kill()
    return reads, max(rates)


def small_things():
    from server import DEMO

    row("start to ready, demo model", f"{median_ready(DEMO, 5):.3f} s", "aim 0.3 s")
    with Server() as server:
        pids = [server.pid(p) for p in (*PROCESSES, "launcher")]
        time.sleep(1)
        before = sum(map(cpu_seconds, pids))
        time.sleep(10)
        row("idle, all processes", f"{(sum(map(cpu_seconds, pids)) - before) * 10:.2f} % of a CPU", "aim below 0.5 %")
        first = bench(server, "latency", "--batches", "1", "--prompt-tokens", "10", "--output-tokens", "2", "--passes", "15")
        row("first token of a 10-token prompt", f"{first['ttft_p50']:.2f} ms", "aim 5 ms")
        times = []
        for _ in range(15):
            began = time.monotonic()
            subprocess.run(
                [str(CLIENT), "generate", "Once upon a time", "--max-tokens", "16", "--name", server.name],
                env=server.env,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            times.append(time.monotonic() - began)
        row("minisgl generate, 16 tokens, start to exit", f"{statistics.median(times) * 1e3:.1f} ms", "aim 40 ms")


def real_model():
    model = smollm2()
    weights = (model / "model.safetensors").stat().st_size
    config = json.loads((model / "config.json").read_text())
    kv_per_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * 64 * 2
    row("start to ready, SmolLM2", f"{median_ready(model, 3):.3f} s", "aim 1 s")
    with Server("--max-running-requests", "16", "--num-pages", "2048", model=model) as server:
        gb_s, gflop_s = ceilings()
        one = bench(server, "latency", "--batches", "1", "--prompt-tokens", "512", "--output-tokens", "64")
        again_gb_s, again_gflop_s = ceilings()
        gb_s, gflop_s = max(gb_s, again_gb_s), max(gflop_s, again_gflop_s)
        moved = (weights + 544 * kv_per_token) / 1e9
        rate = moved / (one["step"] / 1e3)
        row(
            "decode behind 512 tokens",
            f"{1e3 / one['step']:.1f} tok/s",
            f"{rate:.1f} GB/s, {100 * rate / gb_s:.0f} % of {gb_s:.1f} read (aim 85 %)",
        )
        embed = config["vocab_size"] * config["hidden_size"]
        flop = 2 * (weights / 2 - embed) * 512 + 4 * config["num_hidden_layers"] * config["hidden_size"] * 512 * 512 / 2
        prefill = bench(
            server, "latency", "--batches", "1", "--prompt-tokens", "512", "--output-tokens", "1", "--passes", "5", "--seed", "7"
        )
        assert prefill["cached_share"] == 0, "a prompt that is cached is not computed"
        rate = flop / 1e9 / (prefill["ttft_p50"] / 1e3)
        row(
            "prefill of 512",
            f"{512e3 / prefill['ttft_p50']:.0f} tok/s",
            f"{rate:.0f} GFLOP/s, {100 * rate / gflop_s:.0f} % of {gflop_s:.0f} (aim 60 %)",
        )
        single = bench(server, "latency", "--batches", "1", "--prompt-tokens", "64", "--output-tokens", "64")
        many = bench(server, "latency", "--batches", "16", "--prompt-tokens", "64", "--output-tokens", "64")
        ratio = 16 * single["step"] / many["step"]
        row(
            "sixteen streams behind 64 tokens",
            f"{16e3 / many['step']:.0f} tok/s",
            f"{ratio:.1f} times one stream's {1e3 / single['step']:.1f} (aim 9)",
        )
        for process in PROCESSES:
            pid = server.pid(process)
            anon, mapped = memory_mib(pid, "RssAnon"), memory_mib(pid, "RssFile")
            row(f"memory of the {process}", f"{anon:.0f} MiB", f"and {mapped:.0f} MiB of mapped files")
        for line in server.log("scheduler").splitlines():
            if "memory" in line or "model" in line:
                print("    " + line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-smollm2", action="store_true", help="the demo model alone: nothing is downloaded")
    arguments = parser.parse_args()
    small_things()
    if not arguments.no_smollm2:
        real_model()
