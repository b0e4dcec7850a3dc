# SPDX-License-Identifier: Apache-2.0
"""A fetch of a DataLoader, and the second one after a damaged picture.

In a fetch over a map-style data set pictures record. One that cannot be made
is an error that stock Pillow would have raised inside __getitem__, where the
data set may catch it and give another sample. So the whole batch is fetched
again with recording off, from the states that the generators of torch, random
and NumPy had when it was fetched first: everything is stock's then, draws
included. Counters in a data set's __getitem__ count twice; files change once
(_audit).

num_workers=0: fetch() makes the lazy tensors that are left at a batch's end,
and does the second fetch itself. A worker does so for pixels that it needs
while it fetches. Its other pictures are made in its parent, which finds the
damage when the batch is asked for; it puts Again(number) into the worker's own
queue of indexes, so the worker's loop fetches the batch again as any other:
in the process with the worker's data set, files and get_worker_info(). Batches
that the worker had fetched since are fetched again as well, unless the draws
come out as before; all go back as one Redone.

Threads: any; a worker has one.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import pickle
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._utils import ExceptionWrapper

from ..base import fetch as places
from ..base.report import count
from ..base.worker import Worker, in_worker
from ..pillow import files, jobs
from ..torch import speculate, tensor

Run = Callable[[Any], Any]
_WHY = "a damaged picture: a batch was fetched again without recording"


class States:
    """States of the generators that transforms draw from."""

    __slots__ = ("_numpy", "_python", "_torch")

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        numpy = sys.modules.get("numpy.random")
        self._numpy = numpy.get_state(legacy=False) if numpy else None

    def put_back(self) -> None:
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        numpy = sys.modules.get("numpy.random")
        if numpy and self._numpy is not None:
            numpy.set_state(self._numpy)

    def key(self) -> bytes:
        """Equal for equal states."""
        kept = self._torch.tolist(), self._python, self._numpy
        return pickle.dumps(kept)


def fetch(run: Run, index: Any, place: int, looped: bool) -> Any:
    """run(index), the stock fetch, as a fetch of its own.

    looped: the loop of a worker has called; it sends what comes.
    """
    looped = looped and in_worker() and Worker.depth > 0
    if type(index) is Again:
        return _again(run, index.number)
    states = States() if place == places.MAP else None
    number = _remember(index, states) if looped and states else None
    with places.at(place) as here:
        try:
            data = run(index)
            data = _box(data, number) if looped else _made(data)
            check(here)
            if not here.failed:
                return data
        except BaseException as error:
            # Stock meets damage before what comes later in the batch.
            if isinstance(error, Exception):
                with contextlib.suppress(places.AskAgain):
                    check(here)
            if not here.failed or isinstance(error, KeyboardInterrupt):
                raise
    if not looped:
        tensor.forget()
    assert states is not None
    count("again", _WHY)
    states.put_back()
    return _stock(run, index)


def _stock(run: Run, index: Any) -> Any:
    speculate.give_up()
    with places.at(places.OFF):
        return run(index)


def check(level: places.Level) -> None:
    """Has stock read what was recorded and not made: it raises for damage."""
    read, level.read = level.read, {}
    for source, opens in read.values():
        try:
            if files.checked(source)[0] is not None:
                (opens or jobs.open_stock)(source).load()
        except Exception as error:
            level.failed = True
            raise places.AskAgain(str(error))


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Audit events behind which a second fetch would find other files.
_CHANGES = frozenset(
    """os.chdir os.chmod os.chown os.exec os.fchdir os.fork os.forkpty os.link
    os.mkdir os.posix_spawn os.remove os.removexattr os.rename os.rmdir
    os.setxattr os.symlink os.system os.truncate os.utime
    subprocess.Popen""".split()
)


def _audit(
    event: str, about: tuple[Any, ...], here: Any = places.here
) -> None:
    # (At the end of the interpreter modules have no names any more.)
    level = here.level
    if level is None or not (
        event in _CHANGES
        or event == "open"
        and isinstance(about[-1], int)
        and about[-1] & _WRITING
    ):
        return
    while level is not None:
        if level.place == places.MAP and not level.writes:
            level.writes = True
            check(level)
        level = level.outer


# (A hook cannot be removed: the first fetch installs it.)
@functools.cache
def _watch() -> None:
    sys.addaudithook(_audit)


def _made(data: Any) -> Any:
    """A batch without lazy tensors, for the consumer."""
    if not tensor.settle():
        return data
    from .tickets import walk

    return walk(data)


def within(owner: Any, stock: Callable[..., Any]) -> Callable[..., Any]:
    """The fetch() of owner, one of fetchers(), around the stock one."""
    own = places.ITERABLE if "Iterable" in owner.__name__ else places.MAP

    @functools.wraps(stock)
    def fetch_around(self: Any, possibly_batched_index: Any) -> Any:
        level = places.here.level
        places.here.number += 1
        if level is None or (level.place != places.OFF and not in_worker()):
            _watch()
            place = own if level is None else min(level.place, own)
            looped = sys._getframe(1).f_code.co_name == "_worker_loop"
            run = functools.partial(stock, self)
            return fetch(run, possibly_batched_index, place, looped)
        # A part of the fetch that it is in.
        outer, level.place = level.place, min(level.place, own)
        places.enter(level)
        try:
            return stock(self, possibly_batched_index)
        finally:
            level.place = outer
            places.enter(level)

    return fetch_around


def fetchers() -> list[tuple[Any, str]]:
    """The methods that hooks.py replaces by within(); torch.utils.data is
    imported."""
    module = sys.modules["torch.utils.data._utils.fetch"]
    return [
        (module._MapDatasetFetcher, "fetch"),
        (module._IterableDatasetFetcher, "fetch"),
    ]


# ---- in a worker ----


class Again(NamedTuple):
    """Stands in the place of an index: fetch this batch again."""

    number: int


class Fetched:
    """Sent by a worker's loop in place of a batch with recordings."""

    def __init__(self, data: Any, worker: int, number: int | None) -> None:
        self.data = data
        self.worker = worker
        self.number = number
        self.tickets: list[Any] = []

    def __reduce__(self) -> Any:
        from .tickets import framed

        return framed(self.data, self.worker, self.number)

    def pin_memory(self, device: Any = None) -> Fetched:
        pinned = Fetched(pin(self.data), self.worker, self.number)
        pinned.tickets = self.tickets
        return pinned


