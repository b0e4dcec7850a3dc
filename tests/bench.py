#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The one benchmark table: every figure beside a peer timed in the same run.

    tests/bench.py --build build           the table
    tests/bench.py --build build --json    the same as JSON, nothing else

How it is timed. Ours and peer take turns (A B A B ...), at least 7 rounds
after one that does not count. A row shows the median of each and the median
of the ratios of the rounds, so that a machine that gets slower on the way
harms both. One-thread rows run pinned to one core, the library's worker
included, and torch with one thread. "others" is the share of the machine's
CPU time that other processes took meanwhile: measure on a quiet machine.
Files are in memory, windows of random crops are drawn before and are the
same for both. Exit code 0 whatever the figures say: this is a measurement.
77: it could not run.

Workload: --files DIR; else the folder photos/imagenet-sample of the corpus
(HEADRACE_CORPUS, or ../shared/corpus beside the source tree); else 96
generated photos.

JSON, these keys stay:
  date, machine, cores, versions{headrace, pillow, torchvision, torch,
  libjpeg_turbo}, workload{name, files, mean_bytes, mean_pixels}, rounds,
  rows[]: key, text, unit, ours, peer (null: none), peer_name, ratio (how
  many times ours is better; null), ratio_low, ratio_high (of the rounds),
  target (a sentence or null), pass (true, false, or null without a target),
  others (share of the machine's CPU time that other processes took while the
  row was measured; rows with a lot of it say nothing)
