# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: transforms and their parts on the CPU, beside
Pillow and torchvision."""
import io
import os

import numpy as np
import torchvision
from PIL import Image
from torchvision.transforms import functional as F

from bench_jobs import Set, levels, open_device
from bench_table import interleave
from bench_work import (BATCH, EVAL_OPS, MEAN, STD, Decodes, Jobs, Stream,
                        peer_decode, peer_eval, peer_train, peer_train_tensor,
                        to_f16, to_f32, train_samples, window_ops)
from headrace.ops import decode, normalize, resize

# The promised ratio to torchvision in the first epoch.
FIRST = {"c": None, "avx2": 4.2, "avx512": 5.2, "neon": None}


def transform_rows(b):
    devs = {level: open_device(level=level) for level in levels()}
    best = list(devs)[-1]
    samples = train_samples(b.files)
    runs = [Jobs(dev, samples) for dev in devs.values()]
    times = interleave(b.rounds, *runs, lambda: peer_train(b.files),
                       lambda: peer_train_tensor(b.files))
    tensor, peer = times.pop(), times.pop()
    per_level = dict(zip(devs, times))
    b.table.versus("train_transform", "train transform, first epoch",
                   b.files.n, per_level[best], peer, b.torchvision,
                   FIRST[best])
    for level, seconds in per_level.items():
        b.table.versus(f"train_transform_{level}", f"  with {level} kernels",
                       b.files.n, seconds, peer, b.torchvision, FIRST[level])
    b.table.versus("train_transform_tensor", "  other peer (other pixels)",
                   b.files.n, per_level[best], tensor,
                   f"torchvision {torchvision.__version__} io + tensor")


def kind_rows(b):
    """The train transform by the files' chroma sampling, and by the type of
    the tensor."""
    dev = open_device()
    for name in ("4:4:4", "4:2:0"):
        files = b.files.of_sampling(name)
        if not files.n:
            continue
        b.table.versus(f"train_{name.replace(':', '')}",
                       f"  {files.n} files of {name}", files.n,
                       *interleave(b.rounds, Jobs(dev, train_samples(files)),
                                   lambda: peer_train(files)), b.torchvision)
    plain = [(d, [decode()] + window_ops(box))
             for d, box in zip(b.files.data, b.files.boxes)]
    f16, u8, peer16, peer8 = interleave(
        b.rounds, Jobs(dev, train_samples(b.files), dtype=np.float16),
        Jobs(dev, plain, dtype=np.uint8),
        lambda: peer_train(b.files, to_f16),
        lambda: peer_train(b.files, F.pil_to_tensor))
    b.table.versus("train_f16", "  as f16", b.files.n, f16, peer16,
                   b.torchvision)
    b.table.versus("train_u8", "  as u8, not normalised", b.files.n, u8, peer8,
                   b.torchvision)


def eval_rows(b):
    dev = open_device()
    ours = Jobs(dev, [(d, EVAL_OPS) for d in b.files.data])
    b.table.versus("eval_transform",
                   "Resize(256), CenterCrop(224), ToTensor, Normalize",
                   b.files.n, *interleave(b.rounds, ours,
                                          lambda: peer_eval(b.files)),
                   b.torchvision)
    ours = Decodes(dev, b.files)
    b.table.versus("decode_rgb", "full decode to RGB", b.files.n,
                   *interleave(b.rounds, ours, lambda: peer_decode(b.files)),
                   b.pillow)


def resize_rows(b):
    dev = open_device()
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
        ops = [resize(*to, filter=filter)]
        out = np.zeros((n, to[1], to[0], 3), np.uint8)
        ours = Set(dev, [(p, ops) for p in pixels], out, "nhwc")
        mode = Image.Resampling[filter.upper()]

        def peer():
            for _ in range(repeat):
                for p in pictures:
                    p.resize(to, mode)
        b.table.versus(
            key, f"resize {size[0]}x{size[1]} to {to[0]}x{to[1]} {filter}",
            n * repeat, *interleave(b.rounds, lambda: ours.time(repeat),
                                    peer), b.pillow, least)


def order_rows(b):
    """Whole pictures, square scales: which pass comes first costs nothing."""
    ops = [[decode(), resize(224, 224, order=order), normalize(MEAN, STD)]
           for order in ("vertical", "horizontal")]
    files = squares(b)
    for level in levels():
        dev = open_device(level=level)
        runs = [Jobs(dev, [(d, one) for d in files]) for one in ops]
        b.table.versus(f"resize_orders_{level}",
                       f"vertical pass first, {level}, JPEG 375x375 to 224",
                       b.files.n, *interleave(b.rounds, *runs),
                       "horizontal first", .97)


def squares(b):
    """The files' middles of 375 x 375, as JPEG."""
    made = []
    for data in b.files.data:
        im = Image.open(io.BytesIO(data)).convert("RGB")
        side, out = min(im.size), io.BytesIO()
        x, y = (im.width - side) // 2, (im.height - side) // 2
        im.crop((x, y, x + side, y + side)).resize((375, 375)).save(
            out, "JPEG", quality=90)
        made.append(out.getvalue())
    return made


def normalize_rows(b):
    fast = [n for n in levels() if n != "c"] or ["c"]
    photo = Image.open(io.BytesIO(b.files.data[0])).convert("RGB")
    n, repeat = 64, 4
    pictures = [photo.resize((224, 224)) for _ in range(n)]
    pixels = [np.array(p) for p in pictures]
    out = np.zeros((n, 3, 224, 224), np.float32)
    sets = [Set(open_device(level=level),
                [(p, [normalize(MEAN, STD)]) for p in pixels], out, "nchw")
            for level in fast]

    def peer():
        for _ in range(repeat):
            for p in pictures:
                to_f32(p)
    *times, theirs = interleave(
        b.rounds, *(lambda s=s: s.time(repeat) for s in sets), peer)
    for level, seconds in zip(fast, times):
        # (The best has the name that it always had.)
        b.table.versus("normalize" if level == fast[-1] else
                       f"normalize_{level}",
                       f"store: ToTensor, Normalize of 224x224, {level}",
                       n * repeat, seconds, theirs, b.torchvision)


def thread_rows(b):
    """Jobs in flight, as a loader has them: at the end of a job that nothing
    follows, threads wait for each other."""
    if len(os.sched_getaffinity(0)) < 2:
        return
    samples = train_samples(b.files) * 4
    for key, text, cache in (("two_threads", "  2 threads for 1", 0),
                             ("two_threads_later", "  2 threads for 1, later "
                              "epochs from a cache", 1 << 30)):
        one, two = (Stream(open_device(threads=t, cache=cache), samples, BATCH)
                    for t in (1, 2))
        b.table.versus(key, text, len(samples), *interleave(b.rounds, two, one),
                       "ours with 1 thread", 1.9)
