# SPDX-License-Identifier: Apache-2.0
"""The side channel of DataLoader workers.

A worker records pictures and never opens a device. Its records travel over an
AF_UNIX stream socket to the process that owns the device, and a thread there
submits them as soon as they arrive, long before the consumer asks for the
batch. In the DataLoader's own queue only the number of the message travels
(see Ticket in tickets.py).

One Channel belongs to one DataLoader iterator with workers: a listening
socket, one daemon thread and one connection per worker. It is closed with
its iterator; jobs that were submitted and not yet claimed are cancelled then.

A forked worker finds the memory for files in its parent (Rooms), which keeps
it for the next epoch's workers: memory that is new costs more than reading.

Threads: claim(), close() and Sender.ship() from any thread. _lock guards the
three tables of Channel; it is never held while submitting or waiting.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import pickle
import secrets
import selectors
import socket
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import _core
from ..._forks import renewed
from . import message

# A worker's first message: the channel's key, its own name, its number.
_HELLO = struct.Struct("<32s16sq")
# A worker that stops in the middle of a message for so long is given up.
_READ_SECONDS = 60.0
# Single samples that arrive within this time run as one job.
_LINGER_SECONDS = 0.001
# How often the thread looks whether its owner is still there.
_OWNER_SECONDS = 2.0
# close() waits so long for the thread, which may be inside a submit.
_JOIN_SECONDS = 5.0
# Connections that have not said their hello, and how long they may take.
_MOST_STRANGERS = 64
_HELLO_SECONDS = 5.0
# Without free descriptors nothing is accepted for so long.
_FULL_SECONDS = 0.5

Submit = Callable[[list[Any]], Sequence[Any]]


class ChannelError(RuntimeError):
    """The batch is lost with the worker or the iterator it belonged to."""


class Link(NamedTuple):
    """The facts a worker needs to reach its channel; plain data."""

    address: str
    key: bytes
    pid: int


class Pending:
    """A batch that was announced, submitted, or failed.

    Dropping the last reference drops the handle, and with it the job.
    """

    __slots__ = ("_there", "_handle", "_error", "_pid", "__weakref__")

    def __init__(self) -> None:
        self._there = threading.Event()
        self._handle: Any = None
        self._error: BaseException | None = None
        self._pid = os.getpid()

    def fulfil(self, handle: Any) -> None:
        self._handle = handle
        self._there.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._there.set()

    def wait(self) -> None:
        """Until the job is done; raises what concerns more than pictures."""
        if os.getpid() != self._pid:
            raise ChannelError(
                "a batch of a DataLoader cannot be read in a child process"
            )
        self._there.wait()
        if self._error is not None:
            raise self._error
        wait = getattr(self._handle, "wait", None)
        if wait is not None:
            wait()

    def result(self, *which: int) -> Any:
        """The tensor; raises what the first bad picture makes stock raise.

        which: its place, where several were sent together.
        """
        self.wait()
        return self._handle.result(*which)


class Channel:
    """The end in the process that owns the device.

    submit(records) -> one handle per record; called on the channel's thread.
    A handle has result() and may have wait(), see Pending. news(value) takes
    what workers report besides (see Sender.tell). When owner is gone the
    channel ends by itself: a signal handler may have cut close() short.
    start=False: start() comes later. rooms: memory that workers may have
    adopted, by its number. Raises OSError.
    """

    def __init__(
        self,
        submit: Submit,
        news: Callable[[Any], None] | None = None,
        owner: Any = None,
        start: bool = True,
        rooms: Sequence[_core.SharedFiles] = (),
    ) -> None:
        self._rooms = rooms
        self._submit = submit
        self._news = news
        self._owner = weakref.ref(owner) if owner is not None else None
        # Reentrant: a collector may call close() inside a guarded block.
        self._lock = renewed(threading.RLock())
        # Arrived and not claimed; claimed and not arrived; workers gone.
        self._arrived: dict[tuple[bytes, int], Pending] = {}
        self._claimed: dict[tuple[bytes, int], weakref.ref[Pending]] = {}
        self._gone: set[bytes] = set()
        self._closed = False
        self._folder: str | None = None
        self._names: dict[socket.socket, bytes | None] = {}
        self._shared: dict[socket.socket, _core.SharedFiles] = {}
        # Accepted, without a hello yet: when. The oldest comes first.
        self._strangers: dict[socket.socket, float] = {}
        self._full_until = 0.0
        self._group: list[tuple[Pending, Any]] = []
        self._listener, address = self._listen()
        try:
            self._wake, self._woken = socket.socketpair()
        except OSError:
            self._listener.close()
            raise
        self._selector = selectors.DefaultSelector()
        self.link = Link(address, secrets.token_bytes(32), os.getpid())
        self._thread = threading.Thread(
            target=self._run, name="headrace-channel", daemon=True
        )
        self._started = False
        _channels[address] = self
        if start:
            self.start()

    def _listen(self) -> tuple[socket.socket, str]:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = "headrace-" + secrets.token_hex(16)
        if sys.platform == "linux":
            address = "\0" + name  # abstract: no file to leave behind
        else:
            self._folder = tempfile.mkdtemp(prefix="headrace-")
            address = os.path.join(self._folder, "s")
        try:
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        return listener, address

    # ---- any thread ----

    def start(self) -> None:
        """Starts the thread, unless it was; workers may have connected.

        Raises OSError.
        """
        with self._lock:
            if self._started or self._closed:
                return
            try:
                self._thread.start()
            except RuntimeError as error:
                self._end()
                raise OSError(str(error)) from error
            self._started = True

    def claim(self, worker: bytes, number: int) -> Pending:
        """The batch of that number; it may be still on its way."""
        key = (worker, number)
        with self._lock:
            pending = self._arrived.pop(key, None)
            if pending is not None:
                return pending
            pending = Pending()
            if self._closed or worker in self._gone:
                pending.fail(_lost())
            else:
                self._claimed[key] = weakref.ref(pending)
            return pending

    def close(self) -> None:
        """Ends the thread and every connection; twice is harmless."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        _channels.pop(self.link.address, None)
        if os.getpid() != self.link.pid:
            return
        if not self._started:
            self._end()
            return
        try:
            self._wake.send(b"x")
        except OSError:
            pass
        # A collector may run this on the channel's own thread.
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)

    def ended(self) -> bool:
        """Nothing that a worker has sent is taken any more."""
        return self._closed and not self._thread.is_alive()

    # ---- the thread ----

    def _run(self) -> None:
        try:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._selector.register(self._woken, selectors.EVENT_READ)
            while not self._closed:
                self._step()
            self._hear_out()
        finally:
            self._end()

    def _step(self) -> None:
        timeout = _LINGER_SECONDS if self._group else _OWNER_SECONDS
        if self._full_until:
            timeout = min(timeout, _FULL_SECONDS)
        ready = self._selector.select(timeout)
        if self._full_until and time.monotonic() > self._full_until:
            self._full_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
        if not ready:
            self._flush()
            if self._owner is not None and self._owner() is None:
                self._closed = True
        for key, _ in ready:
            sock: Any = key.fileobj
            if self._closed or sock is self._woken:
                return
            if sock is self._listener:
                self._accept()
            elif sock in self._names and not self._read(sock):
                self._drop(sock)

    def _hear_out(self) -> None:
        """The last news of workers, which have most likely ended."""
        late = time.monotonic() + _JOIN_SECONDS / 2
        while time.monotonic() < late:
            found = self._selector.select(0)
            ready: list[Any] = [key.fileobj for key, _ in found]
            ready = [sock for sock in ready if sock is not self._woken]
            if not ready:
                return
            for sock in ready:
                if sock is self._listener:
                    self._accept()
                elif sock in self._names and not self._read(sock):
                    self._selector.unregister(sock)

    def _accept(self) -> None:
        self._send_strangers_away()
        try:
            conn, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                self._selector.unregister(self._listener)
                self._full_until = time.monotonic() + _FULL_SECONDS
            return
        if not _is_own(conn):
            conn.close()
            return
        conn.settimeout(_READ_SECONDS)
        self._names[conn] = None  # nothing is believed before its hello
        self._strangers[conn] = time.monotonic()
        self._selector.register(conn, selectors.EVENT_READ)

    def _send_strangers_away(self) -> None:
        """Drops connections that had time for a hello, if there are many."""
        late = time.monotonic() - _HELLO_SECONDS
        for conn, since in list(self._strangers.items()):
            if since > late and len(self._strangers) < _MOST_STRANGERS:
                break
            self._drop(conn)

    def _drop(self, conn: socket.socket) -> None:
        """A worker went away: what it announced and did not send is lost."""
        self._flush()
        self._selector.unregister(conn)
        conn.close()
        self._strangers.pop(conn, None)
        self._shared.pop(conn, None)
        worker = self._names.pop(conn)
        if worker is None:
            return
        with self._lock:
            self._gone.add(worker)
            lost = [key for key in self._claimed if key[0] == worker]
            refs = [self._claimed.pop(key) for key in lost]
        _fail_all(refs)

    def _read(self, conn: socket.socket) -> bool:
        """One hello or one message; False when the connection is over."""
        worker = self._names[conn]
        try:
            if worker is None:
                return self._greet(conn)
            shared = self._shared.get(conn)
            kind, number, data, buffers = message.receive(conn, shared)
            if kind == message.SHARED:
                self._shared[conn] = [*buffers, *self._rooms[number:]][0]
                return True
        except (OSError, EOFError, ValueError, MemoryError, IndexError):
            return False
        try:
            value = pickle.loads(data, buffers=buffers)
        except Exception as error:
            self._refuse((worker, number), error)
            return True
        if kind == message.NEWS:
            self._hear(value)
        elif not self._closed:
            self._arrive((worker, number), value, kind == message.SINGLE)
        return True

    def _hear(self, news: Any) -> None:
        if self._news is not None:
            self._news(news)

    def _greet(self, conn: socket.socket) -> bool:
        # So few bytes come in one piece, or not from a worker of ours.
        data = conn.recv(_HELLO.size, socket.MSG_DONTWAIT)
        if len(data) != _HELLO.size:
            return False
        key, worker, _ = _HELLO.unpack(data)
        if not hmac.compare_digest(key, self.link.key):
            return False
        self._names[conn] = worker
        del self._strangers[conn]
        return True

    def _expect(self, key: tuple[bytes, int]) -> Pending | None:
        """The place of a batch that arrived; None: its ticket is gone."""
        with self._lock:
            ref = self._claimed.pop(key, None)
            if ref is not None:
                return ref()
            pending = self._arrived[key] = Pending()
            return pending

    def _refuse(self, key: tuple[bytes, int], error: BaseException) -> None:
        pending = self._expect(key)
        if pending is not None:
            pending.fail(error)

    def _arrive(
        self, key: tuple[bytes, int], record: Any, single: bool
    ) -> None:
        pending = self._expect(key)
        if pending is None:
            return
        if not single:
            self._flush()
        self._group.append((pending, record))
        if not single:
            self._flush()

    def _flush(self) -> None:
        group, self._group = self._group, []
        if not group:
            return
        try:
            handles = self._submit([record for _, record in group])
        except Exception as error:
            for pending, _ in group:
                pending.fail(error)
            return
        for (pending, _), handle in zip(group, handles):
            pending.fulfil(handle)

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            refs = list(self._claimed.values())
            refs += [weakref.ref(pending) for pending, _ in self._group]
            self._claimed.clear()
            arrived, self._arrived = self._arrived, {}
        self._group = []
        _channels.pop(self.link.address, None)
        self._close_sockets()
        if self._folder is not None:
            _remove_folder(self._folder)
        _fail_all(refs)
        arrived.clear()  # cancels their jobs

    def _close_sockets(self) -> None:
        for sock in self._names:
            sock.close()
        self._names.clear()
        self._shared.clear()
        for sock in (self._listener, self._wake, self._woken):
            sock.close()
        self._selector.close()

    def _forget(self) -> None:
        """In a forked child: the sockets and the thread are the parent's."""
        self._closed = True
        self._close_sockets()
        # Its jobs are the parent's, too: they cannot be cancelled here.
        _inherited.append((self._arrived, self._group))
        self._arrived, self._claimed, self._group = {}, {}, []


