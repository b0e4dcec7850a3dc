# SPDX-License-Identifier: Apache-2.0
"""Tensors that record what is done to them. Imports torch.

A LazyTensor is a torch.Tensor without memory: shape (C, H, W) of one picture,
or (N, C, H, W), (N, K, C, H, W) ... of a stack of them. LazyTVImage is the
same for transforms v2, a torchvision.tv_tensors.Image.

What it holds is a Cell: recordings (see jobs.py), a Table, or the value, as
soon as somebody needed it. From then on the value is the truth, the recording
is gone, and everything works on the value. as_subclass() and detach() share
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

import array
import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from PIL import Image

from .. import _core
from . import jobs, memory, pillow
from .jobs import CROP, FLIP
from .report import caller, count, note

Tensor = torch.Tensor

# The most pictures that are made because one of them was needed.
GROUP = 256
# Results that one Table remembers of pointwise operations.
_MEMORY = 64

_no_torch_function = getattr(
    torch._C, "DisableTorchFunctionSubclass", None
) or (torch._C.DisableTorchFunction)
_make_wrapper = Tensor._make_wrapper_subclass

# Types that a job writes: torch type -> (_core's name, exact in float32).
_DIRECT = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.uint8: "u8",
}


class Table:
    """What each of the 256 byte values of each channel has become.

    values: tensor of C x 1 x 256. Never written after it was made.
    """

    __slots__ = ("values", "results", "_op", "__weakref__")

    def __init__(self, values: Tensor) -> None:
        self.values = values
        # (function, operands) -> Table. It lives and dies with its parent.
        self.results: dict[Any, Table] = {}
        self._op: tuple[Any, ...] | None = None

    def op(self) -> tuple[Any, ...]:
        """The op of a job that writes float32, float16 or uint8."""
        if self._op is None:
            flat = self.values.to(torch.float32).flatten().tolist()
            numbers = array.array("f", flat).tobytes()
            self._op = (_core.TABLE, numbers)
        return self._op

    def remember(self, key: Any, table: Table) -> Table:
        if len(self.results) >= _MEMORY:
            self.results.clear()
        self.results[key] = table
        return table

    def look_up(self, pixels: Tensor) -> Tensor:
        """(C, H, W) bytes -> the values, of any type."""
        return torch.stack(
            [
                row[0][plane.long()]
                for row, plane in zip(self.values, pixels.unbind(0))
            ]
        )

    def __reduce__(self) -> Any:
        values = self.values
        channels = values.shape[0]
        raw = values.contiguous().view(torch.uint8).flatten().tolist()
        return _table, (bytes(raw), values.dtype, channels)


def _table(raw: bytes, dtype: torch.dtype, channels: int) -> Table:
    key = (raw, dtype)
    table = _tables_here.get(key)
    if table is None:
        numbers = torch.frombuffer(bytearray(raw), dtype=dtype)
        table = Table(numbers.reshape(channels, 1, 256).clone())
        _tables_here[key] = table
    return table


# Tables that came from another process; the same bytes are the same table.
_tables_here: weakref.WeakValueDictionary[Any, Table] = (
    weakref.WeakValueDictionary()
)


class Cell:
    """What one or several lazy tensors of the same memory stand for.

    samples: recordings, one per picture. lead: shape before (C, H, W).
    table: None = the bytes themselves. tables: one per sample, where they
    differ. hwc: stock's tensor would have strides of an H x W x C array.
    value: the plain tensor; then nothing else counts.
    base: (cell, index) whose memory stock's tensor would share.
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


class Record:
    """Plain data that a lazy tensor can be made from in another process."""

    __slots__ = (
        "samples",
        "size",
        "lead",
        "tables",
        "dtype",
        "hwc",
        "image",
    )

    def __init__(self, *state: Any) -> None:
        (
            self.samples,
            self.size,
            self.lead,
            self.tables,
            self.dtype,
            self.hwc,
            self.image,
        ) = state

    def __reduce_ex__(self, protocol: Any) -> Any:
        samples = self.samples
        if protocol >= 5:
            samples = [
                (_buffer(source), ops) for source, ops in self.samples
            ]
        return Record, (
            samples,
            self.size,
            self.lead,
            self.tables,
            self.dtype,
            self.hwc,
            self.image,
        )


