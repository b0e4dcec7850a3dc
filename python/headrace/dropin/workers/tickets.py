# SPDX-License-Identifier: Apache-2.0
"""Batches of a DataLoader's worker on their way: recordings become tickets
there, and tickets become tensors where the device is.

The recordings themselves travel over the channel (channel.py).
"""

from __future__ import annotations

import collections.abc
import operator
import pickle
import threading
from typing import Any

import torch
from torch._utils import ExceptionWrapper

from ..base.report import add, take
from ..base.worker import Worker, in_worker
from ..pillow import folder
from ..torch import tensor
from . import again, channel


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
        return reduce_lazy(self._lazy)


def framed(data: Any, worker: int, number: int | None) -> Any:
    """Pickles to what arrived() takes."""
    return arrived, (_Beginning(), data, worker, number, _Shipping())


def reduce_lazy(lazy: Any) -> Any:
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
        tell(sender)
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


def tell(sender: channel.Sender) -> None:
    counts, learned = take(), folder.take_learned()
    if any(counts.values()) or learned:
        sender.tell((counts, learned))


def hear(news: Any) -> None:
    """Takes the counts and files that tell() sent; on the channel's thread."""
    counts, learned = news
    add(counts)
    folder.learn(learned)


# ---- tensors for tickets ----

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
