# SPDX-License-Identifier: Apache-2.0
"""Programs that use tensors that transforms have made of pictures."""

from __future__ import annotations

import ast
from typing import Any

from .program import blocks, lines_of, listed, named, rows

# x is such a tensor, C x H x W.
USES = listed("tensor_uses")


def views(before: str, line: str) -> str:
    """Lines that write to x and see the value of each expression, and the
    other way round."""
    value = expression(line)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return "".join(
        "%ssee.written(x, lambda x: %s, %d)\n" % (before, ast.unparse(part), to)
        for part in parts for to in (0, 1))


def expression(line: str) -> Any:
    """None: it is none, or its value differs from stock's anyway."""
    body = ast.parse(line.strip()).body
    odd = " ## " in line or "inference_mode" in line
    return None if odd or len(body) > 1 else getattr(body[0], "value", None)


EXPRESSIONS = "\n".join(filter(expression, lines_of(USES)))
SOURCES = named("tensor_sources")
WHOLE = ("float", "normalized", "v2 image", "v2 float")
# One of so many quickly; of tensors as programs have them mostly, all.
QUICK = {"float": 3, "float, fetch": 1, "crop, fetch": 3, "v2 image, fetch": 3}
VIEWED = ("float", "byte", "crop", "v2 image")

for name, before in SOURCES.items():
    for place in ("plain", "fetch", "worker", "iterable"):
        if "batch" in name and place != "plain":
            continue
        title = name if place == "plain" else "%s, %s" % (name, place)
        each = 1 if name in WHOLE or title in QUICK else 5
        quick = QUICK.get(title, 30)
        if place in ("worker", "iterable"):
            each, quick = 6 * each, 30 * (place == "iterable")
        rows(title, USES, before, each, quick, place=place)
        if name in VIEWED and place in ("plain", "fetch"):
            rows("views of " + title, EXPRESSIONS, before,
                 1 + (place == "plain"),
                 4 if title in QUICK else 30, views, place=place)

blocks("tensors", listed("tensors"))
