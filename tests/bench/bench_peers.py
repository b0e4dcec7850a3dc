#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The train transform of other programs beside ours.

    ./dev bench --peers
    tests/bench/bench_peers.py --build build --python PYTHON

PYTHON has the packages of tests/python/peers.txt (700 MB of downloads, which
./dev keeps). --torch-python (or HEADRACE_TORCH_PYTHON) has current torch,
torchvision and Pillow. Missing packages are named. 77: there is no NumPy.

Files in memory, windows drawn before and the same for all: crop, resize to 224
x 224, mirror, normalise, as float32 planes. All run on one core, each in a
process of its own, and take turns, a round of all files each. Only we and
torchvision on Pillow make the same pixels: OpenCV's resize does not look at all
pixels when it shrinks (no antialias), FFmpeg's and DALI's arithmetic is another.
The figures are CPU time, of all threads of the process: other work on the
machine changes it less than wall time.
"""
import argparse
import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import time

# Code shared with python3 -m headrace.bench, without importing the package:
# interpreters with peers may lack it. The path comes first: tests/python has a
# package `programs`, too, and is on PYTHONPATH in tests.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) +
                "/../../python/headrace/bench")
from children import Child, Ended
from programs import (MEAN, STD, dali_numbers, draw_window, serve,
                      spdl_maker)

SIZE, BATCH = 224, 64
TARGETS = {"first epoch": 3.5, "later epochs, from a cache": 8}


# ---- The peers: each gives its name and a function that makes all pictures ---

def torchvision_pillow(files):
    import io

    import PIL
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms import functional as F
    torch.set_num_threads(1)

    def run():
        for data, (i, j, h, w, mirror) in files:
            im = Image.open(io.BytesIO(data)).convert("RGB")
            im = F.resized_crop(im, i, j, h, w, [SIZE, SIZE])
            if mirror:
                im = F.hflip(im)
            F.normalize(F.to_tensor(im), MEAN, STD)
    return (f"torchvision {torchvision.__version__} on Pillow "
            f"{PIL.__version__}"), run


def torchvision_tensor(files):
    import torch
    import torchvision
    from torchvision.transforms.v2 import functional as F
    torch.set_num_threads(1)
    encoded = [torch.frombuffer(bytearray(d), dtype=torch.uint8)
               for d, _ in files]
    mode = torchvision.io.ImageReadMode.RGB

    def run():
        for data, (_, (i, j, h, w, mirror)) in zip(encoded, files):
            t = torchvision.io.decode_jpeg(data, mode=mode)
            t = F.resized_crop(t, i, j, h, w, [SIZE, SIZE], antialias=True)
            if mirror:
                t = F.horizontal_flip(t)
            F.normalize(F.to_dtype(t, torch.float32, scale=True), MEAN, STD)
    return f"torchvision {torchvision.__version__} tensors", run


def opencv(files):
    import cv2
    import numpy as np
    cv2.setNumThreads(0)
    scale = (1 / (255 * np.array(STD))).astype(np.float32)
    shift = (-np.array(MEAN) / STD).astype(np.float32)
    encoded = [np.frombuffer(d, np.uint8) for d, _ in files]
    out = np.empty((3, SIZE, SIZE), np.float32)

    def run():
        for data, (_, (i, j, h, w, mirror)) in zip(encoded, files):
            im = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB |
                              cv2.IMREAD_IGNORE_ORIENTATION)
            im = cv2.resize(im[i:i + h, j:j + w], (SIZE, SIZE))
            if mirror:
                im = cv2.flip(im, 1)
            for c, plane in enumerate(cv2.split(im)):
                np.multiply(plane, scale[c], out[c])
                out[c] += shift[c]
    return f"OpenCV {cv2.__version__}, no antialias", run


def dali(files):
    import numpy as np
    import nvidia.dali
    from nvidia.dali import fn, pipeline_def, types
    encoded = [np.frombuffer(d, np.uint8) for d, _ in files]
    batches = -(-len(files) // BATCH)

    def source(sample):
        k = sample.idx_in_epoch % len(files)
        i, j, h, w, mirror = files[k][1]
        return (encoded[k], np.array([i, j], np.int32),
                np.array([h, w], np.int32), np.int32(mirror))

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None,
                  prefetch_queue_depth=1)
    def pipeline():
        jpegs, anchor, shape, mirror = fn.external_source(
            source, num_outputs=4, batch=False,
            dtype=[types.UINT8] + [types.INT32] * 3)
        im = fn.decoders.image_slice(jpegs, anchor, shape, axes=[0, 1],
                                     normalized_anchor=False,
                                     normalized_shape=False, device="cpu")
        im = fn.resize(im, size=[SIZE, SIZE])
        return dali_numbers(im, mirror, fn, types)
    pipe = pipeline()
    pipe.build()

    def run():
        for _ in range(batches):
            pipe.run()
        return batches * BATCH
    return f"DALI {nvidia.dali.__version__}, CPU", run


def spdl(files):
    from importlib.metadata import version
    make = spdl_maker(SIZE)

    def run():
        for data, window in files:
            make(data, window)
    return f"SPDL {version('spdl_io')} (FFmpeg)", run


PEERS = {"torchvision_pillow": torchvision_pillow,
         "torchvision_tensor": torchvision_tensor, "opencv": opencv,
         "dali": dali, "spdl": spdl}


def serve_peer(peer, path):
    """The child: a round is all pictures, after one that is not counted."""
    def make():
        with open(path, "rb") as f:
            files = pickle.load(f)
        name, run = PEERS[peer](files)
        run()
        return name, lambda: timed(run, len(files))
    serve(make)


def timed(run, n):
    wall, cpu = time.perf_counter(), time.process_time()
    done = run() or n
    return {"wall": (time.perf_counter() - wall) / done,
            "cpu": (time.process_time() - cpu) / done}


# ---- The parent --------------------------------------------------------------

class Peer(Child):
    def __init__(self, key, python, peer, path):
        super().__init__(key, [python, os.path.abspath(__file__), "--serve",
                               peer, path])
        self.times = []

    def round(self):
        self.times.append(super().round())


class Ours:
    def __init__(self, build, name, files, cache):
        sys.path.append(os.path.dirname(__file__) + "/../support")
        import numpy as np
        from bench_jobs import Set, open_device
        from headrace.ops import crop, decode, flip, normalize, resize
        dev = open_device(cache=cache)
        out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
        samples = [(d, [decode(), crop(j, i, w, h), resize(SIZE, SIZE),
                        flip(horizontal=mirror), normalize(MEAN, STD)])
                   for d, (i, j, h, w, mirror) in files]
        self.sets = [Set(dev, samples[k:k + BATCH],
                         out[:len(samples[k:k + BATCH])], "nchw")
                     for k in range(0, len(samples), BATCH)]
        self.name, self.n, self.times = name, len(samples), []
        self.all()

    def all(self):
        for s in self.sets:
            s.time()

    def round(self):
        self.times.append(timed(self.all, self.n))


def read_files(o):
    """[(bytes, (top, left, height, width, mirror))] of JPEGs that all take:
    of three components, baseline or progressive."""
    sys.path.append(os.path.dirname(__file__) + "/../support")
    import package  # noqa: F401, where headrace is
    from headrace import _core
    from headrace.errors import Error
    from tree import CORPUS
    folder = o.files or os.path.join(CORPUS, "photos", "imagenet-sample")
    rng, files = random.Random(0), []
    with tempfile.TemporaryDirectory(prefix="headrace-peers-") as made:
        if not os.path.isdir(folder):
            subprocess.run([os.path.join(o.build, "headrace"), "samples",
                            "--photos-only", "--count", "96", made],
                           check=True, stdout=subprocess.DEVNULL)
            folder = made
        for path in sorted(os.path.join(d, f) for d, _, fs in os.walk(folder)
                           for f in fs):
            with open(path, "rb") as f:
                data = f.read()
            if not data.startswith(b"\xff\xd8"):
                continue
            try:
                info = _core.probe(data)
            except Error:
                continue
            files.append((data, draw_window(rng, info.width, info.height)))
    return folder if folder != made else "headrace samples", files


def children(o, path):
    """Returns the children that run; prints the ones that do not."""
    found, wanted = [], []
    for key, python in (("debian", o.debian), ("current", o.torch_python)):
        if not python:
            print(f"not run: torchvision, {key}: no interpreter with it")
            continue
        wanted += [(f"{p}_{key}", python, p)
                   for p in ("torchvision_pillow", "torchvision_tensor")
                   if (p, key) != ("torchvision_tensor", "debian")]
    for peer in ("opencv", "dali", "spdl"):
        if o.python:
            wanted.append((peer, o.python, peer))
        else:
            print(f"not run: {peer}: no interpreter with it")
    for key, python, peer in wanted:
        child = Peer(key, python, peer, path)
        try:
            child.begin()
            found.append(child)
        except Ended as reason:
            print(f"not run: {key}: {reason}")
            child.end()
    return found


def report(o, folder, n, ours, peers):
    """Rows for people and, with --json, for machines."""
    def ms(runs, what="cpu"):
        return statistics.median(t[what] for t in runs) * 1e3

    best = min(peers, key=lambda p: ms(p.times)) if peers else None
    rows, line = [], "{:<44}{:>8}{:>8}  {:<24}{}"
    print(f"\n{n} files of {folder}, one core, medians of {o.rounds} rounds\n")
    print(line.format("ms a picture", "CPU", "wall", "ours, CPU: first, later",
                      "").rstrip())
    for one in ours + sorted(peers, key=lambda p: ms(p.times)):
        ratios = [statistics.median(
            t["cpu"] / u["cpu"] for t, u in zip(one.times, us.times))
            for us in ours] if one not in ours else []
        verdict = []
        if one is best:
            for us, ratio in zip(ours, ratios):
                least = TARGETS[us.name]
                verdict.append(("pass" if ratio >= least else "MISS") +
                               f" (>= {least})")
        text = ", ".join(f"{r:.2f}" for r in ratios)
        print(line.format(one.name, f"{ms(one.times):.3f}",
                          f"{ms(one.times, 'wall'):.3f}", text,
                          ", ".join(verdict)).rstrip())
        rows.append({"name": one.name, "cpu_ms": ms(one.times),
                     "wall_ms": ms(one.times, "wall"), "ratios": ratios,
                     "best": one is best})
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"files": n, "rounds": o.rounds, "rows": rows}, f,
                      indent=1)


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", help="build folder")
    a.add_argument("--python", help="interpreter with OpenCV, DALI, SPDL")
    a.add_argument("--torch-python",
                   default=os.environ.get("HEADRACE_TORCH_PYTHON"),
                   help="interpreter with current torch and torchvision")
    a.add_argument("--debian", default="/usr/bin/python3",
                   help="interpreter with the distribution's [%(default)s]")
    a.add_argument("--files", help="folder of pictures to measure with")
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--json", metavar="FILE", help="write that, too")
    a.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    o = a.parse_args()
    if not o.serve and not o.build:
        a.error("--build is missing")
    return o


def main():
    o = parse()
    if o.serve:
        serve_peer(*o.serve)
        return 0
    try:
        import numpy  # noqa: F401, ours needs it
    except ImportError as reason:
        print(f"not run: {reason}")
        return 77
    folder, files = read_files(o)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.NamedTemporaryFile(prefix="headrace-peers-") as f:
        pickle.dump(files, f)
        f.flush()
        ours = [Ours(o.build, name, files, cache)
                for name, cache in zip(TARGETS, (0, 1 << 30))]
        peers = children(o, f.name)
        for _ in range(o.rounds):
            for one in ours + peers:
                one.round()
        for child in peers:
            child.end()
    report(o, folder, len(files), ours, peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
