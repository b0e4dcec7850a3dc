# SPDX-License-Identifier: Apache-2.0
"""Records what torchvision does to pictures that are tensors. Imports torch.

Each function takes one of torchvision's, a kernel of transforms v2 or a
function of v1 for plain tensors, and returns what lazy tensors get in its
place: it records the op, or runs the stock one, which makes the value where it
needs it.

torch resizes bytes by whole numbers, with rounding and an order of its own;
only such a resize is recorded, and only with filters that selftest.py has found
to be equal. v1 resizes by float32: that stays with torch.

Errors of arguments are stock's: what we cannot read, stock gets.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ..pillow import jobs, pixels
from ..pillow.jobs import CROP, RESIZE, TORCH
from .cell import Cell, copy_of, hwc_strides, painted, plain_strides, tables_of
from .functions import small_twin
from .tables import Table
from .tensor import LazyTensor, wrap
from .wrappers import run_kernel

PAD = _core.OPS["pad"][0]
LUT = _core.OPS["lut"][0]
_MOST = 65535  # of a side
# Filters that resize as torch does, by torchvision's names. Set by selftest.py.
filters: set[str] = set()

Ops = tuple[tuple[Any, ...], ...]
Sides = tuple[int, int]  # height, width


def resize_op(h: int, w: int, name: str) -> tuple[Any, ...]:
    return RESIZE, w, h, FILTERS[name], None, TORCH


FILTERS = {
    "bilinear": jobs.FILTERS[2],
    "bicubic": jobs.FILTERS[3],
    "lanczos": jobs.FILTERS[1],
}


# ---- resize -----------------------------------------------------------------


def resize(stock: Any) -> Any:
    """v2's kernel."""
    module = sys.modules[stock.__module__]

    def record(
        cell: Cell,
        size: Any,
        interpolation: Any = "bilinear",
        max_size: Any = None,
        antialias: Any = True,
    ) -> Cell | None:
        name = _filter(module, interpolation, antialias)
        have = cell.size[1], cell.size[2]
        want = _sides(module, have, size, max_size)
        if name is None or want == have or not _may_change(cell):
            return None
        small = _small(want)
        seen = _layout(
            (stock, small),
            lambda twin, *_: stock(twin, size=small),
            cell,
            have,
        )
        return _changed(cell, (resize_op(*want, name),), want, seen)

    return _kernel(stock, record)


def resized_crop(stock: Any) -> Any:
    """v2's kernel: only the window is decoded, and taps stay within it."""
    module = sys.modules[stock.__module__]

    def record(
        cell: Cell,
        top: int,
        left: int,
        height: int,
        width: int,
        size: Any,
        interpolation: Any = "bilinear",
        antialias: Any = True,
    ) -> Cell | None:
        name = _filter(module, interpolation, antialias)
        have = height, width
        want = _sides(module, have, size, None)
        is_within = _is_within(cell, left, top, width, height)
        if want == have and is_within:
            raise _IsView
        if name is None or want == have or not _may_change(cell):
            return None
        small = _small(want)
        over, within = (False,) * 4, have
        if not is_within:
            found = _over_edges(cell, top, left, height, width)
            if found is None:
                return None
            over, within = found
        made = functools.partial(stock, size=small)
        seen = _layout(
            (stock, small, over),
            lambda twin, h, w: _over(made, twin, h, w, over),
            cell,
            within,
        )
        crop = (CROP, left, top, width, height, not is_within)
        return _changed(cell, (crop, resize_op(*want, name)), want, seen)

    return _kernel(stock, record, crops=True)


def _filter(module: Any, interpolation: Any, antialias: Any) -> str | None:
    """Its name, if torch resizes bytes by whole numbers with it."""
    if antialias is not True:
        return None
    mode = module._check_interpolation(interpolation)
    if mode.value in filters and module._do_native_uint8_resize_on_cpu(mode):
        name: str = mode.value
        return name
    return None


def _sides(module: Any, have: Sides, size: Any, most: Any) -> Sides:
    """The sides of the resized picture. Raises stock's errors."""
    if most is None and type(size) is not int and len(size) == 2:
        h, w = size
    else:
        h, w = module._compute_resized_output_size(have, size, most)
    if (h, w) == have:
        return have
    if not (type(h) is type(w) is int and 0 < h <= _MOST and 0 < w <= _MOST):
        raise _Unread
    return h, w


def _small(want: Sides) -> Sides:
    """Sides that tell the same of a small picture's strides."""
    h, w = (1 if side == 1 else 5 for side in want)
    return h, w


# ---- crop and pad -----------------------------------------------------------


