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

from ...errors import CanceledError, DeviceError, MemoryError
from .worker import in_worker

# Within another fetch the place is the lower one of both.
OFF, ITERABLE, MAP = range(3)


class Level:
    """A fetch, maybe within another one.

    read: by id, what pictures were recorded from that no job has made yet.
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


_here = _Here()


def can_ask_again() -> bool:
    """May what fails now be put right by a second fetch?"""
    level = _here.level
    return level is not None and level.place == MAP and not level.writes


def is_lazy() -> bool:
    """May tensors record? The loader makes them before they are used."""
    return now() != 0


def is_off() -> bool:
    """Is this a second fetch, which is stock in every respect?"""
    return _here.level is not None and _here.level.place == OFF


def recorded(source: Any) -> None:
    """A picture of this file records; it is checked later."""
    if can_ask_again():
        _here.level.read[id(source)] = source  # type: ignore[union-attr]


def made(source: Any) -> None:
    """A job makes it, or stock Pillow has: that is as good as a check."""
    if _here.level is not None:
        _here.level.read.pop(id(source), None)


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
    _here.level.failed = True  # type: ignore[union-attr]
    return AskAgain(str(error))


_NOT_OF_PICTURES = (CanceledError, DeviceError, MemoryError)


def check(level: Level) -> None:
    """Has stock read what was recorded and not made: it raises for damage."""
    from ..pillow import files, jobs

    read, level.read = level.read, {}
    for source in read.values():
        try:
            if files.checked(source)[0] is not None:
                jobs.open_stock(source).load()
        except Exception as error:
            level.failed = True
            raise AskAgain(str(error))


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Audit events behind which a second fetch would find other files.
_CHANGES = frozenset(
    """os.chdir os.chmod os.chown os.exec os.fchdir os.fork os.forkpty os.link
    os.mkdir os.posix_spawn os.remove os.removexattr os.rename os.rmdir
    os.setxattr os.symlink os.system os.truncate os.utime
    subprocess.Popen""".split()
)


def _audit(event: str, about: tuple[Any, ...]) -> None:
    level = _here.level
    if level is None or not (
        event in _CHANGES
        or event == "open"
        and isinstance(about[-1], int)
        and about[-1] & _WRITING
    ):
        return
    while level is not None:
        if level.place == MAP and not level.writes:
            level.writes = True
            check(level)
        level = level.outer


# (A hook cannot be removed: the first fetch installs it.)
@functools.cache
def _watch() -> None:
    sys.addaudithook(_audit)


@contextlib.contextmanager
def at(place: int) -> Iterator[Level]:
    """Enters a fetch of its own; gives where it is noted that it failed."""
    outer = _here.level
    _here.level = Level(place, outer)
    try:
        yield _here.level
    finally:
        _here.level = outer


def number() -> int:
    """Differs from fetch to fetch of this thread; never 0."""
    return _here.number


def now() -> int:
    """The number of the fetch in which this thread may record; 0: in none."""
    level = _here.level
    return _here.number if level is not None and level.place else 0


def within(owner: Any, stock: Callable[..., Any]) -> Callable[..., Any]:
    """The fetch() of owner, one of places(), around the stock one."""
    from ..workers import again

    own = ITERABLE if "Iterable" in owner.__name__ else MAP

    @functools.wraps(stock)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        level = _here.level
        _here.number += 1
        if level is None or (level.place != OFF and not in_worker()):
            _watch()
            place = own if level is None else min(level.place, own)
            looped = sys._getframe(1).f_code.co_name == "_worker_loop"
            run = functools.partial(stock, self)
            return again.fetch(run, possibly_batched_index, place, looped)
        # A part of the fetch that it is in.
        outer, level.place = level.place, min(level.place, own)
        try:
            return stock(self, possibly_batched_index)
        finally:
            level.place = outer

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
    _here.level = None


os.register_at_fork(after_in_child=_forked)
