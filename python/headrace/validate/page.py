# SPDX-License-Identifier: Apache-2.0
"""Findings as one HTML file that loads nothing, with the worst pictures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from PIL import Image, ImageChops

from .. import _html
from . import text
from .compare import distances
from .findings import EQUAL, FOUND, Findings, Row, Worst

WORST = 6  # pictures that are shown
_WINDOW = 256  # at most this many pixels of a side

_STYLE = """
.verdict { font-size: 24px; font-weight: 650; line-height: 1.3;
  border-left: 6px solid; padding-left: 14px; }
.good { border-color: var(--good); }
.bad { border-color: var(--bad); }
.warn { border-color: var(--warn); }
.different td { color: var(--bad); }
.three { display: flex; flex-wrap: wrap; gap: 16px; margin: 0 0 28px; }
figure { margin: 0; }
img { display: block; min-width: 96px; image-rendering: pixelated; }
figcaption { color: var(--soft); }
"""


def page(found: Findings) -> str:
    """The whole file."""
    return "\n".join(_parts(found)) + "\n"


def _parts(found: Findings) -> Iterator[str]:
    yield from _html.head("headrace.validate", _STYLE)
    tone = {EQUAL: "good", FOUND: "bad"}.get(found.code(), "warn")
    verdict = found.verdict()
    verdict = verdict[0].upper() + verdict[1:]
    yield f'<p class="verdict {tone}">{escape(verdict)}.</p>'
    yield from _html.facts(text.facts(found))
    yield from _table(found)
    yield from _pictures(found)
    for title, items in text.lists(found) + text.engines(found):
        yield f"<h2>{escape(title.capitalize())}</h2>\n<ul>"
        yield from (f"<li>{escape(item)}</li>" for item in items)
        yield "</ul>"
    yield _html.TAIL


def _table(found: Findings) -> Iterator[str]:
    yield "<h2>Pipelines</h2>"
    yield from _html.table(_rows(found))


def _rows(found: Findings) -> Iterator[str]:
    yield "<tr>"
    yield "".join(f"<th>{name}</th>" for name in text.COLUMNS) + "</tr>"
    for name, row in found.rows.items():
        yield from _row(name, row)


def _row(name: str, row: Row) -> Iterator[str]:
    rest = f'<td class="text soft" colspan="{len(text.COLUMNS) - 1}">'
    if row.not_run:
        yield f"<tr><td>{name}</td>{rest}not run: {escape(row.not_run)}</td>"
        yield "</tr>"
        return
    cells = "".join(f"<td>{cell}</td>" for cell in text.cells(name, row))
    mark = ' class="different"' if row.differing else ""
    yield f"<tr{mark}>{cells}</tr>"
    for reason, times in row.left.most_common():
        yield f"<tr><td></td>{rest}{times:,} left to Pillow: "
        yield f"{escape(reason)}</td></tr>"


# ---- pictures --------------------------------------------------------------


def _pictures(found: Findings) -> Iterator[str]:
    if not found.worst:
        if found.elements():
            yield "<h2>Pictures</h2>\n<p>Nothing differs: there is no picture"
            yield "to show.</p>"
        return
    yield "<h2>The pictures that differ most</h2>"
    for worst in found.worst:
        case = worst.case
        title = f"{worst.file}: {case.pipeline}, {case.what}"
        count = f"{worst.found.differing:,} of {worst.found.elements:,}"
        yield f"<p>{escape(title)}<br>"
        yield f'<span class="soft">{count} differ, by '
        yield f"{text.number(worst.found.largest)} at most</span></p>"
        yield '<div class="three">'
        for caption, image in three(worst):
            yield _figure(caption, image)
        yield "</div>"


def _figure(caption: str, image: Any) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    w, h = image.size
    return (
        f'<figure><img alt="{escape(caption)}" width="{w}" height="{h}" '
        f'src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def three(worst: Worst) -> list[tuple[str, Any]]:
    """Theirs, ours, and the difference: (caption, picture)."""
    if worst.case.dtype == "f32":
        theirs, ours, difference, caption = _of_floats(worst)
    else:
        theirs, ours, difference, caption = _of_bytes(worst)
    return [("theirs", theirs), ("ours", ours), (caption, difference)]


def _of_bytes(worst: Worst) -> tuple[Any, Any, Any, str]:
    """The window around what differs, if the picture is large."""
    case = worst.case
    mode = "RGB" if case.channels == 3 else "L"
    sides = [
        Image.frombytes(mode, case.size, pixels)
        for pixels in (worst.theirs, worst.ours)
    ]
    difference = ImageChops.difference(*sides)
    box = _window(difference)
    theirs, ours, difference = (
        image.crop(box) for image in (*sides, difference)
    )
    # The window's own, which need not hold the largest of all.
    extrema = difference.getextrema()
    most = max(high for _, high in (extrema if mode == "RGB" else [extrema]))
    factor = max(255 // max(most, 1), 1)
    amplified = difference.point([min(v * factor, 255) for v in range(256)]
                                 * case.channels)
    caption = f"difference, times {factor}"
    if box[2] - box[0] < case.size[0] or box[3] - box[1] < case.size[1]:
        caption += f", from ({box[0]}, {box[1]})"
    return theirs, ours, amplified, caption


def _window(difference: Any) -> tuple[int, int, int, int]:
    """At most _WINDOW a side, around the middle of what differs."""
    w, h = difference.size
    x0, y0, x1, y1 = difference.getbbox() or (0, 0, w, h)
    side_w, side_h = min(w, _WINDOW), min(h, _WINDOW)
    x = min(max((x0 + x1 - side_w) // 2, 0), w - side_w)
    y = min(max((y0 + y1 - side_h) // 2, 0), h - side_h)
    return x, y, x + side_w, y + side_h


def _of_floats(worst: Worst) -> tuple[Any, Any, Any, str]:
    """Their least number is black, their greatest white."""
    ours = memoryview(worst.ours).cast("f")
    theirs = memoryview(worst.theirs).cast("f")
    numbers = [x for x in theirs if math.isfinite(x)] or [0.0]
    low, high = min(numbers), max(numbers)
    away = list(distances(ours, theirs))
    most = max((x for x in away if math.isfinite(x)), default=0.0)
    return (
        _image(worst, theirs, low, high),
        _image(worst, ours, low, high),
        _image(worst, away, 0.0, most),
        f"difference, white is {most:.3g}",
    )


def _image(
    worst: Worst, numbers: Sequence[float], low: float, high: float
) -> Any:
    """From C x H x W numbers."""
    scale = 255 / (high - low) if high > low else 0.0
    levels = bytes(_level((x - low) * scale) for x in numbers)
    w, h = worst.case.size
    planes = [
        Image.frombytes("L", (w, h), levels[start : start + w * h])
        for start in range(0, len(levels), w * h)
    ]
    return planes[0] if len(planes) == 1 else Image.merge("RGB", planes)


def _level(x: float) -> int:
    """Nothing that is no number is shown as one: it is white."""
    return int(min(max(x, 0.0), 255.0)) if math.isfinite(x) else 255