def _buffer(source: jobs.Source) -> Any:
    if type(source) is jobs.File:
        return source
    return pickle.PickleBuffer(source)


# ---- jobs ------------------------------------------------------------------


class Handle:
    """A submitted record. Dropping it cancels its job if nobody else waits."""

    __slots__ = ("_group", "_record", "_start")

    def __init__(self, group: _Group, record: Record, start: int) -> None:
        self._group = group
        self._record = record
        self._start = start

    def result(self) -> Tensor:
        """Waits for the tensor that stock would have made, or raises."""
        record = self._record
        count = len(record.samples)
        value = self._group.slots(self._start, count)
        value = value.reshape(record.lead + value.shape[1:])
        if record.hwc and not record.lead:
            value = value.permute(1, 2, 0).contiguous().permute(2, 0, 1)
        if record.image:
            return value.as_subclass(_tv_image_type())
        return value

    def cancel(self) -> None:
        self._group.cancel()


class _Group:
    """One job: slot i of out is sample i."""

    def __init__(
        self,
        samples: Sequence[jobs.Recording],
        tables: Sequence[Table | None],
        size: tuple[int, int, int],
        dtype: torch.dtype,
        hwc: bool = False,
    ) -> None:
        self._samples = samples
        self._tables = tables
        self._dtype = dtype
        self._lock = threading.Lock()
        self._failed: dict[int, BaseException] | None = None
        n = len(samples)
        c, h, w = size
        # bfloat16 numbers are float32 numbers; others are looked up.
        self._kind = torch.float32 if dtype == torch.bfloat16 else dtype
        self._looked_up = self._kind not in _DIRECT
        if self._looked_up:
            self._kind = torch.uint8
        if hwc:
            out = memory.empty((n, h, w, c), self._kind)
            self.out = out.permute(0, 3, 1, 2)
        else:
            self.out = out = memory.empty((n, c, h, w), self._kind)
        batch = _core.Batch(
            n,
            c,
            h,
            w,
            _DIRECT[self._kind],
            "nhwc" if hwc else "nchw",
            data=out.data_ptr(),
            keep=out,
        )
        self._job = jobs.submit(self._with_tables(), batch)

    def _with_tables(self) -> Sequence[jobs.Recording]:
        if self._looked_up:
            return self._samples
        return [
            (source, ops if table is None else ops + (table.op(),))
            for (source, ops), table in zip(self._samples, self._tables)
        ]

    def wait(self) -> None:
        """Until all slots are filled. Raises what concerns all of them."""
        with self._lock:
            if self._failed is not None:
                return
            failed: dict[int, BaseException] = {}
            if self._looked_up:
                self._wait_and_look_up(failed)
            else:
                for index, reason in jobs.failures(self._job, self._samples):
                    self._mend(index, reason, failed)
            if self._dtype == torch.bfloat16:
                self.out = self.out.to(torch.bfloat16)
            self._failed = failed
            self._job = None

    def _wait_and_look_up(self, failed: dict[int, BaseException]) -> None:
        pixels = self.out
        bad = dict(jobs.failures(self._job, self._samples))
        self.out = torch.empty_like(pixels, dtype=self._dtype)
        for index, table in enumerate(self._tables):
            if index in bad:
                self._mend(index, bad[index], failed)
            else:
                self.out[index] = table.look_up(pixels[index])

    def _mend(
        self, index: int, reason: str, failed: dict[int, BaseException]
    ) -> None:
        """Lets stock Pillow make what the job could not."""
        try:
            self.out[index] = replay(
                self._samples[index], self._tables[index]
            )
        except Exception as error:
            count("failed", reason)
            failed[index] = error

    def slots(self, start: int, count: int) -> Tensor:
        """The tensor of these slots. Raises for the first bad one."""
        self.wait()
        for index in range(start, start + count):
            if index in self._failed:
                raise self._failed[index]
        if start == 0 and count == len(self._samples):
            return self.out
        return self.out[start : start + count]

    def cancel(self) -> None:
        job = self._job
        if job is not None:
            job.cancel()

    def __del__(self) -> None:
        job = getattr(self, "_job", None)
        if job is not None:
            job.cancel()


