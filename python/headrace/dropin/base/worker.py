# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers of the drop-in: who is one, and what the parts agree on.

This file needs no torch; loader.py does the work.

A worker runs the data set, the transforms and the collate function as always;
pictures are recorded, not decoded. When the DataLoader pickles what a worker
made, each lazy tensor goes over the side channel (channel.py) to the process
that owns the device, which submits it at once, and a Ticket takes its place
in the DataLoader's queue. next() exchanges tickets for tensors.

Whether this process is a worker is decided by its process id, for a worker
may be a thread one day, and a thread can use the device itself.

What loader.py asks of tensor.py (imported inside functions, never at import):

``lazy_types() -> tuple[type, ...]``
    The exact classes of lazy tensors that exist in this process (LazyTensor,
    LazyTVImage). A lazy tensor is one sample, shape (C, H, W), **or a
    collated batch, shape (N, C, H, W)**: in a worker (``workers.in_worker()``)
    collating must not run a job and must not decode: it makes one lazy
    tensor of shape (N, C, H, W) that holds the N recordings. Any use of it
    inside the worker (a mix-up in the user's collate function) materialises
    it there with stock Pillow, as for a single one.
``record_of(lazy) -> object | None``
    A picklable recording (plain data: sources, ops, table bytes, dtype,
    shape, class of the result; no pixels, no open file). None where it was
    materialised already. A source of bytes is ``pickle.PickleBuffer(bytes)``;
    it arrives as a memoryview of shared memory.
``submit_batch(records: list) -> list[Handle]``
    In the process that owns the device: submits all samples of all records
    as one job and returns one handle per record. Waits only for room in the
    budget; never raises for a bad picture. Called on a thread of ours.
    Handle: ``result() -> Tensor`` waits and returns the tensor that stock
    would have made (plain, or tv_tensors.Image for an uncollated one), or
    raises what stock Pillow raises for the first bad sample, same type and
    text. ``wait()``, where it has one, waits as well and raises only what
    concerns more than pictures: a device that is gone, what a handler of
    signals raised. A handle that is dropped cancels its job.
``plain(lazy) -> Tensor``
    Materialised here and now (in a worker with stock Pillow).
``transport(lazy)``
    How a lazy tensor pickles between processes where no channel stands.

What loader.py asks of hooks.py: ``worker_state() -> object``, picklable, and
``install_worker(state)``: installs the hooks in a spawned worker; opens no
device. And of report.py: ``take() -> dict`` (what was counted
since the last call; values are empty dicts where nothing was) and ``add()``.

``hooks() -> list[(owner, name, new)]`` is for the list in hooks.py: owner is
an object (setattr) or a dict (item, removed again where there was none).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..workers.channel import Sender


class Worker:
    """What a worker process knows of itself; set where its loop starts."""

    pid = -1
    number = 0
    sender: Sender | None = None
    # Batches that may be on their way; 0: its parent opens no Fetched.
    depth = 0


def in_worker() -> bool:
    """True in a DataLoader worker process, which must not open a device."""
    return Worker.pid == os.getpid()


def hooks() -> list[tuple[Any, Any, Any]]:
    """The entries for the list in hooks.py; torch must be importable."""
    from ..workers import loader

    return loader.hooks()


def torchdata_hooks() -> list[tuple[Any, Any, Any]]:
    """The entry for torchdata, when it is imported after switching on."""
    from ..workers import loader

    return loader.torchdata_hooks()