class Redone:
    """By number, batches that a worker has fetched again."""

    def __init__(self, batches: dict[int, Any]) -> None:
        self.batches = batches

    def pin_memory(self, device: Any = None) -> Redone:
        return Redone({n: pin(data) for n, data in self.batches.items()})


def pin(data: Any) -> Any:
    from torch.utils.data._utils.pin_memory import pin_memory

    return data if isinstance(data, ExceptionWrapper) else pin_memory(data)


class _Past(NamedTuple):
    number: int
    index: Any
    states: States


# This worker's last fetches, as many as may not have been delivered.
_past: collections.deque[_Past] = collections.deque()
_numbers = 0


def forget() -> None:
    """A worker begins."""
    global _past
    _past = collections.deque(maxlen=Worker.depth)


def _remember(index: Any, states: States) -> int:
    global _numbers
    _numbers += 1
    _past.append(_Past(_numbers, index, states))
    return _numbers


def _box(data: Any, number: int | None) -> Any:
    if not tensor.any_lazy():
        return data
    return Fetched(data, Worker.number, number)


def _again(run: Run, number: int) -> Redone:
    """Fetches this batch again, and those since that draw otherwise then."""
    past = [old for old in _past if old.number >= number]
    if not past or past[0].number != number:
        raise RuntimeError("the batch is not remembered any more")
    before = States()
    past[0].states.put_back()
    redone = {}
    for old in past:
        states = States()
        if old.number > number and states.key() == old.states.key():
            before.put_back()
            break
        count("again", _WHY)
        redone[old.number] = _stock_or_error(run, old.index)
    return Redone(redone)


def _stock_or_error(run: Run, index: Any) -> Any:
    try:
        return _stock(run, index)
    except Exception:
        return ExceptionWrapper(
            where=f"in DataLoader worker process {Worker.number}"
        )
