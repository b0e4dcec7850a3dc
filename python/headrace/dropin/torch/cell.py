# SPDX-License-Identifier: Apache-2.0
"""The content of a lazy tensor: recordings and a table, or the value.

Plain data and what can be read of it; tensor.py makes the values, and
functions.py and images.py make new cells of old ones.

Threads: a cell belongs to one thread at a time; tensor.py guards its changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..base import fetch
from ..pillow import jobs
from .tables import Table


class Cell:
    """The content of one or several lazy tensors of the same memory.

    samples: recordings, one per picture. lead: shape before (C, H, W).
    table: None = the bytes themselves. tables: one per sample, where they
    differ. hwc: stock's tensor would have strides of an H x W x C array.
    permuted: it would be a view of one; viewed: of a batch of one, which torch
    made of it. value: the plain tensor; then nothing else counts. base: (cell,
    index) whose memory stock's tensor would share: a number is one picture of
    a stack, None one side more; else the last op of its recording is the
    window. alone: it shares none with its slices, which have these strides
    then. used: the last fetch that used it. version: how often stock's would
    have been written to. inference: it is one of inference mode. shared: value
    has views, or is one, which autograd knows: its tensor must be that value.
    """

    __slots__ = (
        "samples", "lead", "size", "table", "tables", "hwc", "permuted",
        "viewed", "value", "base", "views", "alone", "strides", "used",
        "version", "inference", "shared", "__weakref__",
    )

    def __init__(
        self,
        samples: Sequence[jobs.Recording],
        size: tuple[int, int, int],
        table: Table | None,
        hwc: bool = False,
        lead: tuple[int, ...] = (),
        tables: Sequence[Table | None] | None = None,
    ) -> None:
        self.samples = samples
        self.size = size
        self.table = table
        self.hwc = hwc
        self.lead = lead
        self.tables = tables
        self.permuted = False
        self.viewed = False
        self.value: Tensor | None = None
        self.base: tuple[Cell, Any] | None = None
        self.views: list[weakref.ref[Cell]] | None = None
        self.alone = False
        self.strides: tuple[int, ...] | None = None
        self.used = 0
        self.version = 0
        self.inference = torch.is_inference_mode_enabled()
        self.shared = False

    @property
    def dtype(self) -> torch.dtype:
        if self.value is not None:
            return self.value.dtype
        table = self.tables[0] if self.tables else self.table
        return torch.uint8 if table is None else table.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lead + self.size

    @property
    def on_its_side(self) -> bool:
        """Are its strides those of the W x H x C array of a turned picture?"""
        c, h, _ = self.size
        return self.strides == (1, c, c * h)

    def like(self, table: Table | None, hwc: bool) -> Cell:
        cell = Cell(self.samples, self.size, table, hwc, self.lead)
        cell.version = 0 if table is None else table.version
        return cell

    def owner(self) -> Cell:
        """The cell that has the memory."""
        cell = self
        while cell.base is not None:
            cell = cell.base[0]
        return cell

    def layout(self) -> tuple[tuple[int, ...], int]:
        """Strides and storage offset of stock's tensor."""
        if self.strides is not None:
            return self.strides, 0
        if self.base is not None:
            whole, index = self.base
            strides, at = whole.layout()
            if index is None:
                return (strides[0] * whole.shape[0], *strides), at
            if type(index) is int:
                return strides[1:], at + index * strides[0]
            _, x, y = self.samples[0].ops[-1][:3]
            return strides, at + x * strides[-1] + y * strides[-2]
        if self.hwc and not self.lead:
            return hwc_strides(self.size), 0
        return plain_strides(self.shape), 0

    def open(self) -> bool:
        """May it go on recording? Not if it has its value.

        A cell used in two fetches is kept by the program, and gets its value.
        """
        if self.value is not None:
            return False
        now = fetch.number()
        if self.used != now:
            if self.used:
                return False
            self.used = now
        return True


def hwc_strides(size: tuple[int, int, int]) -> tuple[int, ...]:
    return 1, size[2] * size[0], size[0]


def plain_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for side in reversed(shape):
        strides.append(step)
        step *= max(side, 1)
    return tuple(reversed(strides))


def copy_of(cell: Cell, hwc: bool) -> Cell:
    return Cell(
        cell.samples, cell.size, cell.table, hwc, cell.lead, cell.tables
    )


def painted(cell: Cell) -> bool:
    """Was something written into it? It stands behind the table."""
    if not cell.lead:
        return bool(cell.samples[0].ops[-1][0] == jobs.ERASE)
    return any(each.ops[-1][0] == jobs.ERASE for each in cell.samples)


def tables_of(cell: Cell) -> Sequence[Table | None]:
    return cell.tables or (cell.table,) * len(cell.samples)
