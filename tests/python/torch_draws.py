# SPDX-License-Identifier: Apache-2.0
"""Tensors of bytes and how torch resizes them: for compare_torch.py, tests."""

import numpy as np
import torch
from headrace import ops

FILTERS = ("bilinear", "bicubic", "lanczos", "nearest")
LAYOUTS = ("planes", "channels_last", "window")


def interpolate(tensor, w, h, name):
    """torchvision's call for bytes, where it does not go through floats."""
    antialias = {} if name == "nearest" else {
        "align_corners": False, "antialias": True}
    return torch.nn.functional.interpolate(
        tensor, size=[h, w], mode=name, **antialias)


def why_not():
    """Why this torch does not resize bytes; None: it does."""
    try:
        interpolate(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), 2, 3, "lanczos")
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return f"torch {torch.__version__}: {str(error).splitlines()[0]}"
    return None


def _side(rnd):
    return rnd.choice([rnd.randint(1, 64), rnd.randint(1, 500),
                       rnd.randint(200, 700)])


def _result(rnd, side):
    """One column is left out: there torch without AVX2 repeats the first row,
    and with it fails (1 x 1)."""
    return max(2, rnd.choice([224, _side(rnd), rnd.randint(1, 300), side]))


def _tensor(rnd, layout, c, h, w):
    noise = np.random.default_rng(rnd.randrange(1 << 30))
    pixels = noise.integers(0, 256, (1, c, h, w), np.uint8)
    if rnd.random() < 0.4:
        pixels = (pixels & 1) * 255  # the largest sums
    tensor = torch.from_numpy(pixels)
    if layout == "window":
        around = torch.zeros(1, c, h + 9, w + 7, dtype=torch.uint8)
        around[:, :, 4:4 + h, 3:3 + w] = tensor
        tensor = around[:, :, 4:4 + h, 3:3 + w]
    elif layout == "channels_last":
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def hwc(tensor):
    return np.ascontiguousarray(tensor[0].permute(1, 2, 0).numpy())


def draw(rnd):
    """(what it is, pixels H x W x C, ops, what torch makes of them)

    A crop is a view in torch, what lies outside of it is never seen; the part
    of it that lies outside of the picture is 0. A mirrored tensor is a copy. A
    crop behind the resize keeps the weights of the whole.
    """
    name, layout = rnd.choice(FILTERS), rnd.choice(LAYOUTS)
    tensor = _tensor(rnd, layout, rnd.choice([3, 3, 1]), _side(rnd), _side(rnd))
    source, steps = hwc(tensor), []
    h, w = tensor.shape[2:]
    if rnd.random() < 0.2:
        tensor = tensor.flip(-1)
        steps.append(ops.flip(horizontal=True))
    if rnd.random() < 0.4:
        x, y = rnd.randrange(w), rnd.randrange(h)
        more = rnd.choice([0, 0, 9])
        w, h = rnd.randint(1, w - x + more), rnd.randint(1, h - y + more)
        tensor = torch.nn.functional.pad(tensor, (0, more, 0, more)) \
            if more else tensor
        tensor = tensor[:, :, y:y + h, x:x + w]
        steps.append(ops.crop(x, y, w, h, pad=True))
    to_w, to_h = _result(rnd, w), _result(rnd, h)
    steps.append(ops.resize(to_w, to_h, filter=name, order="torch"))
    made = hwc(interpolate(tensor, to_w, to_h, name))
    if rnd.random() < 0.5:
        x, y = rnd.randrange(to_w), rnd.randrange(to_h)
        w, h = rnd.randint(1, to_w - x), rnd.randint(1, to_h - y)
        steps.append(ops.crop(x, y, w, h))
        made = np.ascontiguousarray(made[y:y + h, x:x + w])
    return f"{name} {layout}", source, steps, made
