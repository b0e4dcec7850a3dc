# SPDX-License-Identifier: Apache-2.0
"""Jobs of the package headrace that are prepared once and run many times. The
figures include Python's overhead, some 0.5 us a sample; bench_core measures
without it."""
import json
import os
import platform
import subprocess
import time

import numpy as np

import package
from headrace import _core

LEVELS = (("c", "neon") if platform.machine() in ("aarch64", "arm64")
          else ("c", "avx2", "avx512"))
NAMES = {np.float32: "f32", np.float16: "f16", np.uint8: "u8"}


def open_device(name="cpu", threads=1, level=None, cache=0):
    """cache: bytes of one of its own. level: an instruction set."""
    if level:
        os.environ["HEADRACE_CPU"] = level
    try:
        return _core.Device(name, threads=threads, strict=name == "cpu",
                            cache=_core.Cache(cache) if cache else None)
    finally:
        os.environ.pop("HEADRACE_CPU", None)


def levels():
    """Names of the instruction sets this machine has, C first."""
    return [level for level in LEVELS
            if f"{level} kernels" in open_device(level=level).description]


def core(*arguments, **variables):
    """Returns the output of bench_core."""
    out = subprocess.run(
        [os.path.join(package.BUILD, "tests", "bench_core"),
         *map(str, arguments)], env=dict(os.environ, **variables),
        stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


class Set:
    """A prepared job: [(source, ops)] into out, N x ... of any strides. source:
    bytes, a path, a picture of a pack file, or a u8 array H x W x C."""

    def __init__(self, dev, samples, out, layout, memory="host"):
        shape = out.shape if layout == "nchw" else \
            np.array(out.shape)[[0, 3, 1, 2]]
        self.dev, self.samples = dev, [
            (pixels_of(s, dev) if isinstance(s, np.ndarray) else s, tuple(ops))
            for s, ops in samples]
        self.batch = _core.Batch(*map(int, shape), NAMES[out.dtype.type],
                                 layout, out if memory == "host" else None,
                                 dev, memory)

    def submit(self):
        return _core.submit(self.samples, self.batch, device=self.dev)

    def time(self, rounds=1):
        """Seconds of each run."""
        times = np.zeros(rounds)
        for r in range(rounds):
            start = time.perf_counter()
            self.submit().wait()
            times[r] = time.perf_counter() - start
        return times


def pixels_of(array, dev):
    h, w, c = array.shape
    return _core.Pixels(w, h, c, data=array, device=dev)


def stream(sets, depth):
    """Runs sets with that many jobs in flight, as a loader that prefetches."""
    jobs = []
    for s in sets:
        if len(jobs) == depth:
            jobs.pop(0).wait()
        jobs.append(s.submit())
    for job in jobs:
        job.wait()
