# SPDX-License-Identifier: Apache-2.0
"""The functions of torch that a lazy tensor records, and how. Imports torch.

Each entry of RECORDED takes (func, args, kwargs) and returns the result, or
NotImplemented: then tensor.py makes the values and calls func.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..pillow import jobs
from ..pillow.jobs import CROP, ERASE, FLIP
from . import tensor
from .cell import Cell, copy_of, hwc_strides, painted, plain_strides, tables_of
from .tables import Table, identity
from .tensor import (
    Lazy,
    LazyTensor,
    may_write,
    no_torch_function,
    set_samples,
    set_table,
    wrap,
)


def _ask(func: Any, args: Any, kwargs: Any) -> Any:
    """Shape, type and the like: torch answers from the wrapper."""
    if not isinstance(args[0], Lazy) or args[0]._hr.value is not None:
        return NotImplemented
    with no_torch_function():
        return func(*args, **kwargs)


def _version(func: Any, args: Any, kwargs: Any) -> Any:
    """How often it was written to; of inference tensors torch has none."""
    tensor = args[0]
    if not isinstance(tensor, Lazy) or tensor._hr.value is not None:
        return NotImplemented
    cell = tensor._hr.owner()
    return NotImplemented if cell.inference else cell.version


def _share(func: Any, args: Any, kwargs: Any) -> Any:
    """detach(): another tensor, the same memory."""
    tensor = args[0]
    if len(args) > 1 or kwargs or tensor._hr.value is not None:
        return NotImplemented
    return wrap(type(tensor), tensor._hr, Tensor.detach)


def _same(func: Any, args: Any, kwargs: Any) -> Any:
    """contiguous(), cpu(): this very tensor, where nothing is to do."""
    tensor = args[0]
    if len(args) > 1 or kwargs or not tensor._hr.open():
        return NotImplemented
    if func is Tensor.contiguous and not tensor.is_contiguous():
        return wrap(_kind(tensor, func), copy_of(tensor._hr, False))
    if _kind(tensor, func) is not type(tensor):
        return tensor.as_subclass(Tensor)
    return tensor


def _no_grad(func: Any, args: Any, kwargs: Any) -> Any:
    """requires_grad_(False)"""
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if wanted or args[0]._hr.value is not None:
        return NotImplemented
    return args[0]


def _clone(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if len(args) > 1 or kwargs or not tensor._hr.open():
        return NotImplemented
    hwc = keeps_hwc(tensor, torch.clone)
    if hwc is None:
        return NotImplemented
    return wrap(_kind(tensor, func), copy_of(tensor._hr, hwc))


def keeps_hwc(tensor: Any, run: Callable[[Tensor], Any]) -> bool | None:
    """Cell.hwc of run(tensor)'s result; None: its strides are others.

    Torch keeps the strides of a picture. For a window, or a side of one, it
    runs on a small tensor of the kind, and reads that one's strides.
    """
    cell = tensor._hr
    if cell.owner().strides is not None:
        return None
    if cell.base is None and not (cell.hwc and 1 in cell.size):
        return bool(cell.hwc)
    twin = small_twin(cell, *(min(side, 2) for side in cell.size[1:]))
    try:
        with torch.no_grad():
            made = run(twin).stride()
    except Exception:
        return None
    shape = tuple(twin.shape)
    if made == plain_strides(shape):
        return False
    return True if made == hwc_strides(shape[-3:]) else None


def small_twin(cell: Cell, h: int, w: int) -> Tensor:
    """Zeros with its kind of strides: a view of larger ones where it is one."""
    views, sides = [], [h, w]
    while cell.base is not None:
        whole, index = cell.base
        if index is not None:
            index = 0 if _is_side(index) else (..., *map(slice, sides))
        views.append(index)
        more = [a != b for a, b in zip(cell.size[1:], whole.size[1:])]
        sides = [side + one for side, one in zip(sides, more)]
        cell = whole
    c = cell.size[0]
    how: Any = {"dtype": cell.dtype, "device": "cpu"}
    if cell.hwc and not cell.lead:
        twin = torch.zeros((*sides, c), **how).permute(2, 0, 1)
    elif cell.on_its_side:
        twin = torch.zeros((*sides[::-1], c), **how).permute(2, 1, 0)
    else:
        lead = (min(side, 2) for side in cell.lead)
        twin = torch.zeros((*lead, c, *sides), **how)
    for view in reversed(views):
        twin = twin[view]
    return twin


def _is_side(index: Any) -> bool:
    """Does it take the first side away, or add one? See Cell.base."""
    return index is None or type(index) is int


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
    if not isinstance(tensor, Lazy):
        return NotImplemented  # 1 - x: comes as rsub, with the tensor first
    cell = tensor._hr
    if not cell.open() or cell.tables is not None or painted(cell):
        return NotImplemented
    before = cell.table
    table = before or identity(cell.size[0])
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
        if not may_write(cell) or not set_table(cell, before, made):
            return NotImplemented
        # The wrapper keeps its type: torch refuses to change it in place.
        if type(tensor) is LazyTensor or _must_return_subclass():
            return tensor
        return wrap(LazyTensor, cell)
    if func is Tensor.to or func in _CONVERSIONS:
        if made.values.dtype == cell.dtype and made is not table:
            if not _copies(args, kwargs):
                kind = _kind(tensor, func)
                return tensor if kind is type(tensor) else wrap(kind, cell)
    hwc = keeps_hwc(tensor, lambda twin: func(twin, *args[1:], **kwargs))
    if hwc is None:
        return NotImplemented
    return wrap(_kind(tensor, func), cell.like(made, hwc))


def _as_other(func: Any, args: Any, kwargs: Any) -> Any:
    """to(other), type_as(other), type(dtype): itself, if they are alike."""
    tensor = args[0]
    if isinstance(tensor, Lazy) and len(args) == 2 and not kwargs:
        other = args[1]
        dtype = other.dtype if isinstance(other, Tensor) else other
        if dtype is tensor.dtype and tensor._hr.open():
            if other is dtype or other.device.type == "cpu":
                if _kind(tensor, func) is type(tensor):
                    return tensor
                return tensor.as_subclass(Tensor)
    return _pointwise(func, args, kwargs)


def _copies(args: Any, kwargs: Any) -> bool:
    """to(..., non_blocking, copy)"""
    flags = [arg for arg in args[1:] if type(arg) is bool]
    return bool(kwargs.get("copy", flags[1:] == [True]))


def _run_on_table(
    func: Any, table: Table, args: Any, kwargs: Any, cell: Cell
) -> Table | None:
    """The function's result on the table; None if that cannot be it."""
    values = table.values
    view = values.reshape((1,) * len(cell.lead) + tuple(values.shape))
    try:
        with torch.inference_mode(False), torch.no_grad():
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
    plain = out.detach().reshape(values.shape).contiguous()
    return Table(plain, out._version)