Keys of rows: train_transform, train_transform_{c,avx2,avx512},
train_transform_tensor, eval_transform, decode_rgb, resize_bilinear,
resize_bicubic, resize_lanczos, resize_large, normalize, two_threads,
submit_256, submit_256_p99, job_overhead, heap_allocations, malloc_calls,
probe, device_open, peak_rss, rss_growth. With an OpenCL device, and with it
the key opencl{device, description} (else opencl{not_run}): opencl_{1,16,256}
(pictures per second; the peer is the CPU engine, with as many threads and
jobs in flight, and the ratio how many times faster OpenCL is),
opencl_cpu_{1,16,256} (CPU-seconds of the process per 1000 pictures),
opencl_open_first (nothing cached), opencl_open_second (in another process),
opencl_launches (of kernels per batch), opencl_heap_allocations,
opencl_submit.
"""
import argparse
import datetime
import gc
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torchvision
    from PIL import Image, features
    from torchvision import transforms as T
    from torchvision.transforms import functional as F
except ImportError as e:
    print(f"not run: {e}")
    sys.exit(77)

import hrshim
from hrshim import (center_crop, crop, decode, flip, normalize, resize,
                    resize_short)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH = 64
torch.set_num_threads(1)


# ---- timing ----------------------------------------------------------------

def interleave(rounds, *runs):
    """Seconds of each run in each round, [run][round]; taking turns."""
    times = [[] for _ in runs]
    for r in range(rounds + 1):
        for run, seconds in zip(runs, times):
            gc.collect()
            start = time.perf_counter()
            run()
            if r:  # the first does not count
                seconds.append(time.perf_counter() - start)
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

    def add(self, key, text, unit, ours, peer=None, peer_name=None,
            ratios=None, at_least=None, at_most=None):
        """at_least: of the ratio; at_most: of ours."""
        row = {"key": key, "text": text, "unit": unit, "ours": ours,
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
        def number(x):
            return "" if x is None else f"{x:.3f}" if x < 100 else f"{x:.0f}"
        head = ("what", "ours", "peer", "unit", "ratio", "target", "",
                "others", "peer")
        lines = [head]
        for r in self.rows:
            spread = "" if r["ratio"] is None else (
                f"{r['ratio']:.2f} ({r['ratio_low']:.2f}-"
                f"{r['ratio_high']:.2f})")
            lines.append((r["text"], number(r["ours"]), number(r["peer"]),
                          r["unit"], spread, r["target"] or "",
                          {True: "pass", False: "MISS", None: ""}[r["pass"]],
                          f"{r['others'] * 100:.0f} %",
                          r["peer_name"] or ""))
        wide = [max(len(line[i]) for line in lines) for i in range(9)]
        for line in lines:
            print("  ".join(
                t.rjust(w) if i in (1, 2, 7) else t.ljust(w)
                for i, (t, w) in enumerate(zip(line, wide))).rstrip())


# ---- workload --------------------------------------------------------------

class Files:
    def __init__(self, name, paths):
        self.name, self.data, self.boxes = name, [], []
        random.seed(0)
        torch.manual_seed(0)
        pixels = 0
        for path in paths:
            with open(path, "rb") as f:
                data = f.read()
            try:
                im = Image.open(io.BytesIO(data), formats=("JPEG", "PNG"))
                im.load()
            except Exception:  # not a picture that both read
                continue
            w, h = im.size
            pixels += w * h
            i, j, ch, cw = T.RandomResizedCrop.get_params(
                torch.empty(1, h, w), (0.08, 1.0), (3 / 4, 4 / 3))
            self.data.append(data)
            self.boxes.append((i, j, ch, cw, random.random() < 0.5))
        if not self.data:
            sys.exit(f"no pictures in {name}")
        self.n = len(self.data)
        self.facts = {"name": name, "files": self.n,
                      "mean_bytes": sum(map(len, self.data)) // self.n,
                      "mean_pixels": pixels // self.n}


def workload(o):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    corpus = os.environ.get("HEADRACE_CORPUS") or os.path.join(
        os.path.dirname(here), "shared", "corpus")
    folder = o.files or os.path.join(corpus, "photos", "imagenet-sample")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as samples:
        name = "photos/imagenet-sample" if not o.files else o.files
        if not os.path.isdir(folder):
            subprocess.run([os.path.join(o.build, "headrace"), "samples",
                            "--photos-only", "--count", "96", samples],
                           check=True, stdout=subprocess.DEVNULL)
            folder, name = samples, "headrace samples --count 96"
        paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(folder)
                       for f in fs)
        return Files(name, paths)


# ---- the transforms, theirs and ours ---------------------------------------

def peer_train(files):
    for d, (i, j, h, w, mirror) in zip(files.data, files.boxes):
        im = Image.open(io.BytesIO(d)).convert("RGB")
        im = F.resized_crop(im, i, j, h, w, [224, 224])
        if mirror:
            im = F.hflip(im)
        F.normalize(F.to_tensor(im), MEAN, STD)


def peer_train_tensor(files):
    """torchvision's own decoder and tensor resize: other pixels."""
    mode = torchvision.io.ImageReadMode.RGB
    for d, (i, j, h, w, mirror) in zip(files.data, files.boxes):
        t = torchvision.io.decode_jpeg(
            torch.frombuffer(bytearray(d), dtype=torch.uint8), mode=mode)
        t = F.resized_crop(t, i, j, h, w, [224, 224], antialias=True)
        if mirror:
            t = F.hflip(t)
        F.normalize(F.convert_image_dtype(t, torch.float32), MEAN, STD)


def peer_eval(files):
    for d in files.data:
        im = Image.open(io.BytesIO(d)).convert("RGB")
        im = F.center_crop(F.resize(im, 256), 224)
        F.normalize(F.to_tensor(im), MEAN, STD)


def peer_decode(files):
    for d in files.data:
        Image.open(io.BytesIO(d)).convert("RGB")


def train_ops(box):
    i, j, h, w, mirror = box
    return [decode(), crop(j, i, w, h), resize(224, 224), flip(mirror),
            normalize(MEAN, STD)]


EVAL_OPS = [decode(), resize_short(256), center_crop(224, 224, True),
            normalize(MEAN, STD)]


