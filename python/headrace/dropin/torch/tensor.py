# SPDX-License-Identifier: Apache-2.0
"""Tensors that record what is done to them. Imports torch.

A LazyTensor is a torch.Tensor without memory: shape (C, H, W) of one picture,
or (N, C, H, W), (N, K, C, H, W) ... of a stack of them. LazyTVImage is the
same for transforms v2, a torchvision.tv_tensors.Image.

It holds a Cell (cell.py): recordings (see jobs.py), a Table, or the value, as
soon as it was needed. as_subclass() and detach() share the cell, as they share
memory in stock torch.

A lazy tensor exists in the fetch of a DataLoader only. Where it is needed, and
at the latest behind the fetch, it becomes the plain tensor: torch swaps what
the two objects stand for. A torch that cannot do that (before 2.1), or another
reference to the memory, leaves a Lazy object that has the plain tensor's
memory and hands every call on to it.

Pointwise operations (to, div, sub_, ...) are recorded: they run on the Table,
which holds what each of the 256 byte values has become, as a tensor of
C x 1 x 256 numbers. So the bits are those of the user's own torch.
Slices of the picture and flips are recorded as ops, and so is what is written
into a window (_set_item() of functions.py). torch.stack and collating give a
lazy stack. Everything else makes the value first.

Tensors that are needed one by one are made in groups: forcing one lazy tensor
forces up to GROUP others of this fetch that have the same shape and are still
alive, in one job.

For DataLoader workers (worker.py):

  lazy_types() -> tuple of classes
  record_of(lazy) -> Record | None   plain data; None: take plain()
  Records([Record, ...])             a list of them, picklable
  submit_batch([Record, ...]) -> [Handle, ...]   one job for all; no waiting
  Handle.result() -> Tensor          waits; raises what stock would raise
  Handle.cancel()
  plain(lazy) -> Tensor              makes the value here and now

Threads: a lazy tensor belongs to one thread at a time. Records and handles
may go to any thread.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor

from ... import _memory
from ..._forks import renewed
from ..base import fetch
from ..base.report import caller, count, note
from ..base.worker import in_worker
from ..pillow import jobs
from . import speculate
from .batches import Handle, Record, Records, made_by, submit_batch
from .cell import Cell, copy_of, tables_of
from .tables import Table

# The most pictures that are made because one of them was needed.
GROUP = 256

no_torch_function = getattr(
    torch._C, "DisableTorchFunctionSubclass", None
) or (torch._C.DisableTorchFunction)
_make_wrapper = Tensor._make_wrapper_subclass
_DATA: Any = torch._C._TensorBase.data
# Swaps what two tensors stand for; None: this torch has no such function.
_swap: Any = getattr(torch._C, "_swap_tensor_impl", None)


def record_of(lazy: Any) -> Record | None:
    """The recording of a lazy tensor; None: its value is to be taken."""
    cell = lazy._hr
    if cell.value is not None:
        return None
    if cell.strides and cell.strides[-1] > cell.size[0]:
        return None  # turned on its side: the worker lays it
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


# ---- making values ---------------------------------------------------------

# Held while a cell gets its value, or another table in place.
_lock = renewed(threading.RLock())


class _Here(threading.local):
    """Lazy tensors without a value that this thread's fetch has made."""

    def __init__(self) -> None:
        self.live: list[weakref.ref[Any]] = []


_here = _Here()


def _alive() -> list[Any]:
    """The lazy tensors of this fetch that are still lazy. Oldest first."""
    found = [ref() for ref in _here.live]
    return [each for each in found if isinstance(each, Lazy)]


def any_of_fetch() -> list[Cell]:
    """The cells of this fetch that are still lazy. Oldest first."""
    return [each._hr for each in _alive()]


def any_lazy() -> bool:
    """Did this thread's fetches make tensors that are still lazy?

    The process with the device makes these.
    """
    kept = _alive()
    _here.live[:] = map(weakref.ref, kept)
    for each in kept:
        for sample in each._hr.samples:
            fetch.made(sample.source)
    return bool(kept)


def _peers(cell: Cell) -> list[Cell]:
    """The cell, and others that the same job can make. Oldest first."""
    found = {id(cell): cell}
    key = (cell.shape, cell.dtype, cell.hwc)
    for each in _alive():
        other = each._hr.owner()
        if (
            other.value is None
            and not _has_windows(other)
            and (other.shape, other.dtype, other.hwc) == key
        ):
            found[id(other)] = other
            if len(found) == GROUP:
                break
    return list(found.values())


