# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: what the library itself costs, in time, allocations
and memory."""
import io
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
from PIL import Image

import hrshim
from bench_table import interleave
from bench_work import BATCH, MEAN, STD, folder, train_samples, workload
from hrshim import crop, decode, flip, normalize, resize


def submit_us(b, dev):
    """256 small JPEG files with the ops of the train transform: submit never
    looks into the data, so their size does not matter."""
    small = io.BytesIO()
    Image.new("RGB", (16, 16), (90, 120, 30)).save(small, "JPEG")
    ops = [decode(), crop(1, 2, 12, 12), resize(8, 8), flip(True),
           normalize(MEAN, STD)]
    out = np.zeros((256, 3, 8, 8), np.float32)
    job = hrshim.Set(dev, [(small.getvalue(), ops)] * 256, out, "nchw")
    job.time(20)
    return np.sort(job.time(100 if b.quick else 500, submit=True)) / 1e3


def submit_rows(b):
    us = submit_us(b, b.lib.open(threads=0))
    b.table.add("submit_256", "hr_submit() of 256 samples, median", "us",
                float(np.median(us)), at_most=1000)
    b.table.add("submit_256_p99", "  99th percentile", "us",
                float(us[int(len(us) * 0.99)]), at_most=1000)


def overhead_row(b):
    """8x8 pixels copied, u8 to u8: a picture with next to no work, so all
    of its time is the library's (submit, queue, plan, result, wait, release)
    plus the copy of 192 bytes, which is not subtracted. Jobs of 256, one
    thread, submitter and worker on the same core: all CPU time counts. What
    a sample costs its caller at least; the peer is Pillow's copy()."""
    dev = b.lib.open()
    pixels = np.zeros((256, 8, 8, 3), np.uint8)
    job = hrshim.Set(dev, [(p, []) for p in pixels],
                     np.zeros_like(pixels), "nhwc")
    pictures = [Image.fromarray(p) for p in pixels]
    repeat = 16

    def peer():
        for _ in range(repeat):
            for p in pictures:
                p.copy()
    ours, theirs = interleave(b.rounds, lambda: job.time(repeat), peer)
    b.table.add("job_overhead", "a sample without work (8x8 copy)", "us",
                statistics.median(ours) * 1e6 / 256 / repeat,
                statistics.median(theirs) * 1e6 / 256 / repeat,
                b.pillow + " copy()",
                [t / o for o, t in zip(ours, theirs)], at_most=2)


def allocation_rows(b):
    """In a process of its own with the counting malloc preloaded."""
    files = ["--files", b.options.files] if b.options.files else []
    for key, text in (("", "steady state"), ("_cache", "from a cache")):
        counts = json.loads(b.child(["mallocs" + key] + files,
                                    LD_PRELOAD=b.lib.path))
        b.table.add("heap_allocations" + key,
                    f"heap allocations in {counts['epochs']} epochs, {text}",
                    "", counts["heap"], at_most=0)
        if counts["counting"]:
            b.table.add("malloc_calls" + key, "  calls of malloc in the "
                        "process (libjpeg too)", "", counts["malloc"],
                        at_most=0)


def child_mallocs(o, lib, cache):
    """cache: bytes; the runs that do not count fill it."""
    files = workload(o)
    dev = lib.open(cache=cache)
    out = np.zeros((BATCH, 3, 224, 224), np.float32)
    samples = train_samples(files)[:BATCH * 4]
    sets = [hrshim.Set(dev, samples[i:i + BATCH],
                       out[:len(samples[i:i + BATCH])], "nchw")
            for i in range(0, len(samples), BATCH)]
    for s in sets:
        s.time(2)
    counting = lib.lib.shim_malloc_calls() > 0
    heap, malloc, epochs = dev.heap_allocations(), 0, 10
    for _ in range(epochs):
        for s in sets:
            # Python allocates around the call, not in it.
            malloc += s.mallocs()
    print(json.dumps({"counting": counting, "malloc": malloc,
                      "heap": dev.heap_allocations() - heap,
                      "epochs": epochs}))


def probe_row(b):
    out = np.zeros((b.files.n, 1, 1, 3), np.uint8)
    files = hrshim.Set(b.lib.open(),
                       [(d, [decode()]) for d in b.files.data], out, "nhwc")
    repeat = 20

    def peer():
        for d in b.files.data:
            Image.open(io.BytesIO(d)).size
    ours, theirs = interleave(b.rounds, lambda: files.probe_ns(repeat), peer)
    n = b.files.n
    b.table.add("probe", "hr_probe() of a file", "us",
                statistics.median(ours) * 1e6 / n / repeat,
                statistics.median(theirs) * 1e6 / n, b.pillow + " open()",
                [t * repeat / o for o, t in zip(ours, theirs)])


def open_row(b):
    """The first of a process, so each in a process of its own."""
    ms = [float(b.child(["open"])) / 1e6 for _ in range(b.rounds)]
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
