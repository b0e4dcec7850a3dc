# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: what each op of stage augment adds to a picture, beside
what Pillow takes for it (headrace._oracle), on each instruction set."""
import io
import statistics
import time

import numpy as np
from PIL import Image

from bench_jobs import Set, levels, open_device
from bench_table import interleave
from bench_work import MEAN, STD
from headrace import _core, _oracle, ops

SIDE, PICTURES = 224, 48
TURN = "0.966,0.259,-25,-0.259,0.966,33"  # by 15 degrees
# Text of an op -> us that it may add, with AVX-512 and with AVX2: 1.3 and 1.5
# times what prototypes took on an AMD EPYC (Zen 4). None: there was none.
OPS = {
    "adjust_brightness=1.4": (5.9, 38),
    "adjust_contrast=1.4": (14, 62),
    "adjust_saturation=1.4": (29, 105),
    "adjust_hue=0.1": (105, 183),
    "adjust_sharpness=1.5": (52, 132),
    "grayscale": (29, None),
    "posterize=4": (5.9, 38),
    "solarize=128": (5.9, 38),
    "invert": (5.9, 38),
    "equalize": (74, None),
    "autocontrast": (21, None),
    "autocontrast=2": (74, None),
    "gaussian_blur=1": (125, 249),
    "gaussian_blur=2": (125, 249),
    f"affine={TURN}:nearest": (36, None),
    f"affine={TURN}:bilinear": (179, 450),
    f"affine={TURN}:bicubic": (606, None),
    "affine=1,0.231,0,0,1,0:bilinear": (179, 450),
    "affine=1,0,-25,0,1,0:bilinear": (36, None),
    "perspective=1,0.1,-9,0.05,1,-5,0.0003,0.0002:bilinear": (None, None),
}


def known(text):
    """Its ops behind decode; None: this build has none of that name."""
    return ops.parse(text)[1:] if text.partition("=")[0] in _core.OPS else None


def op_rows(b):
    """A job of pictures that become normalised floats, with the op, less one
    without it. (A table that is the last op is one with the store's.)"""
    photos = [Image.open(io.BytesIO(data)).convert("RGB").resize((SIDE, SIDE))
              for data in b.files.data[:PICTURES]]
    devices = {level: open_device(level=level) for level in levels()}
    for text, limits in OPS.items():
        steps = known(text)
        if steps:
            one_op(b, devices, photos, text, steps,
                   dict(zip(("avx512", "avx2"), limits)))


def one_op(b, devices, photos, text, steps, limits):
    n = len(photos)
    out = np.zeros((n, 3, SIDE, SIDE), np.float32)
    sets = [Set(dev, [(np.asarray(p), [*how, ops.normalize(MEAN, STD)])
                      for p in photos], out, "nchw")
            for dev in devices.values() for how in ((), steps)]

    def peer():
        for p in photos:
            _oracle.apply(p, steps)
    # CPU time: a difference of small figures that others must not disturb.
    *ours, theirs = interleave(b.rounds, *(s.time for s in sets), peer,
                               clock=time.process_time)
    theirs = [t * 1e6 / n for t in theirs]
    name, _, value = text.partition("=")
    name = {"1,0.231": "shear", "1,0,-25": "shift"}.get(value[:7], name)
    for place, level in enumerate(devices):
        plain, with_it = ours[2 * place : 2 * place + 2]
        us = [max((t - p) * 1e6 / n, 0.1) for p, t in zip(plain, with_it)]
        what = f"{name} {value.rpartition(':')[2]}".strip()
        b.table.add(
            f"op_{what.replace(' ', '_')}_{level}", f"{what}, {level}", "us",
            statistics.median(us), statistics.median(theirs), b.pillow,
            [t / o for t, o in zip(theirs, us)], at_most=limits.get(level))
