# SPDX-License-Identifier: Apache-2.0
"""The figures: rounds of each program, and their medians."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any


@dataclasses.dataclass
class Row:
    """A program that was measured."""

    key: str
    name: str
    pixels: str
    import_s: float
    import_bytes: int
    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def _epochs(self, which: str) -> list[list[dict[str, float]]]:
        """Lists, of each round, the first epoch, or the later ones."""
        found = [r[which] for r in self.rounds]
        return [e if isinstance(e, list) else [e] for e in found]

    def _ratios(self, which: str, above: str, below: str) -> list[float]:
        """Return the ratio of two sums over the epochs of each round."""
        return [
            sum(e[above] for e in epochs) / sum(e[below] for e in epochs)
            for epochs in self._epochs(which)
            if epochs
        ]

    def rates(self, which: str) -> list[float]:
        """Pictures per second of each round; which: "first" or "later"."""
        return self._ratios(which, "pictures", "wall_s")

    def cpu(self, which: str) -> list[float]:
        """CPU seconds for 1,000 pictures, of each round."""
        return [1000 * x for x in self._ratios(which, "cpu_s", "pictures")]

    def first_batch(self) -> float:
        return statistics.median(
            float(r["first_batch_s"]) for r in self.rounds
        )

    def memory(self) -> int:
        """Bytes at most, of all rounds."""
        return max(int(r["memory_bytes"]) for r in self.rounds)

    def bits(self) -> str | None:
        """A digest of what the first round made of given seeds."""
        return self.rounds[0].get("bits")

    def made(self) -> str | None:
        """The engines of the last round's pictures."""
        return self.rounds[-1].get("made")

    def beside(self) -> int:
        """Bytes of memory() beyond the imports' own."""
        return max(0, self.memory() - self.import_bytes)


@dataclasses.dataclass
class Figures:
    """All that is reported. facts: of the machine and the pictures."""

    facts: dict[str, Any]
    rows: list[Row] = dataclasses.field(default_factory=list)
    not_run: dict[str, str] = dataclasses.field(default_factory=dict)

    def measured(self) -> list[Row]:
        return [row for row in self.rows if row.rounds]

    def ratio(self, row: Row, which: str) -> float | None:
        """The rate over stock's; None without stock."""
        stock = [r for r in self.measured() if r.key == "stock"]
        if not stock:
            return None
        both = zip(row.rates(which), stock[0].rates(which))
        ratios = [ours / theirs for ours, theirs in both]
        return statistics.median(ratios) if ratios else None


    def pixels(self, row: Row) -> str:
        """"stock", "others", or "differ": they should be stock's."""
        stock = [r.bits() for r in self.measured() if r.key == "stock"]
        ours = row.bits() if row.rounds else None
        if row.pixels == "stock" and stock and ours not in (None, *stock):
            return "differ"
        return row.pixels


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
