#!/usr/bin/env python3
"""Draws and sums up what a scheduler's --trace FILE recorded.

usage: timeline.py TRACE[=TITLE] [TRACE[=TITLE] ...] [--svg OUT.svg] [--from-step N] [--steps N] [--json]

The table: per trace, the share of time in which the device's queue was empty though there was work, CPU time by phase, rows and
tokens. The picture: a window of each trace, CPU lane above device lane, all at the same scale, one under the other.
"""

import argparse
import html
import json
import sys

CPU, DEVICE = 1, 2
COLOURS = {
    "sleep": "#e8e8e8",
    "receive": "#8da0cb",
    "form": "#66c2a5",
    "launch": "#fc8d62",
    "wait": "#dddddd",
    "process": "#e78ac3",
    "send": "#a6d854",
    "prefill": "#ffb14e",
    "decode": "#4e8fd0",
}
PHASES = ("receive", "form", "launch", "wait", "process", "send")


class Trace:
    """The complete events of one file: (name, begin, end, args), in microseconds, by track."""

    def __init__(self, path, title):
        self.title = title
        with open(path, encoding="utf-8") as file:
            text = file.read().rstrip().rstrip(",")
        if not text.endswith("}"):
            text += "]}"  # of a process that was killed
        events = json.loads(text)["traceEvents"]
        self.cpu, self.device = [], []
        for event in events:
            if event.get("ph") != "X":
                continue
            lane = {CPU: self.cpu, DEVICE: self.device}.get(event["tid"])
            if lane is not None:
                lane.append((event["name"], event["ts"], event["ts"] + event["dur"], event.get("args", {})))
        for lane in (self.cpu, self.device):
            lane.sort(key=lambda e: e[1])

    def table(self):
        """Figures of the whole trace. A gap between two steps counts as idle though there was work, unless the loop slept in it."""
        sleeps = [(b, e) for n, b, e, _ in self.cpu if n == "sleep"]
        busy = starved = 0.0
        last_end = None
        position = 0
        for _, begin, end, _ in self.device:
            if last_end is not None and begin > last_end:
                while position < len(sleeps) and sleeps[position][1] <= last_end:
                    position += 1
                slept = position < len(sleeps) and sleeps[position][0] < begin
                starved += 0.0 if slept else begin - last_end
            busy += end - begin
            last_end = max(last_end or end, end)
        steps = len(self.device)
        sums = {phase: sum(e - b for n, b, e, _ in self.cpu if n == phase) for phase in PHASES}
        args = [a for _, _, _, a in self.device]
        return {
            "title": self.title,
            "steps": steps,
            "rows": sum(a.get("rows", 0) for a in args),
            "tokens": sum(a.get("tokens", 0) for a in args),
            "wasted_rows": sum(a.get("wasted", 0) for n, _, _, a in self.cpu if n == "process"),
            "device_busy_ms": busy / 1e3,
            "queue_empty_share": starved / (busy + starved) if steps else 0.0,
            "launched_ahead_share": self.launched_ahead(),
            "cpu_us_per_step": {phase: value / max(steps, 1) for phase, value in sums.items()},
        }

    def launched_ahead(self):
        """Of the steps that follow another without a sleep: the share whose launch had ended before that other did."""
        launches = {a["step"]: e for n, _, e, a in self.cpu if n == "launch" and "step" in a}
        sleeps = [b for n, b, _, _ in self.cpu if n == "sleep"]
        ahead = total = position = 0
        for before, after in zip(self.device, self.device[1:]):
            step = after[3].get("step")
            while position < len(sleeps) and sleeps[position] < before[1]:
                position += 1
            slept = position < len(sleeps) and sleeps[position] < after[1]
            if step not in launches or slept:
                continue
            total += 1
            ahead += launches[step] <= before[2]
        return ahead / total if total else 0.0

    def window(self, first_step, num_steps):
        """(begin, end) around these steps of the device."""
        inside = [e for e in self.device if first_step <= e[3].get("step", -1) < first_step + num_steps]
        if not inside:
            sys.exit(f"timeline: {self.title}: no step {first_step} to {first_step + num_steps - 1}")
        begin = min(e[1] for e in inside)
        names = [e for e in self.cpu if e[3].get("step") == first_step and e[0] in ("form", "launch")]
        return min([begin] + [e[1] for e in names]), max(e[2] for e in inside)


