#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the C loader shall show: a row for each figure, what is asked of it, and
the command that measures it alone.

    tests/bench/bench_loader.py --build BUILD [--quick] [--json]

  consumer   a consumer that takes 20 ms for a batch of 64, in turns with one
             that takes none: how long it was busy, where the engines' own rate
             is at least 1.3 times its need; else its rate beside theirs, for
             how long the device had no sample ("dry"), and CPU time a picture
             beside theirs. The same from a cache, and with one that needs more
             than they make
  next       time in hr_loader_next() when a batch was ready
  memory     peak and growth while the consumer stalls for 30 s; growth and
             heap allocations in 10 epochs after two that do not count
  slow       reads of 5 ms, tuned; nginx that is 20 ms late
  balance    a media engine in software and the CPU, of the sum of both
  tuning     from one of everything, of the best settings by hand

Pictures: --files DIR, else the photos of the corpus, else some that are made.
--quick: a stall of 5 s, and no rows that are tests of minutes (nginx, tuning).
Measure on a quiet machine. Exit code 0 whatever the figures say; 77: it could
not run.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(__file__) + "/../support")
from tree import CORPUS

BATCH, MS, MARGIN = 64, 20, 1.3
COPIES = 10  # of the pictures in an epoch: as short ones say little


class Rows:
    def __init__(self, build, pictures, work):
        self.tests, self.pictures, self.work = build / "tests", pictures, work
        self.rows, self.to = [], sys.stdout

    def add(self, text, asked, measured, good, command):
        """good: None, nobody asks."""
        self.rows.append({"what": text, "asked": asked, "measured": measured,
                          "pass": good, "command": shlex.join(command)})
        print(f"{text:58}{asked:>16}{measured:>32}  "
              f"{ {True: 'pass', False: 'MISS', None: ''}[good]:6}"
              f"{shlex.join(command)}", file=self.to, flush=True)

    def epoch(self, copies):
        """A list that names each picture so many times."""
        path = os.path.join(self.work, f"{copies}-times.txt")
        names = sorted(str(p.resolve()) for p in self.pictures.rglob("*")
                       if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
        pathlib.Path(path).write_text("".join(n + "\n" for n in names) * copies)
        return path

    def call(self, *arguments):
        """What bench_loader prints, and the command for the table."""
        shown = ["bench_loader", *map(str, arguments)]
        found = subprocess.run([self.tests / shown[0], *shown[1:]], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        return json.loads(found), shown

    def program(self, name, case, pattern, **environment):
        """What a test prints that looks so: tuples; and the command."""
        try:
            run = subprocess.run([self.tests / name, case], text=True,
                                 stdout=subprocess.PIPE,
                                 env=dict(os.environ, **environment))
        except OSError:
            return [], [name, case]
        shown = [f"{k}={v}" for k, v in environment.items()] + [name, case]
        return re.findall(pattern, run.stdout), shown


def percent(x):
    return f"{100 * x:.1f} %"


def consumer(rows, text, ms, cache=()):
    """Rows of one consumer; its calls of hr_loader_next()."""
    found, shown = rows.call("feed", rows.pictures, ms, *cache)
    engine = statistics.median(found["engine"])
    fed = statistics.median(a / b for a, b in zip(found["fed"],
                                                  found["engine"]))
    times = engine / (BATCH / ms * 1000)
    text = f"{text}; engines {engine:.0f}/s, {times:.2f} of its need"
    if times >= MARGIN:
        busy = statistics.median(found["busy"])
        nominal = statistics.median(found["nominal"])
        rows.add(text, "busy >= 98 %", f"{percent(busy)} ({percent(nominal)})",
                 busy >= .98, shown)
    elif times < 1:
        dry = statistics.median(found["starved"])
        cpu = statistics.median(found["cpu"])
        rows.add(text, "rate >= 97 %",
                 f"{percent(fed)} (dry {percent(dry)}, CPU {cpu:.3f})",
                 fed >= .97, shown)
    else:
        rows.add(text, "", f"busy {percent(statistics.median(found['busy']))}",
                 None, shown)
    return found["next"], shown


def consumer_rows(rows):
    following, shown = consumer(rows, f"consumer of {MS} ms", MS)
    consumer(rows, f"consumer of {MS} ms, cache", MS, (1024,))
    consumer(rows, "consumer of 5 ms", 5)
    rows.add(f"hr_loader_next(), {following['ready']} that were ready: median",
             "<= 20 us", f"{following['median_us']:.1f} us",
             following["median_us"] <= 20, shown)
    rows.add("  99th percentile", "",
             f"{following['p99_us']:.1f} us, {following['cpu_p99_us']:.1f} of CPU",
             None, shown)


def memory_rows(rows, seconds):
    found, shown = rows.call("stall", rows.epoch(500), seconds)
    most = found["budget_mib"] + 60
    rows.add(f"peak memory, {found['samples']} samples, "
             f"budget {found['budget_mib']} MiB", f"<= {most} MiB",
             f"{found['peak_mib']:.0f} MiB", found["peak_mib"] <= most, shown)
    rows.add(f"  growth in a stall of {seconds} s", "<= 0.5 MiB",
             f"{found['growth_mib']:.1f} MiB", found["growth_mib"] <= .5, shown)
    found, shown = rows.call("epochs", rows.epoch(COPIES), 10)
    rows.add("growth of memory in 10 epochs", "<= 4 MiB",
             f"{found['growth_mib']:.1f} MiB", found["growth_mib"] <= 4, shown)
    rows.add("  heap allocations in them", "0",
             f"{found['heap']}, malloc {found['malloc']}", not found["heap"],
             shown)


def slow_rows(rows, quick):
    found, shown = rows.call("slow", rows.pictures, 5)
    ratio = statistics.median(a / b for a, b in zip(found["slow"],
                                                    found["quick"]))
    rows.add(f"reads of 5 ms, tuned ({found['reads']} reads)", ">= 95 %",
             percent(ratio), ratio >= .95, shown)
    if quick:
        return
    found, shown = rows.program(
        "test_source_nginx", "late",
        r"(.*), (\d+) connections(.*): .* ratio ([\d.]+)",
        HEADRACE_TEST_LONG="1")
    for order, connections, tuned, ratio in found:
        rows.add(f"nginx, 20 ms late: {order}, {connections}{tuned}", ">= 95 %",
                 percent(float(ratio)), float(ratio) >= .95, shown)
    if not found:
        rows.add("nginx, 20 ms late", ">= 95 %", "not run", None, shown)


def balance_rows(rows):
    found, shown = rows.program("test_vaapi_balance", "sum",
                                r"a second, ([\d.]+) % of the sum")
    for share in found[-1:]:
        rows.add("media engine in software and CPU, of the sum", ">= 90 %",
                 f"{share} %", float(share) >= 90, shown)
    if not found:
        rows.add("media engine in software and CPU", ">= 90 %", "not run", None,
                 shown)


def tuning_rows(rows):
    for case in "rate", "rate_opencl":
        found, shown = rows.program("test_loader_tune", case,
                                    r"by hand .*: ([\d.]+) %",
                                    HEADRACE_TEST_LONG="1")
        best = max(map(float, found), default=None)
        rows.add(f"tuned in 200 batches, of the best by hand, {case}; the best "
                 f"of {len(found)}", ">= 95 %",
                 "not run" if best is None else f"{best} %",
                 None if best is None else best >= 95, shown)


def pictures_of(options, folder):
    photos = pathlib.Path(options.files or
                          os.path.join(CORPUS, "photos", "imagenet-sample"))
    if options.files or photos.is_dir():
        return photos
    subprocess.run([options.build / "headrace", "samples", "--photos-only",
                    "--count", "96", folder], check=True,
                   stdout=subprocess.DEVNULL)
    return pathlib.Path(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--files", help="folder of pictures to measure with")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if not (options.build / "tests" / "bench_loader").exists():
        print("not run: the target bench_loader is not built")
        return 77
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as work:
        rows = Rows(options.build.absolute(), pictures_of(options, work), work)
        rows.to = sys.stderr if options.json else sys.stdout
        consumer_rows(rows)
        memory_rows(rows, 5 if options.quick else 30)
        slow_rows(rows, options.quick)
        balance_rows(rows)
        if not options.quick:
            tuning_rows(rows)
    if options.json:
        print(json.dumps(rows.rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
