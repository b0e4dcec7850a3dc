#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What do traces and profiles cost, off and on?

    tests/bench/trace_cost.py --build build [--rounds N] [--backend cpu] [--check]

Builds the library once more without them (HEADRACE_WATCH=OFF, in
BUILD/no-watch) and lets three processes (bench_core) take turns on the workload
of bench.py: without, off, on (trace and clocks). Shown are medians of
the ratios of the rounds, of CPU time of the process (which others on the
machine harm little) and of time, and how sure the first is: twice the standard
error of a median. --check: exit code 1 if off costs more than 1 % or on more
than 5 % of CPU time, by more than that doubt; 77 if the doubt is too large to
tell, or it could not run.
"""
import argparse
import os
import statistics
import subprocess
import sys

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import bench_work
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
                     "bench_core"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"not run: {' '.join(command)}: {done.stdout[-500:]}")
            sys.exit(77)
    return where


class Run:
    """A process that makes an epoch whenever it is told."""

    def __init__(self, build, o, paths, watched):
        self.child = subprocess.Popen(
            [os.path.join(build, "tests", "bench_core"), "turns", o.backend,
             str(o.threads), str(int(watched)), *paths],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self):
        """CPU seconds of the process, and seconds."""
        print(file=self.child.stdin, flush=True)
        return [float(x) for x in self.child.stdout.readline().split()]

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def take_turns(o, where, paths):
    runs = {"without": Run(where, o, paths, False),
            "off": Run(o.build, o, paths, False),
            "on": Run(o.build, o, paths, True)}
    times = {name: [] for name in runs}
    for r in range(o.rounds + 1):
        # Another one begins each time.
        names = list(runs)[r % 3:] + list(runs)[:r % 3]
        for name in names:
            seconds = runs[name].time()
            if r:  # the first does not count
                times[name].append(seconds)
    for run in runs.values():
        run.end()
    return times


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
    with bench_work.folder(bench_work.workload(o)) as files:
        times = take_turns(o, where, sorted(
            os.path.join(files, name) for name in os.listdir(files)))
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
