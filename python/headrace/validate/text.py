# SPDX-License-Identifier: Apache-2.0
"""Findings as lines of text, and as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .findings import EQUAL, FOUND, Different, Findings, Refusal, Row
from .stock import TORCH

_NAMED = 20  # files that the text names of each kind


def number(x: float) -> str:
    """A largest difference: whole levels as such."""
    if math.isinf(x):
        return "not a number"
    return f"{x:.0f}" if x == int(x) else f"{x:.3g}"


def facts(found: Findings) -> list[tuple[str, str]]:
    """The two sides of the comparison: (name, text)."""
    f, theirs = found.facts, found.facts["theirs"]
    libraries = [
        f"{name} {theirs[key]}"
        for key, name in (
            ("pillow", "Pillow"),
            ("libjpeg_turbo", "libjpeg-turbo"),
            ("torch", "torch"),
            ("torchvision", "torchvision"),
        )
        if theirs[key]
    ]
    engine = f"{f['backend']} ({f['device']})"
    pictures = f"{found.total:,}"
    if f["found"] > found.total:
        pictures += f" of {f['found']:,}, chosen by the seed"
    if f["made"]:
        pictures += ", made for this"
    return [
        ("ours", f"headrace {f['version']} on {engine}, {f['libjpeg']}"),
        ("theirs", f"{', '.join(libraries)}, Python {theirs['python']}"),
        ("reference", _reference(f)),
        ("pictures", pictures),
    ]


def _reference(f: dict[str, Any]) -> str:
    if f["reference"] is None:
        return "none: the installed Pillow's resize follows none that is known"
    if f["reference"] == f["installed_reference"]:
        return f"{f['reference']}, as the installed Pillow resizes"
    if f["reference"] == TORCH:
        return f"{f['reference']}: torch resizes"
    installed = f["installed_reference"] or "none that is known"
    return (
        f"{f['reference']}: the installed Pillow ({installed}) resizes one"
        " axis at a time, in that order"
    )


COLUMNS = ("pipeline", "pictures", "results", "elements", "differing",
           "largest")


def cells(name: str, row: Row) -> tuple[str, ...]:
    return (
        name,
        f"{len(row.pictures):,}",
        f"{row.results:,}",
        f"{row.elements:,}",
        f"{row.differing:,}",
        number(row.largest),
    )


def _table(found: Findings) -> Iterator[str]:
    form = "{:16s} {:>9s} {:>8s} {:>15s} {:>13s} {:>12s}"
    yield form.format(*COLUMNS)
    for name, row in found.rows.items():
        if row.not_run:
            yield f"{name:16s} not run: {row.not_run}"
            continue
        yield form.format(*cells(name, row))
        for reason, times in row.left.most_common():
            yield f"{'':16s} {times:9,d} left to Pillow: {reason}"


def _different(found: Findings) -> Iterator[str]:
    """File by file; what is known of a file is said once."""
    by_file: dict[str, list[Different]] = {}
    for item in found.different.values():
        by_file.setdefault(item.file, []).append(item)
    for items in by_file.values():
        for number, item in enumerate(items):
            hint = "" if number or not item.hint else f"; {item.hint}"
            yield different(item) + hint


def different(item: Different) -> str:
    text = (
        f"{item.file}: {item.pipeline}: {item.differing:,} of "
        f"{item.elements:,} differ, by {number(item.largest)} at most "
        f"({item.what}"
    )
    if item.results > 1:
        text += f" and {item.results - 1} more"
    return text + ")"


def refusal(item: Refusal) -> str:
    where, other = item.file, "Pillow"
    if item.pipeline:
        where, other = f"{where}: {item.pipeline}", "Pillow or torchvision"
    sides = [
        f"{side}: {reason}"
        for side, reason in (("headrace", item.ours), (other, item.theirs))
        if reason
    ]
    return f"{where}: {'; '.join(sides)}"


def lists(found: Findings) -> list[tuple[str, list[str]]]:
    """Lists of files by name: (title, a line for each); without empty ones."""
    every = [
        ("results that differ", list(_different(found))),
        ("made by one side only",
         [refusal(item) for item in found.one_side]),
        ("could not be read", found.faults),
        ("beyond what one side takes, which is no difference",
         [refusal(item) for item in found.left]),
        ("refused by both", [refusal(item) for item in found.both]),
    ]
    return [(f"{title} ({len(items):,})", items) for title, items in every
            if items]


def engines(found: Findings) -> list[tuple[str, list[str]]]:
    """The engines that made the compared results; as lists()."""
    every = (
        ("results made by", found.made_by),
        ("results that an engine handed on, and why", found.why),
    )
    return [
        (title, [f"{n:,}  {name}" for name, n in counter.most_common()])
        for title, counter in every
        if counter
    ]


def lines(found: Findings) -> Iterator[str]:
    for what, text in facts(found):
        yield f"{what:10s} {text}"
    yield ""
    yield from _table(found)
    for title, items in lists(found) + engines(found):
        yield ""
        yield from _named(title, items)
    yield ""


def _named(title: str, items: Sequence[str]) -> Iterator[str]:
    yield title + ":"
    for item in items[:_NAMED]:
        yield "  " + item
    if len(items) > _NAMED:
        yield f"  ... and {len(items) - _NAMED} more"


# ---- JSON ------------------------------------------------------------------


def as_json(found: Findings) -> dict[str, Any]:
    """Plain data; "equal" is null if nothing is known."""
    code = found.code()
    equal = {EQUAL: True, FOUND: False}.get(code)
    return {
        **found.facts,
        "pictures": found.total,
        "done": found.done,
        "signal": found.signal or None,
        "failure": found.failure,
        "broken": found.broken,
        "pipelines": {n: _row(row) for n, row in found.rows.items()},
        "differing": [
            {**vars(item), "largest": _finite(item.largest)}
            for item in found.different.values()
        ],
        "refused_by_one": [item._asdict() for item in found.one_side],
        "left": [item._asdict() for item in found.left],
        "refused_by_both": [item._asdict() for item in found.both],
        "unread": found.faults,
        "made_by": dict(found.made_by),
        "by_device": found.by_device,
        "fallbacks": dict(found.why),
        "verdict": found.verdict(),
        "equal": equal,
        "exit": code,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "not_run": row.not_run,
        "pictures": len(row.pictures),
        "results": row.results,
        "elements": row.elements,
        "differing": row.differing,
        "differing_pictures": len(row.different),
        "largest": _finite(row.largest),
        "left": dict(row.left),
    }


def _finite(x: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(x) else x