class Jobs:
    """Samples in jobs of BATCH pictures, all into the same memory, as a
    loader that hands its batches on."""

    def __init__(self, dev, samples, shape=(3, 224, 224), dtype=np.float32,
                 layout="nchw"):
        out = np.zeros((BATCH,) + shape, dtype)
        self.sets = [hrshim.Set(dev, samples[i:i + BATCH],
                                out[:len(samples[i:i + BATCH])], layout)
                     for i in range(0, len(samples), BATCH)]

    def __call__(self):
        for s in self.sets:
            s.time()


class Decodes:
    """Full decodes; pictures differ in size, so each is a job of its own
    (the library likes fewer)."""

    def __init__(self, lib, dev, files):
        self.sets = []
        for d in files.data:
            (w, h), _ = lib.probe(d, [decode()])
            out = np.zeros((1, h, w, 3), np.uint8)
            self.sets.append(hrshim.Set(dev, [(d, [decode()])], out, "nhwc"))

    __call__ = Jobs.__call__


def train_samples(files):
    return [(d, train_ops(b)) for d, b in zip(files.data, files.boxes)]


# ---- rows ------------------------------------------------------------------

def transform_rows(b):
    devs = {level: b.lib.open(level=level) for level in b.lib.levels()}
    best = list(devs)[-1]
    samples = train_samples(b.files)
    runs = [Jobs(dev, samples) for dev in devs.values()]
    times = interleave(b.rounds, *runs, lambda: peer_train(b.files),
                       lambda: peer_train_tensor(b.files))
    tensor, peer = times.pop(), times.pop()
    per_level = dict(zip(devs, times))
    what = "RandomResizedCrop(224), flip, ToTensor, Normalize"
    b.table.versus("train_transform", what, b.files.n, per_level[best], peer,
                   b.torchvision, 1.9)
    for level, seconds in per_level.items():
        b.table.versus(f"train_transform_{level}", f"  with {level} kernels",
                       b.files.n, seconds, peer, b.torchvision)
    b.table.versus("train_transform_tensor", "  other peer (other pixels)",
                   b.files.n, per_level[best], tensor,
                   f"torchvision {torchvision.__version__} io + tensor")
    dev = devs[best]
    ours = Jobs(dev, [(d, EVAL_OPS) for d in b.files.data])
    b.table.versus("eval_transform",
                   "Resize(256), CenterCrop(224), ToTensor, Normalize",
                   b.files.n, *interleave(b.rounds, ours,
                                          lambda: peer_eval(b.files)),
                   b.torchvision)
    ours = Decodes(b.lib, dev, b.files)
    b.table.versus("decode_rgb", "full decode to RGB", b.files.n,
                   *interleave(b.rounds, ours, lambda: peer_decode(b.files)),
                   b.pillow)


def resize_rows(b):
    dev = b.lib.open()
    photo = Image.open(io.BytesIO(b.files.data[0])).convert("RGB")
    for key, size, to, filter, least in (
            ("resize_bilinear", (500, 375), (224, 224), "bilinear", 4),
            ("resize_bicubic", (500, 375), (224, 224), "bicubic", None),
            ("resize_lanczos", (500, 375), (224, 224), "lanczos", None),
            ("resize_large", (2560, 1600), (320, 200), "bilinear", None)):
        n = 32 if key != "resize_large" else 4
        repeat = 4
        im = photo.resize(size, Image.Resampling.LANCZOS)
        # Each its own memory on both sides.
        pictures = [im.copy() for _ in range(n)]
        pixels = [np.array(p) for p in pictures]
        ops = [resize(*to, filter)]
        out = np.zeros((n, to[1], to[0], 3), np.uint8)
        ours = hrshim.Set(dev, [(p, ops) for p in pixels], out, "nhwc")
        mode = Image.Resampling[filter.upper()]

        def peer():
            for _ in range(repeat):
                for p in pictures:
                    p.resize(to, mode)
        b.table.versus(
            key, f"resize {size[0]}x{size[1]} to {to[0]}x{to[1]} {filter}",
            n * repeat, *interleave(b.rounds, lambda: ours.time(repeat),
                                    peer), b.pillow, least)


