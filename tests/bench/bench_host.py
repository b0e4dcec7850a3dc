#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The host's work for an OpenCL device: CPU time, by thread and part.

    tests/bench/bench_host.py --build BUILD

The device is the null device (tests/engines/opencl/null_opencl.h), which does
nothing, at once; so all that is left is ours. The workload of record, files in
memory; one thread prepares, one plans and enqueues, one delivers; four batches
are in flight. Times are CPU time of each thread, which other programs do not
change much: us per picture.

  prepare   the CPU's worker: header, geometry, plan of a sample, cache
  plan      the driver thread: from a batch's last command to where it reserves
            memory; waits are not CPU time
  pack      payloads and lists, into memory that the device reads
  enqueue   commands; callback: the driver's, on the same thread here
  deliver   the thread that copies results, and ends tasks
  submit    hr_submit() and waiting for jobs
  rest      other threads of the process

`entropy`: the device decodes files that are in memory, from their first bit on.
`recipes`: it also does a list of ops of each picture's own, and erases.
`cache`: later epochs of files on disk, from the cache. `device`: results stay there; `pinned`, `host`: to such memory.
"""
import argparse
import ctypes as C
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import numpy as np
    import torch
    from torchvision import transforms as T
except ImportError as e:
    print(f"not run: {e}")
    sys.exit(77)

import made
from bench_jobs import Set, open_device, stream
from bench_work import folder, train_ops, workload
from headrace import ops

COUNTS = ("plan_ns", "pack_ns", "enqueue_ns", "callback_ns", "batches",
          "launches", "writes", "reads", "up_bytes", "down_bytes", "locks",
          "contended")
IN_FLIGHT, PICTURES, ROUNDS = 4, 4096, 5
SOURCES, SIZES = ("entropy", "cache", "recipes"), (64, 256)
MEMORIES = ("device", "pinned", "host")
PARTS = ("prepare", "plan", "pack", "enqueue", "callback", "deliver",
         "submit", "rest")
THREADS = {"cpu worker 0": "prepare", "opencl driver": "driver",
           "opencl results": "deliver"}


def library(build):
    return os.path.join(build, "tests", "libnull_opencl.so")


def null_env(build, caches):
    """The environment of a process with the null device, which counts its
    locks."""
    path = os.path.abspath(library(build))
    return dict(os.environ, LD_PRELOAD=path, HEADRACE_OPENCL_LIBRARY=path,
                HEADRACE_CERTIFICATE="off", HEADRACE_OPENCL_VARIANT="staged",
                XDG_CACHE_HOME=caches)


# ---- In the process with the null device ------------------------------------

def thread_ns():
    """CPU time by the role of the threads."""
    sums = {}
    for tid in map(int, os.listdir("/proc/self/task")):
        with open(f"/proc/self/task/{tid}/comm") as f:
            name = f.read().strip()
        role = ("submit" if tid == os.getpid() else THREADS.get(name, "rest"))
        ns = time.clock_gettime_ns(~tid << 3 | 6)
        sums[role] = sums.get(role, 0) + ns
    return sums


def counts(null):
    c = (C.c_uint64 * len(COUNTS))()
    null.null_counts(c)
    return dict(zip(COUNTS, c))


def codes():
    """MoCo v2's, drawn, and a warp, in any order."""
    f, h = lambda: random.uniform(.6, 1.4), random.uniform(-.1, .1)
    kinds = [f"adjust_brightness={f()}", f"adjust_contrast={f()}",
             f"adjust_saturation={f()}", f"adjust_hue={h}",
             f"rotate={random.uniform(-30, 30)}:bilinear"]
    random.shuffle(kinds)
    kinds += ["grayscale"] * (random.random() < .2)
    kinds += [f"gaussian_blur={random.uniform(.1, 2)}"] * (random.random() < .5)
    return ops.parse(",".join(["decode", *kinds]))[1:]


def recipe_ops(box):
    *first, last = train_ops(box)
    erase = random.random() < .25
    return [*first, *codes(), last, *(erase * ops.parse(
        "decode,erase=40,50,90,60:0.5,0.25,0")[1:])]


def sets_of(dev, files, sources, size, memory, ops_of=train_ops):
    """IN_FLIGHT jobs, each sample with a window of its own."""
    random.seed(1)
    torch.manual_seed(1)
    samples = []
    for i in range(IN_FLIGHT * size):
        data, (w, h) = sources[i % files.n], files.sizes[i % files.n]
        y, x, ch, cw = T.RandomResizedCrop.get_params(
            torch.empty(1, h, w), (0.08, 1.0), (3 / 4, 4 / 3))
        if isinstance(data, bytes):  # samples of one source share its decode
            data = bytes(bytearray(data))
        samples.append((data, ops_of((y, x, ch, cw, random.random() < .5))))
    return [Set(dev, samples[i * size:(i + 1) * size],
                np.zeros((size, 3, 224, 224), np.float32), "nchw", memory)
            for i in range(IN_FLIGHT)]


