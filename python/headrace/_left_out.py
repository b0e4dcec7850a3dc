# SPDX-License-Identifier: Apache-2.0
"""Files that are no samples: one warning tells them, or an error."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .errors import ArgumentError, ReadError

Skipped: TypeAlias = tuple[tuple[str, str], ...]
Classes: TypeAlias = "Sequence[str] | Mapping[str, int]"

_LISTED = 1 << 22  # classes, as the library lists them

WORD = "a word, where other labels are numbers, is of no class"
OTHER = "a label that is none of the classes"
UNLABELLED = "a picture without a label, where others have one"


def tell(
    where: str, skipped: Skipped, faults: Sequence[str], strict: bool
) -> None:
    """Warn of what there is, where the package was called; strict: raise."""
    said = list(_groups(skipped))
    if faults:
        said.append(
            f"{len(faults)} could not be read: {faults[0]}"
            + (" ..." if len(faults) > 1 else "")
        )
    if not said:
        return
    text = f"{where}: {'; '.join(said)}"
    if strict:
        raise ReadError(text, status="HR_EIO")
    level, frame = 1, sys._getframe(0)
    here = os.path.dirname(__file__)
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == here:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _groups(skipped: Skipped) -> Iterable[str]:
    first: dict[str, str] = {}
    number: dict[str, int] = {}
    for path, why in skipped:
        first.setdefault(why, path)
        number[why] = number.get(why, 0) + 1
    for why, path in first.items():
        more = " ..." if number[why] > 1 else ""
        yield f"left out {number[why]}: {why} ({path}{more})"


def texts(skipped: Skipped) -> tuple[str, ...]:
    """PATH: REASON, each."""
    return tuple(f"{path}: {why}" for path, why in skipped)


def numbered(classes: Classes | None) -> dict[str, int] | None:
    """The number of each class that a program names."""
    if classes is None:
        return None
    if isinstance(classes, str) or not isinstance(classes, Collection):
        raise TypeError("classes: a list of names, or a mapping to numbers")
    if isinstance(classes, Mapping):
        made = {name: int(number) for name, number in classes.items()}
    else:
        made = {name: i for i, name in enumerate(classes)}
        if len(made) < len(classes):
            raise ArgumentError("classes: a name comes twice")
    if not made or not all(isinstance(x, str) and x for x in made):
        raise ArgumentError("classes: names, at least one")
    return made


def listed(numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Names in the order of their numbers; "" for a number without a name."""
    kept = [n for n in numbers.values() if 0 <= n < _LISTED]
    names: list[str] = [""] * (max([-1, *kept]) + 1)
    for name in sorted(numbers, reverse=True):
        if 0 <= numbers[name] < _LISTED:
            names[numbers[name]] = name
    return tuple(names)


def number_words(
    items: Sequence[Any], given: dict[str, int] | None
) -> tuple[list[Any], dict[str, int], Skipped]:
    """Pairs whose labels are words, with numbers, as the library gives them."""
    words = {word for _, word in items}
    if given is not None:
        skipped = tuple((str(x), OTHER) for x, w in items if w not in given)
        return [(x, given[w]) for x, w in items if w in given], given, skipped
    numbers = {word: _whole(word) for word in words}
    found = {word: n for word, n in numbers.items() if n is not None}
    if not found:
        found = {word: i for i, word in enumerate(sorted(words))}
    odd = [(str(x), WORD) for x, word in items if word and word not in found]
    return [(x, found.get(w, -1)) for x, w in items], found, tuple(odd[:1])


def _whole(word: str) -> int | None:
    match = re.fullmatch(r"\s*([+-]?[0-9]+)(\.0*)?\s*", word)
    return int(match[1]) if match else None
