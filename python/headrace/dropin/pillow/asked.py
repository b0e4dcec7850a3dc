# SPDX-License-Identifier: Apache-2.0
"""The ops that a call of Pillow's asks for: functions of plain values.

Threads: any.
"""

from __future__ import annotations

from operator import index
from typing import Any

from ... import _core
from ..._oracle import FLIPS
from ..base.report import count
from . import jobs, pixels
from .jobs import CROP, DECODE, FLIP, GRAY, RESIZE, RGB

DECODE_OPS = {
    "RGB": ((DECODE, RGB, False),),
    "L": ((DECODE, GRAY, False),),
}
# Image.Transpose -> op
FLIP_OPS = {number: (FLIP, *flip) for number, flip in FLIPS.items()}


def converted(
    ops: jobs.Ops, mode: str, native: str, want: str
) -> jobs.Ops | None:
    """The ops of a picture of that mode with another one.

    native: the mode of its file. None: Pillow must do it.
    """
    if want == mode:
        return ops
    if want not in DECODE_OPS:
        return None
    single = ops.index(jobs.SINGLE) if jobs.SINGLE in ops else 0
    # Grey through and through: all channels are one, so the mode may change
    # at any time. Else luma is taken from colours, by the decoder where nothing
    # but crops and flips comes first, as all else would have rounded them.
    given = type(ops[0]) is jobs.Given
    if native != "L" and want == "L":
        if given or any(op[0] not in (CROP, FLIP) for op in ops[1:]):
            op = pixels.gray(single=True)
            return ops + (op,) if op and len(ops) < jobs.MAX_OPS else None
    elif native != "L" or single:
        op = pixels.gray()
        if op is None or len(ops) >= jobs.MAX_OPS:
            return None
        start = ops[:single] or DECODE_OPS["RGB"]
        return start + (op,) + ops[single + 1 :]
    return DECODE_OPS[want] + ops[1:]


def resize_op(
    have: tuple[int, int],
    size: Any,
    resample: Any,
    box: Any,
    reference: str | None,
) -> tuple[Any, ...] | None:
    """The op; (): the size stays; None: Pillow must do it, or complain.

    reference: see pictures.py.
    """
    try:
        w, h = size
        w, h = index(w), index(h)
    except (TypeError, ValueError, AttributeError):
        return None
    if resample is None:
        resample = 3  # BICUBIC
    filter_ = jobs.FILTERS.get(resample)
    if type(resample) is float:
        filter_ = None  # it equals a number
    if filter_ is None or not (0 < w <= 65535 and 0 < h <= 65535):
        return None
    width, height = have
    if box is not None:
        box = _inside(box, width, height)
        if box is None:
            return None
        if box == (0, 0, width, height):
            box = None
    if (w, h) == have and box is None:
        return ()
    if reference is None:
        count("pillow", "unknown_resize_order")
        return None
    order = _core.resize_order(reference, width, height, w, h)
    return (RESIZE, w, h, filter_, box, order)


def _inside(
    box: Any, width: int, height: int
) -> tuple[float, float, float, float] | None:
    try:
        x0, y0, x1, y1 = map(float, box)
    except (TypeError, ValueError):
        return None
    if 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height:
        return x0, y0, x1, y1
    return None