def measure(null, files, paths, source, size, memory):
    os.environ["HEADRACE_OPENCL_ENTROPY"] = \
        "host" if source == "cache" else "device"
    dev = open_device("opencl", cache=1 << 30 if source == "cache" else 0)
    sets = sets_of(dev, files, paths if source == "cache" else files.data,
                   size, memory,
                   recipe_ops if source == "recipes" else train_ops)
    count = made.Count()
    for s in sets * 2:  # the first time a cache is filled
        job = s.submit()
        job.wait()
        for result in job.results:
            count.note(result, True)
    sets *= PICTURES // IN_FLIGHT // size
    rows = []
    for _ in range(ROUNDS):
        before, cpu = counts(null), thread_ns()
        wall = time.perf_counter()
        stream(sets, IN_FLIGHT)
        wall = time.perf_counter() - wall
        now, after = counts(null), thread_ns()
        c = {k: (now[k] - before[k]) / PICTURES for k in COUNTS}
        t = {k: (after[k] - cpu.get(k, 0)) / PICTURES / 1e3 for k in after}
        row = {k: c[k + "_ns"] / 1e3
               for k in ("plan", "pack", "enqueue", "callback")}
        row.update({k: t.get(k, 0) for k in
                    ("prepare", "deliver", "submit", "rest")})
        row.update(us=sum(t.values()), wall_us=wall * 1e6 / PICTURES,
                   locks=c["locks"], contended=c["contended"],
                   up_bytes=c["up_bytes"], down_bytes=c["down_bytes"],
                   launches=c["launches"] / c["batches"],
                   batch=1 / c["batches"])
        rows.append(row)
    dev.close()
    # The least of the rounds: what others do to us only adds.
    best = min(rows, key=lambda r: r["us"])
    best.update(source=source, size=size, memory=memory,
                fallbacks=count.fallbacks,
                by_device=count.decoded / count.encoded)
    return best


def child(o):
    null = C.CDLL(library(o.build))
    files = workload(o)
    with folder(files) as d:
        paths = [os.path.join(d, name) for name in sorted(os.listdir(d))]
        print(json.dumps([measure(null, files, paths, *one)
                          for one in o.rows]))


# ---- The table --------------------------------------------------------------

def host_rows(build, files, rows):
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as caches:
        out = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--build", build,
             "--child", json.dumps(rows)] +
            (["--files", files] if files else []),
            env=null_env(build, caches), stdout=subprocess.PIPE,
            check=True).stdout
    return json.loads(out)


def opencl_host_rows(b):
    """For bench.py: the sums, in batches of 256."""
    if not os.path.exists(library(b.build)):
        return
    rows = host_rows(b.build, b.options.files,
                     [[s, 256, m] for s in SOURCES for m in MEMORIES])
    texts = {"entropy": ("files, entropy on the device", .05),
             "cache": ("later epochs from the cache", .04),
             "recipes": ("the same files with recipes", .05)}
    for r in rows:
        text, most = texts[r["source"]]
        b.table.add(f"host_{r['source']}_{r['memory']}",
                    f"host, CPU-seconds per 1000: {text}, {r['memory']}", "s",
                    r["us"] / 1e3,
                    at_most=None if r["memory"] == "host" else most)
        if r["memory"] == "device":
            b.table.add(f"host_{r['source']}_thread",
                        "  of the busiest thread", "s",
                        max(r["prepare"], r["deliver"], r["submit"],
                            r["plan"] + r["pack"] + r["enqueue"] +
                            r["callback"]) / 1e3, at_most=.033)


def show(rows):
    print(f"{'us of CPU per picture':26}" +
          "".join(f"{p:>9}" for p in PARTS) + "      all   locks (waited)"
          "  pictures/s  KB up  launches")
    for r in rows:
        print(f"{r['source']}, {r['size']}, {r['memory']}".ljust(26) +
              "".join(f"{r[p]:9.2f}" for p in PARTS) +
              f"{r['us']:9.2f}{r['locks']:8.1f} ({r['contended']:.2f})"
              f"{1e6 / r['wall_us']:12.0f}{r['up_bytes'] / 1e3:7.1f}"
              f"{r['launches']:10.1f}")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--files", help="folder of pictures to measure with")
    a.add_argument("--rows", type=lambda s: [r.split(",") for r in s.split()],
                   default=[[s, n, m] for s in SOURCES for n in SIZES
                            for m in MEMORIES],
                   help="some of them: 'entropy,256,device cache,64,host'")
    a.add_argument("--json", action="store_true", help="print JSON only")
    a.add_argument("--child", help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.child:
        o.rows = json.loads(o.child)
        child(o)
        return 0
    rows = host_rows(o.build, o.files, [[s, int(n), m] for s, n, m in o.rows])
    if o.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