def _key(func: Any, args: Any, kwargs: Any, cell: Cell) -> Any:
    """A hashable key of a pointwise result; None: it is not pointwise."""
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
    if kind is torch.dtype or arg is torch.preserve_format:
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
    if not cell.open() or kwargs or not _fits(cell):
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
    hwc = keeps_hwc(tensor, lambda twin: torch.flip(twin, tuple(dims)))
    if hwc is None:
        return NotImplemented
    return wrap(_kind(tensor, func), _with_op(cell, op, cell.size, hwc))


def _fits(cell: Cell) -> bool:
    """May an op of a picture follow?"""
    return _has_room(cell) and not painted(cell)


def _has_room(cell: Cell) -> bool:
    return all(len(each.ops) < jobs.MAX_OPS for each in cell.samples)


def _with_op(
    cell: Cell, op: Any, size: tuple[int, int, int], hwc: bool
) -> Cell:
    samples = tuple(each.followed_by(op) for each in cell.samples)
    return Cell(samples, size, cell.table, hwc, cell.lead, cell.tables)


def _get_item(func: Any, args: Any, kwargs: Any) -> Any:
    """x[..., top:bottom, left:right], x[number], x[None]: a view."""
    tensor, index = args
    if not isinstance(tensor, Lazy) or not tensor._hr.open():
        return NotImplemented
    cell = tensor._hr
    if _is_side(index):
        return _of_side(func, tensor, index)
    if type(index) is not tuple or not _fits(cell):
        return NotImplemented
    window = _window(index, cell)
    if window is None:
        return NotImplemented
    x, y, w, h = window
    op = (CROP, x, y, w, h, False)
    view = _with_op(cell, op, (cell.size[0], h, w), cell.hwc)
    if cell.alone:
        view.strides = cell.layout()[0]
        return wrap(_kind(tensor, func), view)
    return wrap(_kind(tensor, func), _view_of(cell, index, view))


def _of_side(func: Any, tensor: Any, index: int | None) -> Any:
    """One of a stack, or a stack of this one."""
    cell = tensor._hr
    if cell.strides is not None or cell.hwc and not cell.lead:
        return NotImplemented  # that would be a stack of other strides
    samples, tables = cell.samples, cell.tables
    lead = (1, *cell.lead)
    if index is not None:
        if not cell.lead or not -cell.lead[0] <= index < cell.lead[0]:
            return NotImplemented
        index, lead = index % cell.lead[0], cell.lead[1:]
        each = len(samples) // cell.lead[0]
        part = slice(index * each, (index + 1) * each)
        samples, tables = samples[part], tables and tables[part]
    view = Cell(samples, cell.size, cell.table, False, lead, tables)
    return wrap(_kind(tensor, func), _view_of(cell, index, view))


