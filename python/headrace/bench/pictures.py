# SPDX-License-Identifier: Apache-2.0
"""The pictures: JPEG files of three components that can be decoded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import headrace
from headrace import ops

from .programs import Config

_STEPS = (ops.decode(), ops.resize(8, 8))


class Pictures(NamedTuple):
    paths: list[str]
    sizes: list[tuple[int, int]]
    left_out: int  # that some programs do not take, or none can decode


def find(inputs: Sequence[str], limit: int) -> Pictures:
    """Decode all of them, so that they are in the file cache as well.

    Errors: those of headrace.Loader for a source.
    """
    found = Pictures([], [], 0)
    left_out = 0
    loader = headrace.Loader(
        list(inputs), _STEPS, on_error="zero", to="numpy", device="cpu",
        epochs=1,
    )
    if not loader.samples:
        return found
    with loader:
        for _ in loader:
            last = loader.last
            assert last
            for index, result in zip(last.indices, last.results):
                path = loader.path(index)
                whole = result.ok and not result.warnings
                if not whole or not _taken_by_all(path):
                    left_out += 1
                    continue
                found.paths.append(path)
                found.sizes.append((result.width, result.height))
                if len(found.paths) == limit:
                    return found._replace(left_out=left_out)
    return found._replace(left_out=left_out)


def _taken_by_all(path: str) -> bool:
    info = headrace.probe(path)
    return (
        info.format == "jpeg"
        and info.components == 3
        and info.process in ("baseline", "progressive")
    )


def place(found: Pictures, folder: str) -> Config:
    """One class of links in this folder: ImageFolder wants classes."""
    top = os.path.join(folder, "all")
    os.mkdir(top)
    pictures = []
    for number, (path, (w, h)) in enumerate(zip(found.paths, found.sizes)):
        link = os.path.join(top, f"{number:07}.jpg")
        os.symlink(os.path.abspath(path), link)
        pictures.append([link, w, h])
    return {"folder": folder, "pictures": pictures}
