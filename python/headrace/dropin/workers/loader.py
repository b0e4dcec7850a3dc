# SPDX-License-Identifier: Apache-2.0
"""The hooks in torch's DataLoader: worker loop, next().

See base/worker.py for what happens where, torch/tensor.py for lazy tensors.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib
import inspect
import itertools
import multiprocessing
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, cast

import torch
import torch.utils.data._utils.worker
from torch._utils import ExceptionWrapper
from torch.utils.data import dataloader

from ... import _core
from ..base.refusal import stock_function
from ..base.report import take
from ..base.worker import Worker
from ..pillow import folder, pictures, pixels
from ..torch import draws, encoded, images, tensor
from . import again, channel, tickets

# hooks.install(): what a spawned worker is told is the reference.
Install = Callable[[str | None], None]

# How types are pickled for another process; torch has its own in here.
_REDUCERS: dict[type, Any] = vars(ForkingPickler)["_extra_reducers"]

_TORCH_LOOP = "torch.utils.data._utils.worker"
_TORCHDATA_LOOP = "torchdata.stateful_dataloader.stateful_dataloader"


class Home(NamedTuple):
    """Where the iterator is: its process, and its channel if it has one.

    depth: batches that may be under way; 0: it opens no again.Fetched. rooms:
    memory for the files that forked workers read, by their numbers.
    """

    pid: int
    link: channel.Link | None
    depth: int
    rooms: Sequence[_core.SharedFiles] = ()


class _Scope(threading.local):
    """The iterator that this thread is making; a forked worker, and the
    pickling of the loop for another process, find its home here."""

    home: Home | None = None


_scope = _Scope()


# ---- in the worker ----


class WorkerLoop:
    """Takes the place of a _worker_loop of torch or torchdata.

    Pickles to a callable that installs the hooks where it arrives, so that
    spawned workers record as well. Arguments pass through untouched.
    """

    def __init__(
        self,
        module: str,
        stock: Callable[..., Any],
        install: Install,
        home: Home | None = None,
    ) -> None:
        self.module = module
        self.stock = stock
        self.install = install
        self.home = home
        functools.update_wrapper(self, stock)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        home = self.home or _scope.home
        if home is None or home.pid == os.getpid():
            return self.stock(*args, **kwargs)
        _enter(home, self._worker_id(args, kwargs))
        try:
            return self.stock(*args, **kwargs)
        finally:
            _leave()

    def _worker_id(self, args: Any, kwargs: Any) -> int:
        """Found by name, for its place differs from release to release."""
        try:
            bound = inspect.signature(self.stock).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return 0
        return int(bound.arguments.get("worker_id", 0))

    def __reduce__(self) -> Any:
        home = _scope.home or Home(os.getpid(), None, 0)
        home = home._replace(rooms=())
        known = _Known(
            pictures.reference,
            pixels.refused,
            images.filters,
            encoded.agree,
            draws.agree,
        )
        return _rebuild, (self.module, self.install, known, home)


class _Known(NamedTuple):
    """selftest.py's findings in the process with the hooks."""

    reference: str | None
    refused: frozenset[str]
    filters: set[str]
    agree: set[str]
    draws: bool


def _rebuild(
    module: str,
    install: Install,
    known: _Known,
    home: Home,
) -> WorkerLoop:
    """In a worker that was not forked from the process with the hooks."""
    if home.pid != os.getpid():
        Worker.pid = os.getpid()  # from here on no device is opened
    stock = getattr(importlib.import_module(module), "_worker_loop")
    if isinstance(stock, WorkerLoop):
        stock = stock.stock
    install(known.reference)
    pixels.refuse(known.refused)
    images.filters.update(known.filters)
    encoded.agree.update(known.agree)
    draws.agree = known.draws
    return WorkerLoop(module, stock, install, home)


def _enter(home: Home, number: int) -> None:
    Worker.pid = os.getpid()
    Worker.number = number
    Worker.depth = home.depth
    again.forget()
    take()  # a forked worker has its parent's counts
    folder.take_learned()
    Worker.sender = None  # right all the same: it decodes itself
    if home.link is not None:
        try:
            Worker.sender = channel.Sender(home.link)
            room = home.rooms[number] if number < len(home.rooms) else None
            Worker.sender.share_files(number, room)
        except OSError:
            pass
    for kind in tensor.lazy_types():
        _REDUCERS[kind] = tickets.reduce_lazy


def _leave() -> None:
    sender = Worker.sender
    if sender is not None:
        try:
            tickets.tell(sender)
        except OSError:
            pass


# ---- in the process that owns the device ----


def _open_channel(iterator: Any, loader: Any) -> None:
    """Opens the channel before the iterator starts its workers."""
    depth = 2 + iterator._num_workers * (loader.prefetch_factor or 2)
    iterator.__class__ = _opening(type(iterator))
    iterator._headrace_redone = {}
    iterator._headrace_others = collections.deque()
    _scope.home = Home(os.getpid(), None, depth)
    kept = _rooms_of(loader)
    forks = _forks(loader)
    rooms = kept.take(iterator._num_workers if forks else 0)
    try:
        owner = channel.Channel(
            _submit, tickets.hear, iterator, start=False, rooms=rooms
        )
    except OSError:
        return  # no descriptors left: its workers decode themselves
    _scope.home = Home(os.getpid(), owner.link, depth, rooms)

    def start(workers: Sequence[Any]) -> None:
        _scope.home = Home(os.getpid(), owner.link, depth)
        kept.give(rooms, workers, owner)
        owner.start()

    iterator._headrace_start = start
    iterator._headrace_close = weakref.finalize(iterator, owner.close)


