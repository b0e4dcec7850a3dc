#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Ray Data costs for each picture, and Headrace in it and without it.

  PYTHONPATH=build/python bench_ray.py [PHOTOS] [--rounds N] [--dtype u8|f32]

Three things take turns, with one thread each, on the same pictures in memory in
the same batches; the median of the rounds is printed, and that of their ratios:

  ray        an actor that touches the bytes, and gives a tensor of zeros
  headrace   a Pipeline in this process
  both       headrace.ray.Preprocess, an actor

  (both - ray) / headrace   what Headrace takes in Ray, as a share of what it
                            takes without

Times are those between the first batch and the last, as the actor saw them: no
start of processes, but all that Ray does between two batches. CPU is that of
the actor's process, and of this one without Ray.
"""

import argparse
import json
import logging
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import headrace
from headrace import ops
from headrace.ray import Preprocess

import ray

BUILD = pathlib.Path(headrace.__file__).resolve().parents[2] / "build"
SHAPE = (3, 224, 224)
NUMBERS = {"u8": "uint8", "f16": "float16", "f32": "float32"}


def steps(dtype):
    made = (ops.decode(), ops.resize_short(256), ops.center_crop(224, 224))
    if dtype == "u8":
        return made
    return made + (ops.normalize((0.485, 0.456, 0.406),
                                 (0.229, 0.224, 0.225)),)


class Clock:
    """Adds to each batch when it was done, in seconds: wall and CPU."""

    def __call__(self, batch):
        rows = self.make(batch)
        n = len(rows["image"])
        rows["wall"] = numpy.full(n, time.monotonic())
        rows["cpu"] = numpy.full(n, time.process_time())
        return rows


class Touch(Clock):
    def __init__(self, dtype):
        self.dtype = dtype

    def make(self, batch):
        touched = sum(int(numpy.frombuffer(data, "u1")[::4096].sum(
            dtype="u8")) for data in batch["bytes"])
        assert touched
        n = len(batch["bytes"])
        return {"image": numpy.zeros((n, *SHAPE), NUMBERS[self.dtype])}


class Made(Clock):
    def __init__(self, dtype):
        self.preprocess = Preprocess(steps(dtype), dtype=dtype, device="cpu",
                                     threads=1)

    def make(self, batch):
        rows = self.preprocess(batch)
        assert rows["ok"].all(), rows["error"]
        return rows


def each(times):
    """Microseconds a picture; times: (pictures, wall, cpu) of batches."""
    first, *rest = times
    n = sum(n for n, *_ in rest)
    return [1e6 * (rest[-1][i] - first[i]) / n for i in (1, 2)]


def in_ray(kind, data, options):
    rows = data.map_batches(
        kind, fn_constructor_args=(options.dtype,), batch_size=options.batch,
        compute=ray.data.ActorPoolStrategy(size=1), num_cpus=1)
    times = []
    for batch in rows.iter_batches(batch_size=None, batch_format="numpy"):
        for wall in numpy.unique(batch["wall"]):
            mine = batch["wall"] == wall
            times.append((int(mine.sum()), float(wall),
                          float(batch["cpu"][mine][0])))
    assert sum(n for n, *_ in times) == options.pictures
    return each(sorted(times, key=lambda t: t[1]))


def alone(pictures, options):
    make = headrace.Pipeline(steps(options.dtype), dtype=options.dtype,
                             device="cpu", threads=1)
    times = []
    for i in range(0, len(pictures), options.batch):
        sources = pictures[i:i + options.batch]
        assert all(make(sources).ok)
        times.append((len(sources), time.monotonic(), time.process_time()))
    return each(times)


def measure(paths, options):
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    read = [path.read_bytes() for path in paths]
    pictures = [read[i % len(read)] for i in range(options.pictures)]
    data = ray.data.from_items(
        [{"bytes": data} for data in pictures],
        override_num_blocks=-(-len(pictures) // options.batch)).materialize()
    rounds = []
    for _ in range(options.rounds):
        rounds.append({"ray": in_ray(Touch, data, options),
                       "headrace": alone(pictures, options),
                       "both": in_ray(Made, data, options)})
    ray.shutdown()
    return rounds


def report(rounds, options):
    found = {"rounds": rounds, "dtype": options.dtype, "batch": options.batch}
    for i, clock in enumerate(("wall", "cpu")):
        for name in rounds[0]:
            found[f"{name}_{clock}_us"] = statistics.median(
                r[name][i] for r in rounds)
        found[f"ratio_{clock}"] = statistics.median(
            (r["both"][i] - r["ray"][i]) / r["headrace"][i] for r in rounds)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{options.pictures} pictures in batches of {options.batch}, "
          f"{options.dtype}, {options.rounds} rounds; us a picture")
    print(f"{'':10}{'wall':>8}{'CPU':>8}")
    for name in rounds[0]:
        print(f"{name:10}{found[name + '_wall_us']:8.0f}"
              f"{found[name + '_cpu_us']:8.0f}")
    print(f"{'ratio':10}{found['ratio_wall']:8.2f}{found['ratio_cpu']:8.2f}"
          "   (both - ray) / headrace")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("photos", type=pathlib.Path, nargs="?")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--pictures", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="u8", choices=tuple(NUMBERS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.photos:
            subprocess.run([options.build / "headrace", "samples", folder,
                            "--photos-only", "--count", "24", "--size",
                            "500x375"], check=True, stdout=subprocess.DEVNULL)
            options.photos = pathlib.Path(folder)
        paths = sorted(options.photos.rglob("*.[jJ][pP]*[gG]"))
        if not paths:
            sys.exit(f"no JPEGs in {options.photos}")
        report(measure(paths, options), options)


if __name__ == "__main__":
    main()
