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
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ... import _core
from ...errors import CanceledError, DeviceError, MemoryError

# Within another fetch the place is the lower one of both.
OFF, ITERABLE, MAP = range(3)


class Level:
    """A fetch, maybe within another one.

    read: by id, what pictures were recorded from that no job has made yet, and
    what opens it.
    """

    __slots__ = ("place", "failed", "writes", "read", "outer")

    def __init__(self, place: int, outer: Level | None) -> None:
        self.place = place
        self.failed = False
        self.writes = False  # the data set changes files
        self.read: dict[int, Any] = {}
        self.outer = outer


class _Here(threading.local):
    level: Level | None = None
    number = 1


here = _Here()


def can_ask_again() -> bool:
    """May what fails now be put right by a second fetch?"""
    level = here.level
    return level is not None and level.place == MAP and not level.writes


def is_off() -> bool:
    """Is this a second fetch, which is stock in every respect?"""
    return here.level is not None and here.level.place == OFF


def recorded(source: Any, opens: Any = None) -> None:
    """A picture of this file records; it is checked later.

    opens: what stock reads it with; None: Pillow.
    """
    if can_ask_again():
        read = here.level.read  # type: ignore[union-attr]
        read[id(source)] = source, opens


def made(source: Any) -> None:
    """A job makes it, or stock Pillow has: that is as good as a check."""
    if here.level is not None:
        here.level.read.pop(id(source), None)


class AskAgain(BaseException):
    """Ends a fetch whose second one says what is right.

    No Exception: a data set that catches its own errors must not see it.
    """


def late(error: Exception) -> BaseException:
    """The error to raise where a recorded picture cannot be made.

    Stock Pillow would have raised error when it read the picture.
    """
    if not can_ask_again() or isinstance(error, _NOT_OF_PICTURES):
        return error
    here.level.failed = True  # type: ignore[union-attr]
    return AskAgain(str(error))


_NOT_OF_PICTURES = (CanceledError, DeviceError, MemoryError)


@contextlib.contextmanager
def at(place: int) -> Iterator[Level]:
    """Enters a fetch of its own; gives where it is noted that it failed."""
    outer, level = here.level, Level(place, outer=here.level)
    enter(level)
    try:
        yield level
    finally:
        enter(outer)


def enter(level: Level | None) -> None:
    """Sets where this thread is; also where a level has another place now."""
    here.level = level
    _core.set_fetch(here.number if level is not None and level.place else 0)


def number() -> int:
    """Differs from fetch to fetch of this thread; never 0."""
    return here.number


# The number of the fetch in which this thread may record; 0: in none. May
# tensors record? The loader makes them before they are used.
is_lazy: Callable[[], int] = _core.fetch


def _forked() -> None:
    """Nothing takes what a child of a fork made in its parent's fetch."""
    enter(None)


os.register_at_fork(after_in_child=_forked)
