# SPDX-License-Identifier: Apache-2.0
"""Where the calling thread is: inside a DataLoader's fetch, or anywhere else.

A fetch over a map-style data set can be done again: the loader has its
indexes. So pictures and tensors may record in it, and a picture that turns out
to be damaged is put right by another fetch with recording off. A fetch over an
iterable data set cannot: pictures are checked where stock Pillow reads them;
tensors record all the same, for the loader makes them. Anywhere else nothing
is mended later: pictures are checked where they are read, tensors are plain.

Works without torch: then no thread is inside a fetch. Threads: each has a
place of its own; one that a data set starts is outside.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

# Within another fetch the place is the lower one of both.
_OFF, _ITERABLE, _MAP = range(3)


class _Here(threading.local):
    place: int | None = None
    number = 1


_here = _Here()


def can_ask_again() -> bool:
    """May what fails now be put right by another fetch?"""
    return _here.place == _MAP


def is_lazy() -> bool:
    """May tensors record? The loader makes them before they are used."""
    return _here.place in (_MAP, _ITERABLE)


def is_off() -> bool:
    """Is this the second fetch, which is stock in every respect?"""
    return _here.place == _OFF


def number() -> int:
    """Differs from fetch to fetch of this thread; never 0."""
    return _here.number


def within(owner: Any, stock: Callable[..., Any]) -> Callable[..., Any]:
    """The fetch() of owner, one of places(), around the stock one."""
    place = _ITERABLE if "Iterable" in owner.__name__ else _MAP

    @functools.wraps(stock)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        outer = _here.place
        _here.place = place if outer is None else min(outer, place)
        _here.number += 1
        try:
            return stock(self, possibly_batched_index)
        finally:
            _here.place = outer

    return fetch


def places() -> list[tuple[Any, str]]:
    """What hooks.py replaces by within(); torch.utils.data is imported."""
    module = sys.modules["torch.utils.data._utils.fetch"]
    return [
        (module._MapDatasetFetcher, "fetch"),
        (module._IterableDatasetFetcher, "fetch"),
    ]


def _forked() -> None:
    """Nothing takes what a child of a fork made in its parent's fetch."""
    _here.place = None


os.register_at_fork(after_in_child=_forked)
