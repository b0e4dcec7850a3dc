# SPDX-License-Identifier: Apache-2.0
"""Recordings of several pictures, and the jobs that make them. Imports torch.

A Record is what travels from a DataLoader worker to the process that owns the
device; submit_batch() turns records into jobs and Handles.

Threads: any. A group's lock is held while one thread waits for its job.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import _core, _memory
from ..._forks import renewed
from ..base.report import count
from ..pillow import jobs
from ..pillow.jobs import ERASE
from .tables import Table

# Types that a job writes. Others are looked up, byte by byte.
_DIRECT = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.uint8: "u8",
}


class Record(NamedTuple):
    """Plain data that a lazy tensor can be made from in another process.

    samples: recordings; tables: a Table or None for each. size: (C, H, W),
    lead: the shape before it. hwc: strides, see Cell. kind: the stock class.
    It travels in Records.
    """

    samples: Sequence[jobs.Recording]
    size: tuple[int, int, int]
    lead: tuple[int, ...]
    tables: Sequence[Table | None]
    dtype: torch.dtype
    hwc: bool
    kind: type


class Records(list[Record]):
    """Several that travel as one message."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Each source once, however many samples are parts of it."""
        numbers: dict[int, int] = {}
        sources: list[Any] = []
        records = []
        for record in self:
            samples = []
            for source, ops in record.samples:
                number = numbers.setdefault(id(source), len(sources))
                if number == len(sources):
                    sources.append(_buffer(source) if protocol >= 5 else source)
                samples.append((number, ops))
            records.append((samples, *record[1:]))
        return _arrive, (sources, records)


def _arrive(sources: Any, records: Any) -> Records:
    return Records(
        Record([_sample(sources, *each) for each in samples], *state)
        for samples, *state in records
    )


def _sample(sources: Any, number: int, ops: jobs.Ops) -> jobs.Recording:
    source = sources[number]
    if type(ops[0]) is jobs.Given and type(source) is not _core.Pixels:
        source = sources[number] = ops[0].pixels(source)
    return jobs.recorded((source, ops))


def _buffer(source: jobs.Source) -> Any:
    if isinstance(source, _core.PackEntry):
        return source
    return pickle.PickleBuffer(source)


class Handle:
    """A submitted record. Dropping it cancels its job if no other Handle of
    the job is left."""

    __slots__ = ("_group", "_record", "_start")

    def __init__(self, group: Group, record: Record, start: int) -> None:
        self._group = group
        self._record = record
        self._start = start

    def wait(self) -> None:
        """Until the job is done; raises what concerns more than pictures."""
        self._group.wait()

    def result(self) -> Tensor:
        """Waits for the tensor that stock would have made, or raises."""
        record = self._record
        length = len(record.samples)
        value = self._group.slots(self._start, length)
        value = value.reshape(record.lead + value.shape[1:])
        if record.hwc and not record.lead:
            # (contiguous() leaves the strides of sides of one as they are.)
            value = value.permute(1, 2, 0)
            value = value.clone(memory_format=torch.contiguous_format)
            value = value.permute(2, 0, 1)
        value = value.detach()  # no view, as what comes from a worker
        inference = torch.is_inference_mode_enabled()
        value = _memory.of_mode(value, inference)
        if not inference:
            value[..., :0].zero_()  # (torch sets its memory)
        if record.kind is not Tensor:
            return value.as_subclass(record.kind)
        return value

    def cancel(self) -> None:
        self._group.cancel()


