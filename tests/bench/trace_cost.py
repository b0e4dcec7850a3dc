#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What do traces and profiles cost, off and on?

    tests/bench/trace_cost.py --build build [--rounds N] [--backend cpu] [--check]

Builds the library once more without them (HEADRACE_WATCH=OFF, in
BUILD/no-watch) and lets the three take turns in one process on the workload
of bench.py: without, off, on (trace and clocks). Shown are medians of
the ratios of the rounds, of CPU time of the process (which others on the
machine harm little) and of time, and how sure the first is: twice the standard
error of a median. --check: exit code 1 if off costs more than 1 % or on more
than 5 % of CPU time, by more than that doubt; 77 if the doubt is too large to
tell, or it could not run.
"""
import argparse
import ctypes as C
import gc
import os
import statistics
import subprocess
import sys
import time

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import bench_work
    import hrshim
    from doubt import median_and_doubt
    from tree import ROOT
except ImportError as e:
    print(f"not run: {e}")
    sys.exit(77)

MOST = {"off": 1.0, "on": 5.0}  # per cent


def build_without(o):
    where = os.path.join(o.build, "no-watch")
    for command in (["cmake", "-S", ROOT, "-B", where, "-DHEADRACE_WATCH=OFF",
                     "-DHEADRACE_TOOLS=OFF", "-DHEADRACE_TESTS=ON"],
                    ["cmake", "--build", where, "-j2", "--target",
                     "bench_shim"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"not run: {' '.join(command)}: {done.stdout[-500:]}")
            sys.exit(77)
    return where


class Run:
    """One library, and the jobs it is given."""

    def __init__(self, build, o, samples, on):
        self.lib, self.on = hrshim.Shim(build), on
        if on:
            self.lib.lib.hr_profile_times(C.c_bool(True))
        self.dev = self.lib.open(o.backend, threads=o.threads)
        if on:
            self.lib.lib.hr_profile_times(C.c_bool(False))
        self.jobs = bench_work.Jobs(self.dev, samples)

    def time(self):
        """CPU seconds of the process, and seconds."""
        if self.on:
            self.lib.lib.hr_profile_times(C.c_bool(True))
            self.lib.lib.hr_trace_start(None)
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        self.jobs()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if self.on:
            self.lib.lib.hr_trace_stop()
            self.lib.lib.hr_profile_times(C.c_bool(False))
        return cpu, wall


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--files")
    p.add_argument("--backend", default="cpu")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=200)
    p.add_argument("--check", action="store_true")
    o = p.parse_args()
    where = build_without(o)
    samples = bench_work.train_samples(bench_work.workload(o))
    runs = {"without": Run(where, o, samples, False),
            "off": Run(o.build, o, samples, False),
            "on": Run(o.build, o, samples, True)}
    times = {name: [] for name in runs}
    for r in range(o.rounds + 1):
        # Another one begins each time.
        names = list(runs)[r % 3:] + list(runs)[:r % 3]
        for name in names:
            seconds = runs[name].time()
            if r:  # the first does not count
                times[name].append(seconds)
    bad = unknown = False
    for name, most in MOST.items():
        cpu, wall = ([100 * (a[k] / b[k] - 1) for a, b in
                      zip(times[name], times["without"])] for k in (0, 1))
        cost, doubt = median_and_doubt(cpu)
        miss = cost - doubt > most
        unclear = not miss and (cost > most or doubt > most)
        bad, unknown = bad or miss, unknown or unclear
        print(f"{o.backend}, {name:3}: {cost:+.2f} % CPU time, doubt "
              f"{doubt:.2f}, {statistics.median(wall):+.2f} % time; at most "
              f"{most:g} %{'  MISS' if miss else ''}"
              f"{'  cannot be told' if unclear else ''}")
    if bad or not unknown or not o.check:
        return int(bad and o.check)
    print("not run: the machine is too busy to tell")
    return 77


if __name__ == "__main__":
    sys.exit(main())