def crop(stock: Any) -> Any:
    """Windows over the edges, of v1 and v2; others are views of the picture."""

    def record(
        cell: Cell, top: int, left: int, height: int, width: int
    ) -> Cell | None:
        found = _over_edges(cell, top, left, height, width)
        if found is None or not _may_change(cell):
            return None
        over, within = found
        seen = _layout(
            (stock, over),
            lambda twin, h, w: _over(stock, twin, h, w, over),
            cell,
            within,
        )
        op = (CROP, left, top, width, height, True)
        return _changed(cell, (op,), (height, width), seen)

    return _kernel(stock, record)


def _over_edges(
    cell: Cell, top: int, left: int, height: int, width: int
) -> tuple[Any, Sides] | None:
    """The edges that a window crosses, and its sides within the picture; None:
    it crosses none, or is left to stock."""
    h, w = cell.size[1:]
    if _is_within(cell, left, top, width, height):
        return None
    if not 0 < height <= _MOST or not 0 < width <= _MOST:
        return None
    if not (-height < top < h and -width < left < w):
        return None
    within = (
        min(top + height, h) - max(top, 0),
        min(left + width, w) - max(left, 0),
    )
    return (left < 0, top < 0, left + width > w, top + height > h), within


def _over(stock: Any, twin: Tensor, h: int, w: int, over: Any) -> Tensor:
    """Its crop of a window of h x w, and what is over these edges."""
    height, width = twin.shape[-2:]
    a, b, c, d = map(int, over)
    top = -b or (height - h if d else 0)
    left = -a or (width - w if c else 0)
    out: Tensor = stock(twin, top, left, h + b + d, w + a + c)
    return out


def pad(stock: Any, is_v1: bool = False) -> Any:
    """v2's kernel, and v1's function."""
    module = sys.modules[stock.__module__]

    def record(
        cell: Cell,
        padding: Any,
        fill: Any = 0,
        padding_mode: Any = "constant",
    ) -> Cell | None:
        left, right, top, bottom = module._parse_pad_padding(padding)
        sides = left, top, right, bottom
        color = _color(fill, cell.size[0])
        if color is None or is_v1 and type(fill) not in (int, float):
            return None
        if padding_mode == "constant":
            return _padded(stock, cell, sides, (0, color), fill)
        if type(color) is tuple or not _has_edges(cell, sides, padding_mode):
            return None
        edges = pixels.EDGES[padding_mode], 0
        return _padded(stock, cell, sides, edges, fill, padding_mode)

    return _kernel(stock, record)


def pad_of_v1(stock: Any) -> Any:
    """It takes one number to fill with."""
    return pad(stock, is_v1=True)


def _has_edges(cell: Cell, sides: Any, mode: str) -> bool:
    """Does torchvision pad it that way? (Others it does not, or raises.)"""
    _, h, w = cell.size
    if mode == "reflect":
        h, w = h - 1, w - 1
    left, top, right, bottom = sides
    return mode == "edge" or max(left, right) <= w and max(top, bottom) <= h


def _padded(
    stock: Any,
    cell: Cell,
    sides: Any,
    border: tuple[int, Any],
    fill: Any = 0,
    mode: str = "constant",
) -> Cell | None:
    """border: the last two fields of op pad."""
    if not all(type(side) is int and 0 <= side <= _MOST for side in sides):
        return None
    left, top, right, bottom = sides
    want = cell.size[1] + top + bottom, cell.size[2] + left + right
    if max(want) > _MOST or not any(sides) or not _may_change(cell):
        return None
    small = [min(side, 1) for side in sides]
    seen = _layout(
        (stock, tuple(small), type(border[1]), mode),
        lambda twin, *_: stock(twin, small, fill, mode),
        cell,
        (cell.size[1], cell.size[2]),
    )
    return _changed(cell, ((PAD, *sides, *border),), want, seen)


def _color(fill: Any, channels: int) -> Any:
    """The fill of bytes: a number, or one for each of three channels."""
    if fill is None:
        return 0
    if type(fill) in (list, tuple):
        values = tuple(_number(one) for one in fill)
        if None in values or len(values) not in (1, channels):
            return None
        return values[0] if len(values) == 1 else values
    return _number(fill)


def _number(fill: Any) -> int | None:
    if type(fill) in (int, float) and 0 <= fill <= 255 and fill == int(fill):
        return int(fill)
    return None


