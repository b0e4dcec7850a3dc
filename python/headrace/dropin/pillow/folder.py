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

from ... import _core
from ..base import fetch
from ..base.report import count, total
from ..base.worker import in_worker
from . import files, headers, jobs, originals, pictures
from .asked import DECODE_OPS
from .jobs import recorded
from .pictures import HeadraceImage

_new = object.__new__


def pil_loader(stock: Any) -> Any:
    """The fast way of torchvision.datasets.folder: no header in Python."""

    def pil_loader(path: Any) -> Image.Image:
        # (Elsewhere Pillow's open() and convert() check the picture.)
        if (
            pictures.active
            and fetch.can_ask_again()
            and not ImageFile.LOAD_TRUNCATED_IMAGES
            and Image.open is originals.OPEN
            and originals.is_stock("convert")
        ):
            picture = _load_rgb(path)
            if picture is not None:
                return picture
        return stock(path)

    return pil_loader


def _load_rgb(path: Any) -> HeadraceImage | None:
    try:
        data = _core.read_file(path)
        if data is None:
            return None
        if not data.packed and bytes(memoryview(data)[:2]) != b"\xff\xd8":
            count("pillow", files.other_format(data))
            return None
        info = files.probe(data)
        if not (info.plain or _opens(data)):
            return None
    except Exception:
        return None  # the stock loader says what is wrong
    if files.objection(info):
        return None  # the stock loader counts why
    size = info.width, info.height
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        return None  # Image.open() warns, or raises
    fetch.recorded(data)
    picture = _new(HeadraceImage)
    picture._hr = recorded((data, DECODE_OPS["RGB"]))
    if info.components == 1:
        picture._hr_native = "L"
    picture._size = size
    picture._hr_info = data
    total("recorded")
    return picture


# Files whose headers are not plain and that Pillow opens as JPEGs.
_opened: set[headers.Identity] = set()
_MOST_OPENED = 1 << 17  # about 40 MB
# The ones that this worker found, for its parent: the workers of the next epoch
# are forked from that.
_learned: list[headers.Identity] = []


def _opens(data: _core.FileBytes) -> bool:
    """Does Pillow take it for a JPEG? It refuses some that ours reads."""
    identity = data.identity
    if identity in _opened:
        return True
    stock = jobs.open_stock(data.header)
    if type(stock) is not JpegImageFile:
        return False
    # (Of an MPO that is none Pillow warns whenever it is opened.)
    if identity and headers.settled(*identity[3:]) and "mp" not in stock.info:
        learn([identity])
        if in_worker():
            _learned.append(identity)
    return True


def learn(identities: list[headers.Identity]) -> None:
    """Takes the list that take_learned() returned in a worker."""
    if len(_opened) > _MOST_OPENED:
        _opened.clear()
    _opened.update(identities)


def take_learned() -> list[headers.Identity]:
    learned = _learned[:]
    del _learned[: len(learned)]
    return learned


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
    recording = recorded((entry, DECODE_OPS["RGB"]))
    off = ImageFile.LOAD_TRUNCATED_IMAGES or fetch.is_off()
    if not pictures.active or off:
        return jobs.decode(recording, "RGB", size)
    picture = _new(HeadraceImage)
    picture._hr = recording
    if info.components == 1:
        picture._hr_native = "L"
    picture._size = size
    picture._hr_info = {}
    total("recorded")
    return picture