def _rooms_of(loader: Any) -> channel.Rooms:
    """Its attribute: they go with it, also where stock's handler of signals
    interrupts what a weak reference calls."""
    try:
        known = vars(loader)
    except TypeError:
        return channel.Rooms()  # a class of the user's, with slots
    rooms = known.setdefault("_headrace_rooms", channel.Rooms())
    return cast(channel.Rooms, rooms)


def _forks(loader: Any) -> bool:
    """Do its workers have all that this process has?"""
    context = loader.multiprocessing_context or multiprocessing
    return bool(context.get_start_method() == "fork")


class _Handles:
    """The jobs of one message."""

    def __init__(self, handles: Sequence[tensor.Handle]) -> None:
        self._handles = handles

    def wait(self) -> None:
        for handle in self._handles:
            handle.wait()

    def result(self, place: int) -> torch.Tensor:
        return self._handles[place].result()


def _submit(messages: list[list[tensor.Record]]) -> list[_Handles]:
    records = [record for records in messages for record in records]
    handles = iter(tensor.submit_batch(records))
    return [
        _Handles(list(itertools.islice(handles, len(records))))
        for records in messages
    ]


def _wrap_init(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, loader, *args, **kwargs)
        # Workers start after this; each finds its channel in _scope.
        if self._num_workers > 0:
            pictures.make_kept()
            _open_channel(self, loader)

    return __init__


class _Mark(NamedTuple):
    """Stands in the place of a batch's number in the DataLoader's queues."""

    worker: int


_openings: dict[type, type] = {}


def _start_channel(iterator: Any) -> None:
    """Starts the channel's thread after the forks, so that no worker copies
    it."""
    start = iterator.__dict__.pop("_headrace_start", None)
    if start is not None:
        # Without a thread the workers' messages are refused, and the workers
        # make the pictures.
        with contextlib.suppress(OSError):
            start(iterator._workers)


def _opening(stock: type) -> type:
    """Like an iterator's class; its instances open what their workers send.

    A class of its own, not a hook: an iterator may outlive the drop-in.
    """
    if stock not in _openings:
        base: Any = stock

        class Iterator(base):
            def __next__(self) -> Any:
                return _next(self, super().__next__)

            def _reset(self, *args: Any, **kwargs: Any) -> Any:
                _start_channel(self)
                return super()._reset(*args, **kwargs)

            def _get_data(self) -> Any:
                others = self._headrace_others
                got = others.popleft() if others else super()._get_data()
                while type(got[0]) is _Mark:  # of an earlier wait
                    got = super()._get_data()
                return got

            def _headrace_get(self) -> Any:
                return super()._get_data()

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(Iterator, name, getattr(stock, name))
        _openings[stock] = Iterator
    return _openings[stock]


def _next(iterator: Any, stock: Callable[[], Any]) -> Any:
    try:
        got = stock()
    except StopIteration:
        close = getattr(iterator, "_headrace_close", None)
        if close is not None and getattr(iterator, "_shutdown", False):
            close()
        raise
    if type(got) is not again.Fetched:
        return got
    try:
        return _opened(iterator, got)
    except BaseException:
        # Stock counts a batch once it is whole.
        iterator._num_yielded -= 1
        raise


def _opened(iterator: Any, got: again.Fetched) -> Any:
    """The batch with tensors for tickets; fetched again if one failed."""
    redone = iterator._headrace_redone
    key = got.worker, got.number
    if key not in redone and got.number is not None:
        if any([ticket.failed() for ticket in got.tickets]):
            made = _ask_again(iterator, got.worker, got.number)
            redone.update(((got.worker, n), data) for n, data in made.items())
    if key not in redone:
        return tickets.walk(got.data)
    data = redone.pop(key)
    if isinstance(data, ExceptionWrapper):
        data.reraise()
    return data


def _ask_again(iterator: Any, worker: int, number: int) -> dict[int, Any]:
    """Has the worker fetch a batch again; {} where it cannot be asked."""
    if iterator._shutdown or not iterator._workers_status[worker]:
        return {}
    index: Any = again.Again(number)
    if hasattr(iterator, "_snapshot_interval"):  # torchdata's
        index = index, False
    iterator._index_queues[worker].put((_Mark(worker), index))
    while True:
        got = iterator._headrace_get()
        if type(got[0]) is _Mark:
            break
        iterator._headrace_others.append(got)
    data = got[1]
    if hasattr(iterator, "_snapshot_interval"):
        data = data[0]
    if isinstance(data, ExceptionWrapper):
        data.reraise()
    return dict(data.batches)


# ---- the list ----


def hooks(install: Install) -> Iterator[tuple[Any, Any, Any]]:
    """The hooks that hooks.py puts into its list, in this order."""
    base = dataloader._BaseDataLoaderIter
    yield loop_hook(_TORCH_LOOP, install)
    if _TORCHDATA_LOOP in sys.modules:
        yield loop_hook(_TORCHDATA_LOOP, install)
    yield base, "__init__", _wrap_init(stock_function(base, "__init__"))


def loop_hook(module: str, install: Install) -> tuple[Any, Any, Any]:
    owner = sys.modules[module]
    stock = vars(owner).get("_worker_loop")
    if isinstance(stock, WorkerLoop):
        stock = stock.stock
    else:
        stock = stock_function(owner, "_worker_loop")
    return owner, "_worker_loop", WorkerLoop(module, stock, install)