def center_crop(stock: Any) -> Any:
    """v2's kernel: a window of what is padded first, where it is larger."""
    module = sys.modules[stock.__module__]

    def record(cell: Cell, output_size: Any) -> Any:
        h, w = module._center_crop_parse_output_size(output_size)
        height, width = cell.size[1:]
        if h <= height and w <= width:
            return None
        sides = module._center_crop_compute_padding(h, w, height, width)
        made = _padded(module.pad_image, cell, tuple(sides), (0, 0))
        if made is None:
            return None
        made.viewed = False  # that pads by torch's own function
        if made.size[1:] == (h, w):
            return made
        picture = wrap(LazyTensor, made)
        return stock(picture, output_size)._hr

    return _kernel(stock, record)


# ---- what all of them need --------------------------------------------------


def of_v1(kernel: Any, stock: Any) -> Any:
    """A function of v1's that gives plain tensors to stock."""

    def function(img: Any, *args: Any, **kwargs: Any) -> Any:
        if type(img) is LazyTensor:
            return kernel(img, *args, **kwargs)
        return stock(img, *args, **kwargs)

    return function


class _Unread(Exception):
    """Arguments that only stock understands."""


class _IsView(Exception):
    """Stock returns the window itself: it has the size already."""


def _kernel(
    stock: Any, record: Callable[..., Cell | None], crops: bool = False
) -> Any:
    """record() where it can, else stock, for lazy tensors of both classes.

    crops: stock makes pixels of a window only. The picture that it crops is
    a copy then: a program that writes into the window does not change it.
    """

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        cell = inpt._hr
        copies = crops
        if cell.value is None:
            try:
                made = record(cell, *args, **kwargs)
            except _IsView:
                made, copies = None, False
            except Exception:
                made = None  # stock raises it
            if made is not None:
                return wrap(type(inpt), made)
        picture = inpt
        if copies and cell.base is None and cell.open():
            copy = copy_of(cell, cell.hwc)
            copy.alone = True
            picture = wrap(LazyTensor, copy)
        return run_kernel(stock, inpt, picture, *args, **kwargs)

    return kernel


def _is_within(cell: Cell, x: int, y: int, w: int, h: int) -> bool:
    _, height, width = cell.size
    if not type(x) is type(y) is type(w) is type(h) is int:
        raise _Unread
    return x >= 0 <= y and w > 0 < h and x + w <= width and y + h <= height


def _may_change(cell: Cell) -> bool:
    """May ops follow that make other pixels of bytes?"""
    return (
        cell.dtype is torch.uint8
        and (cell.owner().strides is None or cell.owner().on_its_side)
        and all(len(each.ops) + 3 <= jobs.MAX_OPS for each in cell.samples)
        and not painted(cell)
        and cell.open()
    )


def _changed(
    cell: Cell, ops: Ops, sides: Sides, seen: Seen | None
) -> Cell | None:
    if seen is None:
        return None
    samples = tuple(
        each.followed_by(*_as_ops(table), *ops)
        for each, table in zip(cell.samples, tables_of(cell))
    )
    hwc, version, viewed = seen
    made = Cell(samples, (cell.size[0], *sides), None, hwc, cell.lead)
    made.version, made.viewed = version, viewed
    return made


def _as_ops(table: Table | None) -> Ops:
    """The op of a table of bytes, in front of what mixes pixels."""
    return () if table is None else ((LUT, table.bytes()),)


Seen = tuple[bool, int, bool]
_layouts: dict[Any, Seen | None] = {}


def _layout(
    key: Any, run: Callable[..., Tensor], cell: Cell, window: Sides
) -> Seen | None:
    """Cell.hwc, .version and .viewed of what stock makes of a window.

    None: it has other strides than those of whole pictures.

    run(twin, h, w) makes it of a small picture that has such a window.
    """
    small = [min(side, 3) for side in window]
    sides = [a + (b > c) for a, b, c in zip(small, cell.size[1:], window)]
    key = key, tuple(small), _kinds(cell, *sides)
    if key not in _layouts:
        with torch.inference_mode(False), torch.no_grad():
            twin = small_twin(cell, *sides)
            _layouts[key] = _seen(run(twin, *small))
    return _layouts[key]


def _kinds(cell: Cell, h: int, w: int) -> Any:
    """A key of all that small_twin()'s strides depend on."""
    facts: list[Any] = [(h, w)]
    while cell.base is not None:
        whole, index = cell.base
        more = [a != b for a, b in zip(cell.size[1:], whole.size[1:])]
        facts.append((type(index), *more))
        cell = whole
    lead = tuple(min(side, 2) for side in cell.lead)
    return cell.size[0], lead, cell.hwc, cell.on_its_side, *facts


def _seen(made: Tensor) -> Seen | None:
    shape = tuple(made.shape)
    if made.stride() == plain_strides(shape):
        return False, made._version, made._is_view()
    if len(shape) == 3 and made.stride() == hwc_strides(shape):
        return True, made._version, made._is_view()
    return None
