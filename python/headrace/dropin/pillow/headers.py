# SPDX-License-Identifier: Apache-2.0
"""Keeps what Pillow read from the headers of files, for the next time.

A picture that Pillow has opened is a handful of plain values. They are kept by
the file's identity, so that a file that is the same (one system call tells) is
opened again without reading its header. Pictures with values of other kinds
are not kept, nor large ones (thumbnails).

Threads: any; what is remembered are single dictionary updates.
"""

from __future__ import annotations

import io
import os
import stat
import time
from typing import Any

# Device, inode, size, times of change in ns: of contents, of anything.
Identity = tuple[int, int, int, int, int]

# Attributes that differ in each picture.
_OWN = ("fp", "filename")
_PLAIN = (int, float, str, bytes, bool, type(None))
# A file of the last seconds may be written again within one tick of its file
# system's clock, and look the same.
_SETTLED = 2
_MOST_EACH = 16384  # bytes of text in a header
_MOST = 64 << 20  # bytes of all headers, roughly
_ROUGHLY = 2048  # of one without text


class Header:
    """The attributes of a picture that was opened and not touched."""

    __slots__ = ("plain", "flat", "deep", "place")

    def __init__(self, place: int) -> None:
        self.plain: dict[str, Any] = {}
        # Containers of plain values; dictionaries of such containers.
        self.flat: list[tuple[str, Any]] = []
        self.deep: list[tuple[str, dict[Any, Any]]] = []
        self.place = place  # in the file, where Pillow stopped to read

    def add(self, name: str, value: Any) -> bool:
        """False: nothing that can be kept."""
        if _is_plain(value):
            self.plain[name] = value
        elif _is_flat(value):
            self.flat.append((name, value.copy()))
        elif type(value) is dict and all(map(_is_flat, value.values())):
            self.deep.append((name, _copy(value)))
        else:
            return False
        return True

    def fill(self, picture: Any) -> int | None:
        """Takes all attributes; returns bytes, roughly. None: it cannot."""
        text = _ROUGHLY
        for name, value in vars(picture).items():
            if name not in _OWN:
                if not self.add(name, value):
                    return None
                text += _text(value)
        # (Of an MPO that is none Pillow warns whenever it is opened.)
        return None if text > _MOST_EACH or "mp" in picture.info else text

    def attributes(self) -> dict[str, Any]:
        """Attributes of a new picture; no mutable one is shared."""
        own = self.plain.copy()
        for name, value in self.flat:
            own[name] = value.copy()
        for name, value in self.deep:
            own[name] = _copy(value)
        return own


def _is_plain(value: Any) -> bool:
    """May pictures share it?"""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _is_flat(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_plain, value.values()))
    return kind is list and all(map(_is_plain, value))


def _copy(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item.copy() for key, item in value.items()}


# None: Pillow reads it each time.
_known: dict[Identity, Header | None] = {}
_used = 0


def is_plain_file(fp: Any) -> bool:
    """Says whether it is open()'s own type, whose descriptor and name tell the
    file."""
    return type(fp) is io.BufferedReader and type(fp.raw) is io.FileIO


def identify(fp: Any) -> Identity | None:
    """The identity of a regular file that open() opened and that was not read
    yet; else None."""
    if not is_plain_file(fp) or fp.tell():
        return None
    status = os.fstat(fp.fileno())
    if not stat.S_ISREG(status.st_mode):
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def settled(mtime_ns: int, ctime_ns: int) -> bool:
    """Is the file old enough to be known again by these?"""
    return time.time() - max(mtime_ns, ctime_ns) / 1e9 > _SETTLED


def find(identity: Identity) -> Header | None:
    return _known.get(identity)


def learn(identity: Identity, picture: Any) -> None:
    """Remembers what stock Pillow has just made of a file, if it may."""
    global _used
    if identity in _known or not settled(*identity[3:]):
        return
    header = Header(picture.fp.tell())
    text = header.fill(picture)
    size = text or _ROUGHLY
    if _used + size > _MOST:
        clear()
    _used += size
    _known[identity] = None if text is None else header


def _text(value: Any) -> int:
    """Bytes of text in it."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return 0
    return sum(map(_text, value))


def clear() -> None:
    global _used
    _known.clear()
    _used = 0