class Sender:
    """The end in a worker process; connects at once, may raise OSError."""

    def __init__(self, link: Link) -> None:
        self.name = secrets.token_bytes(16)
        self.address = link.address
        self._lock = renewed(threading.Lock())
        self._number = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.connect(link.address)
            self._sock.sendall(_HELLO.pack(link.key, self.name, os.getpid()))
        except OSError:
            self._sock.close()
            raise

    def ship(self, record: Any, single: bool = False) -> int:
        """Sends a recorded batch; returns its number for claim().

        Buffers that pickle as pickle.PickleBuffer arrive as memoryviews.
        single: it is one of many that may run together. Raises OSError.
        """
        with self._lock:
            self._number += 1
            kind = message.SINGLE if single else message.BATCH
            message.send(self._sock, kind, self._number, record)
            return self._number

    def tell(self, news: Any) -> None:
        """Sends a value that belongs to no batch. Raises OSError."""
        with self._lock:
            message.send(self._sock, message.NEWS, 0, news)

    def close(self) -> None:
        self._sock.close()

    def share_files(self, number: int = 0, room: Any = None) -> None:
        """Lends files that are read from now on, in place of sending them.
        Raises OSError.

        room: memory of the parent's, with that number there.
        """
        if room is not None:
            room.adopt()
            message.share(self._sock, number)
            return
        fd = _core.share_files()
        try:
            message.share(self._sock, 0, fd)
        finally:
            os.close(fd)