def normalize_row(b):
    dev = b.lib.open()
    photo = Image.open(io.BytesIO(b.files.data[0])).convert("RGB")
    n, repeat = 64, 4
    pictures = [photo.resize((224, 224)) for _ in range(n)]
    pixels = [np.array(p) for p in pictures]
    out = np.zeros((n, 3, 224, 224), np.float32)
    ours = hrshim.Set(dev, [(p, [normalize(MEAN, STD)]) for p in pixels],
                      out, "nchw")

    def peer():
        for _ in range(repeat):
            for p in pictures:
                F.normalize(F.to_tensor(p), MEAN, STD)
    b.table.versus("normalize", "ToTensor, Normalize of 224x224", n * repeat,
                   *interleave(b.rounds, lambda: ours.time(repeat), peer),
                   b.torchvision)


def thread_row(b):
    if len(os.sched_getaffinity(0)) < 2:
        return
    samples = train_samples(b.files)
    one, two = (Jobs(b.lib.open(threads=t), samples) for t in (1, 2))
    b.table.versus("two_threads", "train transform, 2 threads for 1",
                   b.files.n, *interleave(b.rounds, two, one),
                   "ours with 1 thread", 1.85)


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
    command = [sys.executable, os.path.abspath(__file__), "--build",
               b.build, "--child", "mallocs"]
    if b.options.files:
        command += ["--files", b.options.files]
    child = subprocess.run(
        command, env=dict(os.environ, LD_PRELOAD=b.lib.path),
        stdout=subprocess.PIPE, check=True)
    counts = json.loads(child.stdout)
    b.table.add("heap_allocations",
                f"heap allocations in {counts['epochs']} epochs, steady "
                "state", "", counts["heap"], at_most=0)
    if counts["counting"]:
        b.table.add("malloc_calls", "  calls of malloc in the process "
                    "(libjpeg too)", "", counts["malloc"], at_most=0)


def child_mallocs(o, lib):
    files = workload(o)
    dev = lib.open()
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
    ms = []
    for _ in range(b.rounds):
        child = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--build", b.build,
             "--child", "open"], stdout=subprocess.PIPE, check=True)
        ms.append(float(child.stdout) / 1e6)
    b.table.add("device_open", "first device opened in a process", "ms",
                statistics.median(ms))


# ---- OpenCL beside the CPU --------------------------------------------------

IN_FLIGHT = 4


