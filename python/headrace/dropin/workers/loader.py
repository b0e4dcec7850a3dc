# SPDX-License-Identifier: Apache-2.0
"""The hooks in torch's DataLoader: worker loop, tickets, next().

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
import operator
import os
import pickle
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
from ..base.report import add, take
from ..base.worker import Worker, in_worker
from ..pillow import folder, pictures, pixels
from ..torch import encoded, images, tensor
from . import again, channel

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


# ---- tickets ----


class Ticket(torch.Tensor):
    """Stands for a tensor that the process with the device is making.

    next() exchanges it. One inside an object that next() cannot look into
    acts as the tensor: whatever is done with it waits for the job first.
    """

    _pending: channel.Pending
    _place: int  # in the message
    _worker: int
    _value: torch.Tensor | None

    @staticmethod
    def make(
        pending: channel.Pending,
        place: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        worker: int,
    ) -> Ticket:
        ticket = torch.Tensor._make_wrapper_subclass(
            Ticket, shape, dtype=dtype
        )
        ticket._pending = pending
        ticket._place = place
        ticket._worker = worker
        ticket._value = None
        return ticket

    def value(self) -> torch.Tensor:
        """Waits; raises as a DataLoader raises what its worker met."""
        if self._value is not None:
            return self._value
        # Outside: a device that is gone, or what a signal handler raised.
        self._pending.wait()
        try:
            self._value = self._pending.result(self._place)
            return self._value
        except Exception as met:
            error = ExceptionWrapper(
                where=f"in DataLoader worker process {self._worker}"
            )
            _forget_frames(met)
        error.reraise()

    def failed(self) -> bool:
        """Waits: did stock meet a picture that it cannot make either?"""
        if self._value is None:
            self._pending.wait()
            try:
                self._value = self._pending.result(self._place)
            except Exception as met:
                _forget_frames(met)
        return self._value is None

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        """The tensor in pinned memory; itself where next() must raise."""
        try:
            if self.failed():
                return self
        except Exception as met:
            _forget_frames(met)
            return self
        value = self.value()
        return value if value.is_pinned() else value.pin_memory()

    def as_subclass(self, cls: type) -> torch.Tensor:
        return self.value().as_subclass(cls)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*_exchange(args), **_exchange(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*_exchange(args), **_exchange(kwargs or {}))


def _forget_frames(met: BaseException) -> None:
    """Drops the traceback: a ticket that kept it would keep the caller's frame
    with the iterator. That is a circle, and stock waits 5 s for each worker of
    an iterator that is collected in one."""
    met.__traceback__ = None


def _exchange(value: Any) -> Any:
    """Copies of lists, tuples and dicts with tensors in place of tickets."""
    kind = type(value)
    if kind is Ticket:
        return value.value()
    if kind in (list, tuple):
        return kind(map(_exchange, value))
    if kind is dict:
        return {key: _exchange(item) for key, item in value.items()}
    return value


def _claim(
    address: str,
    name: bytes,
    number: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    worker: int,
) -> Ticket:
    """Unpickles a ticket that was pickled alone."""
    pending = _pending(address, name, number)
    return _noted(Ticket.make(pending, 0, shape, dtype, worker))


def _pending(address: str, name: bytes, number: int) -> channel.Pending:
    """Waits for nothing, so that a queue never hangs."""
    owner = channel.channel_at(address)
    if owner is not None:
        return owner.claim(name, number)
    pending = channel.Pending()
    pending.fail(channel.ChannelError("the DataLoader iterator ended"))
    return pending


# Stands for the message of a batch until that is known, which is its last part.
_LATER = channel.Pending()


def _part(
    place: int, shape: tuple[int, ...], dtype: torch.dtype, worker: int
) -> Ticket:
    """Unpickles a ticket of a batch whose recordings were sent together."""
    return _noted(Ticket.make(_LATER, place, shape, dtype, worker))


class _Arriving(threading.local):
    """Tickets of the batch that this thread is unpickling; None: it unpickles
    none, and a ticket belongs to no batch."""

    tickets: list[Ticket] | None = None


_arriving = _Arriving()


def _arrives() -> None:
    """Unpickles the first part of a batch."""
    _arriving.tickets = []


def _noted(ticket: Ticket) -> Ticket:
    if _arriving.tickets is not None:
        _arriving.tickets.append(ticket)
    return ticket


def arrived(
    _: None,
    data: Any,
    worker: int,
    number: int | None,
    sent: channel.Pending | list[torch.Tensor],
) -> again.Fetched:
    """Unpickles what a worker's loop sent.

    sent: the message with the recordings; or a tensor or a ticket for each.
    """
    got = again.Fetched(data, worker, number)
    got.tickets, _arriving.tickets = _arriving.tickets or [], None
    for ticket in got.tickets:
        if ticket._pending is not _LATER:
            continue
        if isinstance(sent, channel.Pending):
            ticket._pending = sent
            continue
        made = sent[ticket._place]
        if type(made) is Ticket:
            ticket._pending, ticket._place = made._pending, made._place
        else:
            ticket._value = made
    return got


class _Failed:
    """The handle of a batch that the worker itself could not make."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def wait(self) -> None:
        pass

    def result(self, place: int) -> torch.Tensor:
        raise self._error