def replay(recording: jobs.Recording, table: Table | None) -> Tensor:
    """(C, H, W), by stock Pillow. Raises what Pillow raises."""
    image = jobs.replay(recording)
    c = len(image.getbands())
    w, h = image.size
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    pixels = pixels.view(h, w, c).permute(2, 0, 1)
    return pixels if table is None else table.look_up(pixels)


def record_of(lazy: Any) -> Record | None:
    """The recording of a lazy tensor; None if it has its value."""
    cell = lazy._hr
    if cell.value is not None:
        return None
    return _record(cell, isinstance(lazy, _tv_image_type()))


def _record(cell: Cell, image: bool = False) -> Record:
    return Record(
        cell.samples,
        cell.size,
        cell.lead,
        _tables(cell),
        cell.dtype,
        cell.hwc,
        image,
    )


def _tables(cell: Cell) -> Sequence[Table | None]:
    return cell.tables or (cell.table,) * len(cell.samples)


def submit_batch(records: Sequence[Record]) -> list[Handle]:
    """Submits all samples of all records, one job per size and type.

    Waits for room in the budget only, and raises for no bad picture.
    """
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault((record.size, record.dtype), []).append(record)
    handles: dict[int, Handle] = {}
    for (size, dtype), members in groups.items():
        samples = [sample for r in members for sample in r.samples]
        tables = [table for r in members for table in r.tables]
        group = _Group(samples, tables, size, dtype)
        start = 0
        for record in members:
            handles[id(record)] = Handle(group, record, start)
            start += len(record.samples)
    return [handles[id(record)] for record in records]


# ---- making values ---------------------------------------------------------

_here = threading.local()


def _remember(cell: Cell) -> None:
    """Puts a cell on this thread's list of those without a value."""
    try:
        live = _here.live
    except AttributeError:
        live = _here.live = []
        _here.limit = GROUP
    live.append(weakref.ref(cell))
    if len(live) > _here.limit:
        live[:] = [ref for ref in live if _is_open(ref())]
        _here.limit = max(GROUP, 2 * len(live))


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
    if cell.value is None:
        if cell.base is not None:
            base, index = cell.base
            cell.value = value_of(base)[index]
        else:
            _make([cell])
    return cell.value


def _make(cells: Sequence[Cell]) -> None:
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
    if jobs.in_worker():
        for cell in cells:
            _set(cell, _replay_all(cell))
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


def _run(cells: list[Cell]) -> list[tuple[Cell, BaseException]]:
    samples = [sample for cell in cells for sample in cell.samples]
    tables = [table for cell in cells for table in _tables(cell)]
    first = cells[0]
    group = _Group(samples, tables, first.size, first.dtype, first.hwc)
    start, errors = 0, []
    for cell in cells:
        count = len(cell.samples)
        try:
            value = group.slots(start, count)
        except Exception as error:
            errors.append((cell, error))
        else:
            _set(cell, value.reshape(cell.shape) if cell.lead else value[0])
        start += count
    return errors


def _replay_all(cell: Cell) -> Tensor:
    values = [
        replay(sample, table)
        for sample, table in zip(cell.samples, _tables(cell))
    ]
    if cell.lead:
        return torch.stack(values).reshape(cell.shape)
    return values[0] if cell.hwc else values[0].contiguous()


def _set(cell: Cell, value: Tensor) -> None:
    cell.value = value
    cell.samples = ()
    cell.table = cell.tables = None
    if cell.views is not None:
        for ref in cell.views:
            view = ref()
            if _is_open(view):
                view.value = value[view.base[1]]
        cell.views = None


# ---- the classes -----------------------------------------------------------


def _wrap(cls: Any, cell: Cell) -> Any:
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
    cell = Cell((sample,), size, table, hwc)
    _remember(cell)
    return _wrap(cls, cell)


def _fact(name: str) -> Any:
    stock = getattr(Tensor, name)

    def get(self: Any) -> Any:
        value = self._hr.value
        if value is not None:
            return getattr(value, name)
        with _no_torch_function():
            return stock.__get__(self)

    return property(get)


