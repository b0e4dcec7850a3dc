# SPDX-License-Identifier: Apache-2.0
"""The fast way of torchvision.datasets.folder.

ImageFolder and some 25 other data sets read pictures with ``pil_loader()``,
which is ``open(path)`` and ``convert("RGB")``. Ours reads the file, looks at
its header in C, and makes the recorded picture at once.

Threads: any.
"""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from .. import _core
from . import fetch, files, jobs, pillow
from .pillow import DECODE_OPS, HeadraceImage
from .report import count, total

_new = object.__new__


def pil_loader(stock: Any) -> Any:
    """The fast way of torchvision.datasets.folder: no header in Python."""

    def pil_loader(path: Any) -> Image.Image:
        # (Elsewhere Pillow's open() and convert() check the picture.)
        if (
            pillow.active
            and fetch.can_ask_again()
            and not ImageFile.LOAD_TRUNCATED_IMAGES
            and Image.open is pillow.STOCK_OPEN
            and pillow.is_stock("convert")
        ):
            picture = _load_rgb(path)
            if picture is not None:
                return picture
        return stock(path)

    return pil_loader


def _load_rgb(path: Any) -> HeadraceImage | None:
    try:
        data = files.read_path(path)
        if data is None:
            return None
        if data[:2] != b"\xff\xd8":
            count("pillow", files.other_format(data))
            return None
        stock = jobs.open_stock(data)  # it refuses headers that ours reads
        info = files.probe(data)
    except Exception:
        return None  # the stock loader says what is wrong
    if type(stock) is not JpegImageFile or files.objection(info):
        return None  # the stock loader counts why
    size = info.width, info.height
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        return None  # Image.open() warns, or raises
    fetch.recorded(data)
    picture = _new(HeadraceImage)
    picture._hr = (data, DECODE_OPS["RGB"]), stock.mode
    picture._size = size
    picture._hr_info = stock.info
    total("recorded")
    return picture


def load_entry(entry: _core.PackEntry) -> Image.Image:
    """A picture of a pack file, as pil_loader() would make it of its file.

    With the drop-in on it is recorded, else made at once. info of a picture
    that is packed is empty.
    """
    if not entry.packed:
        return Image.open(io.BytesIO(entry)).convert("RGB")
    info = _core.probe(entry)
    size = info.width, info.height
    Image._decompression_bomb_check(size)
    recording = entry, DECODE_OPS["RGB"]
    off = ImageFile.LOAD_TRUNCATED_IMAGES or fetch.is_off()
    if not pillow.active or off:
        return jobs.decode(recording, "RGB", size)
    picture = _new(HeadraceImage)
    picture._hr = recording, "L" if info.components == 1 else "RGB"
    picture._size = size
    picture._hr_info = {}
    total("recorded")
    return picture
