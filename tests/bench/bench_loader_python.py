#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a headrace.Loader costs the thread that takes its batches.

  PYTHONPATH=build/python bench_loader_python.py [--to numpy|torch]

Batches of 64 tiny pictures are made before they are taken, so the time is that
of taking: CPU time of this thread, the median of several epochs.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import headrace
from headrace import ops

BATCH, PICTURES, EPOCHS = 64, 1024, 15
BUILD = pathlib.Path(headrace.__file__).resolve().parents[2] / "build"


def epoch(loader):
    """CPU seconds of this thread for each picture."""
    spent = pictures = 0
    batches = iter(loader)
    for _ in range(len(loader)):
        while not loader._core or loader.stats["ready"] < 1:
            loader._core or loader._open()
            time.sleep(0.002)
        begin = time.thread_time_ns()
        x, y = next(batches)
        spent += time.thread_time_ns() - begin
        pictures += len(y)
        begin = time.thread_time_ns()
        del x, y
        spent += time.thread_time_ns() - begin
    next(batches, None)
    return spent / pictures / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", default="torch", choices=("torch", "numpy"))
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.build / "headrace", "samples", folder,
                        "--photos-only", "--count", "8", "--size", "64x48"],
                       check=True, stdout=subprocess.DEVNULL)
        paths = sorted(str(p) for p in pathlib.Path(folder).rglob("*.jp*g"))
        source = [(paths[i % len(paths)], i) for i in range(PICTURES)]
        loader = headrace.Loader(
            source, (ops.decode(), ops.resize(32, 32), ops.normalize()),
            batch=BATCH, to=options.to, device="cpu")
        epoch(loader)
        costs = [epoch(loader) for _ in range(EPOCHS)]
    print(f"{statistics.median(costs):.2f} us of this thread a picture "
          f"({min(costs):.2f} .. {max(costs):.2f}), batches of {BATCH}, "
          f"{options.to}")


if __name__ == "__main__":
    main()
