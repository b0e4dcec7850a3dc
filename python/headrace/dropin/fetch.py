# SPDX-License-Identifier: Apache-2.0
"""Where the calling thread is: inside a DataLoader's fetch, or anywhere else.

A fetch over a map-style data set can be done again: the loader has its
indexes. So pictures and tensors may record in it, and a picture that turns out
to be damaged is put right by a second fetch with recording off (again.py). A
fetch over an iterable data set cannot: pictures are checked where stock Pillow
reads them; tensors record all the same, for the loader makes them. Anywhere
else nothing is mended later: pictures are checked where they are read, tensors
are plain.

Works without torch: then no thread is inside a fetch. Threads: each has a
place of its own; one that a data set starts is outside.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import CanceledError, DeviceError, MemoryError
from .workers import in_worker

# Within another fetch the place is the lower one of both.
OFF, ITERABLE, MAP = range(3)


class _Here(threading.local):
    place: int | None = None
    number = 1
    failed = False


_here = _Here()


def can_ask_again() -> bool:
    """May what fails now be put right by a second fetch?"""
    return _here.place == MAP


def is_lazy() -> bool:
    """May tensors record? The loader makes them before they are used."""
    return _here.place in (MAP, ITERABLE)


def is_off() -> bool:
    """Is this a second fetch, which is stock in every respect?"""
    return _here.place == OFF


class AskAgain(BaseException):
    """Ends a fetch whose second one says what is right.

    No Exception: a data set that catches its own errors must not see it.
    """


def late(error: Exception) -> BaseException:
    """What to raise where a recorded picture cannot be made.

    Stock Pillow would have raised error when it read the picture.
    """
    if not can_ask_again() or isinstance(error, _NOT_OF_PICTURES):
        return error
    _here.failed = True
    return AskAgain(str(error))


_NOT_OF_PICTURES = (CanceledError, DeviceError, MemoryError)


@contextlib.contextmanager
def at(place: int) -> Iterator[_Here]:
    """Enters a fetch of its own; gives where it is noted that it failed."""
    outer = _here.place, _here.failed
    _here.place, _here.failed = place, False
    try:
        yield _here
    finally:
        _here.place, _here.failed = outer


def number() -> int:
    """Differs from fetch to fetch of this thread; never 0."""
    return _here.number


def within(owner: Any, stock: Callable[..., Any]) -> Callable[..., Any]:
    """The fetch() of owner, one of places(), around the stock one."""
    from . import again

    own = ITERABLE if "Iterable" in owner.__name__ else MAP

    @functools.wraps(stock)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        outer = _here.place
        _here.number += 1
        if outer is None or (outer != OFF and not in_worker()):
            place = own if outer is None else min(outer, own)
            looped = sys._getframe(1).f_code.co_name == "_worker_loop"
            run = functools.partial(stock, self)
            return again.fetch(run, possibly_batched_index, place, looped)
        # A part of the fetch that it is in.
        _here.place = min(outer, own)
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
