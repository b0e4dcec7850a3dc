# SPDX-License-Identifier: Apache-2.0
"""How a value travels over a socket between two processes of a program.

A message is a header, a pickle and its out-of-band buffers (pickle protocol
5). Files that a worker has read lie in memory that both ends map (_core's
SharedFiles): only their place is sent. Other buffers follow the pickle in the
stream, or, if they are large, are written to an anonymous memory file whose
descriptor goes along; the receiver maps it. So nothing is left in any file
system, whichever process dies first.

Threads: one at a time sends, one receives, per socket.
"""

from __future__ import annotations

import array
import mmap
import os
import pickle
import socket
import struct
import tempfile
from typing import Any

from ... import _core

# Kind, number for claim(), bytes of pickle, bytes of all buffers that are sent,
# number of buffers, 1: the descriptor of a memory file comes along, which has
# the buffers (or is the memory of SHARED; without one that has a number of the
# parent's). Then the size of each buffer, or _LENT and its number in the shared
# memory.
HEADER = struct.Struct("<IQQQII")
BATCH, SINGLE, NEWS, SHARED = 1, 2, 3, 4
_LENT = 1 << 63
# From this size on, buffers go through a memory file.
_INLINE_BYTES = 64 * 1024
_FD_BYTES = array.array("i").itemsize


def send(sock: socket.socket, kind: int, number: int, value: Any) -> None:
    """Sends a value. Raises OSError."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, 5, buffer_callback=buffers.append)
    views, sizes = [], []
    for view in [buffer.raw() for buffer in buffers]:
        lent = _lend(view.obj)
        sizes.append(len(view) if lent is None else _LENT | lent)
        if lent is None:
            views.append(view)
    packed = struct.pack("<%dQ" % len(sizes), *sizes)
    total = sum(map(len, views))
    mapped = total >= _INLINE_BYTES
    header = HEADER.pack(kind, number, len(data), total, len(sizes), mapped)
    if mapped:
        with _memory_file() as file:
            for view in views:
                file.write(view)
            file.flush()
            _send_with_file(sock, header, file.fileno())
        sock.sendall(packed + data)
    else:
        sock.sendall(b"".join([header, packed, data, *views]))


def share(sock: socket.socket, number: int, fd: int | None = None) -> None:
    """Tells of shared memory: its descriptor, or its number at the receiver."""
    header = HEADER.pack(SHARED, number, 0, 0, 0, fd is not None)
    if fd is None:
        sock.sendall(header)
    else:
        _send_with_file(sock, header, fd)


def _send_with_file(sock: socket.socket, header: bytes, fd: int) -> None:
    fds = array.array("i", [fd])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
    sent = sock.sendmsg([header], rights)
    sock.sendall(header[sent:])


def _lend(source: Any) -> int | None:
    return source.lend() if type(source) is _core.FileBytes else None


def receive(
    conn: socket.socket, shared: _core.SharedFiles | None
) -> tuple[int, int, bytearray, list[Any]]:
    """Kind, number, pickle and buffers of one message."""
    header, fd = _receive_header(conn)
    try:
        kind, number, size, total, count, mapped = HEADER.unpack(header)
        if bool(mapped) != (fd >= 0):
            raise EOFError
        if kind == SHARED:
            made = [_core.SharedFiles(fd)] if mapped else []
            return kind, number, bytearray(), made
        sizes = struct.unpack("<%dQ" % count, _receive_bytes(conn, 8 * count))
        data = _receive_bytes(conn, size)
        if sum(size for size in sizes if size < _LENT) != total:
            raise EOFError
        if mapped:
            blob = memoryview(mmap.mmap(fd, total, prot=mmap.PROT_READ))
        else:
            blob = memoryview(_receive_bytes(conn, total)).toreadonly()
    finally:
        if fd >= 0:
            os.close(fd)
    buffers: list[Any] = []
    start = 0
    for size in sizes:
        if size < _LENT:
            buffers.append(blob[start : start + size])
            start += size
        elif shared is None:
            raise EOFError
        else:
            buffers.append(shared.take(size - _LENT))
    return kind, number, data, buffers


def _receive_header(conn: socket.socket) -> tuple[bytes, int]:
    """The header, and the descriptor that came with it or -1."""
    data, ancillary, _, _ = conn.recvmsg(
        HEADER.size, socket.CMSG_LEN(_FD_BYTES)
    )
    fd = -1
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fd = array.array("i", value[:_FD_BYTES])[0]
            os.set_inheritable(fd, False)
    try:
        if not data:
            raise EOFError
        return data + _receive_bytes(conn, HEADER.size - len(data)), fd
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise


def _receive_bytes(conn: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = conn.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return data


def _memory_file() -> Any:
    """An anonymous file in memory, open for writing."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("headrace"), "wb", buffering=1 << 20)
    return tempfile.TemporaryFile()
