#!/usr/bin/env python3
"""Draws and sums up what a scheduler's --trace FILE recorded.

usage: timeline.py TRACE[=TITLE] [TRACE[=TITLE] ...] [--svg OUT.svg] [--from-step N] [--steps N] [--zoom-us N] [--json]

The table, for each trace: steps, rows and wasted rows; of the time in which there was work, the share in which the device ran no step,
and the share in which no step was even in its queue; the share of steps that were launched before the one before them had ended; CPU
time of the phases. The picture: a window of each trace, CPU lane above device lane, and the end of one step magnified, all at one scale.
The window begins at --from-step, by default at step 100, or so that it still fits where the traces are shorter.
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
    "upload": "#ffd92f",
    "launch": "#fc8d62",
    "wait": "#dddddd",
    "process": "#e78ac3",
    "send": "#a6d854",
    "prefill": "#ffb14e",
    "decode": "#4e8fd0",
}
PHASES = ("receive", "form", "upload", "launch", "wait", "process", "send")


class Trace:
    """The complete events of one file: (name, begin, end, args), in microseconds, by track."""

    def __init__(self, path, title):
        self.title = title
        with open(path, encoding="utf-8") as file:
            content = file.read().rstrip().rstrip(",")
        if not content.endswith("}"):
            content += "]}"  # of a process that was killed
        self.cpu, self.device = [], []
        try:
            for event in json.loads(content)["traceEvents"]:
                if event.get("ph") != "X":
                    continue
                lane = {CPU: self.cpu, DEVICE: self.device}.get(event["tid"])
                if lane is not None:
                    lane.append((event["name"], event["ts"], event["ts"] + event["dur"], event.get("args", {})))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ValueError("it is no trace, such as the scheduler's --trace FILE writes") from None
        for lane in (self.cpu, self.device):
            lane.sort(key=lambda e: e[1])

    def wakes(self):
        """Steps that are the first behind a sleep of the loop, or the first of all: since when there has been work for them."""
        found, slept = {}, True
        for name, begin, _, args in self.cpu:
            if name == "form" and slept:
                found[args.get("step")] = begin
            slept = name == "sleep" or slept and name != "form"
        return found

    def gaps(self):
        """(begin of an idle time, begin of the step that ends it, its number): from the step before, or from when there was work."""
        wakes, end = self.wakes(), None
        for _, begin, next_end, args in self.device:
            times = [time for time in (end, wakes.get(args.get("step"))) if time is not None]
            if times and max(times) < begin:
                yield max(times), begin, args.get("step")
            end = next_end

    def table(self):
        """Figures of the whole trace. Idle: the device has no step to run; queue empty: nothing is even launched for it."""
        launches = {a["step"]: e for n, _, e, a in self.cpu if n == "launch" and "step" in a}
        gaps = list(self.gaps())
        idle = sum(begin - end for end, begin, _ in gaps)
        empty = sum(min(max(launches.get(step, begin) - end, 0.0), begin - end) for end, begin, step in gaps)
        busy = sum(end - begin for _, begin, end, _ in self.device)
        steps = len(self.device)
        whole = max(busy + idle, 1e-9)
        sums = {phase: sum(e - b for n, b, e, _ in self.cpu if n == phase) for phase in PHASES}
        args = [a for _, _, _, a in self.device]
        return {
            "title": self.title,
            "steps": steps,
            "rows": sum(a.get("rows", 0) for a in args),
            "tokens": sum(a.get("tokens", 0) for a in args),
            "wasted_rows": sum(a.get("wasted", 0) for n, _, _, a in self.cpu if n == "process"),
            "device_busy_ms": busy / 1e3,
            "device_idle_share": idle / whole,
            "queue_empty_share": empty / whole,
            "launched_ahead_share": self.launched_ahead(),
            "cpu_us_per_step": {phase: value / max(steps, 1) for phase, value in sums.items()},
        }

    def launched_ahead(self):
        """Of the steps that follow another without a sleep: the share whose launch had ended before that other did."""
        launches = {a["step"]: e for n, _, e, a in self.cpu if n == "launch" and "step" in a}
        wakes = self.wakes()
        ahead = total = 0
        for before, after in zip(self.device, self.device[1:]):
            step = after[3].get("step")
            if step not in launches or step in wakes:
                continue
            total += 1
            ahead += launches[step] <= before[2]
        return ahead / total if total else 0.0

    def numbers(self):
        """Numbers of the steps that are there."""
        return {args["step"] for _, _, _, args in self.device if "step" in args}

    def step(self, number):
        """(begin, end) of a step on the device."""
        for _, begin, end, args in self.device:
            if args.get("step") == number:
                return begin, end
        have = self.numbers()
        if not have:
            sys.exit(f"timeline: {self.title}: it has no steps: was there a request?")
        there = f"steps {min(have)} to {max(have)}"
        sys.exit(f"timeline: {self.title}: it has {there}, and no step {number}: choose with --from-step and --steps")


LEFT, WIDTH, LANE, GAP, BLOCK = 70, 1000, 26, 5, 90


def text(x, y, words, style=""):
    return f'<text x="{x:.1f}" y="{y}" {style}>{html.escape(words)}</text>'


def draw_lanes(out, trace, top, begin, span):
    """The title, the CPU's lane and the device's, `span` microseconds from `begin` on."""
    scale = WIDTH / span
    out.append(text(8, top - 6, trace.title, 'font-weight="bold"'))
    for row, (label, events) in enumerate((("CPU", trace.cpu), ("device", trace.device))):
        y = top + row * (LANE + GAP)
        out.append(text(8, y + 17, label))
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{LANE}" fill="#f3f3f3"/>')
        for name, b, e, args in events:
            if e <= begin or b >= begin + span:
                continue
            x0, x1 = max(b - begin, 0) * scale, min(e - begin, span) * scale
            tip = f"{name} {e - b:.1f} us" + "".join(f" {k}={v}" for k, v in args.items())
            out.append(
                f'<rect x="{LEFT + x0:.2f}" y="{y}" width="{max(x1 - x0, 0.4):.2f}" height="{LANE}" '
                f'fill="{COLOURS.get(name, "#bbbbbb")}" stroke="white" stroke-width="0.3"><title>{html.escape(tip)}</title></rect>'
            )
            words = str(args.get("step", ""))
            if row == 1 or (name in ("wait", "process", "send") and x1 - x0 > 90):
                words = f"{name} {words}"
            if x1 - x0 > 7 * len(words) and words:
                colour = "white" if row == 1 else "black"
                out.append(text(LEFT + (x0 + x1) / 2, y + 17, words, f'text-anchor="middle" fill="{colour}"'))


def choose_window(traces, first_step, num_steps):
    """(first step, number of steps): as wanted, or where nothing was wanted (None), such that all traces have these steps."""
    common = set.intersection(*(trace.numbers() for trace in traces))
    if first_step is None and common:
        num_steps = min(num_steps, max(common) - min(common) + 1)
        first_step = max(min(100, max(common) - num_steps + 1), min(common))
    return 100 if first_step is None else first_step, num_steps


def draw(traces, first_step, num_steps, zoom_us):
    """One SVG: lanes of each trace over some steps, then the end of one of these steps magnified. One scale in each part."""
    middle = first_step + num_steps // 2
    starts = [trace.step(first_step)[0] for trace in traces]
    span = max(trace.step(first_step + num_steps - 1)[1] - start for trace, start in zip(traces, starts))
    height = 2 * BLOCK * len(traces) + 96
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{LEFT + WIDTH + 20}" height="{height}" fill="white"/>',
        text(8, 18, f"{num_steps} steps; the whole width is {span / 1000:.2f} ms", 'font-style="italic"'),
    ]
    top = 48
    for trace, start in zip(traces, starts):
        draw_lanes(out, trace, top, start, span)
        top += BLOCK
    words = f"the end of step {middle}, magnified {span / zoom_us:.0f} times: the whole width is {zoom_us:g} us; numbers are those of steps"
    out.append(text(8, top, words, 'font-style="italic"'))
    top += 30
    for trace in traces:
        draw_lanes(out, trace, top, trace.step(middle)[1] - zoom_us / 5, zoom_us)
        top += BLOCK
    for number, name in enumerate((*PHASES, "prefill", "decode")):
        x = LEFT + number * 105
        out.append(f'<rect x="{x}" y="{top - 10}" width="12" height="12" fill="{COLOURS[name]}"/>')
        out.append(text(x + 16, top, name))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def print_table(rows):
    width = max(len(row["title"]) for row in rows)
    print(
        f"{'trace':<{width}}   steps      rows  wasted  device idle  queue empty    ahead   CPU us a step:"
        + "".join(f"{phase:>8}" for phase in PHASES)
    )
    for row in rows:
        print(
            f"{row['title']:<{width}} {row['steps']:>7} {row['rows']:>9} {row['wasted_rows']:>7} "
            f"{100 * row['device_idle_share']:>10.2f} % {100 * row['queue_empty_share']:>10.2f} % "
            f"{100 * row['launched_ahead_share']:>6.1f} %  {'':>14}"
            + "".join(f"{row['cpu_us_per_step'][phase]:8.1f}" for phase in PHASES)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE[=TITLE]")
    parser.add_argument("--svg", metavar="OUT.svg", help="draw a window of each trace")
    parser.add_argument("--from-step", type=int, metavar="N", help="first step of the window (100, or earlier)")
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="steps of the window (6)")
    parser.add_argument("--zoom-us", type=float, default=200, metavar="N", help="width of the magnified part (200)")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    args = parser.parse_args()
    traces = []
    for argument in args.traces:
        path, _, title = argument.partition("=")
        try:
            traces.append(Trace(path, title or path))
        except (OSError, ValueError) as error:
            sys.exit(f"timeline: {path}: {getattr(error, 'strerror', None) or error}")
    if args.svg:
        picture = draw(traces, *choose_window(traces, args.from_step, args.steps), args.zoom_us)
        try:
            with open(args.svg, "w", encoding="utf-8") as file:
                file.write(picture)
        except OSError as error:
            sys.exit(f"timeline: {args.svg}: {error.strerror}")
    rows = [trace.table() for trace in traces]
    if args.json:
        print(json.dumps(rows))
    else:
        print_table(rows)


main()
