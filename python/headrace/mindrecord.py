# SPDX-License-Identifier: Apache-2.0
"""MindRecord files of MindSpore, by the sqlite3 of Python.

A file of pages, and FILE.db, its index:

    file    u64  bytes of the header, which is JSON: the sizes of header and
                 pages, how many rows pages have, the fields
            at header_size + number * page_size: pages, of two kinds
    blobs   for each row a u64, its bytes, and the fields of bytes and arrays:
            one alone as it is, several each behind a u64 that is big endian
    raw     for each row a u64, its bytes, and the other fields as a map of
            MessagePack
    index   the table INDEXES: for each row where both begin and end in their
            pages, and a column for each field that is indexed

There are no checksums. Each shard of a data set is such a pair of files.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from . import _core, arrow
from ._left_out import listed
from .errors import ArgumentError, Error, ReadError

_HEADER = 1 << 28  # bytes of one, at most
_INDEX = 1 << 32  # of one that is fetched
_PLACES = (
    "PAGE_ID_BLOB",
    "PAGE_OFFSET_BLOB",
    "PAGE_OFFSET_BLOB_END",
    "PAGE_ID_RAW",
    "PAGE_OFFSET_RAW",
    "PAGE_OFFSET_RAW_END",
)
_KINDS = "int32 int64 float32 float64 string bytes array".split()
_LABELS = {"int32": int, "int64": int, "string": str}

_FAILURES = (OSError, sqlite3.Error, ValueError, RecursionError)
_STORE = Exception  # the package of a store raises its own


class _Damaged(ValueError):
    pass


class Rows:
    """The rows of one file: len(), and [i], the bytes of a picture.

    fields: of picture and label; None: the usual ones. path may be a URL that
    fsspec opens: the index is fetched, and a row is a range. Threads: any.
    """

    def __init__(
        self, path: str, fields: tuple[str | None, str | None] = (None, None)
    ) -> None:
        """Read header and index.

        Raises headrace.ArgumentError, headrace.ReadError.
        """
        self.path = arrow.shown(path)
        try:
            self._file = _Web(path) if "://" in path else _Disk(path)
            with self._file.open() as file:
                self._head = head = _Header(file, self._file.size)
                self._find_fields(*fields)
                self._places, found, num = self._read_index(file)
        except Error:
            raise
        except _STORE if "://" in path else _FAILURES as error:
            end = ".db" if isinstance(error, sqlite3.Error) else ""
            why = arrow.reason(path, error)
            raise _failed(f"{self.path}{end}: {why}") from None
        if num != head.rows:
            raise _failed(
                f"{self.path}.db: {num} rows, and {head.rows} in {self.path}"
            )
        # The library reads pictures that are alone in a row: set_opener().
        alone = isinstance(self._file, _Disk) and len(head.blobs) == 1
        self.ranges = self._places if alone else None
        self.words = head.fields.get(self.label or "") == "string"
        numbers: dict[Any, Any] = {}
        if self.words:
            words = sorted({word for word in found if word})
            numbers = {word: i for i, word in enumerate(words)}
        self.classes = listed(numbers)
        self._labels = [numbers.get(x) if self.words else x for x in found]

    def _find_fields(self, image: str | None, label: str | None) -> None:
        head = self._head
        labels = [name for name in head.fields if name not in head.blobs]
        usual = _core.LABEL_FIELDS.split()
        self.image = image or _first(_core.IMAGE_FIELDS.split(), head.blobs)
        self.label = label or _first(
            usual, [n for n in labels if head.fields[n] in _LABELS]
        )
        said = ", ".join(f"{n} ({kind})" for n, kind in head.fields.items())
        if self.image not in head.blobs or (
            head.fields[self.image] != "bytes"
        ):
            raise ArgumentError(
                f"{self.path}: no picture, the fields are: {said}"
            )
        if self.label is not None and (
            self.label not in labels or head.fields[self.label] not in _LABELS
        ):
            raise ArgumentError(
                f"{self.path}: no label {self.label!r} of whole numbers or "
                f"texts, the fields are: {said}"
            )

    # ---- The index ---------------------------------------------------------

    def _read_index(self, file: Any) -> tuple[array[int], list[Any], int]:
        """Return begin and end of each blob, the labels, how many rows."""
        with (
            self._file.index() as path,
            contextlib.closing(
                sqlite3.connect(
                    f"file:{quote(path)}?mode=ro&immutable=1", uri=True
                )
            ) as index,
        ):
            index.text_factory = _text
            index.execute("PRAGMA trusted_schema = OFF")
            index.set_authorizer(_no_views)
            columns = {
                name.upper(): hidden
                for _, name, _, _, _, _, hidden in index.execute(
                    "PRAGMA table_xinfo('INDEXES')"
                )
            }
            column = f"{self.label}_0"
            named = columns.get(column.upper()) == 0 and column.isidentifier()
            wanted = ["ROW_ID", *_PLACES, *([column] if named else [])]
            if any(columns.get(name.upper()) != 0 for name in wanted):
                raise sqlite3.DatabaseError("it has no index of MindRecord")
            return self._take_rows(
                file,
                named,
                index.execute(f"SELECT {', '.join(wanted)} FROM INDEXES "
                              "NOT INDEXED"),
            )

    def _take_rows(
        self, file: Any, named: bool, rows: Iterator[Any]
    ) -> tuple[array[int], list[Any], int]:
        head, num, known = self._head, 0, False
        places = array("q", [-1]) * (2 * head.rows)
        labels: list[Any] = [None] * head.rows
        for number, *where in rows:
            num += 1
            label = where.pop() if named else None
            if not all(isinstance(x, int) for x in (number, *where)):
                continue  # a row that is damaged fails when it is read
            if not 0 <= number < head.rows or places[2 * number] >= 0:
                continue
            try:
                begin, end = head.range(*where[:3])
                raw: dict[Any, Any] = {}
                if not known or (self.label is not None and not named):
                    begins, ends = head.range(*where[3:])
                    file.seek(begins)
                    raw = _unpack(
                        _row(file.read(ends - begins), ends - begins)
                    )
                labels[number] = self._checked(
                    label if named else raw.get(self.label)
                )
            except ValueError:
                continue
            if not known and set(raw) - set(head.fields):
                break
            known = True
            places[2 * number] = begin
            places[2 * number + 1] = end
        else:
            return places, labels, num
        raise _Damaged("the header's fields are not those of the rows")

    def _checked(self, label: Any) -> Any:
        if self.label is None or label is None:
            return None
        if type(label) is not _LABELS[self._head.fields[self.label]]:
            raise _Damaged("another kind of label")
        return label

    # ---- Rows --------------------------------------------------------------

    def labels(self) -> Iterator[int | None]:
        """Yield the number of each row's class."""
        return iter(self._labels)

    def __len__(self) -> int:
        """All rows."""
        return self._head.rows

    def __getitem__(self, i: int) -> bytes:
        """Read the picture of a row."""
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} of {len(self)}")
        begin, end = self._places[2 * i : 2 * i + 2]
        if begin < 0:
            raise _failed(f"{self.path}.db: row {i} of the index is damaged")
        try:
            row = _row(self._file.read(begin, end), end - begin)
            return _field(row, self._head.blobs, self.image)
        except Error:
            raise
        except _STORE if "://" in self.path else ValueError as error:
            why = arrow.reason(self.path, error)
            raise _failed(f"{self.path}: row {i}: {why}") from None


