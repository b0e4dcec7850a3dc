# SPDX-License-Identifier: Apache-2.0
"""Batches of other views of the same pictures, made with the first of them.

A data set that gives several crops of each picture, two as MoCo's or ten as
DINO's, is collated into as many batches, one after the other, and each of them
is needed at once. So when the first is made, the other pictures of the same
sources that this fetch has, and that are still lazy, are taken for the batches
to come: they go into the same job, which decodes each source once.

It is a guess that no program sees: a batch is taken if exactly its cells are
collated, with the recordings and tables they had. Others are made as ever; and
where batches were left, the next guess comes later, after 2, 4, 8 ... of them.

Threads: each has guesses of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..base import fetch
from ..pillow import jobs
from .batches import Group, made_together
from .cell import Cell
from .guesses import Guesses, is_simple
from .tables import Table

# Cells, what was submitted of them, and what makes that.
_Facts = Sequence[tuple[jobs.Recording, "Table | None"]]
_Column = tuple[Sequence[Cell], _Facts, Group]


class _Here(Guesses):
    fetch = 0  # in which they were begun
    columns: tuple[_Column, ...] = ()


here = _Here()
os.register_at_fork(after_in_child=here.forget)


def give_up() -> None:
    """Ends what is left; the next guess is made later."""
    if here.columns:
        here.columns = ()
        here.missed()


def taken(cells: Sequence[Cell]) -> Group | None:
    """The group that was begun for these, or None."""
    if here.columns and here.fetch != fetch.number():
        give_up()
    for number, (column, facts, group) in enumerate(here.columns):
        if len(column) == len(cells) and all(
            cell is other and cell.samples[0] is sample and cell.table is table
            for cell, other, (sample, table) in zip(cells, column, facts)
        ):
            here.columns = here.columns[:number] + here.columns[number + 1 :]
            if not here.columns:
                here.misses = 0
            return group
    return None


def begun(
    cells: Sequence[Cell], of_fetch: Callable[[], Sequence[Cell]]
) -> Group | None:
    """A group for these cells, begun with the ones of the columns that follow;
    None: there are no such.

    of_fetch: the cells of this fetch that are still lazy, oldest first.
    """
    if here.columns:
        give_up()
    if not here.is_due():
        return None
    columns = _columns(cells, of_fetch)
    if not columns:
        return None
    facts = [[(c.samples[0], c.table) for c in column] for column in columns]
    groups = made_together(
        [
            (
                [sample for sample, _ in of_them],
                [table for _, table in of_them],
                column[0].size,
                column[0].dtype,
            )
            for column, of_them in zip(columns, facts)
        ]
    )
    here.fetch = fetch.number()
    here.columns = tuple(zip(columns, facts, groups))[1:]
    return groups[0]


def _columns(
    cells: Sequence[Cell], of_fetch: Callable[[], Sequence[Cell]]
) -> list[Sequence[Cell]]:
    """These, and the batches to come: as many cells of the same sources."""
    if not all(map(is_simple, cells)):
        return []
    place: dict[int, int] = {
        id(cell.samples[0].source): i for i, cell in enumerate(cells)
    }
    if len(place) < len(cells):
        return []
    rows: list[list[Cell]] = [[] for _ in cells]
    seen = set(map(id, cells))
    for cell in of_fetch():
        if id(cell) in seen or not is_simple(cell):
            continue
        seen.add(id(cell))
        at: Any = place.get(id(cell.samples[0].source))
        if at is not None:
            rows[at].append(cell)
    if any(len(row) != len(rows[0]) for row in rows):
        return []
    columns: list[Sequence[Cell]] = list(zip(*rows))
    if not columns or not all(map(_are_alike, columns)):
        return []
    return [list(cells), *columns]


def _are_alike(column: Sequence[Cell]) -> bool:
    first = column[0]
    return all(
        cell.size == first.size and cell.dtype == first.dtype for cell in column
    )