class _Lazy:
    """What both classes do otherwise than torch.Tensor."""

    _hr: Cell

    shape = _fact("shape")
    ndim = _fact("ndim")
    dtype = _fact("dtype")
    device = _fact("device")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        record = _RECORDED.get(func)
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
                return _wrap(LazyTensor, cell)
            if cls is _tv_image_type():
                return _wrap(lazy_tv_image(), cell)
        return _plain(self).as_subclass(cls)

    def __deepcopy__(self, memo: Any) -> Any:
        cell = self._hr
        if cell.value is not None:
            return _plain(self).__deepcopy__(memo)
        return _wrap(type(self), _copy(cell))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Values, not paths: what is saved may outlive the file. What goes
        # between processes of one program is reduced by transport().
        return _plain(self).__reduce_ex__(protocol)


class LazyTensor(_Lazy, Tensor):
    """A torch.Tensor that is still to be made."""


_tv: list[Any] = []


def _tv_image_type() -> Any:
    """torchvision.tv_tensors.Image, once transforms v2 is hooked."""
    return _tv[1] if _tv else ()


def lazy_tv_image() -> Any:
    return _tv[0]


def define_tv_image(stock: Any) -> Any:
    """Makes the class LazyTVImage for torchvision's tv_tensors.Image."""
    if not _tv:

        class LazyTVImage(_Lazy, stock):
            """A torchvision.tv_tensors.Image that is still to be made."""

            @classmethod
            def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Any:
                return tensor.as_subclass(stock)

        LazyTVImage.__module__ = __name__
        LazyTVImage.__qualname__ = "LazyTVImage"
        globals()["LazyTVImage"] = LazyTVImage
        _tv[:] = [LazyTVImage, stock]
    return _tv[0]


def lazy_types() -> tuple[type, ...]:
    return (LazyTensor, _tv[0]) if _tv else (LazyTensor,)


def plain(tensor: Any) -> Tensor:
    """The tensor with its value: plain, or a tv_tensors.Image."""
    return _plain(tensor) if isinstance(tensor, _Lazy) else tensor


def _plain(tensor: Any) -> Tensor:
    value = value_of(tensor._hr)
    if _tv and isinstance(tensor, _tv[1]):
        return value.as_subclass(_tv[1])
    return value


def _copy(cell: Cell) -> Cell:
    copy = Cell(
        cell.samples,
        cell.size,
        cell.table,
        cell.hwc,
        cell.lead,
        cell.tables,
    )
    _remember(copy)
    return copy


def _run_stock(func: Any, args: Any, kwargs: Any) -> Any:
    """Replaces all lazy tensors by their values and calls func."""
    found: list[Any] = []
    _collect((args, kwargs), found)
    _make([tensor._hr for tensor in found if tensor._hr.base is None])
    args = _replace(args)
    return func(*args, **(_replace(kwargs) if kwargs else {}))


def _collect(item: Any, found: list[Any]) -> None:
    if isinstance(item, _Lazy):
        found.append(item)
    elif isinstance(item, (list, tuple)):
        for part in item:
            _collect(part, found)
    elif isinstance(item, dict):
        for part in item.values():
            _collect(part, found)


def _replace(item: Any) -> Any:
    if isinstance(item, _Lazy):
        return _plain(item)
    kind = type(item)
    if kind in (list, tuple):
        return kind([_replace(part) for part in item])
    if kind is dict:
        return {key: _replace(part) for key, part in item.items()}
    return item


# ---- what is recorded ------------------------------------------------------


def _ask(func: Any, args: Any, kwargs: Any) -> Any:
    """Shape, type and the like: torch answers from the wrapper."""
    if not isinstance(args[0], _Lazy) or args[0]._hr.value is not None:
        return NotImplemented
    with _no_torch_function():
        return func(*args, **kwargs)


def _share(func: Any, args: Any, kwargs: Any) -> Any:
    """detach(): another tensor, the same memory."""
    tensor = args[0]
    if len(args) > 1 or kwargs or tensor._hr.value is not None:
        return NotImplemented
    return _wrap(type(tensor), tensor._hr)


def _same(func: Any, args: Any, kwargs: Any) -> Any:
    """contiguous(), cpu(): this very tensor, where nothing is to do."""
    tensor = args[0]
    cell = tensor._hr
    if len(args) > 1 or kwargs or cell.value is not None:
        return NotImplemented
    if func is Tensor.contiguous and cell.hwc:
        copy = _copy(cell)
        copy.hwc = False
        return _wrap(_kind(tensor, func), copy)
    return tensor