def _failed(error: BaseException, worker: int) -> Ticket:
    pending = channel.Pending()
    pending.fulfil(_Failed(error))
    return _noted(Ticket.make(pending, 0, (0,), torch.float32, worker))


# ---- in the worker ----


class _Pickling(threading.local):
    """Recordings of the batch that this thread is pickling, which are sent at
    its end; None: it pickles none."""

    parts: list[tuple[Any, Any]] | None = None  # lazy tensors and records


_pickling = _Pickling()


class _Beginning:
    """The first part of a batch."""

    def __reduce__(self) -> Any:
        _pickling.parts = []
        return _arrives, ()


class _Shipping:
    """The last part of a batch: when it is pickled, all others were.

    The recordings of the batch are sent then, as one message, so that one job
    makes all views of the same pictures.
    """

    def __reduce__(self) -> Any:
        parts, _pickling.parts = _pickling.parts, None
        if not parts:
            return list, ()
        place = _send([record for _, record in parts])
        if place is not None:
            return _pending, place
        return list, ([_Alone(lazy) for lazy, _ in parts],)


class _Alone:
    """Pickles as a lazy tensor of the same batch that goes alone.

    (That itself would be the ticket that it was pickled as.)
    """

    def __init__(self, lazy: Any) -> None:
        self._lazy = lazy

    def __reduce__(self) -> Any:
        return _reduce_lazy(self._lazy)


def framed(data: Any, worker: int, number: int | None) -> Any:
    """Pickles to what arrived() takes."""
    return arrived, (_Beginning(), data, worker, number, _Shipping())


def _reduce_lazy(lazy: Any) -> Any:
    """Pickles a lazy tensor for the process that owns the device.

    Runs on the thread that feeds the DataLoader's queue: an error here would
    lose the batch without a word, so every error becomes a ticket.
    """
    if not in_worker():
        return tensor.transport(lazy)
    record = tensor.record_of(lazy) if Worker.sender is not None else None
    if record is not None:
        facts = tuple(lazy.shape), lazy.dtype, Worker.number
        if _pickling.parts is not None:
            _pickling.parts.append((lazy, record))
            return _part, (len(_pickling.parts) - 1, *facts)
        place = _send([record])
        if place is not None:
            return _claim, (*place, *facts)
    try:
        tensor.plain(lazy)
    except Exception as error:
        return _failed, (_picklable(error), Worker.number)
    return tensor.transport(lazy)


