# SPDX-License-Identifier: Apache-2.0
"""Is headrace._oracle torchvision's, v1 and v2, in sizes and tables? Then what
is compared with it is compared with them."""
import numpy as np

from compare_cases import FILTERS, pick_norm
from headrace import _oracle, ops


def _v1():
    from torchvision.transforms import functional as F
    return F, "div", F.to_tensor


def _v2():
    import torch
    from torchvision.transforms import v2
    F = v2.functional
    return F, "mul", lambda im: F.to_dtype(F.to_image(im), torch.float32,
                                           scale=True)


def available():
    """({name: its functions}, why others are not here)."""
    found, missing = {}, []
    for name, make in (("v1", _v1), ("v2", _v2)):
        try:
            found[name] = make()
        except ImportError as e:
            missing.append(f"torchvision {name}: {e}")
    return found, missing


def _pairs(F, arithmetic, tensor, rng):
    """(an op, what torchvision has for it)"""
    from torchvision.transforms import InterpolationMode
    side, w, h = (rng.randint(1, 90) for _ in range(3))
    filter, (mean, std) = rng.choice(FILTERS), pick_norm(rng)
    mode = InterpolationMode[filter.upper()]
    yield ops.resize_short(side, filter=filter), lambda im: F.resize(
        im, [side], interpolation=mode)
    yield ops.resize(w, h, filter=filter), lambda im: F.resize(
        im, [h, w], interpolation=mode)
    yield ops.center_crop(w, h, pad=True), lambda im: F.center_crop(im, [h, w])
    yield ops.flip(horizontal=True), F.hflip
    yield ops.flip(vertical=True), F.vflip
    yield ops.normalize(mean, std, arithmetic=arithmetic), lambda im: \
        F.normalize(tensor(im), mean[:len(im.getbands())],
                    std[:len(im.getbands())])


def faults(pictures, rng):
    """Where they differ: a list of sentences."""
    found = []
    for name, functions in available()[0].items():
        for im in pictures:
            for op, theirs in _pairs(*functions, rng):
                if not np.array_equal(np.asarray(_oracle.apply(im, [op])),
                                      np.asarray(theirs(im))):
                    found.append(f"{op} of {im.size} {im.mode} is not that of "
                                 f"torchvision {name}")
    return found
