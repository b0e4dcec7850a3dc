# SPDX-License-Identifier: Apache-2.0
"""Parquet and Arrow files as a Loader's source, by the installed pyarrow."""

from __future__ import annotations

import bisect
import itertools
import json
import mmap
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import _core
from ._forks import renewed
from ._left_out import listed
from .errors import ArgumentError, Error, ReadError

_SUFFIXES = (".parquet", ".arrow", ".feather")

_FOREIGN = re.compile(r"(?!https?:|s3:)[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_READ_HERE = re.compile(
    r"\.(parquet|arrow|feather|mindrecord)\d*$", re.IGNORECASE
)
_SIGNED = 7 * 24 * 3600  # seconds, the most that stores allow

_OPEN = ("headrace", "pyarrow", "sqlite3", "json")  # packages, see reason()
_KEPT = 256 << 20  # bytes of groups of rows that are kept
_TEXTS = ("string", "large_string", "string_view")
_PICTURES = ("binary", "large_binary", "binary_view", "string", "large_string")


class Rows:
    """The rows of Parquet or Arrow files (also Feather): len() and [i].

        loader = headrace.Loader(["train-0.parquet", "train-1.parquet"], steps)

    A row is (picture, class). fields: the columns of picture and label; None:
    the columns that Hugging Face's features in the schema name (Image,
    ClassLabel), else the first with a usual name. A picture is bytes, a struct
    of bytes and path, or a path; a label is a whole number or a text. Paths may
    be URLs that fsspec opens.

    A group of rows of a Parquet file is read at once, and the newest are kept,
    up to 256 MiB in all; so are the batches of an Arrow file, which is mapped.
    A stream of batches that are compressed is in memory. Threads: any.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        fields: tuple[str | None, str | None] | None = None,
    ) -> None:
        """Open the files; no picture is read.

        Raises headrace.ArgumentError, headrace.ReadError.
        """
        self.classes: tuple[str, ...] = ()
        self._groups: list[tuple[_File, int]] = []
        self._starts: list[int] = []
        self._num = 0
        self._lock = renewed(threading.Lock())  # guards the rest
        self._kept: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        self._bytes = 0
        for path in paths:
            self._add(_open(os.fsdecode(path), fields))
        self._number_words()

    def _add(self, file: _File) -> None:
        if not self._groups:
            self.classes = file.classes
        elif self.classes != file.classes:
            raise ArgumentError(f"{file.path}: other classes than before")
        for group, rows in enumerate(file.rows):
            self._groups.append((file, group))
            self._starts.append(self._num)
            self._num += rows

    def _number_words(self) -> None:
        """Labels that are texts become numbers, in the order of the words."""
        self._numbers: dict[Any, int] = {}
        self.words = False
        files = {id(file): file for file, _ in self._groups}.values()
        if not any(file.words for file in files):
            return
        self.words = True
        words: set[str] = set()
        for file in files:
            for labels in _labels_of(file):
                words.update(labels.unique().drop_null().to_pylist())
        words.discard("")  # as of other records: there is no label
        self._numbers = {word: i for i, word in enumerate(sorted(words))}
        self.classes = listed(self._numbers)

    def __len__(self) -> int:
        """All rows."""
        return self._num

    def __getitem__(self, i: int) -> tuple[Any, int | None]:
        """One row."""
        if not -self._num <= i < self._num:
            raise IndexError(f"row {i} of {self._num}")
        row = self.__getitems__([i % self._num])[0]
        if isinstance(row, Exception):
            raise row
        return row

    def __getitems__(
        self, indices: Sequence[int]
    ) -> list[tuple[Any, int | None] | Exception]:
        """Return rows; a group that several lie in is read once.

        In the place of what cannot be read stands the reason.
        """
        found: dict[int, tuple[Any, int | None] | Exception] = {}
        groups = sorted(
            (bisect.bisect_right(self._starts, i) - 1, i) for i in indices
        )
        for group, pairs in itertools.groupby(groups, lambda pair: pair[0]):
            rows = list(pairs)
            try:
                images, labels = self._columns(group)
                for _, i in rows:
                    found[i] = self._row(images, labels, i, group)
            except failures(self._groups[group][0].path) as error:
                file, number = self._groups[group]
                why = ReadError(
                    f"{file.path}: group {number} of rows: "
                    f"{reason(file.path, error)}",
                    status="HR_EIO",
                )
                found.update((i, why) for _, i in rows)
        return [found[i] for i in indices]

    def labels(self) -> Iterator[int | None]:
        """Yield the number of each row's class; no picture is read."""
        for file in {id(file): file for file, _ in self._groups}.values():
            if file.label is None:
                yield from itertools.repeat(None, sum(file.rows))
                continue
            for labels in _labels_of(file):
                for label in labels.to_pylist():
                    yield self._numbers.get(label) if file.words else label

    def _row(
        self, images: Any, labels: Any, i: int, group: int
    ) -> tuple[Any, int | None]:
        row = i - self._starts[group]
        label = None if labels is None else labels[row].as_py()
        if self._groups[group][0].words:
            label = self._numbers.get(label)
        picture = images[row]
        self._groups[group][0].will_read(picture)
        # (It says so when it is decoded, as a file that is empty.)
        return b"" if picture is None else picture, label

    def _columns(self, group: int) -> tuple[Any, Any]:
        found = self._found(group)
        if found:
            return found
        file, number = self._groups[group]
        with file.lock:  # one thread reads what several ask for
            found = self._found(group)
            if found:
                return found
            images, labels = columns = file.read(number)
            sizes = {len(each) for each in columns if each is not None}
            if sizes != {file.rows[number]}:
                raise OSError("not as many rows as the file says")
            with self._lock:
                self._kept[group] = images, labels
                self._bytes += images.nbytes
                while self._bytes > _KEPT and len(self._kept) > 1:
                    _, (old, _) = self._kept.popitem(last=False)
                    self._bytes -= old.nbytes
        return images, labels

    def _found(self, group: int) -> tuple[Any, Any] | None:
        with self._lock:
            if group in self._kept:
                self._kept.move_to_end(group)
            return self._kept.get(group)


