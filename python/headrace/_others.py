# SPDX-License-Identifier: Apache-2.0
"""Formats that the library does not decode: the installed Pillow does.

As torchvision's ImageFolder would: open() and convert(). The library calls this
on its threads; Pillow is imported with the first such picture.
"""

from __future__ import annotations

import functools
import io
import threading
from typing import TYPE_CHECKING

from . import _core
from ._forks import renewed

if TYPE_CHECKING:
    from PIL import Image

# Formats for which Pillow runs another program.
_PROGRAMS = {"EPS"}

# A signal handler that asks for the report may interrupt its holder.
_lock = renewed(threading.RLock())
_counts: dict[str, int] = {}


def counts(clear: bool = False) -> dict[str, int]:
    """How many pictures of which kind were decoded here."""
    with _lock:
        found = dict(_counts)
        if clear:
            _counts.clear()
    return found


def _open(data: bytes) -> Image.Image | None:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return None
    Image.init()
    formats = [name for name in Image.ID if name not in _PROGRAMS]
    try:
        image = Image.open(io.BytesIO(data), formats=formats)
    except UnidentifiedImageError:
        return None
    return image


@functools.cache
def _loaded(turn: int) -> tuple[bool, int]:
    """Return what load() does to a TIFF of this orientation.

    It says whether load() swaps the sides, and which orientation is left:
    releases differ. So no picture is loaded before its size was checked.
    """
    from PIL import Image

    file = io.BytesIO()
    Image.new("L", (2, 1)).save(file, "TIFF", tiffinfo={0x0112: turn})
    image = Image.open(file)
    before = image.size
    image.load()
    return image.size != before, image.getexif().get(0x0112, 1)


def probe(data: bytes) -> tuple[int, int, int] | None:
    """Width, height and orientation; None: it is no picture to Pillow."""
    image = _open(data)
    if image is None:
        return None
    w, h = image.size
    turn = image.getexif().get(0x0112)
    if turn not in range(1, 9):
        turn = 1
    if image.format == "TIFF" and turn > 1:
        swaps, turn = _loaded(turn)
        w, h = (h, w) if swaps else (w, h)
    return w, h, turn


def decode(data: bytes, channels: int) -> bytes:
    """The pixels, of so many channels."""
    image = _open(data)
    if image is None:
        raise ValueError("it is no picture to Pillow")
    kind = f"a {image.format} picture"
    pixels: bytes = image.convert("RGB" if channels == 3 else "L").tobytes()
    with _lock:
        _counts[kind] = _counts.get(kind, 0) + 1
    return pixels


_core.set_decoder(probe, decode)