def _has_windows(cell: Cell) -> bool:
    """Is there a view of it that may need less than the whole?"""
    views = [ref() for ref in cell.views or ()]
    return any(
        view is not None
        and (view.size != cell.size or _has_windows(view))
        for view in views
    )


def forget() -> None:
    """Drops the lazy tensors of a fetch that is done again: a use of one
    raises."""
    _here.live.clear()


def settle() -> bool:
    """Makes the values of tensors that are still lazy at the end of a fetch.

    False: there were none. One that cannot be made is an error if there can be
    a second fetch; else it stays as it is, and raises where it is needed.
    """
    kept = _alive()
    _here.live.clear()
    owners = [each._hr.owner() for each in kept]
    errors = _make(list({id(cell): cell for cell in owners}.values()))
    if errors and fetch.can_ask_again():
        raise fetch.late(errors[0][1])
    for each in kept:
        if each._hr.value is not None or each._hr.base is not None:
            with contextlib.suppress(Exception):
                plain(each)
    return bool(kept)


def value_of(cell: Cell) -> Tensor:
    """The plain tensor, made now if it was not before."""
    while cell.value is None:
        if cell.base is not None:
            base, index = cell.base
            value = value_of(base)[index]  # as in stock, a view
            if cell.value is None:
                cell.value = value
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
        note("resize_of_floats")
    todo = list(cells)
    # (What a worker does not need its parent makes.)
    if len(cells) == 1 and not (in_worker() or _has_windows(cells[0])):
        todo = _peers(cells[0])
    errors = _make(todo)
    for cell in cells:
        for failed, error in errors:
            if failed is cell:
                raise fetch.late(error)


def _make(cells: Sequence[Cell]) -> list[tuple[Cell, Exception]]:
    """Makes what has neither value nor base; says what cannot be made."""
    errors = []
    todo = [c for c in cells if c.value is None and c.base is None]
    for group in _by_kind(todo):
        errors += _run(group)
    return errors


