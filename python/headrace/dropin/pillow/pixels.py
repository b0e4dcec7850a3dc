# SPDX-License-Identifier: Apache-2.0
"""Maps changes of pixels in Pillow to ops of the library.

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

from PIL import Image, ImageFilter
from PIL import __version__ as PIL_VERSION

from ... import _core
from ..base.report import count

Op = tuple[Any, ...]

_NUMBERS = {name: number for name, (number, _, _) in _core.OPS.items()}
# Ops whose pixels are not those of the installed Pillow, and whether
# selftest.py has looked.
refused: frozenset[str] = frozenset()
compared = False


def refuse(names: Iterable[str]) -> None:
    """Sets the ops that selftest.py found to differ; workers are told them."""
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
    """The op of an enhancer's other picture in the blend: factor 0."""
    return _op(name, 0.0)


def enhanced(name: str, factor: Any) -> Op | None:
    """The op of an enhancer and a factor."""
    return None if name in refused else blended(op(name, 0.0), factor)


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
    both = cutoff if type(cutoff) is tuple else (cutoff, cutoff)
    if preserve_tone is False and ignore is None and mask is None:
        if len(both) == 2 and all(_is_number(x, 0, 100) for x in both):
            return _op("autocontrast", tuple(map(float, both)))
    count("pillow", "autocontrast of a mask, a tone, or an odd cutoff")
    return None


# ---- Image.filter ------------------------------------------------------------


def filtered(by: Any) -> Op | None:
    """Image.filter(by), of an instance or a class."""
    kind = by if isinstance(by, type) else type(by)
    method = _FILTERS.get(kind)
    if method is None or kind.filter is not method:  # type: ignore[attr-defined]
        return None
    if by is kind:
        if kind in (ImageFilter.BoxBlur, ImageFilter.Kernel):
            return None  # an argument is missing
        by = by()
    if "filter" in vars(by):
        return None
    if isinstance(by, ImageFilter.BuiltinFilter):
        return _kernel(*by.filterargs)
    both = by.radius
    if type(both) not in (tuple, list):
        both = (both, both)
    elif not _PAIRS:
        return None
    if len(both) != 2 or not all(_is_number(x, 0, 1e4) for x in both):
        return None
    name = "box" if kind is ImageFilter.BoxBlur else "gaussian"
    return _op(name + "_blur", tuple(map(float, both)))


# Blurs take a radius for each axis.
_PAIRS = tuple(map(int, PIL_VERSION.split(".")[:2])) >= (10, 1)
# Exact types -> how they filter.
_FILTERS = {
    kind: kind.filter
    for kind in vars(ImageFilter).values()
    if isinstance(kind, type)
    and issubclass(kind, ImageFilter.BuiltinFilter)
    and kind is not ImageFilter.BuiltinFilter
    or kind in (ImageFilter.GaussianBlur, ImageFilter.BoxBlur)
}


def _kernel(size: Any, scale: Any, offset: Any, kernel: Any) -> Op | None:
    if size != (3, 3) or type(kernel) not in (tuple, list):
        return None
    numbers = (scale, offset, *kernel)
    if len(numbers) != 11 or scale == 0:
        return None
    if not all(_is_number(x, -_MOST, _MOST) for x in numbers):
        return None
    if not all(abs(x) < _MOST * abs(scale) for x in kernel):
        return None
    values = tuple(map(float, kernel))
    return _op("kernel3", values, float(scale), float(offset))


def _is_number(x: Any, low: float, high: float) -> bool:
    return type(x) in (int, float) and low <= x <= high


# ---- Image.point -------------------------------------------------------------


def looked_up(table: Any, bands: int) -> Op | None:
    """The op of a table as a list of numbers, 256 for each channel."""
    if type(table) not in (list, tuple) or len(table) != 256 * bands:
        return None
    if not {int, float}.issuperset(map(type, table)):
        return None
    try:
        values = bytes(table)
    except (TypeError, ValueError):  # not all are whole numbers of 8 bits
        if not all(-(2**31) <= x < 2**31 for x in table):
            return None  # of stock's errors, NaN among them
        values = bytes(min(max(round(x), 0), 255) for x in table)
    if values == values[:256] * bands:
        values = values[:256]
    return _op("lut", values)


