# SPDX-License-Identifier: Apache-2.0
"""Two buffers of the same size, compared bit by bit. Needs no NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import ne, sub
from typing import NamedTuple

# Bytes that are compared at once; only blocks that differ are looked into.
_BLOCK = 1 << 16


class Difference(NamedTuple):
    """elements: numbers that were compared; differing: with another bit.

    largest: greatest distance, in levels of bytes, or as floats are;
    inf where one side is no number.
    """

    elements: int
    differing: int
    largest: float


def compare(
    ours: bytes | bytearray | memoryview,
    theirs: bytes | bytearray | memoryview,
    dtype: str,
) -> Difference:
    """Compares elements of type "u8" or "f32".

    In floats every bit counts: 0 and -0 differ, two equal NaNs do not.
    """
    a, b = memoryview(ours), memoryview(theirs)
    size = 4 if dtype == "f32" else 1
    elements = b.nbytes // size
    if a.nbytes != b.nbytes:
        return Difference(elements, elements, math.inf)
    differing, largest = 0, 0.0
    for start in range(0, b.nbytes, _BLOCK):
        part, other = a[start : start + _BLOCK], b[start : start + _BLOCK]
        if part != other:
            count, distance = _look(part, other, dtype)
            differing += count
            largest = max(largest, distance)
    return Difference(elements, differing, largest)


def _look(a: memoryview, b: memoryview, dtype: str) -> tuple[int, float]:
    if dtype == "u8":
        return sum(map(ne, a, b)), max(map(abs, map(sub, a, b)))
    differing = sum(map(ne, a.cast("I"), b.cast("I")))
    return differing, max(distances(a.cast("f"), b.cast("f")))


def distances(a: Iterable[float], b: Iterable[float]) -> Iterable[float]:
    """|x - y| of each pair; inf where that is no number, 0 for two NaNs."""
    for x, y in zip(a, b):
        distance = abs(x - y)
        if math.isnan(distance):
            both = math.isnan(x) and math.isnan(y)
            distance = 0.0 if both or x == y else math.inf
        yield distance
