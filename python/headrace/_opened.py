# SPDX-License-Identifier: Apache-2.0
"""Files of records that the library leaves to Python: set_opener()."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

from . import _core, arrow
from .errors import ArgumentError, Error

if TYPE_CHECKING:
    from . import mindrecord

    _Rows: TypeAlias = arrow.Rows | mindrecord.Rows

_LABELS, _NAMES, _CLASSES = range(3)  # see set_opener()


def open_file(
    path: str, image: str | None, label: str | None
) -> (
    tuple[_Rows, array[int], tuple[str, ...], int, array[int] | None]
    | tuple[str, bool]
):
    """Open a file for the library; else say why not, and whose fault it is."""
    try:
        rows = _open(path, (image, label))
        return rows, *_labels(path, rows), getattr(rows, "ranges", None)
    except Error as error:
        return str(error), isinstance(error, ArgumentError)


def _open(path: str, fields: tuple[str | None, str | None]) -> _Rows:
    if arrow.is_table(path):
        return arrow.Rows([path], fields)
    if "://" not in path:  # the library knows what it may be
        with open(path, "rb") as file:
            begin = file.read(8)
        if begin.startswith((b"PAR1", b"ARROW1")):
            return arrow.Rows([path], fields)
    from . import mindrecord

    return mindrecord.Rows(path, fields)


def _labels(path: str, rows: _Rows) -> tuple[array[int], tuple[str, ...], int]:
    """The labels of all rows, by their numbers."""
    found = array("q", (-1 if n is None else n for n in rows.labels()))
    if not rows.classes:
        texts = {n: i for i, n in enumerate(sorted(set(found) - {-1}))}
        return (
            array("q", (texts.get(n, -1) for n in found)),
            tuple(map(str, texts)),
            _LABELS,
        )
    low, high = min(found, default=-1), max(found, default=-1)
    if low < -1 or high >= len(rows.classes):
        raise ArgumentError(
            f"{arrow.shown(path)}: labels {low} .. {high}, and "
            f"{len(rows.classes)} classes"
        )
    return found, rows.classes, _NAMES if rows.words else _CLASSES


_core.set_opener(open_file)