def _labels_of(file: _File) -> Iterator[Any]:
    """Yield those of each group; nulls of a damaged one, whose rows fail."""
    import pyarrow

    for group, num in enumerate(file.rows):
        try:
            labels = file.labels(group)
            labels.validate(full=True)  # see split()
        except _damages(file.path):
            labels = pyarrow.nulls(num)
        except failures(file.path) as error:
            raise ReadError(
                f"{file.path}: labels: {reason(file.path, error)}",
                status="HR_EIO",
            ) from None
        yield labels


class _Pictures:
    """Cells of a column: bytes, which are not copied, a path, or None."""

    def __init__(self, column: Any) -> None:
        import pyarrow

        self.column = self._bytes = column
        self.nbytes = column.nbytes
        if pyarrow.types.is_struct(column.type):
            names = [part.name for part in column.type]
            self._bytes = column.field("bytes") if "bytes" in names else None
            self.column = column.field("path") if "path" in names else None
        elif str(column.type) in _TEXTS:
            self._bytes = None
        self._ends: memoryview[int] | None = None
        kind = None if self._bytes is None else self._bytes.type
        if kind in (pyarrow.binary(), pyarrow.large_binary()):
            _, ends, self._data = self._bytes.buffers()
            if ends and self._data:
                self._ends = memoryview(ends).cast(
                    "i" if kind == pyarrow.binary() else "q"
                )

    def __len__(self) -> int:
        return len(self.column if self._bytes is None else self._bytes)

    def __getitem__(self, i: int) -> Any:
        if self._bytes is not None and not self._bytes.slice(i, 1).null_count:
            if self._ends is None:  # of another kind: a cell is a copy
                cell = self._bytes[i]
                return getattr(cell, "as_buffer", cell.as_py)()
            at = self._bytes.offset + i
            begin, end = self._ends[at], self._ends[at + 1]
            return self._data.slice(begin, end - begin)
        return None if self.column is None else self.column[i].as_py()


# ---- Files -----------------------------------------------------------------


