#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does headrace profile say what a plain timing and arithmetic say?

    tests/tools/profile_agrees.py --build build [--backend cpu] [--threads N]

 - img/s: profile against `headrace run`, within 5 %;
 - CPU-seconds per 1000 pictures: within 2 % of what the kernel counted for
   two runs of headrace run, the short one taken from the long one (wait4);
 - busy % of a consumer that is twice as fast as the data, and half as fast:
   within 3 points of min(1, its time per batch / the data's).

Both sides make whole epochs of the same pictures, each in processes of their
own, in turns: a plain run, profile, a plain run. Each turn gives one ratio,
the middle one counts. How far the turns are apart says how sure that is
(twice the standard error of a median). What is off by more than that is
measured again, and all turns count: a machine that is slower for a minute is
off by as much in turns that follow each other. Exit code 0: it agrees. 1: it
does not, by more than the doubt. 77: not run, or the doubt is larger than what
may be off, for the machine was busy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(__file__) + "/../support")
from doubt import median_and_doubt
from tree import CORPUS

TURNS, RATE_TURNS = 5, 11
RATE_MOST, CPU_MOST = 5, 2  # % that may be off
BUSY_MOST = 3  # points


def workload(o, where):
    folder = o.files or os.path.join(CORPUS, "photos", "imagenet-sample")
    if not os.path.isdir(folder):
        subprocess.run([o.headrace, "samples", "--photos-only", "--count",
                        "96", where], check=True, stdout=subprocess.DEVNULL)
        folder = where
    return folder


def options(o):
    return ["--batch", str(o.batch), "--threads", str(o.threads)]


def run(o, folder, epochs):
    """The summary of headrace run, and CPU seconds by the kernel."""
    with subprocess.Popen(
            [o.headrace, "run", folder, "--out", "none", "--backend",
             o.backend, "--epochs", str(epochs), "--json", "-q"] + options(o),
            stdout=subprocess.PIPE) as p:
        text = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
    return json.loads(text), usage.ru_utime + usage.ru_stime


def profile(o, folder, seconds, *more):
    """The planned configuration of the backend, and the whole."""
    text = subprocess.run(
        [o.headrace, "profile", folder, "--backends", o.backend, "--json",
         "--seconds", str(seconds), *more] + options(o),
        check=True, stdout=subprocess.PIPE).stdout
    whole = json.loads(text)
    (config,) = (c for c in whole["configurations"]
                 if c["mode"] == "planned" and c["threads"] == o.threads and
                 (c["device"] == "cpu") == (o.backend == "cpu"))
    return config, whole


def is_off(offs, most):
    off, doubt = median_and_doubt(offs)
    return abs(off) - doubt > most


class Verdict:
    def __init__(self):
        self.bad, self.unknown, self.others = 0, 0, []

    def say(self, what, offs, most, unit):
        """offs: how far each turn is off, in unit."""
        off, doubt = median_and_doubt(offs)
        if is_off(offs, most):
            word, self.bad = "MISS", self.bad + 1
        elif max(abs(off), doubt) > most:  # else agreeing says nothing, either
            word, self.unknown = "cannot be told", self.unknown + 1
        else:
            word = "agrees"
        print(f"{what}: {off:+.1f} {unit}, {len(offs)} turns, doubt {doubt:.1f} "
              f"(at most {most} {unit}): {word}", flush=True)


def plain(o, folder):
    """img/s, and CPU-seconds per 1000 pictures by the kernel."""
    long, cpu_long = run(o, folder, 1 + o.epochs)
    short, cpu_short = run(o, folder, 1)
    epochs = long["epochs"][1:]  # the first one warms up
    return (sum(e["images"] for e in epochs) /
            sum(e["seconds"] for e in epochs),
            1000 * (cpu_long - cpu_short) / (long["images"] - short["images"]))


def rates(o, folder, v):
    offs, offs_cpu = [], []
    before = plain(o, folder)
    while len(offs) < RATE_TURNS or (
            len(offs) < 2 * RATE_TURNS and
            (is_off(offs, RATE_MOST) or is_off(offs_cpu, CPU_MOST))):
        config, whole = profile(o, folder, o.rate_seconds)
        after = plain(o, folder)
        rate, cpu = ((a + b) / 2 for a, b in zip(before, after))
        offs.append(100 * (config["img_per_s"] / rate - 1))
        offs_cpu.append(100 * (config["cpu_s_per_1000"] / cpu - 1))
        v.others.append(whole["others"])
        before = after
    v.say("img/s against headrace run", offs, RATE_MOST, "%")
    v.say("CPU-s per 1000 against the kernel", offs_cpu, CPU_MOST, "%")
    return config


def consumer(o, folder, v, config):
    per_batch = config["images"] / config["batches"]
    for name, factor in (("twice as fast", 0.5), ("half as fast", 2)):
        offs = []
        while len(offs) < TURNS or (len(offs) < 3 * TURNS and
                                    is_off(offs, BUSY_MOST)):
            ms = 1000 * factor * per_batch / config["img_per_s"]
            config, whole = profile(o, folder, o.seconds, "--consumer",
                                    f"{ms:.3f}")
            v.others.append(whole["others"])
            data = 1000 * per_batch / config["img_per_s"]
            offs.append(100 * (config["consumer_busy"] - min(1, ms / data)))
            # A quiet machine says it at once.
            if len(offs) == 1 and abs(offs[0]) <= BUSY_MOST:
                break
        v.say(f"busy %, a consumer {name}", offs, BUSY_MOST, "points")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--files")
    p.add_argument("--backend", default="cpu")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, default=20)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--seconds", type=float, default=8)
    # The same work of the same process takes CPU time that differs by 7 %
    # from second to second where others share a core's caches: so, long.
    p.add_argument("--rate-seconds", type=float, default=16)
    o = p.parse_args()
    o.headrace = os.path.join(o.build, "headrace")
    if not os.path.exists(o.headrace):
        print(f"not run: {o.headrace} is not built")
        return 77
    v = Verdict()
    with tempfile.TemporaryDirectory(prefix="headrace-agrees-") as where:
        folder = workload(o, where)
        consumer(o, folder, v, rates(o, folder, v))
    others = statistics.median(v.others)
    print(f"others took {100 * others:.0f} % of the machine")
    if v.bad:
        return 1
    if v.unknown:
        print("not run: the machine is too busy to tell")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
