# SPDX-License-Identifier: Apache-2.0
"""Parameters of ops, drawn: a row per op that has some, of its name.

Ranges are those of training recipes, and wider ones, as far as ops and Pillow
go; values at which arithmetic changes are drawn often.
tests/compare/compare_ops.py makes what is drawn here, and so does Pillow.
"""

import headrace
import numpy as np
from headrace import _core, ops
from PIL import __version__

# Ops that need no row: what begins a list and what ends in numbers, which
# test_erase.py and compare.py compare.
NONE = ("decode", "normalize", "table", "erase")
FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
MOST = 1000  # pixels of a side, for ops that say how large


def draw(name, rnd, w, h):
    """The op, for a picture of w x h."""
    row = DRAWS[name]
    drawn = row(rnd, w, h) if row else ()
    return drawn if name in MADE else getattr(ops, name)(*drawn)


def drawn_list(rnd, w, h):
    """2 to 8 ops, each with a parameter for the picture that it gets."""
    steps = []
    for _ in range(rnd.randrange(2, 9)):
        names = GEOMETRY if rnd.random() < 0.25 else list(DRAWS)
        op = draw(rnd.choice(names), rnd, w, h)
        try:
            size = _core.output_size((op,), w, h)
        except headrace.ArgumentError:  # fit: an empty picture
            continue
        if max(size) <= MOST:
            steps.append(op)
            w, h = size
    return steps


# ---- one parameter ----------------------------------------------------------

def _factor(rnd, *_):
    """Recipes' factors: 0.05 to 1.95, in steps; others: -1 to 3, far away."""
    return rnd.choice([
        rnd.uniform(0, 2), 1 + rnd.randrange(-30, 31) * 0.99 / 30,
        rnd.uniform(-1, 3), rnd.uniform(-50, 50), 0.0, 1.0, 0.5, 2.0, -1.0,
        1e-7, 1 - 2 ** -24, 1e6]),


def _hue(rnd, *_):
    return rnd.choice([rnd.uniform(-0.5, 0.5), rnd.uniform(-0.1, 0.1), 0.0,
                       -0.5, 0.5, 0.003]),


def _threshold(rnd, *_):
    return rnd.choice([rnd.uniform(0, 256), rnd.randrange(257), 0, 128, 255,
                       256, 127.5, rnd.randrange(31) * 8.5]),


PAIRS = tuple(map(int, __version__.split(".")[:2])) >= (10, 1)


def _sigma(rnd, *_):
    x, y = (rnd.choice([rnd.uniform(0.1, 2), rnd.uniform(0, 9), 0.0, 0.5, 2.0,
                        rnd.uniform(0, 60), 2 ** 0.5, 1e-3])
            for _ in range(2))
    return ((x, y) if PAIRS and rnd.random() < 0.3 else x),


def _cutoff(rnd, *_):
    low, high = (rnd.choice([rnd.uniform(0, 10), rnd.uniform(0, 100), 0, 1, 2,
                             0.5, 50, 100])
                 for _ in range(2))
    return rnd.choice([0, 0, low, (low, high)]),


def _radius(rnd, *_):
    x, y = (rnd.choice([rnd.uniform(0, 2), rnd.uniform(0, 60), 0, 1, 2, 0.5])
            for _ in range(2))
    return ((x, y) if PAIRS else x),


def _kernel3(rnd, *_):
    if rnd.random() < 0.3:
        return rnd.choice(["smooth", "sharpen", "detail", "contour", "emboss",
                           "edge_enhance", "edge_enhance_more", "find_edges"]),
    kernel = [rnd.choice([rnd.randint(-4, 8), rnd.uniform(-2, 3), 0, 1])
              for _ in range(9)]
    scale = rnd.choice([None if sum(kernel) > 0.1 else 1, 7, 3.5, -2,
                        rnd.uniform(0.1, 20)])
    return kernel, scale, rnd.choice([0, 128, 255, -1.5, rnd.uniform(-99, 99)])


# ---- geometry ---------------------------------------------------------------

