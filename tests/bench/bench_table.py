# SPDX-License-Identifier: Apache-2.0
"""How bench.py times, and its table."""
import contextlib
import gc
import os
import statistics
import time

import numpy as np

from bench_chart import BARS


def interleave(rounds, *runs, clock=time.perf_counter):
    """Seconds of each run in each round, [run][round]; taking turns.

    The block run.around(), if there is one, does not count.
    """
    times = [[] for _ in runs]
    for r in range(rounds + 1):
        for run, seconds in zip(runs, times):
            with getattr(run, "around", contextlib.nullcontext)():
                gc.collect()
                start = clock()
                run()
                if r:  # the first does not count
                    seconds.append(clock() - start)
    return times


class pinned:
    """Block that runs on the first of the usable cores, threads that begin
    in it too."""

    def __enter__(self):
        self.cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self.cores)})

    def __exit__(self, *_):
        os.sched_setaffinity(0, self.cores)


class Table:
    def __init__(self):
        self.rows = []
        self.group = ""  # heading of the rows to come

    def add(self, key, text, unit, ours, peer=None, peer_name=None,
            ratios=None, at_least=None, at_most=None):
        """at_least: of the ratio; at_most: of ours."""
        row = {"key": key, "group": self.group, "text": text, "unit": unit, "ours": ours,
               "peer": peer, "peer_name": peer_name, "ratio": None,
               "ratio_low": None, "ratio_high": None, "target": None,
               "pass": None}
        if ratios is not None:
            row["ratio"] = statistics.median(ratios)
            row["ratio_low"], row["ratio_high"] = min(ratios), max(ratios)
        if at_least is not None:
            row["target"] = f"ratio >= {at_least}"
            row["pass"] = row["ratio"] >= at_least
        if at_most is not None:
            row["target"] = f"<= {at_most:g} {unit}".rstrip()
            row["pass"] = ours <= at_most
        self.rows.append(row)

    def versus(self, key, text, n, ours, peer, peer_name, at_least=None):
        """Seconds per round of ours and peer; a row per picture, in ms."""
        self.add(key, text, "ms", statistics.median(ours) * 1e3 / n,
                 statistics.median(peer) * 1e3 / n, peer_name,
                 [b / a for a, b in zip(ours, peer)], at_least)

    def show(self):
        head = ("what", "ours", "peer", "unit", "ratio", "target", "",
                "others", "peer")
        lines = [head]
        group = ""
        for r in self.rows:
            if r["group"] != group:
                group = r["group"]
                lines += [("",) * 9, (group + ":",) + ("",) * 8]
            spread = "" if r["ratio"] is None else (
                f"{r['ratio']:.2f} ({r['ratio_low']:.2f}-"
                f"{r['ratio_high']:.2f})")
            lines.append(("  " + r["text"], number(r["ours"]), number(r["peer"]),
                          r["unit"], spread, r["target"] or "",
                          {True: "pass", False: "MISS", None: ""}[r["pass"]],
                          f"{r['others'] * 100:.0f} %",
                          r["peer_name"] or ""))
        wide = [max(len(line[i]) for line in lines) for i in range(9)]
        for line in lines:
            print("  ".join(
                t.rjust(w) if i in (1, 2, 7) else t.ljust(w)
                for i, (t, w) in enumerate(zip(line, wide))).rstrip())


def number(x):
    return "" if x is None else f"{x:.3f}" if x < 100 else f"{x:.0f}"


def is_asked(row):
    """A figure that must be reached, a bar of README's, or a whole stage."""
    key = row["key"]
    return (row["target"] or key in dict(BARS) or key == "first_epoch_pack" or
            key.endswith("mp") and key.startswith("train_") or
            key.startswith("stage_") and not key.endswith("_avx2"))


def markdown(facts):
    """Lines of a document: the main rows of what bench.py printed as JSON."""
    v, w = facts["versions"], facts["workload"]
    yield (f"{facts['date']}, {facts['machine']}, {facts['cores']} cores; "
           f"headrace {v['headrace']}, Pillow {v['pillow']}, torchvision "
           f"{v['torchvision']}, libjpeg-turbo {v['libjpeg_turbo']};")
    yield (f"{w['files']} files of {w['name']}, {w['mean_bytes']} bytes, "
           f"{w['mean_pixels'] / 1e6:.2f} Mpixel on average; medians of "
           f"{facts['rounds']} rounds.")
    yield from ("", "| what | ours | peer | ratio | asked | peer |",
                "|---|---|---|---|---|---|")
    group = None
    for r in facts["rows"]:
        if not is_asked(r):
            continue
        if r["group"] != group:
            group = r["group"]
            yield f"| **{group}** | | | | | |"
        ratio = "" if r["ratio"] is None else (
            f"{r['ratio']:.2f} ({r['ratio_low']:.2f}-{r['ratio_high']:.2f})")
        asked = (r["target"] or "") + (", missed" if r["pass"] is False else "")
        cells = (r["text"].strip(), f"{number(r['ours'])} {r['unit']}".strip(),
                 number(r["peer"]), ratio, asked, r["peer_name"] or "")
        yield "| " + " | ".join(cells) + " |"


def cpu_seconds():
    """CPU time of the machine since it started: (all, busy, ours)."""
    with open("/proc/stat") as f:
        ticks = [int(t) for t in f.readline().split()[1:9]]
    tick = 1 / os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]
    return np.array([sum(ticks) * tick, (sum(ticks) - idle) * tick,
                     sum(os.times()[:4])])