def draw(traces, first_step, num_steps):
    """One SVG: for each trace a title, a CPU lane and a device lane."""
    left, width, lane, gap, block = 90, 1000, 26, 6, 96
    windows = [trace.window(first_step, num_steps) for trace in traces]
    span = max(end - begin for begin, end in windows)
    scale = width / span
    height = block * len(traces) + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + 20}" height="{height}" fill="white"/>',
    ]
    for index, (trace, (begin, end)) in enumerate(zip(traces, windows)):
        top = 24 + index * block
        out.append(f'<text x="8" y="{top - 6}" font-weight="bold">{html.escape(trace.title)}</text>')
        for row, (label, lane_events) in enumerate((("CPU", trace.cpu), ("device", trace.device))):
            y = top + row * (lane + gap)
            out.append(f'<text x="8" y="{y + 17}">{label}</text>')
            out.append(f'<rect x="{left}" y="{y}" width="{width}" height="{lane}" fill="#f7f7f7"/>')
            for name, b, e, args in lane_events:
                if e <= begin or b >= begin + span:
                    continue
                x0, x1 = max(b - begin, 0) * scale, min(e - begin, span) * scale
                tip = f"{name} {e - b:.1f} us" + "".join(f" {k}={v}" for k, v in args.items())
                colour = COLOURS.get(name, "#bbbbbb")
                out.append(
                    f'<rect x="{left + x0:.2f}" y="{y}" width="{max(x1 - x0, 0.4):.2f}" height="{lane}" fill="{colour}" '
                    f'stroke="white" stroke-width="0.3"><title>{html.escape(tip)}</title></rect>'
                )
                if row == 1 and x1 - x0 > 24 and "step" in args:
                    out.append(
                        f'<text x="{left + (x0 + x1) / 2:.1f}" y="{y + 17}" text-anchor="middle" fill="white">{args["step"]}</text>'
                    )
    y = 24 + block * len(traces)
    for number, name in enumerate(("receive", "form", "launch", "wait", "process", "prefill", "decode")):
        x = left + number * 110
        out.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{COLOURS[name]}"/>')
        out.append(f'<text x="{x + 16}" y="{y}">{name}</text>')
    out.append(f'<text x="{left}" y="{y + 24}">whole width: {span / 1000:.2f} ms, the same in every lane</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def print_table(rows):
    print(
        f"{'trace':<28} {'steps':>7} {'rows':>9} {'wasted':>7} {'queue empty':>12} {'ahead':>7}  CPU us a step: "
        + " ".join(f"{p:>8}" for p in PHASES)
    )
    for row in rows:
        phases = " ".join(f"{row['cpu_us_per_step'][p]:8.1f}" for p in PHASES)
        print(
            f"{row['title']:<28} {row['steps']:>7} {row['rows']:>9} {row['wasted_rows']:>7} "
            f"{100 * row['queue_empty_share']:>10.2f} % {100 * row['launched_ahead_share']:>5.1f} %  {'':>14} {phases}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE[=TITLE]")
    parser.add_argument("--svg", metavar="OUT.svg", help="draw a window of each trace")
    parser.add_argument("--from-step", type=int, default=100, metavar="N", help="first step of the window (100)")
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="steps of the window (6)")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    args = parser.parse_args()
    traces = []
    for text in args.traces:
        path, _, title = text.partition("=")
        try:
            traces.append(Trace(path, title or path))
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"timeline: {path}: {error}")
    if args.svg:
        with open(args.svg, "w", encoding="utf-8") as file:
            file.write(draw(traces, args.from_step, args.steps))
    rows = [trace.table() for trace in traces]
    if args.json:
        print(json.dumps(rows))
    else:
        print_table(rows)


main()
