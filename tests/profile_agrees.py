#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does headrace profile say what a plain timing and arithmetic say?

    tests/profile_agrees.py --build build [--backend cpu] [--threads N]

 - img/s: profile and `headrace run` in turns, medians within 5 %;
 - CPU-seconds per 1000 pictures: within 2 % of what the kernel counted for
   two runs of headrace run, the short one taken from the long one (wait4);
 - busy % of a consumer that is twice as fast as the data, and half as fast:
   within 3 points of min(1, its time per batch / the data's).
The last is repeated up to three times: a machine that does something else in
between proves nothing. 77: it could not run, or others took more than a tenth
of the machine and something did not agree. Exit code 1: it does not agree.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TURNS = 3


def workload(o, where):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    corpus = os.environ.get("HEADRACE_CORPUS") or os.path.join(
        os.path.dirname(here), "shared", "corpus")
    folder = o.files or os.path.join(corpus, "photos", "imagenet-sample")
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


def profile(o, folder, *more):
    """The planned configuration of the backend, and the whole."""
    text = subprocess.run(
        [o.headrace, "profile", folder, "--backends", o.backend, "--json",
         "--seconds", str(o.seconds), *more] + options(o),
        check=True, stdout=subprocess.PIPE).stdout
    whole = json.loads(text)
    (config,) = (c for c in whole["configurations"]
                 if c["mode"] == "planned" and c["threads"] == o.threads and
                 (c["device"] == "cpu") == (o.backend == "cpu"))
    return config, whole


class Verdict:
    def __init__(self):
        self.bad, self.others = 0, []

    def say(self, what, ours, theirs, off, most, unit):
        ok = abs(off) <= most
        self.bad += not ok
        print(f"{what}: {ours:.4g}, expected {theirs:.4g}: {off:+.1f} {unit} "
              f"(at most {most} {unit}){'' if ok else '  MISS'}")
        return ok


def rates(o, folder, v):
    plain, ours, cpu, cpu_ours = [], [], [], []
    for _ in range(TURNS):
        long, cpu_long = run(o, folder, 3 + o.epochs)
        short, cpu_short = run(o, folder, 3)
        # The first epoch warms up.
        epochs = long["epochs"][1:]
        plain.append(sum(e["images"] for e in epochs) /
                     sum(e["seconds"] for e in epochs))
        cpu.append(1000 * (cpu_long - cpu_short) /
                   (long["images"] - short["images"]))
        config, whole = profile(o, folder)
        ours.append(config["img_per_s"])
        cpu_ours.append(config["cpu_s_per_1000"])
        v.others.append(whole["others"])
    a, b = statistics.median(ours), statistics.median(plain)
    v.say("img/s against headrace run", a, b, 100 * (a / b - 1), 5, "%")
    a, b = statistics.median(cpu_ours), statistics.median(cpu)
    v.say("CPU-s per 1000 against the kernel", a, b, 100 * (a / b - 1), 2, "%")
    return config


def consumer(o, folder, v, config):
    per_batch = config["images"] / config["batches"]
    for name, factor in (("twice as fast", 0.5), ("half as fast", 2)):
        for attempt in range(3):
            ms = 1000 * factor * per_batch / config["img_per_s"]
            config, whole = profile(o, folder, "--consumer", f"{ms:.3f}")
            v.others.append(whole["others"])
            data = 1000 * per_batch / config["img_per_s"]
            busy, right = config["consumer_busy"], min(1, ms / data)
            if abs(busy - right) <= 0.03:
                break
        v.say(f"busy %, a consumer {name}", 100 * busy, 100 * right,
              100 * (busy - right), 3, "points")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--files")
    p.add_argument("--backend", default="cpu")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, default=20)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--seconds", type=float, default=10)
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
    if v.bad and others > 0.1:
        print("not run: others took too much of the machine")
        return 77
    return int(v.bad > 0)


if __name__ == "__main__":
    sys.exit(main())
