# SPDX-License-Identifier: Apache-2.0
"""Tensors that record what is done to them. Imports torch.

A LazyTensor is a torch.Tensor without memory: shape (C, H, W) of one picture,
or (N, C, H, W), (N, K, C, H, W) ... of a stack of them. LazyTVImage is the
same for transforms v2, a torchvision.tv_tensors.Image.

What it holds is a Cell: recordings (see jobs.py), a Table, or the value, as
soon as somebody needed it. From then on the value is the truth, and everything
works on it. as_subclass() and detach() share
the cell, as they share memory in stock torch.

Pointwise operations (to, div, sub_, ...) are recorded: they run on the Table,
which holds what each of the 256 byte values has become, as a tensor of
C x 1 x 256 numbers. So the bits are those of the user's own torch.
Slices of the picture and flips are recorded as ops. torch.stack and collating
give a lazy stack. Everything else makes the value first.

What is made one by one is made in groups: whoever forces one lazy tensor
forces up to GROUP others of this thread that have the same shape and are still
alive, in one job.

For DataLoader workers (workers.py):

  lazy_types() -> tuple of classes
  record_of(lazy) -> Record | None   plain data, picklable; None: has a value
  submit_batch([Record, ...]) -> [Handle, ...]   one job for all; no waiting
  Handle.result() -> Tensor          waits; raises what stock would raise
  Handle.cancel()
  plain(lazy) -> Tensor              makes the value here and now

Threads: a lazy tensor belongs to one thread at a time. Records and handles
may go to any thread.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import ahead, jobs
from .batches import Handle, Record, made_by, replay, submit_batch
from .report import caller, count, note
from .tables import Table
from .workers import in_worker

# The most pictures that are made because one of them was needed.
GROUP = 256

no_torch_function = getattr(
    torch._C, "DisableTorchFunctionSubclass", None
) or (torch._C.DisableTorchFunction)
_make_wrapper = Tensor._make_wrapper_subclass


class Cell:
    """What one or several lazy tensors of the same memory stand for.

    samples: recordings, one per picture. lead: shape before (C, H, W).
    table: None = the bytes themselves. tables: one per sample, where they
    differ. hwc: stock's tensor would have strides of an H x W x C array.
    value: the plain tensor; then nothing else counts.
    base: (cell, index) whose memory stock's tensor would share. alone: it
    shares none with its slices.
    """

    __slots__ = (
        "samples",
        "lead",
        "size",
        "table",
        "tables",
        "hwc",
        "value",
        "base",
        "views",
        "alone",
        "__weakref__",
    )

    def __init__(
        self,
        samples: Sequence[jobs.Recording],
        size: tuple[int, int, int],
        table: Table | None,
        hwc: bool = False,
        lead: tuple[int, ...] = (),
        tables: Sequence[Table | None] | None = None,
    ) -> None:
        self.samples = samples
        self.size = size
        self.table = table
        self.hwc = hwc
        self.lead = lead
        self.tables = tables
        self.value: Tensor | None = None
        self.base: tuple[Cell, Any] | None = None
        self.views: list[weakref.ref[Cell]] | None = None
        self.alone = False

    @property
    def dtype(self) -> torch.dtype:
        if self.value is not None:
            return self.value.dtype
        table = self.tables[0] if self.tables else self.table
        return torch.uint8 if table is None else table.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lead + self.size

    def like(self, table: Table | None) -> Cell:
        return Cell(self.samples, self.size, table, self.hwc, self.lead)


def record_of(lazy: Any) -> Record | None:
    """The recording of a lazy tensor; None if it has its value."""
    cell = lazy._hr
    if cell.value is not None:
        return None
    return record_of_cell(cell, lazy.stands_for)


def record_of_cell(cell: Cell, kind: type = Tensor) -> Record:
    return Record(
        cell.samples,
        cell.size,
        cell.lead,
        tables_of(cell),
        cell.dtype,
        cell.hwc,
        kind,
    )


def tables_of(cell: Cell) -> Sequence[Table | None]:
    return cell.tables or (cell.table,) * len(cell.samples)


# ---- making values ---------------------------------------------------------

_here = threading.local()
# Held while a cell gets its value, or another table in place.
_lock = threading.Lock()


def remember(cell: Cell) -> None:
    """Puts a cell on this thread's list of those without a value."""
    here = _here.__dict__
    live = here.get("live")
    if live is None:
        live = here["live"] = []
        here["limit"] = GROUP
    live.append(weakref.ref(cell))
    if len(live) > here["limit"]:
        live[:] = [ref for ref in live if _is_open(ref())]
        here["limit"] = max(GROUP, 2 * len(live))


def _is_open(cell: Cell | None) -> bool:
    return cell is not None and cell.value is None


