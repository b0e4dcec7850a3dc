# SPDX-License-Identifier: Apache-2.0
"""Memory for batches that is used again. Imports torch.

A batch of 64 float pictures of 224 x 224 has 38 MB. Memory that is new to the
process costs a page fault for every 4 KB of it, and a batch that is dropped
gives it back: a quarter of what decoding costs. So blocks are kept, and used
again when no tensor, view or array lies over them any more: the storage of
torch.frombuffer() holds the only reference to a memoryview.

At most two unused blocks are kept, or 256 MB: DINO's ten views of 64
pictures are 133. The others are given back as soon as their tensors are gone;
blocks of sizes that were not asked for lately, with the next request.

A forked child, such as a DataLoader's worker in each epoch, gets no pages of
unused blocks: sharing them would cost their next use all of them anew.

Threads: any.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import threading
import weakref

import torch

from ._forks import renewed

# Smaller tensors come from torch: malloc uses their memory again itself.
SMALLEST = 1 << 20
_MOST_FREE = 2  # or as many as these bytes are
_MOST_BYTES = 256 << 20
_PATIENCE = 0.1  # seconds
_OLD = 32  # requests after which an unused block is given back


class _Block:
    """Anonymous memory of this process alone, as malloc would give."""

    __slots__ = ("_lent", "apart", "forks", "map", "size", "used")

    def __init__(self, size: int) -> None:
        self.map = mmap.mmap(-1, size, flags=_FLAGS)
        with contextlib.suppress(OSError):  # a kernel without
            self.map.madvise(mmap.MADV_HUGEPAGE)
        self.size = size
        self.used = 0
        self.forks = _forks
        self.apart = False  # a child of a fork has nothing of it
        self._lent: weakref.ref[memoryview] | None = None

    def lend(self) -> memoryview:
        """Memory for one storage."""
        if self.apart:
            self.map.madvise(_KEEPONFORK)
            self.apart = False
        view = memoryview(self.map)
        self._lent = weakref.ref(view, _came_back)
        return view

    def keep_apart(self) -> None:
        """Before a fork; it is not in use."""
        if not self.apart:
            with contextlib.suppress(OSError):  # a kernel without
                self.map.madvise(_WIPEONFORK)
                self.apart = True

    def renew(self) -> None:
        """Gives back the pages after a fork: a write to a page that a child
        shares would copy it."""
        if self.forks != _forks:
            with contextlib.suppress(OSError):  # after mlockall()
                self.map.madvise(mmap.MADV_DONTNEED)
            self.forks = _forks

    def is_free(self) -> bool:
        return self._lent is None or self._lent() is None


_forks = 0  # of this process
_WIPEONFORK, _KEEPONFORK = 18, 19  # of Linux; mmap does not name them
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_lock = renewed(threading.Lock())
_blocks: list[_Block] = []
_clock = 0


def _forking() -> None:
    if not _lock.acquire(blocking=False):
        return  # a block may be on its way out
    try:
        for block in _free():
            block.keep_apart()
    finally:
        _lock.release()


def _forked() -> None:
    global _forks
    _forks += 1
    for block in list(_blocks):
        if block.apart:
            block.forks = _forks


os.register_at_fork(
    before=_forking, after_in_parent=_forked, after_in_child=_forked
)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """torch.empty() for CPU tensors that live as long as a batch."""
    count = 1
    for side in shape:
        count *= side
    size = count * _size_of(dtype)
    if size < SMALLEST:
        return torch.empty(shape, dtype=dtype, device="cpu")
    # A signal handler may come in while its own thread is in here.
    if not _lock.acquire(timeout=_PATIENCE):
        return torch.empty(shape, dtype=dtype, device="cpu")
    try:
        block = _take(size)
        flat = torch.frombuffer(block.lend(), dtype=dtype, count=count)
    finally:
        _lock.release()
    return flat.view(shape).detach()  # not a view, for torch


def of_mode(value: torch.Tensor, inference: bool) -> torch.Tensor:
    """The same memory, as inference mode makes tensors, or not."""
    if value.is_inference() is inference:
        return value
    with torch.inference_mode(inference):
        nothing = torch.empty(0, dtype=value.dtype, device="cpu")
        return nothing.set_(value).data  # of version 0


@functools.lru_cache
def _size_of(dtype: torch.dtype) -> int:
    size: int = torch.empty(0, dtype=dtype, device="cpu").element_size()
    return size


def _take(size: int) -> _Block:
    global _clock
    _clock += 1
    free = _free()
    found = next((block for block in free if block.size == size), None)
    if found is None:
        found = _Block(size)
        _blocks.append(found)
    else:
        free.remove(found)
        found.renew()
    found.used = _clock
    _give_back(free)
    return found


def _free() -> list[_Block]:
    return [block for block in _blocks if block.is_free()]


def _came_back(_: object) -> None:
    """A storage is gone, on any thread, which may be in here already."""
    if not _lock.acquire(blocking=False):
        return
    try:
        _give_back(_free())
    finally:
        _lock.release()


def _give_back(free: list[_Block]) -> None:
    """Gives back the unused blocks that are too old, or too many."""
    size = 0
    for number, block in enumerate(sorted(free, key=_last_used)):
        size += block.size
        too_much = number >= _MOST_FREE and size > _MOST_BYTES
        if too_much or _clock - block.used > _OLD:
            _blocks.remove(block)


def _last_used(block: _Block) -> int:
    return -block.used


def clear() -> None:
    """Gives back all unused blocks."""
    with _lock:
        _blocks[:] = [block for block in _blocks if not block.is_free()]