def _crop(rnd, w, h):
    if rnd.random() < 0.5:
        return ops.crop(
            rnd.randint(-w // 2, w - 1), rnd.randint(-h // 2, h - 1),
            rnd.randint(1, w + w // 2 + 2), rnd.randint(1, h + h // 2 + 2),
            pad=True, fill=_fill(rnd))
    new_w, new_h = rnd.randint(1, w), rnd.randint(1, h)
    return ops.crop(rnd.randint(0, w - new_w), rnd.randint(0, h - new_h),
                    new_w, new_h, fill=_fill(rnd))


def _center_crop(rnd, w, h):
    return ops.center_crop(rnd.randint(1, w + 9), rnd.randint(1, h + 9),
                           pad=True, fill=_fill(rnd))


def _side(rnd):
    return rnd.choice([rnd.randint(1, 64), rnd.randint(1, 256), 224])


def _resize(rnd, w, h):
    return ops.resize(_side(rnd), _side(rnd), filter=rnd.choice(FILTERS))


def _resize_short(rnd, w, h):
    # So that the longer side stays in bounds.
    most = max(1, MOST * min(w, h) // max(w, h))
    return ops.resize_short(rnd.randint(1, min(256, most)),
                            filter=rnd.choice(FILTERS))


def _fit(rnd, w, h):
    return ops.fit(_side(rnd), _side(rnd), filter=rnd.choice(FILTERS),
                   enlarge=rnd.random() < 0.5)


def _flip(rnd, *_):
    x, y, turn = (rnd.random() < 0.5 for _ in range(3))
    return ops.flip(horizontal=x, vertical=y, transpose=turn)


# ---- pixels from other places -----------------------------------------------

def _fill(rnd):
    return rnd.choice(
        [0, rnd.randrange(256), tuple(rnd.randrange(256) for _ in range(3))])


def _warp(rnd):
    """The arguments that all warps have."""
    size = rnd.choice([(0, 0), (0, 0), (_side(rnd), _side(rnd))])
    return {"w": size[0], "h": size[1], "fill": _fill(rnd),
            "filter": rnd.choice(["nearest", "bilinear", "bicubic"])}


def _matrix(rnd, w, h):
    """A shift, a shear, a scale, a turn, any numbers, or round ones."""
    some = rnd.uniform(-2, 2)
    return rnd.choice([
        (1, 0, rnd.randrange(-w, w + 1), 0, 1, rnd.randrange(-h, h + 1)),
        (1, 0, rnd.uniform(-w, w), 0, 1, rnd.uniform(-h, h)),
        (1, some, 0, 0, 1, 0), (1, 0, 0, some, 1, 0),
        (some, 0, w / 2, 0, -some, h / 2), (1, 0, 0, 0, 1, 0),
        (-1, 0, w, 0, -1, h), (0, 1, 0, -1, 0, w), (some * 1e4,) * 6,
        tuple(rnd.uniform(-2, 2) * (50 if i % 3 == 2 else 1)
              for i in range(6)),
        tuple(rnd.choice([0, 0.0, -0.0, 1, -1, 0.5, 0.25, 30, 200.25])
              for _ in range(6)),
    ])


def _affine(rnd, w, h):
    named = _warp(rnd)
    if rnd.random() < 0.6:
        return ops.affine(_matrix(rnd, w, h), **named)
    named |= {
        "angle": rnd.choice([rnd.uniform(-180, 180), 0.0, 90.0]),
        "translate": (rnd.uniform(-9, 9), rnd.randrange(-9, 9)),
        "scale": rnd.uniform(0.2, 3),
        "shear": rnd.choice([0.0, (rnd.uniform(-40, 40), 8.0)]),
        "center": rnd.choice([None, (rnd.uniform(0, w), rnd.uniform(0, h))]),
    }
    return ops.affine(**named)


def _rotate(rnd, w, h):
    named = _warp(rnd)
    return ops.rotate(
        rnd.choice([rnd.uniform(-200, 400), rnd.randrange(-8, 9) * 45, 30.0]),
        expand=rnd.random() < 0.5, filter=named["filter"], fill=named["fill"],
        center=rnd.choice([None, None, (0, 0), (rnd.uniform(0, w), h / 3)]))


def _pad(rnd, w, h):
    least = -((min(w, h) - 1) // 2)
    sides = [rnd.choice([0, 1, rnd.randint(0, 40), rnd.randint(least, 9)])
             for _ in range(4)]
    if np.__version__ < "2":  # which errs where a border is wider
        sides = [min(side, -least) for side in sides]
    return ops.pad(*sides, fill=_fill(rnd), mode=rnd.choice(
        ["constant", "constant", "edge", "reflect", "symmetric"]))


def _perspective(rnd, w, h):
    named = _warp(rnd)
    if rnd.random() < 0.5:
        matrix = [rnd.uniform(-1, 1) * (30 if i in (2, 5) else 0.5 ** (i // 2))
                  for i in range(8)]
        return ops.perspective(matrix, **named)
    start = [(0, 0), (w, 0), (w, h), (0, h)]
    end = [(x + rnd.uniform(-.2, .2) * w, y + rnd.uniform(-.2, .2) * h)
           for x, y in start]
    return ops.perspective(start=start, end=end, **named)


# Name -> the arguments of the function of that name in headrace.ops; None: it
# has none. A name in MADE has the op itself.
DRAWS = {
    "crop": _crop,
    "center_crop": _center_crop,
    "resize": _resize,
    "resize_short": _resize_short,
    "fit": _fit,
    "flip": _flip,
    "adjust_brightness": _factor,
    "adjust_contrast": _factor,
    "adjust_saturation": _factor,
    "adjust_hue": _hue,
    "adjust_sharpness": _factor,
    "posterize": lambda rnd, *_: (rnd.randint(1, 8),),
    "solarize": _threshold,
    "gaussian_blur": _sigma,
    "autocontrast": _cutoff,
    "adjust_gamma": lambda rnd, *_: (
        rnd.choice([rnd.uniform(0, 3), 0.0, 1.0, 2.2, 1 / 2.2, 30.0]),
        rnd.choice([1.0, 1.0, rnd.uniform(-1, 3)])),
    "solarize_add": lambda rnd, *_: (
        rnd.choice([rnd.randint(0, 110), rnd.randint(-255, 255)]),
        rnd.choice([128, rnd.randint(0, 256)])),
    "kernel3": _kernel3,
    "box_blur": _radius,
    "permute_channels": lambda rnd, *_: (rnd.choices(range(3), k=3),),
    "lut": lambda rnd, *_: (rnd.randbytes(rnd.choice([256, 768])),),
    "affine": _affine,
    "perspective": _perspective,
    "rotate": _rotate,
    "pad": _pad,
    "grayscale": lambda rnd, *_: (rnd.choice([1, 3, 3]),),
    # An op without parameters needs no row.
    **{name: None for name, (_, is_random, fields) in _core.OPS.items()
       if not fields and not is_random},
}
GEOMETRY = ["crop", "center_crop", "resize", "resize_short", "fit", "flip"]
MADE = [*GEOMETRY, "affine", "perspective", "rotate", "pad"]