def _no_views(*about: str | int | None) -> int:
    """Rows of a view are computed, and may have no end."""
    return sqlite3.SQLITE_OK if about[-1] is None else sqlite3.SQLITE_DENY


class _Disk:
    """A file and its index."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stat = self._changed(os.stat(path))
        self.size = self._stat[0]

    @staticmethod
    def _changed(stat: os.stat_result) -> tuple[int, int]:
        return stat.st_size, stat.st_mtime_ns

    def open(self) -> Any:
        return open(self.path, "rb")

    def index(self) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext(os.path.abspath(self.path) + ".db")

    def read(self, begin: int, end: int) -> bytes:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._changed(os.fstat(fd)) != self._stat:
                raise _failed(f"{self.path}: it was changed while it was open")
            return os.pread(fd, end - begin, begin)
        finally:
            os.close(fd)


class _Web:
    """The same at a URL, whose query, if any, is that of the index, too."""

    def __init__(self, url: str) -> None:
        self._fs, self._path = arrow.store(url)
        base, mark, query = url.partition("?")
        self._index = arrow.store(f"{base}.db{mark}{query}")[1]
        self.size = self._fs.size(self._path)
        if self.size is None:
            raise _Damaged("the server does not say how long it is")

    def open(self) -> Any:
        return self._fs.open(self._path, "rb")

    @contextlib.contextmanager
    def index(self) -> Iterator[str]:
        with (
            self._fs.open(self._index, "rb") as found,
            tempfile.NamedTemporaryFile() as copy,
        ):
            # (Not every store tells its size before.)
            while part := found.read(1 << 20):
                if copy.tell() + len(part) > _INDEX:
                    raise _Damaged(f"an index of more than {_INDEX} bytes")
                copy.write(part)
            copy.flush()
            yield copy.name

    def read(self, begin: int, end: int) -> bytes:
        data: bytes = self._fs.cat_file(self._path, start=begin, end=end)
        return data


class _Header:
    """Reads the JSON at the begin, and rows by their places."""

    def __init__(self, file: Any, size: int) -> None:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(size, _HEADER):
            raise _Damaged("no MindRecord file, or it is encrypted")
        about = json.loads(file.read(length))
        try:
            self.begin, self.page = about["header_size"], about["page_size"]
            (schema,) = about["schema"]
            self.fields = {
                name: "array" if "shape" in kind else kind["type"]
                for name, kind in schema["schema"].items()
            }
            self.blobs: list[str] = schema["blob_fields"]
            self.rows = max(
                (
                    page["end_row_id"]
                    for page in about["page"]
                    if page["page_type"] == "BLOB_DATA"
                ),
                default=0,
            )
            bad = any(name not in self.fields for name in self.blobs) or any(
                kind not in _KINDS for kind in self.fields.values()
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            bad = True
        # (A row has 16 bytes at least.)
        numbers = () if bad else (self.begin, self.page, 16 * self.rows)
        if bad or not all(type(n) is int and 0 <= n <= size for n in numbers):
            raise _Damaged("the header is not that of one MindRecord file")
        self.size = size

    def range(self, page: int, begin: int, end: int) -> tuple[int, int]:
        """Return where a row of a page is in the file."""
        at = self.begin + page * self.page
        if not 0 <= begin <= end - 8 or end > self.page or page < 0:
            raise _Damaged("no part of a page")
        if at + end > self.size:
            raise _Damaged("the file ends before it")
        return at + begin, at + end


def _row(row: bytes, size: int) -> bytes:
    """Return a row without the bytes that say how long it is."""
    if len(row) != size or int.from_bytes(row[:8], "little") != size - 8:
        raise _Damaged("it is not as long as the index says")
    return row[8:]


def _field(row: bytes, blobs: list[str], wanted: str | None) -> bytes:
    """Return one of the blobs of a row."""
    if len(blobs) == 1:
        return row
    at, found = 0, b""
    for name in blobs:
        end = at + 8 + int.from_bytes(row[at : at + 8], "big")
        if name == wanted:
            found = row[at + 8 : end]
        at = end
    if at != len(row):
        raise _Damaged("its fields are not as long as it is")
    return found


def _failed(text: str) -> ReadError:
    return ReadError(text, status="HR_EIO")


def _first(names: list[str], there: list[str]) -> str | None:
    return next((name for name in names if name in there), None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# ---- MessagePack -----------------------------------------------------------

_WIDTHS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _unpack(data: bytes) -> dict[Any, Any]:
    """Return the map of fields: numbers and texts."""
    try:
        value, end = _value(data, 0)
    except (IndexError, struct.error):
        raise _Damaged("its fields are cut short") from None
    if end != len(data) or not isinstance(value, dict):
        raise _Damaged("its fields are no map")
    return value


def _value(data: bytes, at: int, inside: bool = False) -> tuple[Any, int]:
    kind, at = data[at], at + 1
    if kind < 0x80 or kind >= 0xE0:
        return kind - (kind >> 5 == 7) * 256, at
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _WIDTHS:
        form = _WIDTHS[kind]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if kind in _TEXTS:
        (num,) = struct.unpack_from(_TEXTS[kind], data, at)
        at += struct.calcsize(_TEXTS[kind])
    else:
        num = kind & (0x1F if kind >= 0xA0 else 0x0F)
    if kind >> 5 == 5 or 0xD9 <= kind <= 0xDB:
        return _text(data[at : at + num]), at + num
    if inside or not (kind >> 4 == 8 or kind >= 0xDE):
        raise _Damaged("its fields are of another kind")
    found = {}
    for _ in range(num):
        key, at = _value(data, at, True)
        found[key], at = _value(data, at, True)
    return found, at
