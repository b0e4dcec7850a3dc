# SPDX-License-Identifier: Apache-2.0
"""The fast way of torchvision.datasets.folder, and what it remembers.

ImageFolder and some 25 other data sets read pictures with ``pil_loader()``,
which is ``open(path)`` and ``convert("RGB")``. Ours looks at the header in C
and makes the recorded picture at once. What a header said is kept by path, so
that in later epochs one system call tells whether the file is still the same.
Workers tell their parent what they have learned.

Threads: any; what is remembered are single dictionary updates.
"""

from __future__ import annotations

import io
import os
from typing import Any

from PIL import Image, ImageFile

from .. import _core
from . import files, headers, jobs, pillow
from .pillow import DECODE_OPS, HeadraceImage
from .report import total
from .workers import tells_parent

_new = object.__new__


def pil_loader(stock: Any) -> Any:
    """The fast way of torchvision.datasets.folder: no header in Python."""

    def pil_loader(path: Any) -> Image.Image:
        if pillow.active and not ImageFile.LOAD_TRUNCATED_IMAGES:
            picture = _load_rgb(path)
            if picture is not None:
                return picture
        return stock(path)

    return pil_loader


def _load_rgb(path: Any) -> HeadraceImage | None:
    try:
        known = _known.get(path)
        if known is None or not _core.same_file(path, known[0][0][0]):
            known = _learn(path, os.stat(path))
    except Exception:
        return None  # the stock loader says what is wrong
    if known is None:
        return None
    hr, (w, h) = known
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and w * h > limit:
        return None  # Image.open() warns, or raises
    picture = _new(HeadraceImage)
    picture._hr = hr
    picture._size = known[1]
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
    if not pillow.active or ImageFile.LOAD_TRUNCATED_IMAGES:
        return jobs.decode(recording, "RGB", size)
    picture = _new(HeadraceImage)
    picture._hr = recording, "L" if info.components == 1 else "RGB"
    picture._size = size
    picture._hr_info = {}
    total("recorded")
    return picture


# What a header said: ((file, ops), native mode), size.
_Known = tuple[tuple[tuple[jobs.File, jobs.Ops], str], tuple[int, int]]
# By path. A file that is the same (one system call tells) is not read again in
# later epochs.
_known: dict[Any, _Known] = {}
_MOST_KNOWN = 1 << 17  # about 60 MB
# As a worker tells it: path, file, native mode, size.
_Fact = tuple[Any, jobs.File, str, tuple[int, int]]


def _learn(path: Any, status: os.stat_result) -> _Known | None:
    info = files.probe(path)
    if not files.may_decode(info, path, None):
        return None
    native = "L" if info.components == 1 else "RGB"
    file = jobs.file_of(files.absolute(path), status)
    fact = (path, file, native, (info.width, info.height))
    if path.__class__ is str and headers.settled(*file[-2:]):
        if tells_parent():
            _learned.append(fact)
        return _remember(*fact)
    return _as_known(*fact[1:])


def _as_known(file: jobs.File, native: str, size: tuple[int, int]) -> _Known:
    return ((file, DECODE_OPS["RGB"]), native), size


def _remember(
    path: str, file: jobs.File, native: str, size: tuple[int, int]
) -> _Known:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    known = _known[path] = _as_known(file, native, size)
    return known


# What this worker has learned: the workers of the next epoch are forked from
# its parent, and need not read it again.
_learned: list[_Fact] = []


def take_learned() -> list[_Fact]:
    learned = _learned[:]
    del _learned[: len(learned)]
    return learned


def learn_from(learned: list[_Fact]) -> None:
    """What take_learned() returned in a worker."""
    for fact in learned:
        _remember(*fact)
