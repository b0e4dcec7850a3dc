# SPDX-License-Identifier: Apache-2.0
"""Pointwise operations as tables of the 256 values of a byte. Imports torch.

Threads: any; a table is never written after it was made, and its cache of
results changes by single dictionary updates.
"""

from __future__ import annotations

import array
import weakref
from typing import Any

import torch
from torch import Tensor

from ... import _core

# Results that one Table remembers of pointwise operations.
_MEMORY = 64


class Table:
    """The number that each of the 256 byte values of each channel became.

    values: tensor of C x 1 x 256. Never written after it was made. version:
    how often stock's functions wrote into their result.
    """

    __slots__ = (
        "values", "results", "version", "_op", "_bytes", "__weakref__",
    )

    def __init__(self, values: Tensor, version: int = 0) -> None:
        self.values = values
        self.version = version
        # (function, operands) -> Table. It lives and dies with its parent.
        self.results: dict[Any, Table] = {}
        self._op: tuple[Any, ...] | None = None
        self._bytes: bytes | None = None

    def op(self) -> tuple[Any, ...]:
        """The op of a job that writes float32, float16 or uint8."""
        if self._op is None:
            flat = self.values.to(torch.float32).flatten().tolist()
            numbers = array.array("f", flat).tobytes()
            self._op = (_core.TABLE, numbers)
        return self._op

    def bytes(self) -> bytes:
        """A table of bytes as op lut has it."""
        if self._bytes is None:
            first, *others = self.values.reshape(-1, 256).tolist()
            if any(other != first for other in others):
                first = [*first, *others[0], *others[1]]
            self._bytes = bytes(first)
        return self._bytes

    def remember(self, key: Any, table: Table) -> Table:
        if len(self.results) >= _MEMORY:
            self.results.clear()
        self.results[key] = table
        return table

    def look_up(self, pixels: Tensor) -> Tensor:
        """(C, H, W) bytes -> the values, of any type."""
        return torch.stack(
            [
                row[0][plane.long()]
                for row, plane in zip(self.values, pixels.unbind(0))
            ]
        )

    def __reduce__(self) -> Any:
        values = self.values
        channels = values.shape[0]
        raw = values.contiguous().view(torch.uint8).flatten().tolist()
        return _table, (bytes(raw), values.dtype, channels)


def _table(raw: bytes, dtype: torch.dtype, channels: int) -> Table:
    key = (raw, dtype)
    table = _tables_here.get(key)
    if table is None:
        numbers = torch.frombuffer(bytearray(raw), dtype=dtype)
        table = Table(numbers.reshape(channels, 1, 256).clone())
        _tables_here[key] = table
    return table


# Tables that came from another process; the same bytes are the same table.
_tables_here: weakref.WeakValueDictionary[Any, Table] = (
    weakref.WeakValueDictionary()
)


_identities: dict[int, Table] = {}


def identity(channels: int) -> Table:
    """The table of untouched bytes."""
    table = _identities.get(channels)
    if table is None:
        ramp = torch.arange(256, dtype=torch.uint8, device="cpu")
        table = Table(ramp.expand(channels, 1, 256).contiguous())
        _identities[channels] = table
    return table