def _send(records: list[Any]) -> tuple[str, bytes, int] | None:
    """Sends them as one message; the arguments of _pending(), or None."""
    sender = Worker.sender
    if sender is None:
        return None
    single = not any(record.lead for record in records)
    try:
        _tell(sender)
        number = sender.ship(tensor.Records(records), single)
    except OSError:
        # The owner is gone or closing: pictures are made here from now on,
        # and most likely never read.
        Worker.sender = None
        sender.close()
        return None
    except Exception:
        return None  # a source that does not pickle
    return sender.address, sender.name, number


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _tell(sender: channel.Sender) -> None:
    counts, learned = take(), folder.take_learned()
    if any(counts.values()) or learned:
        sender.tell((counts, learned))


def _hear(news: Any) -> None:
    """Takes the counts and files that _tell() sent; on the channel's thread."""
    counts, learned = news
    add(counts)
    folder.learn(learned)


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
            pictures.reference, pixels.refused, images.filters, encoded.agree
        )
        return _rebuild, (self.module, self.install, known, home)


class _Known(NamedTuple):
    """selftest.py's findings in the process with the hooks."""

    reference: str | None
    refused: frozenset[str]
    filters: set[str]
    agree: set[str]


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
        _REDUCERS[kind] = _reduce_lazy


def _leave() -> None:
    sender = Worker.sender
    if sender is not None:
        try:
            _tell(sender)
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
            _submit, _hear, iterator, start=False, rooms=rooms
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
        return walk(got.data)
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


# A batch is not deeper. Objects of the user's own are opened if they are the
# batch or lie in it, no deeper: what they hold may be anything.
_MAX_DEPTH = 16
_OBJECT_DEPTH = 1
# A longer list of numbers or texts is not looked through.
_LONG = 1024
_NUMBERS = frozenset((int, float, bool, str, bytes, complex))
_LEAVES = frozenset(
    (torch.Tensor, int, float, bool, str, bytes, complex, type(None))
)


def walk(data: Any) -> Any:
    """Tensors for tickets and lazy tensors, wherever they are in a batch.

    Lists, dicts and plain objects that come out of a fetch have no other owner:
    they are changed in place and keep their type.
    """
    return _walk(data, tensor.lazy_types(), 0)


def _walk(data: Any, lazy: tuple[type, ...], depth: int) -> Any:
    kind = type(data)
    if kind in _LEAVES or depth > _MAX_DEPTH:
        return data
    if kind is Ticket:
        return data.value()
    if kind in lazy:
        return tensor.plain(data)
    if isinstance(data, (list, tuple)):
        if len(data) > _LONG and type(data[0]) in _NUMBERS:
            return data
        return _walk_sequence(data, lazy, depth)
    # (Another Mapping may read from a file for each of its items.)
    if isinstance(data, dict):
        return _walk_mapping(data, lazy, depth)
    if depth <= _OBJECT_DEPTH and not isinstance(data, (torch.Tensor, type)):
        fields = getattr(data, "__dict__", None)
        if type(fields) is dict:
            _walk_mapping(fields, lazy, depth)
    return data


def _walk_mapping(data: Any, lazy: tuple[type, ...], depth: int) -> Any:
    changed = {}
    for key, item in data.items():
        new = _walk(item, lazy, depth + 1)
        if new is not item:
            changed[key] = new
    if not changed:
        return data
    if isinstance(data, collections.abc.MutableMapping):
        for key, item in changed.items():
            data[key] = item
        return data
    return _like(data, {**data, **changed})


def _walk_sequence(data: Any, lazy: tuple[type, ...], depth: int) -> Any:
    new = [_walk(item, lazy, depth + 1) for item in data]
    if all(map(operator.is_, new, data)):
        return data
    if isinstance(data, list):
        data[:] = new
        return data
    if hasattr(data, "_fields"):
        return type(data)(*new)
    return _like(data, new)


def _like(data: Any, new: Any) -> Any:
    """The same class with other content; itself where that cannot be."""
    try:
        return type(data)(new)
    except TypeError:
        return data  # its tickets act as tensors


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
