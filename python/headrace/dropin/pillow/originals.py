# SPDX-License-Identifier: Apache-2.0
"""Pillow's own methods, as they were before a program replaced one.

Threads: any; counts_as_stock() is for tests and checks, one at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from PIL import Image, ImageFile


def _as_pillow_has_it(name: str) -> Any:
    """The function; None if the program had replaced it before."""
    function = vars(Image.Image)[name]
    theirs = Image._decompression_bomb_check.__code__.co_filename
    code = getattr(function, "__code__", None)
    return function if code and code.co_filename == theirs else None


# Pillow's own functions in place of replaced ones; also for recorded pictures.
STOCK = {
    name: _as_pillow_has_it(name)
    for name in
    "copy convert crop filter point resize transform transpose".split()
}
LOAD = ImageFile.ImageFile.load
OPEN = Image.open

IMAGE = vars(Image.Image)


def is_stock(name: str) -> bool:
    return IMAGE[name] is STOCK[name]


def stock(name: str) -> Any:
    """The function; None if it was replaced before Headrace saw it."""
    return STOCK[name]


def is_patched() -> bool:
    """Has the program replaced a method of Image.Image that is recorded?"""
    return not all(map(is_stock, STOCK))


@contextlib.contextmanager
def counts_as_stock(name: str) -> Iterator[None]:
    """While it is open, the method that Image.Image has now is stock."""
    before, STOCK[name] = STOCK[name], vars(Image.Image)[name]
    try:
        yield
    finally:
        STOCK[name] = before
