# SPDX-License-Identifier: Apache-2.0
"""Figures as one HTML file that loads nothing, with bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .. import _html
from . import text
from .figures import Figures, median


def page(f: Figures) -> str:
    """The whole file."""
    command = ("python3 -m headrace.bench", *sys.argv[1:])
    return _html.page("headrace.bench", command, text.facts(f), _items(f))


def _items(f: Figures) -> Iterator[_html.Item]:
    for which, title in text.EPOCHS:
        yield from _chart(f, which, title)
    epochs = [title for _, title in text.EPOCHS]
    columns = [f"{name}, {title}" for title in epochs for name in text.COLUMNS]
    yield _html.table(
        "All figures",
        [_html.word("program"),
         *map(_html.column, (*columns, *text.LAST), text.DIGITS),
         _html.word(text.LAST[-1])],
        [(row.name, *text.cells(f, row), text.pixels(f, row))
         for row in f.measured()],
    )
    yield _html.note(
        "plain",
        "CPU seconds are for 1,000 pictures, of all threads and worker "
        "processes; memory (MB) is the most that they held, whole, and beside "
        "it what of that came after the packages were imported. Other figures "
        "are medians of the rounds. Pixels: stock's are those of torchvision "
        "on Pillow.",
    )
    if f.not_run:
        yield _html.table("Not run", [_html.word("program"), _html.word("why")],
                          f.not_run.items())


def _chart(f: Figures, which: str, title: str) -> Iterator[_html.Item]:
    rows = [row for row in f.measured() if median(row.rates(which))]
    if rows:
        rates = [median(row.rates(which)) for row in rows]
        item = _html.chart("rows", f"Pictures per second, {title}",
                           [row.name for row in rows],
                           [("pictures per second", rates)],
                           "pictures per second")
        # Ours have a colour of their own.
        item["series"][0]["groups"] = [
            int(row.key in ("drop-in", "loader")) for row in rows
        ]
        yield item
