# SPDX-License-Identifier: Apache-2.0
"""The work of bench.py: the pictures, the transforms of Pillow and torchvision,
and ours."""
import io
import os
import random
import subprocess
import sys
import tempfile
import time
import types

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F

from bench_jobs import Set, stream
from headrace import _core
from headrace.ops import (center_crop, crop, decode, flip, normalize, resize,
                          resize_short)
from tree import CORPUS

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH = 64
IN_FLIGHT = 4  # jobs of a stream


class Files:
    def __init__(self, name, paths):
        self.name, self.data, self.boxes = name, [], []
        self.sampling, self.sizes = [], []
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
            self.sampling.append(sampling(im))
            w, h = im.size
            self.sizes.append(im.size)
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


    def of_sampling(self, name):
        """The JPEGs of one kind of chroma sampling: what the functions below
        read of files."""
        want = [i for i in range(self.n) if self.sampling[i] == name]
        return types.SimpleNamespace(
            data=[self.data[i] for i in want],
            boxes=[self.boxes[i] for i in want], n=len(want))


def sampling(im):
    """Returns 4:4:4, 4:2:0 or "": the sampling of a JPEG of 3 components."""
    layer = getattr(im, "layer", [])
    kinds = {((1, 1), (1, 1)): "4:4:4", ((2, 2), (1, 1)): "4:2:0"}
    if len(layer) != 3 or layer[1][1:3] != layer[2][1:3]:
        return ""
    return kinds.get((tuple(layer[0][1:3]), tuple(layer[1][1:3])), "")


class folder:
    """Block with a folder that has the files, by number."""

    def __init__(self, files):
        self.files = files
        self.temporary = tempfile.TemporaryDirectory(prefix="headrace-bench-")

    def __enter__(self):
        for i, d in enumerate(self.files.data):
            with open(os.path.join(self.temporary.name, f"{i:05d}.jpg"),
                      "wb") as f:
                f.write(d)
        return self.temporary.name

    def __exit__(self, *_):
        self.temporary.cleanup()


def workload(o):
    folder = o.files or os.path.join(CORPUS, "photos", "imagenet-sample")
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

def to_f32(im):
    return F.normalize(F.to_tensor(im), MEAN, STD)


def to_f16(im):
    return to_f32(im).half()


def peer_window(im, box):
    i, j, h, w, mirror = box
    im = F.resized_crop(im, i, j, h, w, [224, 224])
    return F.hflip(im) if mirror else im


def peer_train(files, to_tensor=to_f32):
    for d, box in zip(files.data, files.boxes):
        im = Image.open(io.BytesIO(d)).convert("RGB")
        to_tensor(peer_window(im, box))


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
        peer_eval_one(d)


def peer_eval_one(data):
    im = Image.open(io.BytesIO(data)).convert("RGB")
    to_f32(F.center_crop(F.resize(im, 256), 224))


def peer_decode(files):
    for d in files.data:
        Image.open(io.BytesIO(d)).convert("RGB")


def window_ops(box):
    i, j, h, w, mirror = box
    return [crop(j, i, w, h), resize(224, 224), flip(horizontal=mirror)]


def train_ops(box):
    return [decode()] + window_ops(box) + [normalize(MEAN, STD)]


EVAL_OPS = [decode(), resize_short(256), center_crop(224, 224, pad=True),
            normalize(MEAN, STD)]


class Jobs:
    """Samples in jobs of BATCH pictures, all into the same memory, as a
    loader that hands its batches on."""

    def __init__(self, dev, samples, shape=(3, 224, 224), dtype=np.float32,
                 layout="nchw"):
        out = np.zeros((BATCH,) + shape, dtype)
        self.sets = [Set(dev, samples[i:i + BATCH],
                         out[:len(samples[i:i + BATCH])], layout)
                     for i in range(0, len(samples), BATCH)]

    def __call__(self):
        for s in self.sets:
            s.time()


class Stream:
    """Samples in jobs of one size, a few of them in flight."""

    def __init__(self, dev, samples, size):
        outs = [np.zeros((size, 3, 224, 224), np.float32)
                for _ in range(IN_FLIGHT)]
        self.sets = [Set(dev, samples[i:i + size],
                         outs[i // size % IN_FLIGHT], "nchw")
                     for i in range(0, len(samples), size)]
        self.cpu = []

    def __call__(self):
        start = time.process_time()
        stream(self.sets, IN_FLIGHT)
        self.cpu.append(time.process_time() - start)


class Decodes:
    """Full decodes; pictures differ in size, so each is a job of its own
    (the library likes fewer)."""

    def __init__(self, dev, files):
        self.sets = []
        for d in files.data:
            info = _core.probe(d)
            out = np.zeros((1, info.height, info.width, 3), np.uint8)
            self.sets.append(Set(dev, [(d, [decode()])], out, "nhwc"))

    __call__ = Jobs.__call__


def train_samples(files):
    return [(d, train_ops(b)) for d, b in zip(files.data, files.boxes)]