def _view_of(cell: Cell, index: Any, view: Cell) -> Cell:
    view.base = (cell, index)
    cell.views = [ref for ref in cell.views or () if ref() is not None]
    cell.views.append(weakref.ref(view))
    return view


def _squeeze(func: Any, args: Any, kwargs: Any) -> Any:
    """squeeze(0), unsqueeze(0)"""
    given = dict(zip(("input", "dim"), args), **kwargs)
    tensor = given.get("input")
    if not isinstance(tensor, Lazy) or set(given) != {"input", "dim"}:
        return NotImplemented
    cell = tensor._hr
    grows = func.__name__ == "unsqueeze"
    first = 0, -len(cell.shape) - grows
    if type(given["dim"]) is not int or given["dim"] not in first:
        return NotImplemented
    if not cell.open() or not (grows or cell.lead[:1] == (1,)):
        return NotImplemented
    return _of_side(func, tensor, None if grows else 0)


def _unbind(func: Any, args: Any, kwargs: Any) -> Any:
    """for picture in stack"""
    tensor = args[0]
    cell = tensor._hr
    if len(args) > 1 or kwargs or not cell.lead or not cell.open():
        return NotImplemented
    made = [_of_side(func, tensor, index) for index in range(cell.lead[0])]
    if any(each is NotImplemented for each in made):
        return NotImplemented
    return iter(made) if func is Tensor.__iter__ else tuple(made)


def _set_item(func: Any, args: Any, kwargs: Any) -> Any:
    """x[..., top:bottom, left:right] = a number, one per channel, a block."""
    tensor, index, value = args
    if not isinstance(tensor, Lazy):
        return NotImplemented
    cell = tensor._hr
    if not cell.open() or cell.base is not None or _has_views(cell):
        return NotImplemented  # others share this memory
    if type(index) is not tuple or not _has_room(cell) or not may_write(cell):
        return NotImplemented
    window = _window(index, cell)
    if window is None:
        return NotImplemented
    paint = _paint(value, cell, *window[2:])
    if paint is None:
        return NotImplemented
    before = cell.samples
    op = (ERASE, *window, *paint)
    made = tuple(each.followed_by(op) for each in before)
    return None if set_samples(cell, before, made) else NotImplemented


def _has_views(cell: Cell) -> bool:
    return any(ref() is not None for ref in cell.views or ())


# Types of elements that op erase writes as they are in float32.
_PAINTED = (torch.float32, torch.float16, torch.bfloat16, torch.uint8)


def _paint(value: Any, cell: Cell, w: int, h: int) -> Any:
    """(numbers per channel, None), or ((0,), block of float32); None: neither.

    torch itself converts them to the tensor's type.
    """
    c, dtype = cell.size[0], cell.dtype
    if dtype not in _PAINTED:
        return None
    if type(value) is Tensor:
        if (
            value.requires_grad
            or value.device.type != "cpu"
            or value.layout is not torch.strided
            or value.dtype.is_complex
        ):
            return None
        shape = tuple(value.shape)
        if shape == (c, h, w) and h * w > 1 and not cell.lead:
            return _block(value, dtype)
        if shape not in ((), (1,), (1, 1), (1, 1, 1), (c, 1, 1)):
            return None
        if value.dtype is dtype is torch.float32:
            same = tuple(value.flatten().tolist())
            same = same if len(same) == c else same * c
            return (same, None) if all(map(math.isfinite, same)) else None
    elif type(value) not in (int, float, bool):
        return None
    one = torch.zeros((c, 1, 1), dtype=dtype, device="cpu")
    try:
        one[..., 0:1, 0:1] = value
    except Exception:
        return None  # the picture itself raises it
    if not _is_safe(torch.as_tensor(value, device="cpu"), dtype):
        return None
    numbers = tuple(one.to(torch.float32).flatten().tolist())
    return (numbers, None) if all(map(math.isfinite, numbers)) else None


def _block(value: Tensor, dtype: torch.dtype) -> Any:
    if not _is_safe(value, dtype):
        return None
    numbers = value.to(dtype).to(torch.float32).contiguous()
    return (0.0,), bytes(numbers.view(torch.uint8).numpy())


def _is_safe(value: Tensor, dtype: torch.dtype) -> bool:
    """Not of numbers that C++ converts in more than one way."""
    if not value.is_floating_point():
        return True
    if dtype is not torch.uint8:
        # (A sum is finite only of such numbers, and takes a tenth of the time.)
        if value.dtype is torch.float32 and math.isfinite(value.sum().item()):
            return True
        return bool(value.isfinite().all())
    return bool(((value > -1) & (value < 256)).all())


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
    tensors, dim = given.get("tensors", ()), given.get("dim", 0)
    if given.get("out") is not None or dim != 0 or len(given) > 3:
        return NotImplemented
    cell = stacked(tensors)
    return NotImplemented if cell is None else wrap(LazyTensor, cell)