class Rooms:
    """Memory that the workers of one DataLoader read files into, by number.

    A room is used again when the worker that had it is gone, the channel that
    took files from it has ended, and no file of it is in use.
    """

    def __init__(self) -> None:
        self._given: list[tuple[_core.SharedFiles, Any, Channel]] = []

    def __reduce__(self) -> Any:
        return Rooms, ()  # a copy of the DataLoader has its own

    def take(self, most: int) -> list[_core.SharedFiles]:
        """For so many workers; fewer if there are no descriptors left."""
        given, self._given = self._given, []
        rooms = [
            room
            for room, process, owner in given
            if owner.ended() and _is_gone(process) and room.clear()
        ][:most]
        with contextlib.suppress(OSError, MemoryError):
            while len(rooms) < most:
                rooms.append(_core.SharedFiles())
        return rooms

    def give(
        self,
        rooms: Sequence[_core.SharedFiles],
        processes: Sequence[Any],
        owner: Channel,
    ) -> None:
        """These have adopted them."""
        self._given += [
            (room, process, owner) for room, process in zip(rooms, processes)
        ]


def _is_gone(process: Any) -> bool:
    try:
        return process.exitcode is not None
    except (AssertionError, ValueError):
        return False  # of another process, or closed


def _is_own(conn: socket.socket) -> bool:
    """Does it come from a process of the same user? An abstract name has no
    permissions; on other systems the folder of the socket has them."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    data = conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return bool(struct.unpack("3i", data)[1] == os.geteuid())


def channel_at(address: str) -> Channel | None:
    """The open channel of this process with that address."""
    return _channels.get(address)


def _lost() -> ChannelError:
    return ChannelError("the DataLoader worker that recorded this batch ended")


def _fail_all(refs: list[weakref.ref[Pending]]) -> None:
    for ref in refs:
        pending = ref()
        if pending is not None:
            pending.fail(_lost())


def _remove_folder(folder: str) -> None:
    try:
        os.unlink(os.path.join(folder, "s"))
        os.rmdir(folder)
    except OSError:
        pass


def _after_fork_in_child() -> None:
    for channel in list(_channels.values()):
        channel._forget()
    _channels.clear()


# The open channels of this process by address.
_channels: dict[str, Channel] = {}
# Objects that a parent's channels held at the fork.
_inherited: list[Any] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