# ---- Image.transform ---------------------------------------------------------

_COEFFICIENTS = {0: ("affine", 6), 2: ("perspective", 8)}
_WARPS = (0, 2, 3)  # Pillow's numbers of nearest, bilinear, bicubic
_ENUMS = (int, Image.Transform, Image.Resampling)
_colors: dict[Any, Any] = {}


def transformed(
    mode: str, size: Any, method: Any, data: Any, resample: Any, color: Any
) -> Op | None:
    if type(method) not in _ENUMS or method not in _COEFFICIENTS:
        return None
    name, count = _COEFFICIENTS[method]
    if type(data) not in (tuple, list) or len(data) != count:
        return None
    if not all(isinstance(x, float) or type(x) is int for x in data):
        return None
    if not all(-_MOST <= x <= _MOST for x in data):
        return None
    if type(resample) not in _ENUMS or resample not in _WARPS:
        return None
    if type(size) is not tuple or len(size) != 2:
        return None
    w, h = size
    if not (type(w) is type(h) is int and 0 < w <= 65535 and 0 < h <= 65535):
        return None
    fill = filled(mode, color)
    if fill is None:
        return None
    matrix = tuple(map(float, data))
    return _op(name, matrix, w, h, _core.PIL_FILTER[int(resample)], fill)


def padded(mode: str, size: Any, x: int, y: int, color: Any) -> Op | None:
    """A picture of that size with ours at (x, y): ImageOps.expand()."""
    data = (1, 0, -x, 0, 1, -y)
    return transformed(mode, size, 0, data, 0, color)


def filled(mode: str, color: Any) -> int | tuple[int, ...] | None:
    """A color's numbers as of Image.new(): one for all channels, or each."""
    if color is None:
        return 0
    values = color if type(color) is tuple else (color,)
    if not all(type(value) is int or type(value) is str for value in values):
        return None
    try:
        return _colors[mode, color]
    except KeyError:
        pass
    try:
        fill = Image.new(mode, (1, 1), color).getpixel((0, 0))
    except (TypeError, ValueError, OverflowError):
        return None
    if type(fill) is tuple and len(set(fill)) == 1:
        fill = fill[0]
    if len(_colors) > 1000:
        _colors.clear()
    _colors[mode, color] = fill
    return fill


def has_colors(op: Op) -> bool:
    """Does it make of one value for all channels another for each?"""
    if op[0] in (_NUMBERS["affine"], _NUMBERS["perspective"]):
        return type(op[5]) is tuple
    return op[0] == _NUMBERS["lut"] and len(op[1]) != 256


# ---- torchvision -------------------------------------------------------------


def hue(factor: Any) -> Op | None:
    if type(factor) in (int, float) and -0.5 <= factor <= 0.5:
        return _op("adjust_hue", float(factor))
    return None


def mirrored(size: tuple[int, int], sides: Any, mode: str) -> Op | None:
    """numpy.pad() of a picture: left, top, right, bottom; none below 0."""
    for side, borders in zip(size, (sides[::2], sides[1::2])):
        # (NumPy's releases go on differently behind the far edge.)
        if max(borders) >= side or side + sum(borders) > 65535:
            return None
    return _op("pad", *sides, EDGES[mode])


EDGES = {"edge": 1, "reflect": 2, "symmetric": 3}


def permuted(permutation: Any) -> Op | None:
    order = permutation
    # (torch takes numbers of 8 bits for a mask.)
    if str(getattr(order, "dtype", None)) == "torch.int64":
        order = order.tolist()
    if type(order) in (list, tuple) and len(order) == 3:
        if all(type(x) is int and 0 <= x < 3 for x in order):
            return _op("permute_channels", tuple(order))
    return None


def gray(single: bool = False) -> Op | None:
    return _op("grayscale", single)


def gray_of(channels: Any) -> Op | None:
    return gray() if type(channels) is int and channels == 3 else None