class Group:
    """Memory for n samples, and the jobs that fill it, in one or more parts.

    Slot i of out is sample i.
    """

    def __init__(
        self,
        n: int,
        size: tuple[int, int, int],
        dtype: torch.dtype,
        hwc: bool = False,
    ) -> None:
        self._samples: list[jobs.Recording] = []
        self._tables: list[Table | None] = []
        # Jobs, and the number of the first sample of each.
        self._parts: list[tuple[int, Any]] = []
        self._dtype = dtype
        self._pid = os.getpid()
        # Reentrant: a signal handler may need this batch, too.
        self._lock = renewed(threading.RLock())
        self._failed: dict[int, BaseException] | None = None
        c, h, w = size
        # bfloat16 numbers are float32 numbers; others are looked up.
        self._kind = torch.float32 if dtype == torch.bfloat16 else dtype
        self._looked_up = self._kind not in _DIRECT
        if self._looked_up:
            self._kind = torch.uint8
        if hwc:
            out = _memory.empty((n, h, w, c), self._kind)
            self.out = out.permute(0, 3, 1, 2)
        else:
            self.out = out = _memory.empty((n, c, h, w), self._kind)
        self._batch = _core.Batch(
            n,
            c,
            h,
            w,
            _DIRECT[self._kind],
            "nhwc" if hwc else "nchw",
            data=out.data_ptr(),
            keep=out,
            device=jobs.device(),
        )
        self._made = self.out  # what the jobs write

    def add(
        self,
        samples: Sequence[jobs.Recording],
        tables: Sequence[Table | None],
        known: bool = True,
    ) -> str:
        """Submits the next samples; returns the name of their device.

        known=False: it may be in vain, so the report does not count it.
        """
        first = len(self._samples)
        ready = self.ready(samples, tables)
        job = jobs.submit(ready, self._batch, first, known)
        self.took(samples, tables, job)
        return job.device

    def ready(
        self,
        samples: Sequence[jobs.Recording],
        tables: Sequence[Table | None],
    ) -> Sequence[jobs.Recording]:
        """The samples as the job gets them: with the tables it looks up."""
        if self._looked_up:
            return samples
        return [
            each if table is None else _with_table(each, table)
            for each, table in zip(samples, tables)
        ]

    def took(
        self,
        samples: Sequence[jobs.Recording],
        tables: Sequence[Table | None],
        job: Any,
    ) -> None:
        """The job makes these, the next ones."""
        self._parts.append((len(self._samples), job))
        self._samples += samples
        self._tables += tables

    def wait(self) -> dict[int, BaseException]:
        """Until all slots are filled; errors of single ones by index.

        Raises what concerns all of them.
        """
        with self._lock:
            if self._failed is not None:
                return self._failed
            # It may end anywhere, by Ctrl-C, and be called again: then it
            # finds the bytes of the jobs as they were.
            failed: dict[int, BaseException] = {}
            self.out = self._finished(failed).data  # of version 0
            self._failed = failed
            self._parts = []
            return failed

    def _finished(self, failed: dict[int, BaseException]) -> Tensor:
        if self._looked_up:
            return self._wait_and_look_up(failed)
        for index, reason in self._failures():
            self._mend(self._made, index, reason, failed)
        if self._dtype == torch.bfloat16:
            return self._made.to(torch.bfloat16)
        return self._made

    def _failures(self) -> list[tuple[int, str]]:
        """Waits for all parts; see jobs.failures()."""
        found = []
        for first, job in self._parts:
            samples = self._samples[first : first + len(job)]
            for index, reason in jobs.failures(job, samples):
                found.append((first + index, reason))
        return found

    def _wait_and_look_up(self, failed: dict[int, BaseException]) -> Tensor:
        pixels = self._made
        bad = dict(self._failures())
        out = torch.empty_like(pixels, dtype=self._dtype)
        for index, table in enumerate(self._tables):
            if index in bad:
                self._mend(out, index, bad[index], failed)
            elif table is not None:
                out[index] = table.look_up(pixels[index])
        return out

    def _mend(
        self,
        out: Tensor,
        index: int,
        reason: str,
        failed: dict[int, BaseException],
    ) -> None:
        """Lets stock Pillow make what the job could not."""
        try:
            out[index] = replay(self._samples[index], self._tables[index])
        except Exception as error:
            count("failed", reason)
            failed[index] = error

    def slots(self, start: int, length: int) -> Tensor:
        """A tensor of these slots alone. Raises for the first bad one."""
        failed = self.wait()
        for index in range(start, start + length):
            if index in failed:
                raise failed[index]
        if start == 0 and length == len(self.out):
            return self.out
        return self.out[start : start + length].clone()

    # Modules may be empty when the interpreter ends.
    _getpid = staticmethod(os.getpid)

    def cancel(self) -> None:
        """Ends the jobs early. In a forked child they are the parent's."""
        if self._pid == self._getpid():
            for _, job in self._parts:
                job.cancel()

    __del__ = cancel