class _File:
    """One of them: how many rows its groups have, and two of its columns."""

    rows: list[int]

    def __init__(self, path: str, schema: Any, fields: Any) -> None:
        # Held by a thread that calls read().
        self.lock = renewed(threading.Lock())
        self.path = path = shown(path)
        self.classes: tuple[str, ...] = ()
        features = _features(schema)
        image, label = fields or (None, None)
        self.image = image or _find(
            schema, features, "Image", _core.IMAGE_FIELDS
        )
        self.label = label or _find(
            schema, features, "ClassLabel", _core.LABEL_FIELDS
        )
        for name in (self.image, self.label):
            if name is not None and schema.names.count(name) != 1:
                raise ArgumentError(
                    f"{path}: no column {name!r}, or several: it has "
                    f"{schema.names}"
                )
        if self.image is None:
            raise ArgumentError(
                f"{path}: no column of pictures: it has {schema.names}; "
                "name it by fields"
            )
        self.columns = [self.image]
        self._check_pictures(schema.field(self.image).type)
        self.words = False
        if self.label is not None:
            self.columns.append(self.label)
            names = features.get(self.label, {}).get("names")
            self.classes = tuple(names) if isinstance(names, list) else ()
            self._check_labels(str(schema.field(self.label).type))

    def _check_pictures(self, kind: Any) -> None:
        name = str(kind)
        if name.startswith("struct<"):
            parts = {kind.field(i).name for i in range(kind.num_fields)}
            good = bool(parts & {"bytes", "path"})
        else:
            good = name in _PICTURES or name.startswith("fixed_size_binary")
        if not good:
            raise ArgumentError(
                f"{self.path}: pictures {self.image!r} are {name}: neither "
                "bytes nor paths, nor a struct of them"
            )

    def _check_labels(self, kind: str) -> None:
        coded = tuple(f"dictionary<values={text}," for text in _TEXTS)
        self.words = kind in _TEXTS or kind.startswith(coded)
        if not self.words and not kind.lstrip("u").startswith("int"):
            raise ArgumentError(
                f"{self.path}: labels {self.label!r} are {kind}: neither whole "
                "numbers nor texts"
            )

    def split(self, table: Any) -> tuple[Any, Any]:
        """Both columns in one piece each, checked."""
        image, *label = (_whole(table[name]) for name in self.columns)
        # (Offsets that lead out of a file are read as they are otherwise.)
        for column in (image, *label):
            column.validate(full=True)
        return _Pictures(image), label[0] if label else None

    def read(self, group: int) -> tuple[Any, Any]:
        raise NotImplementedError

    def will_read(self, picture: Any) -> None:
        """Read the bytes of a picture ahead, if they are not in memory."""

    def labels(self, group: int) -> Any:
        raise NotImplementedError


class _Parquet(_File):
    def __init__(self, path: str, fields: Any) -> None:
        from pyarrow import parquet

        source = _source(path)
        self._file = parquet.ParquetFile(source, memory_map=source is path)
        super().__init__(path, self._file.schema_arrow, fields)
        about = self._file.metadata
        self.rows = [
            about.row_group(i).num_rows for i in range(about.num_row_groups)
        ]

    def read(self, group: int) -> tuple[Any, Any]:
        return self.split(
            self._file.read_row_group(
                group, columns=self.columns, use_threads=False
            )
        )

    def labels(self, group: int) -> Any:
        table = self._file.read_row_group(
            group, columns=[self.label], use_threads=False
        )
        return _whole(table[self.label])


class _Arrow(_File):
    def __init__(self, path: str, fields: Any) -> None:
        import pyarrow

        source = _source(path)
        self._map: _Mapped | None = None
        if source is path:
            self._map = _Mapped(path)
            source = pyarrow.BufferReader(self._map.buffer)
        self._batches: list[Any] | None = None
        try:
            self._file = pyarrow.ipc.open_file(source)
        except pyarrow.ArrowInvalid as error:
            # A stream, as Hugging Face's are, or a file without its footer,
            # which is a stream behind 8 bytes.
            source.seek(0)
            cut = source.read(6) == b"ARROW1"
            source.seek(8 * cut)
            self._file = pyarrow.ipc.open_stream(source)
            self._batches = _all_of(self._file, path)
            if cut:
                self._batches.append(error)
        super().__init__(path, self._file.schema, fields)
        self._labels = self._file
        if self._batches is None:  # of one column: no other is decompressed
            number = self._file.schema.names.index(self.columns[-1])
            self._labels = pyarrow.ipc.open_file(
                source,
                options=pyarrow.ipc.IpcReadOptions(included_fields=[number]),
            )
        self.rows = [
            self._num_rows(group)
            for group in range(
                self._file.num_record_batches
                if self._batches is None
                else len(self._batches)
            )
        ]

    def _num_rows(self, group: int) -> int:
        """Return 1 for a batch that is damaged: a row that fails tells why."""
        try:
            return int(self._batch(self._labels, group).num_rows)
        except _damages(self.path):
            return 1

    def _batch(self, file: Any, group: int) -> Any:
        if self._batches is None:
            return file.get_batch(group)
        batch = self._batches[group]
        if isinstance(batch, Exception):
            import pyarrow

            raise pyarrow.ArrowInvalid(str(batch))
        return batch

    def read(self, group: int) -> tuple[Any, Any]:
        return self.split(self._batch(self._file, group).select(self.columns))

    def labels(self, group: int) -> Any:
        return self._batch(self._labels, group)[self.label]

    def will_read(self, picture: Any) -> None:
        if self._map:
            self._map.will_read(picture)