def _no_grad(func: Any, args: Any, kwargs: Any) -> Any:
    """requires_grad_(False)"""
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if wanted or args[0]._hr.value is not None:
        return NotImplemented
    return args[0]


def _clone(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if len(args) > 1 or kwargs or tensor._hr.value is not None:
        return NotImplemented
    return _wrap(_kind(tensor, func), _copy(tensor._hr))


def _kind(tensor: Any, func: Any) -> Any:
    """The class of what func returns for a v2 picture, as TVTensor says."""
    if type(tensor) is LazyTensor:
        return LazyTensor
    if func in _KEEPS_CLASS or _must_return_subclass():
        return type(tensor)
    return LazyTensor


_KEEPS_CLASS = {
    Tensor.clone,
    Tensor.to,
    Tensor.detach,
    Tensor.requires_grad_,
}


def _must_return_subclass() -> bool:
    try:
        from torchvision.tv_tensors import _torch_function_helpers as helpers
    except ImportError:
        return False
    return helpers._must_return_subclass()


def _pointwise(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if not isinstance(tensor, _Lazy):
        return NotImplemented  # 1 - x: comes as rsub, with the tensor first
    cell = tensor._hr
    if cell.value is not None or cell.tables is not None:
        return NotImplemented
    table = cell.table or identity(cell.size[0])
    key = _key(func, args, kwargs, cell)
    if key is None:
        return NotImplemented
    made = table.results.get(key)
    if made is None:
        made = _run_on_table(func, table, args, kwargs, cell)
        if made is None:
            return NotImplemented
        table.remember(key, made)
    if func in _IN_PLACE:
        if cell.base is not None or cell.views is not None:
            return NotImplemented  # others share this memory
        cell.table = made
        # The wrapper keeps its type: torch refuses to change it in place.
        if type(tensor) is LazyTensor or _must_return_subclass():
            return tensor
        return _wrap(LazyTensor, cell)
    if func is Tensor.to or func in _CONVERSIONS:
        if made.values.dtype == cell.dtype and made is not table:
            if not _copies(args, kwargs):
                return _to_itself(tensor)
    other = cell.like(made)
    _remember(other)
    return _wrap(_kind(tensor, func), other)


def _to_itself(tensor: Any) -> Any:
    return tensor


def _copies(args: Any, kwargs: Any) -> bool:
    return bool(kwargs.get("copy", False)) or any(
        arg is True for arg in args[1:]
    )


def _run_on_table(
    func: Any, table: Table, args: Any, kwargs: Any, cell: Cell
) -> Table | None:
    """The function's result on the table; None if that cannot be it."""
    values = table.values
    view = values.reshape((1,) * len(cell.lead) + tuple(values.shape))
    try:
        with torch.no_grad():
            out = func(view.clone(), *args[1:], **kwargs)
    except Exception:
        return None  # the picture itself raises it, with its own shape
    if (
        type(out) is not Tensor
        or out.shape != view.shape
        or out.device.type != "cpu"
        or out.requires_grad
    ):
        return None
    return Table(out.detach().reshape(values.shape).contiguous())


def _key(func: Any, args: Any, kwargs: Any, cell: Cell) -> Any:
    """What a result depends on, hashable; None: it is not pointwise."""
    parts = [func, len(cell.lead)]
    for arg in args[1:]:
        part = _operand(arg, cell)
        if part is None:
            return None
        parts.append(part)
    for name in sorted(kwargs):
        part = _operand(kwargs[name], cell)
        if part is None:
            return None
        parts.append((name, part))
    return tuple(parts)


def _operand(arg: Any, cell: Cell) -> Any:
    kind = type(arg)
    if kind in (int, float, bool, str) or arg is None:
        return kind, arg if arg != 0 else str(arg)  # -0.0 is not 0.0
    if kind in (torch.dtype, torch.memory_format):
        if arg is torch.channels_last:
            return None
        return kind, arg
    if kind is torch.device:
        return (kind, arg) if arg.type == "cpu" else None
    if kind is Tensor and not arg.requires_grad:
        return _small_tensor(arg, cell)
    return None


def _small_tensor(arg: Tensor, cell: Cell) -> Any:
    """A number, or one number per channel."""
    shape = tuple(arg.shape)
    c = cell.size[0]
    if arg.device.type != "cpu" or len(shape) > len(cell.shape):
        return None
    last = shape[-3:]
    if last[-2:] not in ((), (1,), (1, 1)) or last[:-2] not in (
        (),
        (1,),
        (c,),
    ):
        return None
    if any(side != 1 for side in shape[:-3]):
        return None
    return arg.dtype, shape, tuple(map(repr, arg.flatten().tolist()))


def _flip(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    cell = tensor._hr
    if cell.value is not None or kwargs or not _fits(cell):
        return NotImplemented
    dims = args[1:]
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        dims = tuple(dims[0])
    n = len(cell.shape)
    try:
        dims = {dim % n - n for dim in dims}
    except TypeError:
        return NotImplemented
    if not dims or not dims <= {-1, -2}:
        return NotImplemented
    op = (FLIP, -1 in dims, -2 in dims, False)
    return _wrap(_kind(tensor, func), _with_op(cell, op, cell.size))


def _fits(cell: Cell) -> bool:
    return all(len(ops) < jobs.MAX_OPS for _, ops in cell.samples)


def _with_op(cell: Cell, op: Any, size: tuple[int, int, int]) -> Cell:
    samples = tuple((source, ops + (op,)) for source, ops in cell.samples)
    other = Cell(
        samples, size, cell.table, cell.hwc, cell.lead, cell.tables
    )
    _remember(other)
    return other


def _get_item(func: Any, args: Any, kwargs: Any) -> Any:
    """x[..., top:bottom, left:right]: a view of a window."""
    tensor, index = args
    if not isinstance(tensor, _Lazy):
        return NotImplemented
    cell = tensor._hr
    if cell.value is not None or cell.base is not None or cell.hwc is None:
        return NotImplemented
    if type(index) is not tuple or not _fits(cell):
        return NotImplemented
    window = _window(index, cell)
    if window is None:
        return NotImplemented
    x, y, w, h = window
    op = (CROP, x, y, w, h, False)
    view = _with_op(cell, op, (cell.size[0], h, w))
    view.base = (cell, index)
    cell.views = [ref for ref in cell.views or () if ref() is not None]
    cell.views.append(weakref.ref(view))
    return _wrap(_kind(tensor, func), view)


def _window(index: Any, cell: Cell) -> tuple[int, int, int, int] | None:
    if len(index) == 3 and len(cell.shape) == 3 and index[0] == slice(None):
        index = index[1:]
    elif len(index) == 3 and index[0] is Ellipsis:
        index = index[1:]
    else:
        return None
    spans = []
    for part, side in zip(index, cell.size[1:]):
        if type(part) is not slice or part.step not in (None, 1):
            return None
        try:
            start, stop, _ = part.indices(side)
        except TypeError:
            return None
        if stop <= start:
            return None
        spans.append((start, stop - start))
    (y, h), (x, w) = spans
    return x, y, w, h


def _stack(func: Any, args: Any, kwargs: Any) -> Any:
    """torch.stack(tensors) of equal lazy ones: a lazy stack."""
    names = ("tensors", "dim", "out")
    given = dict(zip(names, args), **kwargs)
    tensors, dim = given.get("tensors"), given.get("dim", 0)
    if given.get("out") is not None or dim != 0 or len(given) > 3:
        return NotImplemented
    cell = stacked(tensors)
    return NotImplemented if cell is None else _wrap(LazyTensor, cell)


def stacked(tensors: Sequence[Any]) -> Cell | None:
    """One cell for all, or None: they differ, or have values."""
    cells = []
    for tensor in tensors:
        if not isinstance(tensor, _Lazy) or tensor._hr.value is not None:
            return None
        cells.append(tensor._hr)
    if not cells:
        return None
    first = cells[0]
    if any(
        cell.size != first.size
        or cell.lead != first.lead
        or cell.dtype != first.dtype
        for cell in cells
    ):
        return None
    samples = tuple(sample for cell in cells for sample in cell.samples)
    tables: Any = tuple(table for cell in cells for table in _tables(cell))
    table = tables[0]
    if all(other is table for other in tables):
        tables = None
    else:
        table = None
    lead = (len(cells),) + first.lead
    cell = Cell(samples, first.size, table, False, lead, tables)
    _remember(cell)
    return cell


_POINTWISE = """
to float half double bfloat16 int long short type div sub add mul neg clamp
true_divide subtract multiply clip negative
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __div__
__neg__
""".split()
_POINTWISE_IN_PLACE = """
div_ sub_ add_ mul_ neg_ clamp_ true_divide_ subtract_ multiply_ clip_
negative_ __iadd__ __isub__ __imul__ __itruediv__ __idiv__
""".split()
_FACTS = """
size dim stride is_contiguous numel nelement element_size is_floating_point
is_complex is_signed get_device ndimension __len__ storage_offset
is_shared is_pinned is_same_size
""".split()
_FACT_PROPERTIES = """
shape dtype device ndim layout is_cuda is_sparse is_quantized is_mkldnn
is_meta is_nested requires_grad is_leaf grad_fn grad names itemsize nbytes
is_cpu is_sparse_csr is_xpu is_mps is_vulkan is_xla is_ort is_ipu is_mtia
is_hpu is_maia output_nr _backward_hooks _version
""".split()


def _table_of_functions() -> dict[Any, Callable[..., Any]]:
    recorded: dict[Any, Callable[..., Any]] = {}
    for name in _FACT_PROPERTIES:
        found = getattr(Tensor, name, None)
        if hasattr(found, "__get__"):
            recorded[found.__get__] = _ask
    for names, how in (
        (_FACTS, _ask),
        (_POINTWISE, _pointwise),
        (_POINTWISE_IN_PLACE, _pointwise),
        (["detach"], _share),
        (["contiguous", "cpu"], _same),
        (["requires_grad_"], _no_grad),
        (["clone"], _clone),
        (["flip"], _flip),
        (["__getitem__"], _get_item),
    ):
        for name in names:
            found = getattr(Tensor, name, None)
            if found is not None:
                recorded[found] = how
    for name in "div sub add mul neg clamp true_divide subtract".split():
        recorded[getattr(torch, name)] = _pointwise
    for name in "multiply clip negative".split():
        recorded[getattr(torch, name)] = _pointwise
    recorded[torch.is_floating_point] = _ask
    recorded[torch.numel] = _ask
    recorded[torch.is_complex] = _ask
    recorded[torch.clone] = _clone
    recorded[torch.flip] = _flip
    recorded[torch.stack] = _stack
    return recorded


_RECORDED = _table_of_functions()
_IN_PLACE = {
    getattr(Tensor, name)
    for name in _POINTWISE_IN_PLACE
    if hasattr(Tensor, name)
}
_CONVERSIONS = {
    getattr(Tensor, name)
    for name in "float half double bfloat16 int long short type".split()
}


# ---- entrances -------------------------------------------------------------

_identities: dict[int, Table] = {}
_to_tensor_tables: dict[Any, Table] = {}


def identity(channels: int) -> Table:
    """The table of untouched bytes."""
    table = _identities.get(channels)
    if table is None:
        ramp = torch.arange(256, dtype=torch.uint8)
        table = Table(ramp.expand(channels, 1, 256).contiguous())
        _identities[channels] = table
    return table


def _ramp_picture(mode: str) -> Image.Image:
    channels = 1 if mode == "L" else 3
    data = bytes(value for value in range(256) for _ in range(channels))
    return Image.frombytes(mode, (256, 1), data)


def to_tensor(stock: Any) -> Any:
    """torchvision.transforms.functional.to_tensor, around the stock one."""

    def to_tensor(pic: Any) -> Any:
        if type(pic) not in pillow.RECORDERS:
            return stock(pic)
        hr = pic._record()
        if hr is None or not pillow.active:
            return stock(pic)
        mode = pic.mode
        key = (stock, mode, torch.get_default_dtype())
        table = _to_tensor_tables.get(key)
        if table is None:
            table = Table(stock(_ramp_picture(mode)))
            _to_tensor_tables[key] = table
        w, h = pic._size
        channels = 3 if mode == "RGB" else 1
        return lazy(LazyTensor, hr[0], (channels, h, w), table)

    return to_tensor


def pil_to_tensor(stock: Any) -> Any:
    """pil_to_tensor of v1 and of v2, around the stock one."""

    def pil_to_tensor(pic: Any) -> Any:
        if type(pic) not in pillow.RECORDERS:
            return stock(pic)
        made = _bytes_of(LazyTensor, pic)
        return stock(pic) if made is None else made

    return pil_to_tensor


def to_image(stock: Any) -> Any:
    """v2.functional.to_image, around the stock one."""

    def to_image(inpt: Any) -> Any:
        if type(inpt) in pillow.RECORDERS:
            made = _bytes_of(lazy_tv_image(), inpt)
            if made is not None:
                return made
        return stock(inpt)

    return to_image


def _bytes_of(cls: Any, pic: Any) -> Any:
    hr = pic._record()
    if hr is None or not pillow.active:
        return None
    w, h = pic._size
    channels = 3 if pic.mode == "RGB" else 1
    return lazy(cls, hr[0], (channels, h, w), None, True)


def normalize(stock: Any) -> Any:
    """A fast way for normalize(): the stock one runs once, on the table."""

    def normalize(
        tensor: Any, mean: Any, std: Any, inplace: bool = False
    ) -> Any:
        if type(tensor) is LazyTensor:
            made = _normalized(stock, tensor, mean, std, inplace)
            if made is not None:
                return made
        return stock(tensor, mean, std, inplace)

    return normalize


def _normalized(
    stock: Any, tensor: Any, mean: Any, std: Any, inplace: bool
) -> Any:
    cell = tensor._hr
    table = cell.table
    if table is None or cell.value is not None or cell.lead or inplace:
        return None
    try:
        key = (stock, tuple(mean), tuple(std))
        made = table.results.get(key)
    except TypeError:
        return None
    if made is None:
        if any(type(value) is not float for value in key[1] + key[2]):
            return None
        try:
            made = Table(stock(table.values, list(mean), list(std)))
        except Exception:
            return None
        table.remember(key, made)
    other = Cell(cell.samples, cell.size, made, cell.hwc)
    _remember(other)
    return _wrap(type(tensor), other)


def fast_kernel(stock: Any) -> Any:
    """A kernel of transforms v2 for lazy tensors of both classes.

    stock is the kernel of plain tensors; it runs once, on the table.
    """

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        cell = inpt._hr
        made = _kernel_table(stock, cell, args, kwargs)
        if made is None:
            out = stock(inpt.as_subclass(Tensor), *args, **kwargs)
            return out.as_subclass(_tv[1]) if type(inpt) is _tv[0] else out
        other = cell.like(made)
        _remember(other)
        return _wrap(type(inpt), other)

    return kernel


def _kernel_table(
    stock: Any, cell: Cell, args: Any, kwargs: Any
) -> Table | None:
    if cell.value is not None or cell.tables is not None:
        return None
    if args or kwargs.get("inplace"):
        return None
    table = cell.table or identity(cell.size[0])
    try:
        key = (stock, *map(_frozen, kwargs.items()))
        made = table.results.get(key)
    except TypeError:
        return None
    if made is None:
        try:
            out = stock(table.values, **kwargs)
        except Exception:
            return None
        if type(out) is not Tensor or out is table.values:
            return None
        made = table.remember(key, Table(out))
    return made


def _frozen(item: Any) -> Any:
    name, value = item
    if isinstance(value, (list, tuple)):
        if any(type(number) is not float for number in value):
            raise TypeError(name)
        value = tuple(value)
    return name, value


# ---- collate and transport -------------------------------------------------


def collate(stock: Any) -> Any:
    """The entry of default_collate_fn_map for both classes.

    In a worker it gives a lazy stack; elsewhere it runs the job and returns
    the plain tensor. stock is what collates plain tensors.
    """

    def collate_lazy(batch: Any, *, collate_fn_map: Any = None) -> Any:
        cell = stacked(batch)
        if cell is None:
            found: list[Any] = []
            _collect(list(batch), found)
            _make([tensor._hr for tensor in found])
            return stock(
                [plain(tensor) for tensor in batch],
                collate_fn_map=collate_fn_map,
            )
        if jobs.in_worker():
            return _wrap(LazyTensor, cell)
        (handle,) = submit_batch([_record(cell)])
        return handle.result()

    return collate_lazy


def transport(tensor: Any) -> Any:
    """Reduces a lazy tensor for a queue of multiprocessing."""
    record = record_of(tensor)
    if record is None:
        return torch.multiprocessing.reductions.reduce_tensor(_plain(tensor))
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
    _remember(cell)
    if record.image and _tv:
        return _wrap(_tv[0], cell)
    return _wrap(LazyTensor, cell)
