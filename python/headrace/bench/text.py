# SPDX-License-Identifier: Apache-2.0
"""Figures as lines of text, and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .figures import Figures, Row, median
from .recipes import RECIPES

EPOCHS = (("first", "first epoch"), ("later", "later epochs"))
COLUMNS = ("img/s", "x stock", "CPU s")
LAST = ("batch s", "whole", "beside", "pixels")  # columns behind them
_PIXELS = {"stock": "stock's", "others": "others", "differ": "DIFFER"}


def _some(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def left_out(files: int) -> str:
    """A clause on the files that were left out, behind the number taken."""
    if not files:
        return ""
    return f"; left out, as grey, CMYK, no JPEG or damaged: {files:,}"


def facts(f: Figures) -> list[tuple[str, str]]:
    """The machine, the pictures, the work: (name, text)."""
    a = f.facts
    pictures = (
        f"{a['pictures']:,} JPEG files, {a['mean_bytes']:,} bytes and "
        f"{a['mean_pixels'] / 1e6:.2f} Mpixel on average"
    )
    pictures += left_out(a["left_out"])
    return [
        ("machine", f"{a['machine']}, {_some(a['cores'], 'core')}"),
        ("pictures", pictures),
        (
            "work",
            f"{work(f)}; batches of {a['batch']}; workers or threads: "
            f"{a['workers']}",
        ),
        (
            "rounds",
            f"{a['rounds']}; other processes had "
            f"{100 * a['others']:.0f} % of the machine's CPU time",
        ),
    ]


DIGITS = (0, 2, 2, 0, 2, 2, 2, 0, 0)  # of cells, behind the point


def cells(f: Figures, row: Row) -> list[float | None]:
    """The table's columns between the name and the pixels."""
    found: list[float | None] = []
    for which, _ in EPOCHS:
        found += [median(row.rates(which)), f.ratio(row, which),
                  median(row.cpu(which))]
    return [*found, row.first_batch(), row.memory() / 1e6, row.beside() / 1e6]


def pixels(f: Figures, row: Row) -> str:
    return _PIXELS[f.pixels(row)]


def work(f: Figures) -> str:
    a = f.facts
    words = RECIPES[a["recipe"]][1]
    v2 = ", torchvision's v2" if a["v2"] else ""
    return f"{words}, tensor, Normalize, {a['size']} pixels{v2}"


def lines(f: Figures) -> Iterator[str]:
    width = max([len(row.name) for row in f.rows], default=0)
    for what, text in facts(f):
        yield f"{what:<10}{text}"
    yield ""
    head = [title for _, title in EPOCHS]
    yield (f"{'':<{width}}  {head[0]:>23}  {head[1]:>23}  {'first':>7}"
           f"  {'memory, MB':>13}")
    form = (f"{{:<{width}}}" + "  {:>7} {:>7} {:>7}" * 2
            + "  {:>7}  {:>6} {:>6}  {}")
    yield form.format("", *COLUMNS, *COLUMNS, *LAST)
    for row in f.measured():
        numbers = ("-" if x is None else f"{x:.{digits}f}"
                   for x, digits in zip(cells(f, row), DIGITS, strict=True))
        yield form.format(row.name, *numbers, pixels(f, row))
    for row in f.measured():
        made = row.made()
        if made and f.facts["recipe"] != "plain":
            yield ""
            yield row.name + ", " + made
    if f.not_run:
        yield ""
    for key, why in f.not_run.items():
        yield f"not run: {key}: {why}"


def as_json(f: Figures) -> dict[str, Any]:
    """The keys are described in docs/python-bench.md, and stay."""
    rows = []
    for row in f.measured():
        one: dict[str, Any] = {
            "key": row.key,
            "name": row.name,
            "pixels": f.pixels(row),
            "import_s": row.import_s,
            "first_batch_s": row.first_batch(),
            "memory_bytes": row.memory(),
            "import_bytes": row.import_bytes,
            "beside_bytes": row.beside(),
        }
        for which, _ in EPOCHS:
            one[which] = {
                "img_per_s": median(row.rates(which)),
                "stock_ratio": f.ratio(row, which),
                "cpu_s_per_1000": median(row.cpu(which)),
            }
        rows.append(one | {"rounds": row.rounds})
    return f.facts | {"rows": rows, "not_run": f.not_run}
