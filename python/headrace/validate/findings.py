# SPDX-License-Identifier: Apache-2.0
"""The findings: counters, names of files, and the worst pictures."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, NamedTuple

from .cases import Case
from .compare import Difference
from .files import File
from .ours import Made

# Headrace says of these that they are not its business: Pillow makes them.
LEFT = ("HR_EUNSUPPORTED", "HR_ELIMIT", "HR_EFORMAT")
UNREAD = "HR_EIO"

EQUAL, FOUND, FAILED = 0, 1, 2  # exit codes


class Refusal(NamedTuple):
    """A file, or one pipeline on it, that a side did not make.

    ours, theirs: the reason, or None if that side made it.
    """

    file: str
    pipeline: str | None
    ours: str | None
    theirs: str | None


@dataclasses.dataclass(kw_only=True)
class Sum:
    """The sums of several results."""

    results: int = 0
    elements: int = 0
    differing: int = 0
    largest: float = 0.0

    def add(self, found: Difference) -> None:
        self.results += 1
        self.elements += found.elements
        self.differing += found.differing
        self.largest = max(self.largest, found.largest)


@dataclasses.dataclass
class Row(Sum):
    """One pipeline. pictures, different: indices of files."""

    not_run: str | None = None
    pictures: set[int] = dataclasses.field(default_factory=set)
    different: set[int] = dataclasses.field(default_factory=set)
    left: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass
class Different(Sum):
    """A file and a pipeline whose results differ. what: the first."""

    file: str
    pipeline: str
    what: str
    hint: str | None


class Worst(NamedTuple):
    """Pixels of both sides, to be shown."""

    score: float
    file: str
    case: Case
    found: Difference
    ours: bytes
    theirs: bytes


@dataclasses.dataclass
class Findings:
    facts: dict[str, Any]
    is_cpu: bool
    total: int
    rows: dict[str, Row]
    faults: list[str]
    broken: str | None = None  # why the drop-in cannot be switched on
    shown: int = 0  # worst pictures that are kept
    done: int = 0
    signal: int = 0  # that ended it early
    failure: str | None = None  # of the device, that ended it early
    by_device: int = 0
    made_by: Counter[str] = dataclasses.field(default_factory=Counter)
    why: Counter[str] = dataclasses.field(default_factory=Counter)
    both: list[Refusal] = dataclasses.field(default_factory=list)
    left: list[Refusal] = dataclasses.field(default_factory=list)
    one_side: list[Refusal] = dataclasses.field(default_factory=list)
    different: dict[tuple[str, str], Different] = dataclasses.field(
        default_factory=dict
    )
    worst: list[Worst] = dataclasses.field(default_factory=list)

    # ---- adding ----------------------------------------------------------

    def refuse(
        self, file: File, made: Made, theirs: str | None, limit: bool = False
    ) -> None:
        """A file that at least one side cannot open.

        limit: Pillow refuses it for its size only.
        """
        ours = None
        if made.pixels is None:
            ours = f"{made.status}: {made.reason}"
        refusal = Refusal(file.name, None, ours, theirs)
        if made.status == UNREAD and theirs:
            self.faults.append(f"{file.name}: {made.reason}")
        elif ours and theirs:
            self.both.append(refusal)
        elif made.status in LEFT or limit:
            self.left.append(refusal)
        else:
            self.one_side.append(refusal)

    def refuse_case(
        self, file: File, pipeline: str, ours: str | None, theirs: str | None
    ) -> None:
        """A pipeline on a file that both sides could open."""
        refusal = Refusal(file.name, pipeline, ours, theirs)
        both = ours is not None and theirs is not None
        (self.both if both else self.one_side).append(refusal)

    def made(self, made: Made) -> None:
        """Counts the engines of a result that was compared."""
        self.made_by[made.by()] += 1
        self.why.update(made.why)
        self.by_device += any(device != "cpu" for *_, device in made.spans)

    def compared(self, index: int, case: Case, found: Difference) -> None:
        row = self.rows[case.pipeline]
        row.add(found)
        row.pictures.add(index)
        if found.differing:
            row.different.add(index)

    def differs(
        self, file: File, case: Case, found: Difference, hint: str | None
    ) -> None:
        key = (file.name, case.pipeline)
        if key not in self.different:
            self.different[key] = Different(*key, case.what, hint)
        self.different[key].add(found)

    def show(self, worst: Worst) -> None:
        """Keeps the worst result of each of the worst files."""
        others = [w for w in self.worst if w.file != worst.file]
        same = [w for w in self.worst if w.file == worst.file]
        best = max([*same, worst], key=lambda w: w.score)
        ranked = sorted([*others, best], key=lambda w: -w.score)
        self.worst = ranked[: self.shown]

    # ---- what it means ---------------------------------------------------

    def elements(self) -> int:
        return sum(row.elements for row in self.rows.values())

    def differing(self) -> int:
        return sum(row.differing for row in self.rows.values())

    def pictures(self) -> int:
        every: set[int] = set()
        return len(every.union(*(row.pictures for row in self.rows.values())))

    def different_files(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.different))

    def is_silent(self) -> bool:
        """Nothing was learned of the device, as it made nothing."""
        return not self.is_cpu and not self.by_device

    def code(self) -> int:
        if self.signal:
            return 128 + self.signal
        if self.failure or not self.elements():
            return FAILED
        if self._is_wrong():
            return FOUND
        return FAILED if self.is_silent() else EQUAL

    def _is_wrong(self) -> bool:
        return bool(
            self.different or self.one_side or self.faults or self.broken
        )

    def verdict(self) -> str:
        """One sentence."""
        said = self._verdict()
        if self.failure:
            return f"ended early, {self.failure}; {said}"
        if self.signal:
            return f"ended early, after {self.done} of {self.total}; {said}"
        return said

    def _verdict(self) -> str:
        n = self.elements()
        if not n:
            return "nothing was compared" + (
                f"; {self.broken}" if self.broken else ""
            )
        if self.different:
            names = self.different_files()
            few = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            return (
                f"different: {self.differing():,} of {n:,} elements, in "
                f"{len(names):,} of {_count(self.pictures())}: {few}"
            )
        scope = f"{n:,} elements differ in {_count(self.pictures())}"
        text = f"0 of {scope}"
        if self.is_silent():
            why = ", ".join(f"{k} {name}" for name, k in self.why.items())
            name = self.facts["backend"]
            text = f"nothing shown of {name}, which made none of it: " + (
                f"{why}; {text}" if why else text
            )
        elif not self._is_wrong():
            text = "equal: " + text
        if self.one_side:
            text += f"; {len(self.one_side)} made by one side only"
        if self.faults:
            text += f"; {len(self.faults)} could not be read"
        return text + (f"; {self.broken}" if self.broken else "")


def _count(pictures: int) -> str:
    return f"{pictures:,} picture" + ("" if pictures == 1 else "s")
