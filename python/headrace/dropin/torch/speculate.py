# SPDX-License-Identifier: Apache-2.0
"""Begins with a batch while its last pictures are still being recorded.

A loader with num_workers=0 records a batch, picture by picture, and collates
it then. Where one batch was like the one before, the next is begun early: a
picture that becomes a tensor says that the picture before it is finished, and
every PART pictures go to the device as a part of the batch, with the table of
numbers that the batch before had. Collating submits the rest, and waits.

It is a guess that no program sees: what was begun is taken if exactly those
recordings are collated, in this order, as they were when they were submitted.
Else it is cancelled, the batch is made as if nothing had been begun, and the
next guess is made later: after 2, 4, 8 ... batches. No random number is drawn,
and a picture that cannot be made is an error where it is collated.

Only the CPU device is fed like this, where it has a processor besides the one
that records: on one alone, recording and jobs would only take the caches from
each other. Other devices are better served with whole batches.

Threads: each has guesses of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..base import fetch
from ..base.report import total
from . import views
from .batches import Group
from .cell import Cell, tables_of
from .guesses import Guesses, is_simple
from .tables import Table

if TYPE_CHECKING:
    from ..pillow import jobs

# Pictures that are submitted together.
PART = 8
_DTYPES = (torch.float32, torch.float16, torch.uint8)


class Plan(NamedTuple):
    """The expectation of the next batch."""

    n: int
    size: tuple[int, int, int]
    dtype: torch.dtype
    table: Table | None

    def fits(self, cell: Cell | None) -> bool:
        return (
            cell is not None
            and cell.table is self.table
            and cell.size == self.size
            and is_simple(cell)
        )


class _Begun:
    """The batch that is being recorded: its cells so far."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.cells: list[Cell] = []
        self.samples: list[jobs.Recording] = []  # that were submitted
        self.sent = 0
        self.group: Group | None = None

    def add(self, cell: Cell | None) -> bool:
        """False: this is no batch as it was expected."""
        if len(self.cells) >= self.plan.n or not self.plan.fits(cell):
            return False
        assert cell is not None
        self.cells.append(cell)
        if len(self.cells) - self.sent == PART:
            if self.group is None:
                self.group = Group(*self.plan[:3])
            self._send(self.cells[self.sent :], known=False)
        return True

    def _send(self, cells: Sequence[Cell], known: bool) -> str:
        assert self.group is not None
        samples = [cell.samples[0] for cell in cells]
        tables = [self.plan.table] * len(cells)
        self.sent += len(cells)
        self.samples += samples
        return self.group.add(samples, tables, known)

    def is_of(self, cells: Sequence[Cell]) -> bool:
        """Are these what was begun, and the rest of it?"""
        return (
            self.sent <= len(cells) <= self.plan.n
            and all(map(self.plan.fits, cells))
            and all(
                cell.samples[0] is sample
                for cell, sample in zip(cells, self.samples)
            )
        )

    def finish(self, cells: Sequence[Cell]) -> Group | None:
        """Submits the rest; None: nothing was begun."""
        if self.group is None:
            return None
        begun = self.sent
        if begun < len(cells):
            self._send(cells[begun:], known=True)
        else:
            total("jobs")
        total("pictures", begun)
        return self.group

    def drop(self) -> None:
        """Cancels the group that was begun in vain."""
        if self.group is not None:
            self.group.cancel()
            total("begun in vain", self.sent)


class _Here(Guesses):
    plan: Plan | None = None
    begun: _Begun | None = None


here = _Here()
os.register_at_fork(after_in_child=here.forget)


def drop() -> None:
    """Ends what this thread has begun; nothing is expected any more."""
    here.plan = None
    give_up()


def give_up() -> None:
    """Ends what this thread has begun; the next batch may be as expected."""
    views.give_up()
    begun, here.begun = here.begun, None
    if begun is not None:
        begun.drop()


def sample_ends(cell: Cell | None) -> None:
    """The recording of a picture begins; cell is what was recorded last.

    Called where there is a plan.
    """
    plan, begun = here.plan, here.begun
    if plan is None:
        return
    if begun is None:
        # The last record belongs to the batch before.
        here.begun = _Begun(plan)
    elif not begun.add(cell):
        _miss()


def _miss() -> None:
    drop()
    here.missed()


def collated(cells: Sequence[Cell], whole: Cell) -> Tensor:
    """The value of whole, the stack of cells; made, or taken.

    Raises for the first picture that cannot be made what stock raises.
    """
    try:
        return _value(cells, whole)
    except Exception as error:
        raise fetch.late(error)


def _value(cells: Sequence[Cell], whole: Cell) -> Tensor:
    from .tensor import any_of_fetch

    begun, n = here.begun, len(cells)
    group = views.taken(cells)
    if group is not None:
        return group.slots(0, n)
    if begun is not None and begun.is_of(cells):
        here.begun = None
        group = begun.finish(cells)
    elif begun is not None:
        _miss()
    if group is not None:
        here.misses = 0
        return group.slots(0, n)
    group = views.begun(cells, any_of_fetch)
    if group is not None:
        return group.slots(0, n)
    return _made(cells, whole)


def _made(cells: Sequence[Cell], whole: Cell) -> Tensor:
    group = Group(len(whole.samples), whole.size, whole.dtype)
    device = group.add(whole.samples, tables_of(whole))
    _expect_another(cells, whole, device)
    value = group.slots(0, len(whole.samples))
    return value.reshape(whole.lead + value.shape[1:]).detach()


def _expect_another(cells: Sequence[Cell], whole: Cell, device: str) -> None:
    if not here.is_due():
        return
    plan = Plan(len(cells), whole.size, whole.dtype, whole.table)
    old = here.plan
    if old is not None and plan[1:] == old[1:] and plan.n < old.n:
        return  # the last of an epoch
    here.plan = None
    if device != "cpu" or len(os.sched_getaffinity(0)) == 1:
        return
    if plan.n >= 2 * PART and plan.dtype in _DTYPES:
        if all(map(plan.fits, cells)):
            here.plan = plan
