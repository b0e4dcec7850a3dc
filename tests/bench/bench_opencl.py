# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: OpenCL beside the CPU."""
import os
import statistics
import tempfile

import numpy as np

from bench_costs import paths_of, submit_us
from bench_jobs import core, open_device
from bench_rows import squares
from bench_table import interleave
from bench_work import MEAN, STD, Stream, folder, train_samples
from headrace.errors import Error
from headrace.ops import decode, normalize, resize


def stream_rows(b, cpu, ocl, size):
    n = 512 if size > 1 else 256
    samples = (train_samples(b.files) * (n // b.files.n + 1))[:n]
    streams = [Stream(dev, samples, size) for dev in (ocl, cpu)]
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


def opencl_rows(b):
    if not b.opencl:
        return
    opencl_open_rows(b)
    cpu, ocl = open_device("cpu", 0), open_device(b.options.opencl, 0)
    for size in (1, 16, 256):
        stream_rows(b, cpu, ocl, size)
    with folder(b.files) as files:
        counts = core("steady", b.options.opencl, 0, 256, *paths_of(files))
    b.table.add("opencl_launches", "  launches of kernels per batch", "",
                counts["launches"], at_most=6)
    b.table.add("opencl_heap_allocations",
                "  heap allocations, steady state", "",
                counts["heap"], at_most=0)
    b.table.add("opencl_submit", "  hr_submit() per picture, in batches "
                "of 256", "us",
                float(np.median(submit_us(b, b.options.opencl))) / 256, at_most=2)
    order_rows(b, ocl)


def order_rows(b, dev):
    """CPU time of the process: drivers have threads of their own, and what
    else the machine does shall not count."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (400, 400, 3), np.uint8)
    for key, text, ops, sources in (
            ("pixels", "pixels 400x400", [], [pixels] * b.files.n),
            ("jpeg", "JPEG 375x375", [decode()], squares(b))):
        orders = [ops + [resize(224, 224, order=o), normalize(MEAN, STD)]
                  for o in ("vertical", "horizontal")]
        streams = [Stream(dev, [(s, one) for s in sources], 32)
                   for one in orders]
        interleave(b.rounds, *streams)
        b.table.versus(f"opencl_orders_{key}",
                       f"vertical pass first, OpenCL, CPU time, {text} to 224",
                       b.files.n, *(s.cpu[1:] for s in streams),
                       "horizontal first", .97)


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
    return core("open", b.options.opencl, XDG_CACHE_HOME=cache,
                POCL_CACHE_DIR=os.path.join(cache, "pocl")) / 1e6


def opencl_facts(name):
    """In this process, for its caches are warm then."""
    try:
        dev = open_device(name, 0)
    except Error as e:
        return {"not_run": str(e)}
    facts = {"device": dev.name, "description": dev.description}
    dev.close()
    return facts