def _making(ops: jobs.Ops) -> int:
    """So many ops make the picture; the others paint on its tensor."""
    n = len(ops)
    while ops[n - 1][0] == ERASE:
        n -= 1
    return n


def _with_table(recording: jobs.Recording, table: Table) -> jobs.Recording:
    source, ops = recording
    n = _making(ops)
    return jobs.recorded((source, (*ops[:n], table.op(), *ops[n:])))


def made_by(
    samples: Sequence[jobs.Recording],
    tables: Sequence[Table | None],
    size: tuple[int, int, int],
    dtype: torch.dtype,
    hwc: bool = False,
) -> Group:
    """One job for all."""
    group = Group(len(samples), size, dtype, hwc)
    group.add(samples, tables)
    return group


# The samples of a batch, a table or None for each, their size and type.
_Facts = tuple[
    Sequence[jobs.Recording],
    Sequence["Table | None"],
    tuple[int, int, int],
    torch.dtype,
]


def made_together(columns: Sequence[_Facts]) -> list[Group]:
    """One job for several batches: sample i of all has the same source."""
    groups = [Group(len(s), size, dtype) for s, _, size, dtype in columns]
    ready = [
        group.ready(samples, tables)
        for group, (samples, tables, _, _) in zip(groups, columns)
    ]
    parts = jobs.submit_views(ready, [group._batch for group in groups])
    for group, part, (samples, tables, _, _) in zip(groups, parts, columns):
        group.took(samples, tables, part)
    return groups


def replay(recording: jobs.Recording, table: Table | None) -> Tensor:
    """(C, H, W), by stock Pillow. Raises what Pillow raises."""
    source, ops = recording
    n = _making(ops)
    image = jobs.replay(jobs.Recording(source, ops[:n]))
    c = len(image.getbands())
    w, h = image.size
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    pixels = pixels.view(h, w, c).permute(2, 0, 1)
    made = pixels if table is None else table.look_up(pixels)
    for _, x, y, w, h, value, block in ops[n:]:
        numbers = torch.tensor(value).reshape(-1, 1, 1)
        if block is not None:
            flat = torch.frombuffer(bytearray(block), dtype=torch.float32)
            numbers = flat.view(c, h, w)
        made[:, y : y + h, x : x + w] = numbers
    return made


def submit_batch(records: Sequence[Record]) -> list[Handle]:
    """Submits all samples of all records: one job for all views of the same
    sources, one per size and type for others.

    Waits for room in the budget only, and raises for no bad picture.
    """
    handles: dict[int, Handle] = {}
    groups: dict[Any, list[_Column]] = {}
    for views in _views(records):
        if len(views) == 1:
            (column,) = views
            groups.setdefault(column.kind, []).append(column)
            continue
        made = made_together([column.facts() for column in views])
        for column, group in zip(views, made):
            column.handles(group, handles)
    for columns in groups.values():
        column = _Column([r for each in columns for r in each.records])
        column.handles(made_by(*column.facts()), handles)
    return [handles[id(record)] for record in records]


class _Column:
    """Records of one size and type, which one group makes."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.kind = records[0].size, records[0].dtype

    def facts(self) -> _Facts:
        samples = [sample for r in self.records for sample in r.samples]
        tables = [table for r in self.records for table in r.tables]
        return samples, tables, *self.kind

    def handles(self, group: Group, handles: dict[int, Handle]) -> None:
        start = 0
        for record in self.records:
            handles[id(record)] = Handle(group, record, start)
            start += len(record.samples)


def _views(records: Sequence[Record]) -> list[list[_Column]]:
    """Lists of columns: those of a list have the same sources, in order."""
    same: dict[Any, list[Record]] = {}
    for record in records:
        sources = tuple(id(sample.source) for sample in record.samples)
        same.setdefault(sources, []).append(record)
    # Pictures that were not stacked are joined if they have the same views.
    alike: dict[Any, list[list[Record]]] = {}
    for sources, views in same.items():
        key: Any = tuple((view.size, view.dtype) for view in views)
        if len(sources) > 1:
            key = sources
        alike.setdefault(key, []).append(views)
    return [
        [_Column(column) for column in zip(*rows)] for rows in alike.values()
    ]

