# SPDX-License-Identifier: Apache-2.0
"""The pictures: named files, files of folders, or made ones."""

from __future__ import annotations

import hashlib
import io
import os
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image

from .. import _core

# Suffixes of files in a folder; a file that is named itself is always taken.
SUFFIXES = tuple(" ".join(_core.FORMATS.values()).split())


class File(NamedTuple):
    """path: to open; name: below the folder that the user named."""

    path: str
    name: str


class Found(NamedTuple):
    files: list[File]
    faults: list[str]  # "PATH: REASON" of folders that could not be read


def find(arguments: Sequence[str]) -> Found:
    """All pictures of the arguments. OSError: one of them cannot be read."""
    found = Found([], [])
    for argument in arguments:
        if not os.path.isdir(argument):
            open(argument, "rb").close()
            found.files.append(File(argument, argument))
            continue
        os.listdir(argument)
        for path in _walk(argument, found.faults):
            found.files.append(File(path, os.path.relpath(path, argument)))
    return found


def _walk(top: str, faults: list[str]) -> Iterator[str]:
    def fault(error: OSError) -> None:
        faults.append(f"{error.filename}: {error.strerror}")

    seen = set()
    for folder, below, names in os.walk(top, onerror=fault, followlinks=True):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.lower().endswith(SUFFIXES) and os.path.isfile(path):
                yield path


def choose(files: list[File], limit: int, seed: int) -> list[File]:
    """limit of them, or all if 0; the same wherever the folder lies."""
    if not limit or limit >= len(files):
        return files

    def draw(index: int) -> bytes:
        text = f"{seed}:{files[index].name}".encode("utf-8", "replace")
        return hashlib.sha256(text).digest()

    chosen = sorted(range(len(files)), key=draw)[:limit]
    return [files[index] for index in sorted(chosen)]


# ---- made pictures ---------------------------------------------------------

# Name, width, height, mode, what save() is told.
_KINDS: list[tuple[str, int, int, str, dict[str, object]]] = [
    ("photo-1.jpg", 500, 375, "RGB", {"quality": 92, "subsampling": 2}),
    ("photo-2.jpg", 333, 500, "RGB", {"quality": 75, "subsampling": 2}),
    ("photo-3.jpg", 640, 427, "RGB", {"quality": 85, "subsampling": 1}),
    ("full-chroma.jpg", 401, 299, "RGB", {"quality": 95, "subsampling": 0}),
    ("gray.jpg", 350, 263, "L", {"quality": 80}),
    ("progressive.jpg", 300, 451, "RGB", {"progressive": True}),
    ("optimized.jpg", 257, 255, "RGB", {"optimize": True, "quality": 30}),
    ("tall.jpg", 150, 700, "RGB", {"quality": 90}),
    ("wide.jpg", 800, 90, "RGB", {"quality": 90}),
    ("small.jpg", 17, 23, "RGB", {"quality": 90}),
    ("rgb.png", 260, 301, "RGB", {}),
    ("gray.png", 199, 120, "L", {}),
]


def make(folder: str, seed: int) -> list[File]:
    """Writes a dozen pictures, the same for the same seed and Pillow."""
    files = []
    for name, w, h, mode, how in _KINDS:
        draw = random.Random(f"{seed}:{name}")
        path = os.path.join(folder, name)
        data = io.BytesIO()
        kind = "PNG" if name.endswith(".png") else "JPEG"
        _photo(draw, w, h, mode).save(data, kind, **how)
        with open(path, "wb") as file:
            file.write(data.getvalue())
        files.append(File(path, name))
    return files


def _photo(draw: random.Random, w: int, h: int, mode: str) -> Image.Image:
    """Soft shapes, edges and grain, as photographs have them."""
    soft = _noise(draw, 6, 5, mode).resize((w, h), 3)
    edges = _noise(draw, max(w // 20, 1), max(h // 20, 1), mode)
    grain = _noise(draw, w, h, mode)
    picture = Image.blend(soft, edges.resize((w, h), 0), 0.3)
    return Image.blend(picture, grain, 0.08)


def _noise(draw: random.Random, w: int, h: int, mode: str) -> Image.Image:
    return Image.frombytes(mode, (w, h), draw.randbytes(w * h * len(mode)))