def _cat(func: Any, args: Any, kwargs: Any) -> Any:
    """torch.cat(stacks) of equal pictures, along their first dimension."""
    given = dict(zip(("tensors", "dim"), args), **kwargs)
    tensors, dim = given.get("tensors", ()), given.get("dim", 0)
    if len(args) > 2 or not set(given) <= {"tensors", "dim"}:
        return NotImplemented
    cells = _alike(tensors, 1) if type(tensors) in (list, tuple) else None
    if cells is None or type(dim) is not int:
        return NotImplemented
    first = cells[0]
    if dim not in (0, -len(first.shape)) or not _joins(cells):
        return NotImplemented
    lead = (sum(cell.lead[0] for cell in cells), *first.lead[1:])
    return wrap(LazyTensor, _together(cells, lead))


def _joins(cells: Sequence[Cell]) -> bool:
    """Has torch.cat()'s result plain strides?

    With sides of one it may take another order.
    """
    if 1 not in cells[0].size:
        return True
    small = [tuple(min(side, 2) for side in cell.shape) for cell in cells]
    made = torch.cat([torch.zeros(each, device="cpu") for each in small])
    return made.stride() == plain_strides(tuple(made.shape))


def stacked(tensors: Sequence[Any]) -> Cell | None:
    """One cell for all, or None: they differ, or have values."""
    cells = _alike(tensors, 0)
    if cells is None:
        return None
    return _together(cells, (len(cells),) + cells[0].lead)


def _alike(tensors: Sequence[Any], but: int) -> list[Cell] | None:
    """Their cells; None: they differ by more than the first sides.

    but: so many of them.
    """
    cells = []
    for each in tensors:
        if not isinstance(each, Lazy) or not each._hr.open():
            return None
        cells.append(each._hr)
    if not cells:
        return None
    first = cells[0]
    if len(first.lead) < but or any(
        cell.size != first.size
        or len(cell.lead) != len(first.lead)
        or cell.lead[but:] != first.lead[but:]
        or cell.dtype != first.dtype
        for cell in cells
    ):
        return None
    return cells


def _together(cells: Sequence[Cell], lead: tuple[int, ...]) -> Cell:
    samples = tuple(sample for cell in cells for sample in cell.samples)
    tables: Any = tuple(table for cell in cells for table in tables_of(cell))
    table = tables[0]
    if all(other is table for other in tables):
        tables = None
    else:
        table = None
    return Cell(samples, cells[0].size, table, False, lead, tables)


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
is_complex is_signed get_device ndimension __len__ storage_offset is_same_size
""".split()
_FACT_PROPERTIES = """
shape dtype device ndim layout is_cuda is_sparse is_quantized is_mkldnn
is_meta is_nested requires_grad is_leaf grad_fn grad names itemsize nbytes
is_cpu is_sparse_csr is_xpu is_mps is_vulkan is_xla is_ort is_ipu is_mtia
is_hpu is_maia output_nr _backward_hooks
""".split()


def _table_of_functions() -> dict[Any, Callable[..., Any]]:
    recorded: dict[Any, Callable[..., Any]] = {}
    for name in _FACT_PROPERTIES:
        found: Any = getattr(Tensor, name, None)
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
        (["to", "type", "type_as"], _as_other),
        (["flip"], _flip),
        (["__getitem__"], _get_item),
        (["squeeze", "unsqueeze"], _squeeze),
        (["unbind", "__iter__"], _unbind),
        (["__setitem__"], _set_item),
    ):
        for name in names:
            found = getattr(Tensor, name, None)
            if found is not None:
                recorded[found] = how
    for name in "div sub add mul neg clamp true_divide subtract".split():
        recorded[getattr(torch, name)] = _pointwise
    for name in "multiply clip negative".split():
        recorded[getattr(torch, name)] = _pointwise
    versions: Any = Tensor._version
    recorded[versions.__get__] = _version
    recorded[torch.is_floating_point] = _ask
    recorded[torch.numel] = _ask
    recorded[torch.is_complex] = _ask
    recorded[torch.clone] = _clone
    recorded[torch.flip] = _flip
    recorded[torch.squeeze] = recorded[torch.unsqueeze] = _squeeze
    recorded[torch.unbind] = _unbind
    recorded[torch.stack] = _stack
    for name in "cat", "concat", "concatenate":
        if hasattr(torch, name):
            recorded[getattr(torch, name)] = _cat
    return recorded


_IN_PLACE = {
    getattr(Tensor, name)
    for name in _POINTWISE_IN_PLACE
    if hasattr(Tensor, name)
}
_CONVERSIONS = {
    getattr(Tensor, name)
    for name in "float half double bfloat16 int long short type".split()
}


tensor.RECORDED.update(_table_of_functions())
