# SPDX-License-Identifier: Apache-2.0
"""Which op of the library a change of pixels in Pillow is.

Each function gives the tuple of an op, or None where stock Pillow must make
it, or must say what is wrong with the arguments. Only exact types and ranges
that the library takes become an op; the rest of Python's numbers, Pillow's
other filters and its other modes stay stock.

Works without torch. Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from PIL import ImageFilter

from ... import _core
from ..base.report import count

Op = tuple[Any, ...]

_NUMBERS = {name: number for name, (number, _, _) in _core.OPS.items()}
# Ops whose pixels are not those of the installed Pillow, and whether
# selftest.py has looked.
refused: frozenset[str] = frozenset()
compared = False


def refuse(names: Iterable[str]) -> None:
    """What selftest.py found; a worker is told so."""
    global refused, compared
    refused, compared = frozenset(names), True


def forget() -> None:
    """The drop-in is switched off: when it is on again it looks again."""
    global compared
    compared = False


def op(name: str, *values: Any) -> Op:
    return (_NUMBERS[name], *values)


def _op(name: str, *values: Any) -> Op | None:
    if name in refused:
        count("pillow", "%s: its pixels are not the library's" % name)
        return None
    return op(name, *values)


# ---- ImageEnhance -----------------------------------------------------------

_ENHANCED = {
    _NUMBERS[name]
    for name in (
        "adjust_brightness",
        "adjust_contrast",
        "adjust_saturation",
        "adjust_sharpness",
    )
}
_MOST = 1e6  # of a factor


def degenerate(name: str) -> Op | None:
    """What an enhancer blends the picture with: a factor of 0."""
    return _op(name, 0.0)


def blended(degenerate: Op, factor: Any) -> Op | None:
    """A blend of what the op makes of a picture, and the picture."""
    if degenerate[0] not in _ENHANCED or degenerate[1] != 0:
        return None
    try:
        value = math.ldexp(factor, 0)  # as C takes a number; no text
    except (TypeError, ValueError, OverflowError):
        return None
    return (degenerate[0], value) if -_MOST <= value <= _MOST else None


# ---- ImageOps ---------------------------------------------------------------


def posterized(bits: Any) -> Op | None:
    if type(bits) is int and 1 <= bits <= 8:
        return _op("posterize", bits)
    return None


def solarized(threshold: Any) -> Op | None:
    if type(threshold) not in (int, float) or threshold != threshold:
        return None
    return _op("solarize", float(min(max(threshold, 0), 256)))


def inverted() -> Op | None:
    return _op("invert")


def equalized(mask: Any) -> Op | None:
    return _op("equalize") if mask is None else None


def autocontrasted(
    cutoff: Any, ignore: Any, mask: Any, preserve_tone: Any
) -> Op | None:
    plain = type(cutoff) is int and cutoff == 0 and preserve_tone is False
    if plain and ignore is None and mask is None:
        return _op("autocontrast")
    return None


# ---- others -----------------------------------------------------------------


def filtered(by: Any) -> Op | None:
    """Image.filter(by), of an instance or a class."""
    if by is ImageFilter.GaussianBlur:
        by = by()
    if type(by) is ImageFilter.GaussianBlur and _is_stock(by):
        radius = by.radius
        if type(radius) in (int, float) and 0 <= radius <= 1e4:
            return _op("gaussian_blur", float(radius))
    return None


_FILTER = ImageFilter.GaussianBlur.filter


def _is_stock(by: Any) -> bool:
    return type(by).filter is _FILTER and list(vars(by)) == ["radius"]


def hue(factor: Any) -> Op | None:
    if type(factor) in (int, float) and -0.5 <= factor <= 0.5:
        return _op("adjust_hue", float(factor))
    return None


def gray() -> Op | None:
    return _op("grayscale")
