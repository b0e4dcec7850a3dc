# SPDX-License-Identifier: Apache-2.0
"""Ops: what shall be done with a picture, as plain data.

    from headrace import ops

    train = (
        ops.decode(),
        ops.random_resized_crop(224, 224),
        ops.random_flip(),
        ops.normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    )

A list of ops is a tuple; each op is a tuple of numbers, so both can be
pickled, compared and kept. Order: decode first (only of encoded pictures),
then crops, resizes, flips in any order, then at most one normalize or table.
Each takes what the one before it made, as torchvision's transforms do; sizes
are in pixels. Little is checked here: submit() does, and raises
headrace.ArgumentError or TypeError that names the op.

Pixels are those of libjpeg-turbo, Pillow's resize (which release:
headrace.reference()) and torchvision's ToTensor and Normalize, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _core
from .errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Op: TypeAlias = tuple[Any, ...]
Ops: TypeAlias = tuple[Op, ...]
# (seed of the run, index of the picture, epoch): what random ops draw from.
Key: TypeAlias = tuple[int, int, int]

Mode: TypeAlias = Literal["RGB", "L"]
Filter: TypeAlias = Literal[
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"
]
Order: TypeAlias = Literal["reference", "horizontal", "vertical"]
Arithmetic: TypeAlias = Literal["div", "mul"]

_MODES: dict[str, int] = {"RGB": _core.RGB, "L": _core.GRAY}
_FILTERS: dict[str, int] = {
    "nearest": _core.NEAREST,
    "box": _core.BOX,
    "bilinear": _core.BILINEAR,
    "hamming": _core.HAMMING,
    "bicubic": _core.BICUBIC,
    "lanczos": _core.LANCZOS,
}
_ORDERS: dict[str, int] = {
    "reference": _core.ORDER_REFERENCE,
    "horizontal": _core.ORDER_HORIZONTAL,
    "vertical": _core.ORDER_VERTICAL,
}
_ARITHMETICS: dict[str, int] = {"div": _core.DIV, "mul": _core.MUL}


def _number(names: dict[str, int], name: str, what: str) -> int:
    try:
        return names[name]
    except KeyError:
        known = ", ".join(names)
        raise ArgumentError(
            f"{what} {name!r}: must be one of {known}"
        ) from None


def decode(mode: Mode = "RGB", *, apply_orientation: bool = False) -> Op:
    """Decode to 3 channels ("RGB") or 1 ("L", grey), as Pillow's convert().

    apply_orientation turns the picture as its EXIF says; Pillow and
    torchvision do not by themselves.
    """
    return (_core.DECODE, _number(_MODES, mode, "mode"), apply_orientation)


def crop(x: int, y: int, w: int, h: int, *, pad: bool = False) -> Op:
    """Keep w x h pixels from (x, y).

    What lies outside of the picture is black with pad, else an error.
    """
    return (_core.CROP, x, y, w, h, pad)


def center_crop(w: int, h: int | None = None, *, pad: bool = False) -> Op:
    """Keep w x h (or w x w) pixels in the middle: torchvision's CenterCrop."""
    return (_core.CENTER_CROP, w, w if h is None else h, pad)


def resize(
    w: int,
    h: int,
    *,
    filter: Filter = "bilinear",
    box: tuple[float, float, float, float] | None = None,
    order: Order = "reference",
) -> Op:
    """Resize to w x h, of box = (x0, y0, x1, y1) only: Pillow's resize().

    order says which of the two passes comes first; "reference": as
    headrace.reference() does.
    """
    return (
        _core.RESIZE,
        w,
        h,
        _number(_FILTERS, filter, "filter"),
        box,
        _number(_ORDERS, order, "order"),
    )


def resize_short(
    side: int, *, filter: Filter = "bilinear", order: Order = "reference"
) -> Op:
    """Resize so that the short side becomes side: torchvision's Resize(int)."""
    return (
        _core.RESIZE_SHORT,
        side,
        _number(_FILTERS, filter, "filter"),
        _number(_ORDERS, order, "order"),
    )


def fit(
    w: int,
    h: int,
    *,
    filter: Filter = "bicubic",
    enlarge: bool = False,
    order: Order = "reference",
) -> Op:
    """Resize to the largest size within w x h of the same shape.

    As Pillow's thumbnail(reducing_gap=None), which leaves small pictures as
    they are; with enlarge as its ImageOps.contain().
    """
    return (
        _core.FIT,
        w,
        h,
        _number(_FILTERS, filter, "filter"),
        enlarge,
        _number(_ORDERS, order, "order"),
    )


def flip(
    *,
    horizontal: bool = False,
    vertical: bool = False,
    transpose: bool = False,
) -> Op:
    """Turn by one of 8 orientations: swap x and y first, then mirror."""
    return (_core.FLIP, horizontal, vertical, transpose)


def random_crop(
    w: int, h: int | None = None, *, pad: int = 0, pad_if_needed: bool = False
) -> Op:
    """Keep w x h (or w x w) pixels at a random place: torchvision's RandomCrop.

    pad: black pixels that are put on each side first.
    """
    return (_core.RANDOM_CROP, w, w if h is None else h, pad, pad_if_needed)


def random_resized_crop(
    w: int,
    h: int | None = None,
    *,
    filter: Filter = "bilinear",
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    order: Order = "reference",
) -> Op:
    """Resize a window of random area and shape to w x h (or w x w).

    torchvision's RandomResizedCrop.
    scale: least and greatest share of the area; ratio: of width / height.
    """
    return (
        _core.RANDOM_RESIZED_CROP,
        w,
        w if h is None else h,
        _number(_FILTERS, filter, "filter"),
        scale,
        ratio,
        _number(_ORDERS, order, "order"),
    )


def random_flip(
    *, horizontal: float | None = None, vertical: float | None = None
) -> Op:
    """Mirror with these probabilities, 0 .. 1, independently.

    random_flip() mirrors left and right with 0.5, as RandomHorizontalFlip()
    does. Where only one probability is named, the other is 0.
    """
    if horizontal is None and vertical is None:
        horizontal = 0.5
    probabilities = (horizontal or 0.0, vertical or 0.0)
    if probabilities == (0.0, 0.0):  # it was asked for
        return flip()
    return (_core.RANDOM_FLIP, *probabilities)


def normalize(
    mean: Sequence[float] | float = 0.0,
    std: Sequence[float] | float = 1.0,
    *,
    arithmetic: Arithmetic = "div",
) -> Op:
    """Make numbers (x - mean) / std, with x in 0 .. 1, of 1 or 3 channels.

    mean and std are in the same units: 0.485, not 123.7. A std of 0 raises
    headrace.ArgumentError.

    arithmetic: "div" is x / 255, torchvision v1's ToTensor and Normalize;
    "mul" is x * (1 / 255), v2's ToDtype(scale=True). Each step is rounded to
    float32.
    """
    if 0 in _channels(std):
        raise ArgumentError(f"normalize: std must be other than 0, not {std}")
    return (
        _core.NORMALIZE,
        _channels(mean),
        _channels(std),
        _number(_ARITHMETICS, arithmetic, "arithmetic"),
    )


def _channels(x: Sequence[float] | float) -> tuple[float, ...]:
    return (x,) if isinstance(x, (int, float)) else tuple(x)


def table(values: Buffer) -> Op:
    """Make numbers by a table of 256 float32 for each channel.

    Entry [c, byte]; of float16 and uint8 tensors they are rounded half to
    even. A job holds the buffer until it is done.
    """
    return (_core.TABLE, values)