class _Mapped:
    """A file in memory, of which no more is read than is asked for.

    (Around a page that is missing the kernel would read as much as the disk's
    read-ahead, 8 MB of some.)
    """

    def __init__(self, path: str) -> None:
        import pyarrow

        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise OSError("the file is empty")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.buffer = pyarrow.py_buffer(self._map)
        self._map.madvise(mmap.MADV_RANDOM)
        self._random = True

    def will_read(self, picture: Any) -> None:
        if picture is None or isinstance(picture, str):
            return
        begin = getattr(picture, "address", 0) - self.buffer.address
        if 0 <= begin < len(self._map):
            start = begin - begin % mmap.PAGESIZE
            size = begin + picture.size - start
            self._map.madvise(mmap.MADV_WILLNEED, start, size)
        elif self._random:  # batches are read whole, to be decompressed
            self._map.madvise(mmap.MADV_NORMAL)
            self._random = False


def _all_of(stream: Any, path: str) -> list[Any]:
    """Return batches, and behind them the error that ends the stream."""
    found: list[Any] = []
    try:
        found.extend(stream)
    except _damages(path) as error:
        found.append(error)
    return found


def _whole(column: Any) -> Any:
    import pyarrow

    if not isinstance(column, pyarrow.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def store(url: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and the path in it."""
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ArgumentError(
            f"{shown(url)}: URLs of files of Parquet, Arrow and MindRecord "
            f"need fsspec: {error}"
        ) from None
    return system, path


def signed(path: Any) -> Any:
    """Return a path; for a URL of a store that the library does not know, and
    fsspec does, the URL that fsspec signs for it."""
    text = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else ""
    if not _FOREIGN.match(text) or _READ_HERE.search(shown(text)):
        return path
    try:
        system, inside = store(text)
        return system.sign(inside, expiration=_SIGNED)
    except (Error, ValueError, NotImplementedError):
        return path  # the library refuses it
    except Exception as error:
        raise ReadError(
            f"{shown(text)}: it cannot be signed: {reason(text, error)}",
            status="HR_EIO",
        ) from None


def _source(path: str) -> Any:
    """The path, or an open file of fsspec."""
    if "://" not in path:
        return path
    system, inside = store(path)
    return system.open(inside, "rb")


def shown(path: str) -> str:
    """For messages: a query may be a password, and so may be a user's part."""
    if "://" not in path:
        return path
    scheme, rest = path.split("://", 1)
    host, slash, rest = rest.split("?", 1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{rest}"


def failures(path: str) -> tuple[type[Exception], ...]:
    """Return what reading raises: any error, if a store's package reads."""
    import pyarrow

    if "://" in path:
        return (Exception,)
    return OSError, UnicodeDecodeError, pyarrow.ArrowException


def _damages(path: str) -> tuple[type[Exception], ...]:
    """Return what a damaged group raises, and not a store that fails."""
    import pyarrow

    if "://" in path:
        return UnicodeDecodeError, pyarrow.ArrowException
    return failures(path)


def reason(path: str, error: Exception) -> str:
    """Its text; only its kind if a store's package may have the URL in it."""
    module = type(error).__module__.partition(".")[0]
    if "://" not in path or module in _OPEN:
        return str(error)
    return type(error).__name__


def is_table(path: Any) -> bool:
    """Is a path or URL called like a Parquet or Arrow file?"""
    return isinstance(path, (str, os.PathLike)) and shown(
        os.fsdecode(path)
    ).lower().endswith(_SUFFIXES)


def _is_parquet(path: str) -> bool:
    name = shown(path).lower()
    if name.endswith(_SUFFIXES):
        return name.endswith(_SUFFIXES[0])
    with open(path, "rb") as file:  # the library has seen what it is
        return file.read(4) == b"PAR1"


def _open(path: str, fields: Any) -> _File:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ArgumentError(
            f"{shown(path)}: Parquet and Arrow files need pyarrow: {error}"
        ) from None
    try:
        if _is_parquet(path):
            return _Parquet(path, fields)
        return _Arrow(path, fields)
    except Error:
        raise
    except failures(path) as error:
        raise ReadError(
            f"{shown(path)}: {reason(path, error)}", status="HR_EIO"
        ) from None


# ---- Schemas ---------------------------------------------------------------


def _features(schema: Any) -> dict[str, Any]:
    """Reads Hugging Face's description of the columns."""
    text = (schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(text)["info"]["features"] if text else {}
    except (ValueError, KeyError, TypeError):
        features = {}
    return {
        name: kind
        for name, kind in (
            features.items() if isinstance(features, dict) else ()
        )
        if isinstance(kind, dict)
    }


def _find(
    schema: Any, features: dict[str, Any], kind: str, names: str
) -> str | None:
    for name, feature in features.items():
        if feature.get("_type") == kind and name in schema.names:
            return name
    for name in names.split():
        if name in schema.names:
            return name
    return None