class Stream:
    """The train transform in jobs of one size, a few of them in flight."""

    def __init__(self, dev, files, size, n):
        samples = (train_samples(files) * (n // files.n + 1))[:n]
        outs = [np.zeros((size, 3, 224, 224), np.float32)
                for _ in range(IN_FLIGHT)]
        self.sets = [hrshim.Set(dev, samples[i:i + size],
                                outs[i // size % IN_FLIGHT], "nchw")
                     for i in range(0, n, size)]
        self.cpu = []

    def __call__(self):
        start = time.process_time()
        hrshim.stream(self.sets, IN_FLIGHT)
        self.cpu.append(time.process_time() - start)


def stream_rows(b, cpu, ocl, size):
    n = 512 if size > 1 else 256
    streams = [Stream(dev, b.files, size, n) for dev in (ocl, cpu)]
    rounds = max(3, b.rounds // 2)
    ours, peer = interleave(rounds, *streams)
    text = f"batches of {size}" if size > 1 else "one by one"
    b.table.add(f"opencl_{size}", f"train transform on OpenCL, {text}",
                "img/s", n / statistics.median(ours),
                n / statistics.median(peer), "ours on the CPU",
                [p / o for o, p in zip(ours, peer)], 0.35)
    ours, peer = (s.cpu[1:] for s in streams)
    b.table.add(f"opencl_cpu_{size}", "  CPU-seconds per 1000", "s",
                statistics.median(ours) * 1000 / n,
                statistics.median(peer) * 1000 / n, "ours on the CPU",
                [p / o for o, p in zip(ours, peer)])
    return streams[0]


def opencl_rows(b):
    if not b.opencl:
        return
    opencl_open_rows(b)
    cpu, ocl = b.lib.open("cpu", 0), b.lib.open(b.options.opencl, 0)
    for size in (1, 16, 256):
        stream = stream_rows(b, cpu, ocl, size)
    settle(ocl, stream)
    heap, (batches, launches) = ocl.heap_allocations(), ocl.opencl_counts()
    for _ in range(5):
        stream()
    now = ocl.opencl_counts()
    b.table.add("opencl_launches", "  launches of kernels per batch", "",
                (now[1] - launches) / (now[0] - batches), at_most=6)
    b.table.add("opencl_heap_allocations",
                "  heap allocations, steady state", "",
                ocl.heap_allocations() - heap, at_most=0)
    b.table.add("opencl_submit", "  hr_submit() per picture, in batches "
                "of 256", "us",
                float(np.median(submit_us(b, ocl))) / 256, at_most=2)


def settle(dev, run):
    """How many threads are at the same buffer at once is chance, so this
    has no fixed length: until three times in a row nothing is allocated."""
    clean = 0
    for _ in range(25):
        before = dev.heap_allocations()
        run()
        clean = clean + 1 if dev.heap_allocations() == before else 0
        if clean == 3:
            break


def opencl_open_rows(b):
    """With caches of their own, and each in a process of its own."""
    first, second = [], []
    for _ in range(1 if b.quick else 3):
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as cache:
            first.append(opencl_open(b, cache))
            second += [opencl_open(b, cache) for _ in range(3)]
    b.table.add("opencl_open_first", "OpenCL device opened, nothing cached",
                "ms", statistics.median(first), at_most=3000)
    b.table.add("opencl_open_second", "  again, in another process", "ms",
                statistics.median(second), at_most=60)


def opencl_open(b, cache):
    child = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--build", b.build,
         "--child", "open", "--opencl", b.options.opencl],
        env=dict(os.environ, XDG_CACHE_HOME=cache,
                 POCL_CACHE_DIR=os.path.join(cache, "pocl")),
        stdout=subprocess.PIPE, check=True)
    return float(child.stdout) / 1e6


def opencl_facts(lib, name):
    """In this process, for its caches are warm then."""
    try:
        dev = lib.open(name, 0)
    except hrshim.HrError as e:
        return {"not_run": str(e)}
    facts = {"device": dev.name(), "description": dev.description()}
    dev.close()
    return facts


# ---- memory -----------------------------------------------------------------

def rss_kib(pid):
    """(now, highest so far) resident, or None if the process has ended."""
    with open(f"/proc/{pid}/status") as f:
        sizes = dict(line.split(":", 1) for line in f)
    if "VmRSS" not in sizes:
        return None
    return [int(sizes[k].split()[0]) for k in ("VmRSS", "VmHWM")]


def rss_rows(b):
    """headrace run, one picture per job, 10,000 pictures and more."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for i, d in enumerate(b.files.data):
            with open(os.path.join(folder, f"{i:05d}.jpg"), "wb") as f:
                f.write(d)
        epochs = -(-10000 // b.files.n)
        run = subprocess.Popen(
            [os.path.join(b.build, "headrace"), "run", folder, "--out",
             "none", "--ops", "decode,random_resized_crop=224,random_hflip,"
             "normalize=imagenet", "--budget", "64M", "--batch", "1",
             "--epochs", str(epochs), "--threads", "2", "--quiet"],
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


def cpu_seconds():
    """CPU time of the machine since it started: (all, busy, ours)."""
    with open("/proc/stat") as f:
        ticks = [int(t) for t in f.readline().split()[1:9]]
    tick = 1 / os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]
    return np.array([sum(ticks) * tick, (sum(ticks) - idle) * tick,
                     sum(os.times()[:4])])


# ---- all of it -------------------------------------------------------------

class Bench:
    def __init__(self, o):
        self.options, self.build, self.quick = o, o.build, o.quick
        self.rounds = 3 if o.quick else 9
        self.lib = hrshim.Shim(o.build)
        self.files = workload(o)
        self.table, self.opencl = Table(), None
        self.pillow = f"Pillow {Image.__version__}"
        self.torchvision = (f"torchvision {torchvision.__version__} + "
                            f"{self.pillow}")

    def run(self):
        for rows in [transform_rows, resize_rows, normalize_row, overhead_row,
                     probe_row]:
            with pinned():
                self.measure(rows)
        for rows in [thread_row, submit_rows, allocation_rows, open_row] + (
                [] if self.quick else [rss_rows]):
            self.measure(rows)
        self.measure_opencl()

    def measure_opencl(self):
        """Last: drivers start threads that stay."""
        self.opencl = opencl_facts(self.lib, self.options.opencl)
        if "not_run" not in self.opencl:
            self.measure(opencl_rows)

    def measure(self, rows):
        if sys.stderr.isatty():
            print(f"... {rows.__name__}", file=sys.stderr)
        start, first = cpu_seconds(), len(self.table.rows)
        rows(self)
        every, busy, ours = cpu_seconds() - start
        for row in self.table.rows[first:]:
            row["others"] = round(max(0.0, float((busy - ours) / every)), 3)

    def facts(self):
        with open("/proc/cpuinfo") as f:
            model = [line.split(":")[1].strip() for line in f
                     if line.startswith("model name")]
        return {
            "date": datetime.date.today().isoformat(),
            "machine": model[0] if model else os.uname().machine,
            "cores": len(os.sched_getaffinity(0)),
            "versions": {
                "headrace": self.lib.lib.hr_version().decode(),
                "pillow": Image.__version__,
                "torchvision": torchvision.__version__,
                "torch": torch.__version__,
                "libjpeg_turbo": features.version_feature("libjpeg_turbo")},
            "workload": self.files.facts, "rounds": self.rounds,
            "opencl": self.opencl,
            "rows": self.table.rows}


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--json", action="store_true", help="print JSON only")
    a.add_argument("--files", help="folder of pictures to measure with")
    a.add_argument("--quick", action="store_true",
                   help="3 rounds, no long run for memory")
    a.add_argument("--opencl", default="opencl", metavar="NAME",
                   help="OpenCL device [opencl]")
    a.add_argument("--only-opencl", action="store_true",
                   help="no other rows")
    a.add_argument("--child", choices=["open", "mallocs"],
                   help=argparse.SUPPRESS)
    return a.parse_args()


def main():
    o = parse()
    if o.child == "open":
        name = (o.opencl if "--opencl" in sys.argv else "cpu").encode()
        print(hrshim.Shim(o.build).lib.shim_open_ns(name, 0))
        return 0
    if o.child == "mallocs":
        child_mallocs(o, hrshim.Shim(o.build))
        return 0
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as caches:
        os.environ["XDG_CACHE_HOME"] = caches
        os.environ["POCL_CACHE_DIR"] = os.path.join(caches, "pocl")
        b = Bench(o)
        if o.only_opencl:
            b.measure_opencl()
        else:
            b.run()
    facts = b.facts()
    if o.json:
        print(json.dumps(facts, indent=1))
        return 0
    v, w = facts["versions"], facts["workload"]
    print(f"{facts['machine']}, {facts['cores']} cores; headrace "
          f"{v['headrace']}, Pillow {v['pillow']}, torchvision "
          f"{v['torchvision']}, libjpeg-turbo {v['libjpeg_turbo']}")
    print(f"{w['files']} files of {w['name']}: {w['mean_bytes']} bytes, "
          f"{w['mean_pixels'] / 1e6:.2f} Mpixel on average; medians of "
          f"{facts['rounds']} rounds\n")
    b.table.show()
    opencl = facts["opencl"]
    print("\nOpenCL: " + (opencl.get("description") or
                          f"not measured: {opencl['not_run']}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
