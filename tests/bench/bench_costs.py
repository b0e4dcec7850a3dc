# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: what the library itself costs, in time, allocations
and memory."""
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

from bench_jobs import core
from bench_work import BATCH, folder


def submit_us(b, name):
    """256 small JPEG files with the ops of the train transform: submit never
    looks into the data, so their size does not matter."""
    small = io.BytesIO()
    Image.new("RGB", (16, 16), (90, 120, 30)).save(small, "JPEG")
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        file.write(small.getvalue())
        file.flush()
        ns = core("submit", name, 100 if b.quick else 500, file.name)
    return np.sort(ns) / 1e3


def submit_rows(b):
    us = submit_us(b, "cpu")
    b.table.add("submit_256", "hr_submit() of 256 samples, median", "us",
                float(np.median(us)), at_most=1000)
    b.table.add("submit_256_p99", "  99th percentile", "us",
                float(us[int(len(us) * 0.99)]), at_most=1000)


def overhead_row(b):
    """8x8 pixels copied, u8 to u8: a picture with next to no work, so all
    of its time is the library's (submit, queue, plan, result, wait, release)
    plus the copy of 192 bytes, which is not subtracted. Jobs of 256, one
    thread, submitter and worker on the same core: all CPU time counts. This is
    the least that a sample costs its caller; the peer is Pillow's copy()."""
    pictures = [Image.new("RGB", (8, 8)) for _ in range(256)]

    def peer():
        for p in pictures:
            p.copy()
    ours, theirs = take_turns(b, lambda: core("copies") / 1e3, peer, 256)
    b.table.add("job_overhead", "a sample without work (8x8 copy)", "us",
                statistics.median(ours), statistics.median(theirs),
                b.pillow + " copy()",
                [t / o for o, t in zip(ours, theirs)], at_most=2)


def take_turns(b, ours, peer, n):
    """Microseconds of each round, of one of peer's n."""
    rounds = [[], []]
    for r in range(b.rounds + 1):
        us = ours()
        start = time.perf_counter()
        for _ in range(16):
            peer()
        if r:  # the first does not count
            rounds[0].append(us)
            rounds[1].append((time.perf_counter() - start) * 1e6 / 16 / n)
    return rounds


def paths_of(files):
    return sorted(os.path.join(files, name) for name in os.listdir(files))


def allocation_rows(b):
    """In a program that counts what calls malloc."""
    for key, text, cache in (("", "steady state", 0),
                             ("_cache", "from a cache", 1 << 30)):
        with folder(b.files) as files:
            counts = core("steady", "cpu", cache, BATCH,
                          *paths_of(files)[:BATCH * 4])
        b.table.add("heap_allocations" + key,
                    f"heap allocations in 10 epochs, {text}", "",
                    counts["heap"], at_most=0)
        if counts["counting"]:
            b.table.add("malloc_calls" + key, "  calls of malloc in the "
                        "process (libjpeg too)", "", counts["malloc"],
                        at_most=0)


def probe_row(b):
    def peer():
        for d in b.files.data:
            Image.open(io.BytesIO(d)).size
    with folder(b.files) as files:
        paths = paths_of(files)
        ours, theirs = take_turns(b, lambda: core("probe", *paths) / 1e3, peer,
                                  b.files.n)
    b.table.add("probe", "hr_probe() of a file", "us",
                statistics.median(ours), statistics.median(theirs),
                b.pillow + " open()", [t / o for o, t in zip(ours, theirs)])


def open_row(b):
    """The first of a process, so each in a process of its own."""
    ms = [core("open", "cpu") / 1e6 for _ in range(b.rounds)]
    b.table.add("device_open", "first device opened in a process", "ms",
                statistics.median(ms))


def rss_kib(pid):
    """(now, highest so far) resident, or None if the process has ended."""
    with open(f"/proc/{pid}/status") as f:
        sizes = dict(line.split(":", 1) for line in f)
    if "VmRSS" not in sizes:
        return None
    return [int(sizes[k].split()[0]) for k in ("VmRSS", "VmHWM")]


def rss_rows(b):
    """headrace run, one picture per job, 10,000 pictures and more."""
    with folder(b.files) as files:
        epochs = -(-10000 // b.files.n)
        run = subprocess.Popen(
            [os.path.join(b.build, "headrace"), "run", files, "--out",
             "none", "--ops", "decode,random_resized_crop=224,random_hflip,"
             "normalize=imagenet", "--budget", "64M", "--batch", "1",
             "--epochs", str(epochs), "--threads", "2", "--quiet",
             # (An OpenCL driver would be most of it.)
             "--backend", "cpu"],
            stdout=subprocess.DEVNULL)
        seen = []
        while run.poll() is None:
            try:
                seen.append(rss_kib(run.pid))
            except OSError:
                break
            time.sleep(0.02)
        if run.wait():
            sys.exit(f"headrace run ended with {run.returncode}")
    seen = [s for s in seen if s]
    n = epochs * b.files.n
    early, late = seen[len(seen) // 10][0], seen[-1][0]
    b.table.add("peak_rss", f"peak memory of {n} jobs, budget 64M", "MiB",
                seen[-1][1] / 1024)
    b.table.add("rss_growth", "  at the end less after 10 %", "MiB",
                (late - early) / 1024, at_most=4)