def _peers(cell: Cell) -> list[Cell]:
    """The cell, and others that the same job can make. Oldest first."""
    live = getattr(_here, "live", [])
    found = []
    key = (cell.shape, cell.dtype, cell.hwc)
    for ref in live:
        other = ref()
        if (
            _is_open(other)
            and other is not cell
            and other.base is None
            and other.views is None
            and (other.shape, other.dtype, other.hwc) == key
        ):
            found.append(other)
            if len(found) >= GROUP - 1:
                break
    return [cell] + found


def value_of(cell: Cell) -> Tensor:
    """The plain tensor, made now if it was not before."""
    while cell.value is None:
        if cell.base is not None:
            base, index = cell.base
            cell.value = value_of(base)[index]
        else:
            make_values([cell])
    return cell.value


def make_values(cells: Sequence[Cell]) -> None:
    """Makes the values of these, and of their peers, in few jobs.

    Raises for the first of cells that cannot be made; a bad peer stays
    without value until it is needed itself.
    """
    cells = list({id(c): c for c in cells if c.value is None}.values())
    if not cells:
        return
    name = caller()
    count("materialised", name, len(cells))
    if "resize" in name.rsplit(".", 1)[-1]:
        note("resize_is_not_pillows")
    if in_worker():
        for cell in cells:
            _set(cell, cell.table, _replay_all(cell))
        return
    todo = list(cells)
    if len(cells) == 1 and cells[0].views is None:
        todo = _peers(cells[0])
    errors = []
    for group in _by_kind(todo):
        errors += _run(group)
    for cell in cells:
        for failed, error in errors:
            if failed is cell:
                raise error


