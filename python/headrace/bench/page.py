# SPDX-License-Identifier: Apache-2.0
"""Figures as one HTML file that loads nothing, with bars."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .. import _html
from . import text
from .figures import Figures, Row, median

_STYLE = """
.bars { display: grid; grid-template-columns: max-content 1fr; gap: 6px 14px;
  align-items: center; }
.bar { background: var(--soft); height: 18px; border-radius: 2px;
  display: inline-block; vertical-align: middle; min-width: 2px; }
.ours .bar { background: var(--good); }
.bars span { margin-left: 8px; }
@media (max-width: 600px) { .bars { grid-template-columns: 1fr; }
  .bars > :nth-child(even) { margin-bottom: 8px; } }
"""


def page(f: Figures) -> str:
    """The whole file."""
    return "\n".join(_parts(f)) + "\n"


def _parts(f: Figures) -> Iterator[str]:
    yield from _html.head("headrace.bench", _STYLE)
    yield from _html.facts(text.facts(f))
    for which, title in text.EPOCHS:
        yield from _chart(f, which, title)
    yield from _table(f)
    if f.not_run:
        yield "<h2>Not run</h2>\n<ul>"
        for key, why in f.not_run.items():
            yield f"<li>{escape(key)}: {escape(why)}</li>"
        yield "</ul>"
    yield _html.TAIL


def _ours(row: Row) -> bool:
    return row.key in ("drop-in", "loader")


def _chart(f: Figures, which: str, title: str) -> Iterator[str]:
    rates = [(row, median(row.rates(which))) for row in f.measured()]
    most = max((rate for _, rate in rates if rate), default=0.0)
    if not most:
        return
    yield f"<h2>Pictures per second, {escape(title)}</h2>"
    yield '<div class="bars">'
    for row, rate in rates:
        if rate is None:
            continue
        mark = ' class="ours"' if _ours(row) else ""
        # (The number needs room behind the longest.)
        yield f"<div>{escape(row.name)}</div><div{mark}>"
        yield f'<i class="bar" style="width: {80 * rate / most:.1f}%"></i>'
        yield f"<span>{rate:,.0f}</span></div>"
    yield "</div>"


def _table(f: Figures) -> Iterator[str]:
    yield "<h2>All figures</h2>"
    yield from _html.table(_rows(f))
    yield '<p class="soft">CPU seconds are for 1,000 pictures, of all threads'
    yield "and worker processes; memory is the most that they held, and beside"
    yield "it what of that came after the packages were imported. Other figures"
    yield "are medians of the rounds. Pixels: stock's are those of torchvision"
    yield "on Pillow.</p>"


def _rows(f: Figures) -> Iterator[str]:
    yield "<tr><th></th>"
    for _, title in text.EPOCHS:
        yield f'<th colspan="{len(text.COLUMNS)}">{escape(title)}</th>'
    yield '<th>first</th><th colspan="2">memory, MB</th><th></th></tr>'
    yield "<tr><th></th>"
    for name in (*text.COLUMNS, *text.COLUMNS, *text.LAST):
        yield f"<th>{escape(name)}</th>"
    yield "</tr>"
    for row in f.measured():
        yield f"<tr><td>{escape(row.name)}</td>"
        yield "".join(f"<td>{escape(c)}</td>" for c in text.cells(f, row))
        yield "</tr>"
