# SPDX-License-Identifier: Apache-2.0
"""Findings as one HTML file that loads nothing, with the worst pictures."""

from __future__ import annotations

import base64
import io
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image, ImageChops

from .. import _html
from . import text
from .compare import distances
from .findings import EQUAL, FOUND, Findings, Worst

WORST = 6  # pictures that are shown
_WINDOW = 256  # at most this many pixels of a side


def page(found: Findings) -> str:
    """The whole file."""
    tone = {EQUAL: "good", FOUND: "bad"}.get(found.code(), "warn")
    verdict = found.verdict()
    verdict = verdict[0].upper() + verdict[1:] + "."
    command = ("python3 -m headrace.validate", *sys.argv[1:])
    return _html.page("headrace.validate", command, text.facts(found),
                      _items(found), (tone, verdict))


def _items(found: Findings) -> Iterator[_html.Item]:
    yield from _tables(found)
    yield from _pictures(found)
    for title, items in text.lists(found) + text.engines(found):
        yield _html.table(title.capitalize(), [_html.word("")],
                          [(item,) for item in items])


def _tables(found: Findings) -> Iterator[_html.Item]:
    rows = {name: row for name, row in found.rows.items() if not row.not_run}
    yield _html.table(
        "Pipelines",
        [_html.word(text.COLUMNS[0]),
         *(_html.column(name, 0) for name in text.COLUMNS[1:-1]),
         _html.word(text.COLUMNS[-1])],
        [(name, len(row.pictures), row.results, row.elements, row.differing,
          text.number(row.largest)) for name, row in rows.items()],
        {i: "bad" for i, row in enumerate(rows.values()) if row.differing},
    )
    left = [
        (name, times, reason)
        for name, row in rows.items()
        for reason, times in row.left.most_common()
    ]
    if left:
        yield _html.table("Left to Pillow", [
            _html.word("pipeline"), _html.column("times", 0), _html.word("why")
        ], left)
    if len(rows) < len(found.rows):
        yield _html.table(
            "Not run",
            [_html.word("pipeline"), _html.word("why")],
            [(n, row.not_run) for n, row in found.rows.items() if row.not_run],
        )


# ---- pictures --------------------------------------------------------------


def _pictures(found: Findings) -> Iterator[_html.Item]:
    if not found.worst:
        if found.elements():
            yield _html.section("Pictures",
                                "Nothing differs: there is no picture to show.")
        return
    yield _html.section("The pictures that differ most")
    for worst in found.worst:
        case = worst.case
        yield _html.pictures(
            f"{worst.file}: {case.pipeline}, {case.what}",
            f"{worst.found.differing:,} of {worst.found.elements:,} differ, by "
            f"{text.number(worst.found.largest)} at most",
            [_picture(caption, image) for caption, image in three(worst)],
        )


def _picture(caption: str, image: Any) -> _html.Item:
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    w, h = image.size
    return {"caption": caption, "w": w, "h": h,
            "src": f"data:image/png;base64,{data}"}


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
    """A window around the middle of the difference, at most _WINDOW a side."""
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
    """A picture of C x H x W numbers."""
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