def _by_kind(cells: Sequence[Cell]) -> Iterable[list[Cell]]:
    kinds: dict[Any, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault((cell.size, cell.dtype, cell.hwc), []).append(cell)
    return kinds.values()


def _run(cells: list[Cell]) -> list[tuple[Cell, Exception]]:
    made_of = [(cell.samples, cell.table) for cell in cells]
    samples = [sample for each, _ in made_of for sample in each]
    tables = [
        table
        for cell, (each, whole) in zip(cells, made_of)
        for table in cell.tables or (whole,) * len(each)
    ]
    first = cells[0]
    group = made_by(
        samples, tables, first.size, first.dtype, first.hwc
    )
    start = 0
    errors: list[tuple[Cell, Exception]] = []
    for cell, made in zip(cells, made_of):
        length = len(made[0])
        try:
            value = group.slots(start, length)
        except Exception as error:
            errors.append((cell, error))
        else:
            _set(cell, made, _shaped(cell, value))
        start += length
    return errors


def _laid(cell: Cell, value: Tensor) -> Tensor:
    strides, _ = cell.layout()
    facts: Any = {"dtype": cell.dtype, "device": "cpu"}
    made = torch.empty_strided(cell.size, strides, **facts)
    made = made.copy_(value)
    if cell.permuted:
        return made.permute(2, 1, 0).detach().permute(2, 1, 0)
    return made


def _shaped(cell: Cell, value: Tensor) -> Tensor:
    """The value in stock's shape: no view, but for the bytes of a picture."""
    if cell.viewed:
        return value.detach().view(cell.shape)
    if cell.lead:
        return value.reshape(cell.shape).detach()
    if cell.strides is not None:
        return _laid(cell, value[0])
    if cell.permuted:
        return value[0].permute(1, 2, 0).detach().permute(2, 0, 1)
    return value[0].detach()


def _as_made(cell: Cell, value: Tensor) -> Tensor:
    """With inference mode and version as stock's tensor has them."""
    value = _memory.of_mode(value, cell.inference)
    if cell.version and not cell.inference:
        nothing = value[..., :0]  # whose version is that of the whole
        for _ in range(cell.version):
            nothing.zero_()
    return value


def set_table(cell: Cell, old: Table | None, new: Table) -> bool:
    """Changes the table in place; False: another thread made the value."""
    with _lock:
        if cell.value is not None or cell.table is not old:
            return False
        cell.table = new
        cell.version += new.version
        return True


def set_samples(
    cell: Cell, old: Sequence[jobs.Recording], new: Sequence[jobs.Recording]
) -> bool:
    """Changes the recordings in place; see set_table()."""
    with _lock:
        if cell.value is not None or cell.samples is not old:
            return False
        cell.samples = new
        cell.version += 1
        return True


def may_write(cell: Cell) -> bool:
    """Torch refuses to write to what inference mode made, outside of it."""
    return not cell.inference or torch.is_inference_mode_enabled()


def _set(cell: Cell, made_of: tuple[Any, Table | None], value: Tensor) -> None:
    """Sets the value that was made of these samples with this table.

    A peer may be in the hands of another thread meanwhile. If that has
    changed one of them, the value is not what it should be any more.
    """
    samples, table = made_of
    with _lock:
        if (
            cell.value is not None
            or cell.table is not table
            or cell.samples is not samples
        ):
            return
        cell.value = value = _as_made(cell, value)
        _set_views(cell, value)


def _set_views(cell: Cell, value: Tensor) -> None:
    """They are made with it, or they would not see what is written to it."""
    views, cell.views = cell.views, None
    for ref in views or ():
        view = ref()
        if view is not None and view.value is None and view.base:
            view.value = value[view.base[1]]
            view.shared = cell.shared = True
            _set_views(view, view.value)


# ---- the classes -----------------------------------------------------------


@functools.cache
def _cpu() -> torch.device:
    """It is made late: torch 2.15 imports more of itself for the first one.

    Torch's own import may be what imports this module.
    """
    return torch.device("cpu")


def wrap(cls: Any, cell: Cell, how: Any = None) -> Any:
    """A new lazy tensor; how: what makes it of the cell's value.

    A thread that is in no fetch gets the plain one, as no loader would make it
    before it hands it out.
    """
    shape = cell.lead + cell.size
    facts: dict[str, Any] = {"dtype": cell.dtype, "device": _cpu()}
    if cell.base or cell.strides or cell.hwc and not cell.lead:
        facts["strides"], facts["storage_offset"] = cell.layout()
    lazy = _make_wrapper(cls, shape, **facts)
    lazy._hr = cell
    if how is not None:
        lazy._hr_how = how, torch.is_inference_mode_enabled()
    if not fetch.is_lazy():
        return plain(lazy)
    _here.live.append(weakref.ref(lazy))
    return lazy


def begin(
    cls: Any,
    sample: jobs.Recording,
    size: tuple[int, int, int],
    table: Table | None,
    hwc: bool = False,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """A tensor of one picture: lazy in a fetch, else made now."""
    cell = Cell((sample,), size, table, hwc)
    cell.permuted = table is None
    cell.strides = strides
    if not fetch.is_lazy():
        value = value_of(cell)
        return value if cls is LazyTensor else value.as_subclass(cls.stands_for)
    if speculate.here.plan is not None:
        speculate.sample_ends(_newest())
    return wrap(cls, cell)


def _newest() -> Cell | None:
    """The last cell of this thread, if it is still lazy."""
    last = _here.live[-1]() if _here.live else None
    return last._hr if isinstance(last, Lazy) else None


def _fact(name: str) -> Any:
    stock = getattr(Tensor, name)

    def get(self: Any) -> Any:
        if self._hr.value is not None:
            return getattr(plain(self), name)
        with no_torch_function():
            return stock.__get__(self)

    return property(get)


class Lazy:
    """Where both classes differ from torch.Tensor."""

    __slots__ = ()
    _hr: Cell
    _hr_plain: Tensor
    _hr_left: bool
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
        return run_plain(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run_plain(func, args, kwargs)

    def as_subclass(self, cls: Any) -> Any:
        cell = self._hr
        if cell.value is None:
            if cls is Tensor:
                return wrap(LazyTensor, cell, _view)
            if _tv and cls is _tv[0].stands_for:
                return wrap(_tv[0], cell, _view)
        return plain(self).as_subclass(cls)

    def __deepcopy__(self, memo: Any) -> Any:
        cell = self._hr
        # Stock copies what was set on it, and memory of several once.
        more = [n for n in self.__dict__ if not n.startswith("_hr")]
        is_own = cell.base is None and cell.strides is None
        if cell.value is not None or not is_own or more or memo:
            of = plain(self)
            twin = copy.deepcopy(of, memo)
            for name in more if of is not self else ():
                setattr(twin, name, copy.deepcopy(self.__dict__[name], memo))
            return twin
        made = copy_of(cell, cell.hwc)
        made.version = int(self.stands_for is Tensor)  # that sets its memory
        return wrap(type(self), made)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Values, not paths: a saved tensor may outlive the file. Between
        # processes of one program transport() reduces tensors.
        return plain(self).__reduce_ex__(protocol)


# (Without __slots__: an object gets the class of what it stands for.)
class LazyTensor(Lazy, Tensor):
    """A torch.Tensor that is still to be made."""

    stands_for = Tensor


# (As stock's in texts: "'Tensor' object has no attribute ...".)
LazyTensor.__name__ = "Tensor"

# LazyTVImage, once transforms v2 is hooked.
_tv: list[Any] = []


def lazy_tv_image() -> Any:
    return _tv[0]


def define_tv_image(stock: Any) -> Any:
    """Makes the class LazyTVImage for torchvision's tv_tensors.Image."""
    if not _tv:

        class LazyTVImage(Lazy, stock):
            """A torchvision.tv_tensors.Image that is still to be made."""

            stands_for = stock

            @classmethod
            def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Any:
                return tensor.as_subclass(stock)

        LazyTVImage.__module__ = __name__
        LazyTVImage.__qualname__ = "LazyTVImage"
        LazyTVImage.__name__ = stock.__name__
        globals()["LazyTVImage"] = LazyTVImage
        _tv[:] = [LazyTVImage]
    return _tv[0]


def lazy_types() -> tuple[type, ...]:
    return (LazyTensor, _tv[0]) if _tv else (LazyTensor,)


def plain(tensor: Any) -> Tensor:
    """The tensor with its value: it itself, where torch can do that.

    Else each lazy tensor has one plain tensor, and the memory of that.
    """
    if not isinstance(tensor, Lazy):
        return tensor
    made: Tensor | None = tensor.__dict__.get("_hr_plain")
    cell = tensor._hr
    if made is None:
        made = _alias(tensor, value_of(cell))
    if "_hr_left" in tensor.__dict__:
        return made
    if _become(tensor, made):
        if cell.value is made:
            cell.value = tensor
        return tensor
    if "_hr_plain" not in tensor.__dict__:
        tensor._hr_plain = made
        with no_torch_function(), contextlib.suppress(RuntimeError):
            _DATA.__set__(tensor, made)  # C code may look for its memory
    return made


def _alias(tensor: Any, value: Tensor) -> Tensor:
    """Another tensor of the same memory: a view where stock's is one."""
    if tensor.stands_for is not Tensor:
        return value.as_subclass(tensor.stands_for)
    how = tensor.__dict__.get("_hr_how")
    if how is None and tensor._hr.shared:
        tensor._hr.shared = False  # one tensor can be it
        return value
    if how is None:
        how = _view if value._is_view() else Tensor.detach, value.is_inference()
    make, inference = how
    with torch.inference_mode(inference):
        return make(value)


def _view(value: Tensor) -> Tensor:
    return value[...]


def _become(tensor: Any, made: Tensor) -> bool:
    if _swap is None:
        return False
    try:
        _swap(tensor, made)
    except RuntimeError:
        return False  # C++ code holds it at the moment
    # C++ code that holds what was lazy finds it in the other object now.
    left: Any = made
    left.__class__ = kind = type(tensor)
    left._hr, left._hr_plain, left._hr_left = tensor._hr, tensor, True
    tensor.__class__ = kind.stands_for
    for name in [n for n in tensor.__dict__ if n.startswith("_hr")]:
        delattr(tensor, name)
    return True


def run_plain(func: Any, args: Any, kwargs: Any) -> Any:
    """Replaces all lazy tensors by their values and calls func."""
    found: list[Any] = []
    collect((args, kwargs), found)
    make_values([tensor._hr.owner() for tensor in found])
    args = _replace(args)
    out = func(*args, **(_replace(kwargs) if kwargs else {}))
    if isinstance(out, Tensor) and not out.requires_grad:
        for tensor in found:
            if out is tensor.__dict__.get("_hr_plain"):
                return tensor  # in place
    return out


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
        return plain(item)
    kind = type(item)
    if kind in (list, tuple):
        return kind([_replace(part) for part in item])
    if kind is dict:
        return {key: _replace(part) for key, part in item.items()}
    return item


def transport(tensor: Any) -> Any:
    """Reduces it for a queue of multiprocessing, as torch the plain one."""
    value = plain(tensor)
    reduce = vars(ForkingPickler)["_extra_reducers"].get(type(value))
    if reduce is not None:
        return reduce(value)
    return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


# Function of torch -> its recording one; filled by functions.py.
RECORDED: dict[Any, Callable[..., Any]] = {}

from . import functions as _functions  # noqa: E402, F401

__all__ = [
    "Handle", "LazyTensor", "Record", "Records", "lazy_types", "plain",
    "record_of", "submit_batch", "transport",
]