def _by_kind(cells: Sequence[Cell]) -> Iterable[list[Cell]]:
    kinds: dict[Any, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault((cell.size, cell.dtype, cell.hwc), []).append(cell)
    return kinds.values()


def _run(cells: list[Cell]) -> list[tuple[Cell, Exception]]:
    made_with = [cell.table for cell in cells]
    samples = [sample for cell in cells for sample in cell.samples]
    tables = [
        table
        for cell, each in zip(cells, made_with)
        for table in cell.tables or (each,) * len(cell.samples)
    ]
    first = cells[0]
    group = made_by(
        samples, tables, first.size, first.dtype, first.hwc
    )
    start = 0
    errors: list[tuple[Cell, Exception]] = []
    for cell, table in zip(cells, made_with):
        length = len(cell.samples)
        try:
            value = group.slots(start, length)
        except Exception as error:
            errors.append((cell, error))
        else:
            value = value.reshape(cell.shape) if cell.lead else value[0]
            _set(cell, table, value)
        start += length
    return errors


def _replay_all(cell: Cell) -> Tensor:
    values = [
        replay(sample, table)
        for sample, table in zip(cell.samples, tables_of(cell))
    ]
    if cell.lead:
        return torch.stack(values).reshape(cell.shape)
    return values[0] if cell.hwc else values[0].contiguous()


def set_table(cell: Cell, old: Table | None, new: Table) -> bool:
    """Changes the table in place; False: another thread made the value."""
    with _lock:
        if cell.value is not None or cell.table is not old:
            return False
        cell.table = new
        return True


def _set(cell: Cell, table: Table | None, value: Tensor) -> None:
    """Sets the value that was made with this table.

    A peer may be in the hands of another thread meanwhile. If that has
    changed the table, the value is not what it should be any more.
    """
    with _lock:
        if cell.value is not None or cell.table is not table:
            return
        cell.value = value
    if cell.views is not None:
        for ref in cell.views:
            view = ref()
            if view is not None and view.value is None and view.base:
                view.value = value[view.base[1]]
        cell.views = None


# ---- the classes -----------------------------------------------------------


def wrap(cls: Any, cell: Cell) -> Any:
    size = cell.lead + cell.size
    if cell.hwc and not cell.lead:
        c, _, w = cell.size
        lazy = _make_wrapper(
            cls, size, strides=(1, w * c, c), dtype=cell.dtype
        )
    else:
        lazy = _make_wrapper(cls, size, dtype=cell.dtype)
    lazy._hr = cell
    return lazy


def lazy(
    cls: Any,
    sample: jobs.Recording,
    size: tuple[int, int, int],
    table: Table | None,
    hwc: bool = False,
) -> Any:
    """A new lazy tensor of one picture."""
    if ahead.here.plan is not None:
        ahead.sample_ends(_newest())
    cell = Cell((sample,), size, table, hwc)
    remember(cell)
    return wrap(cls, cell)


def _newest() -> Cell | None:
    """The last cell of this thread, if somebody has it."""
    live = getattr(_here, "live", None)
    return live[-1]() if live else None


def _fact(name: str) -> Any:
    stock = getattr(Tensor, name)

    def get(self: Any) -> Any:
        value = self._hr.value
        if value is not None:
            return getattr(value, name)
        with no_torch_function():
            return stock.__get__(self)

    return property(get)


class Lazy:
    """What both classes do otherwise than torch.Tensor."""

    __slots__ = ()
    _hr: Cell
    stands_for: type

    shape = _fact("shape")
    ndim = _fact("ndim")
    dtype = _fact("dtype")
    device = _fact("device")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        record = RECORDED.get(func)
        if record is not None:
            out = record(func, args, kwargs or {})
            if out is not NotImplemented:
                return out
        return _run_stock(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run_stock(func, args, kwargs)

    def as_subclass(self, cls: Any) -> Any:
        cell = self._hr
        if cell.value is None:
            if cls is Tensor:
                return wrap(LazyTensor, cell)
            if _tv and cls is _tv[0].stands_for:
                return wrap(_tv[0], cell)
        return value_in_class(self).as_subclass(cls)

    def __deepcopy__(self, memo: Any) -> Any:
        cell = self._hr
        if cell.value is not None:
            return value_in_class(self).__deepcopy__(memo)
        return wrap(type(self), copy_of(cell))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Values, not paths: what is saved may outlive the file. What goes
        # between processes of one program is reduced by transport().
        return value_in_class(self).__reduce_ex__(protocol)


class LazyTensor(Lazy, Tensor):
    """A torch.Tensor that is still to be made."""

    __slots__ = ("_hr",)
    stands_for = Tensor


# LazyTVImage, once transforms v2 is hooked.
_tv: list[Any] = []


def lazy_tv_image() -> Any:
    return _tv[0]


def define_tv_image(stock: Any) -> Any:
    """Makes the class LazyTVImage for torchvision's tv_tensors.Image."""
    if not _tv:

        class LazyTVImage(Lazy, stock):
            """A torchvision.tv_tensors.Image that is still to be made."""

            __slots__ = ("_hr",)
            stands_for = stock

            @classmethod
            def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Any:
                return tensor.as_subclass(stock)

        LazyTVImage.__module__ = __name__
        LazyTVImage.__qualname__ = "LazyTVImage"
        globals()["LazyTVImage"] = LazyTVImage
        _tv[:] = [LazyTVImage]
    return _tv[0]


def lazy_types() -> tuple[type, ...]:
    return (LazyTensor, _tv[0]) if _tv else (LazyTensor,)


def plain(tensor: Any) -> Tensor:
    """The tensor with its value: plain, or a tv_tensors.Image."""
    return value_in_class(tensor) if isinstance(tensor, Lazy) else tensor


def value_in_class(tensor: Any) -> Tensor:
    value = value_of(tensor._hr)
    if tensor.stands_for is not Tensor:
        return value.as_subclass(tensor.stands_for)
    return value


def copy_of(cell: Cell) -> Cell:
    copy = Cell(
        cell.samples,
        cell.size,
        cell.table,
        cell.hwc,
        cell.lead,
        cell.tables,
    )
    remember(copy)
    return copy


def _run_stock(func: Any, args: Any, kwargs: Any) -> Any:
    """Replaces all lazy tensors by their values and calls func."""
    found: list[Any] = []
    collect((args, kwargs), found)
    make_values([tensor._hr for tensor in found if tensor._hr.base is None])
    args = _replace(args)
    return func(*args, **(_replace(kwargs) if kwargs else {}))


def collect(item: Any, found: list[Any]) -> None:
    if isinstance(item, Lazy):
        found.append(item)
    elif isinstance(item, (list, tuple)):
        for part in item:
            collect(part, found)
    elif isinstance(item, dict):
        for part in item.values():
            collect(part, found)


def _replace(item: Any) -> Any:
    if isinstance(item, Lazy):
        return value_in_class(item)
    kind = type(item)
    if kind in (list, tuple):
        return kind([_replace(part) for part in item])
    if kind is dict:
        return {key: _replace(part) for key, part in item.items()}
    return item


def transport(tensor: Any) -> Any:
    """Reduces a lazy tensor for a queue of multiprocessing."""
    record = record_of(tensor)
    if record is None:
        value = value_in_class(tensor)
        return torch.multiprocessing.reductions.reduce_tensor(value)
    return _arrive, (record,)


def _arrive(record: Record) -> Any:
    tables: Any = tuple(record.tables)
    table = tables[0]
    if all(other is table for other in tables):
        tables = None
    cell = Cell(
        tuple(record.samples),
        record.size,
        table,
        record.hwc,
        record.lead,
        tables,
    )
    remember(cell)
    known = _tv and _tv[0].stands_for is record.kind
    return wrap(_tv[0] if known else LazyTensor, cell)


# What is recorded; functions.py puts it here.
RECORDED: dict[Any, Callable[..., Any]] = {}

from . import functions as _functions  # noqa: E402, F401

__all__ = [
    "Handle",
    "LazyTensor",
    "Record",
    "lazy_types",
    "plain",
    "record_of",
    "submit_batch",
    "transport",
]
