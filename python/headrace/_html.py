# SPDX-License-Identifier: Apache-2.0
"""Reports as one HTML file: the page of tools/report/, around data of items.

It is that of the command; tools/gpu_report fills it by this module, too.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

PAGE = os.path.join(os.path.dirname(__file__), "report.html")

Item = dict[str, Any]


def page(
    title: str,
    command: Sequence[str],
    facts: Iterable[tuple[str, str]],
    items: Iterable[Item],
    verdict: tuple[str, str] | None = None,
    path: str = PAGE,
) -> str:
    """Return the whole file; verdict: its tone, and the sentence."""
    data: Item = {
        "title": title,
        "date": datetime.datetime.now().astimezone().strftime(
            "%Y-%m-%d %H:%M %Z"
        ),
        "command": list(command),
        "facts": [list(fact) for fact in facts],
        "items": list(items),
    }
    if verdict:
        data["verdict"] = dict(zip(("tone", "text"), verdict, strict=True))
    text = json.dumps(data)
    for c in "<>&":  # no byte of it may look like the end of the script
        text = text.replace(c, f"\\u{ord(c):04x}")
    with open(path, encoding="utf-8") as file:
        head, tail = file.read().split("@DATA@")
    return head + text + tail


def section(title: str, text: str | None = None) -> Item:
    return {"is": "section", "title": title, "text": text}


def note(tone: str, text: str) -> Item:
    """A paragraph; tone: "plain", "good", "warn" or "bad"."""
    return {"is": "text", "tone": tone, "text": text}


def column(
    title: str, digits: int | None = None, unit: str = "", bars: bool = False
) -> Item:
    """The cell of a number; digits behind the point, else three that count."""
    return {"title": title, "number": True, "bars": bars, "digits": digits,
            "unit": unit}


def word(title: str) -> Item:
    """A column of text."""
    return column(title) | {"number": False}


def table(
    caption: str,
    columns: Sequence[Item],
    rows: Iterable[Sequence[Any]],
    tones: dict[int, str] | None = None,
) -> Item:
    """A table: rows with a cell for each column; tones of rows, by number."""
    return {"is": "table", "caption": caption, "columns": list(columns),
            "cells": [cell for row in rows for cell in row],
            "tones": tones or {}}


def chart(
    kind: str,
    title: str,
    labels: Sequence[str],
    series: Iterable[tuple[str, Sequence[float | None]]],
    unit: str,
    text: str | None = None,
) -> Item:
    """Bars for each label; kind: "bars", or "rows", which lie."""
    return {"is": "chart", "kind": kind, "title": title, "text": text,
            "x": None, "y": unit, "log": False, "labels": list(labels),
            "series": [{"name": n, "values": list(v)} for n, v in series]}


def pictures(title: str, text: str, shown: Iterable[Item]) -> Item:
    """A row of them: caption, w, h and src of each."""
    return {"is": "pictures", "title": title, "text": text,
            "list": list(shown)}
