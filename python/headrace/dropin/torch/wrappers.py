# SPDX-License-Identifier: Apache-2.0
"""Where lazy tensors begin, and where they end: what hooks.py installs.

Each function takes what stood in its place and returns what stands there then.
Imports torch.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ..base.report import note
from ..base.worker import in_worker
from ..pillow import jobs, pictures
from . import speculate
from .functions import keeps_hwc, stacked
from .cell import Cell, painted
from .tables import Table, identity
from .tensor import (
    LazyTensor,
    begin,
    collect,
    lazy_tv_image,
    make_values,
    plain,
    run_plain,
    wrap,
)

_to_tensor_tables: dict[Any, Table] = {}


def _ramp_picture(mode: str) -> Image.Image:
    channels = 1 if mode == "L" else 3
    data = bytes(value for value in range(256) for _ in range(channels))
    return Image.frombytes(mode, (256, 1), data)


def to_tensor(stock: Any) -> Any:
    """torchvision.transforms.functional.to_tensor, around the stock one."""

    def to_tensor(pic: Any) -> Any:
        if type(pic) not in pictures.RECORDERS:
            return stock(pic)
        hr = pictures.recording(pic)
        if hr is None or not pictures.active or modes(_DEVICES):
            return stock(pic)
        size = _chw(hr, pic)
        key = (stock, size[0], torch.get_default_dtype())
        table = _to_tensor_tables.get(key)
        if table is None:
            table = Table(stock(_ramp_picture(pic.mode)))
            _to_tensor_tables[key] = table
        # (Stock keeps the order of the bytes where it is that of the tensor.)
        hwc = size[0] == 1 or size[1:] == (1, 1)
        return begin(LazyTensor, hr, size, table, hwc)

    return to_tensor


_FUNCTIONS: Any = getattr(torch._C, "_len_torch_function_stack", int)
_DISPATCH: Any = getattr(torch._C, "_len_torch_dispatch_stack", int)
_DEVICES = "DeviceContext"


def modes(harmless: str = "") -> bool:
    """Is a mode of torch on, which shall see stock's calls?

    A default device is one, and says where bytes become a tensor.
    """
    if not _FUNCTIONS() and not _DISPATCH():
        return False
    if _DISPATCH() or _FUNCTIONS() > 1:
        return True
    mode = torch.overrides._get_current_function_mode()
    return type(mode).__name__ != harmless


def _chw(hr: jobs.Recording, pic: Any) -> tuple[int, int, int]:
    w, h = pic._size
    return jobs.channels(hr.ops), h, w


def pil_to_tensor(stock: Any) -> Any:
    """pil_to_tensor of v1 and of v2, around the stock one."""

    def pil_to_tensor(pic: Any) -> Any:
        if type(pic) not in pictures.RECORDERS:
            return stock(pic)
        made = _bytes_of(LazyTensor, pic)
        return stock(pic) if made is None else made

    return pil_to_tensor


def to_image(stock: Any) -> Any:
    """v2.functional.to_image, around the stock one."""

    def to_image(inpt: Any) -> Any:
        if type(inpt) in pictures.RECORDERS:
            made = _bytes_of(lazy_tv_image(), inpt)
            if made is not None:
                return made
        return stock(inpt)

    return to_image


def _bytes_of(cls: Any, pic: Any) -> Any:
    hr = pictures.recording(pic)
    if hr is None or not pictures.active or modes():
        return None
    return begin(cls, hr, _chw(hr, pic), None, True)


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
    if table is None or cell.lead or inplace or not cell.open():
        return None
    if painted(cell):
        return None
    try:
        key = (stock, tuple(_floats(mean)), tuple(_floats(std)))
        made = table.results.get(key)
    except (TypeError, RuntimeError):
        return None
    if made is None:
        if any(type(value) is not float for value in key[1] + key[2]):
            return None
        made = _table_of(stock, table, list(key[1]), list(key[2]))
        if made is None:
            return None
        table.remember(key, made)
    hwc = keeps_hwc(tensor, torch.clone)
    if hwc is None:
        return None
    return wrap(type(tensor), cell.like(made, hwc))


def _floats(numbers: Any) -> Any:
    """A list for a tensor, of which stock makes that tensor again."""
    if (
        type(numbers) is Tensor
        and numbers.dtype is torch.float32
        and numbers.dim() == 1
        and numbers.device.type == "cpu"
        and not numbers.requires_grad
    ):
        return numbers.tolist()
    return numbers


def _table_of(
    stock: Any, table: Table, *args: Any, **kwargs: Any
) -> Table | None:
    """stock's result on the table; None: it is not value by value."""
    values = table.values
    try:
        with torch.inference_mode(False):
            out = stock(values, *args, **kwargs)
    except Exception:
        return None  # the picture itself raises it
    if type(out) is not Tensor or out is values or out.shape != values.shape:
        return None
    return Table(out, out._version)


def fast_kernel(stock: Any) -> Any:
    """A kernel of transforms v2 for lazy tensors of both classes.

    stock is the kernel of plain tensors; it runs once, on the table.
    """

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        cell = inpt._hr
        made = _kernel_table(stock, cell, args, kwargs)
        hwc = None
        if made is not None:
            hwc = keeps_hwc(inpt, lambda x: stock(x, *args, **kwargs))
        if hwc is None:
            return run_kernel(stock, inpt, inpt, *args, **kwargs)
        return wrap(type(inpt), cell.like(made, hwc))

    return kernel


def run_kernel(
    stock: Any, inpt: Any, picture: Any, *args: Any, **kwargs: Any
) -> Any:
    """The kernel of plain tensors; a tv_tensors.Image comes of an Image."""
    kind = inpt.stands_for
    if kind is Tensor:
        return stock(picture, *args, **kwargs)
    out = stock(picture.as_subclass(Tensor), *args, **kwargs)
    return out.as_subclass(kind)


def _kernel_table(
    stock: Any, cell: Cell, args: Any, kwargs: Any
) -> Table | None:
    if not cell.open() or cell.tables is not None or painted(cell):
        return None
    if kwargs.get("inplace"):
        return None
    table = cell.table or identity(cell.size[0])
    try:
        key = (stock, *map(_frozen, enumerate(args)))
        key += tuple(map(_frozen, kwargs.items()))
        made = table.results.get(key)
    except TypeError:
        return None
    if made is None:
        if not all(map(_is_plain, (*args, *kwargs.values()))):
            return None
        made = _table_of(stock, table, *args, **kwargs)
        if made is not None:
            table.remember(key, made)
    return made


def _frozen(item: Any) -> Any:
    name, value = item
    kind = type(value)
    return name, kind, tuple(value) if kind in (list, tuple) else value


def _is_plain(value: Any) -> bool:
    """Not a list of anything but floats."""
    return not isinstance(value, (list, tuple)) or all(
        type(number) is float for number in value
    )


def plain_first(stock: Any) -> Any:
    """A function that looks behind a tensor, as tracers and C code do."""

    @functools.wraps(stock)
    def with_plain(*args: Any, **kwargs: Any) -> Any:
        return run_plain(stock, args, kwargs)

    return with_plain


def data() -> Any:
    """Tensor.data: torch takes the memory of what it is set to."""
    stock: Any = torch._C._TensorBase.data
    return property(
        stock.__get__,
        lambda self, value: stock.__set__(self, plain(value)),
        doc=stock.__doc__,
    )


def collate(stock: Any) -> Any:
    """The entry of default_collate_fn_map for both classes.

    In a worker it gives a lazy stack; elsewhere it runs the job and returns
    the plain tensor. stock is what collates plain tensors.
    """

    def collate_lazy(batch: Any, *, collate_fn_map: Any = None) -> Any:
        cell = stacked(batch)
        if cell is None:
            found: list[Any] = []
            collect(list(batch), found)
            make_values([tensor._hr for tensor in found])
            return stock(
                [plain(tensor) for tensor in batch],
                collate_fn_map=collate_fn_map,
            )
        if in_worker():
            return wrap(LazyTensor, cell)
        note("num_workers_0")
        return speculate.collated([tensor._hr for tensor in batch], cell)

    return collate_lazy


def fast_collate(stock: Any) -> Any:
    """timm's function of that name: bytes of pictures, and their labels."""

    def fast_collate(batch: Any) -> Any:
        cell = _bytes_stacked(batch)
        if cell is None:
            return stock(batch)
        labels = torch.tensor([item[1] for item in batch], dtype=torch.int64)
        if in_worker():
            return wrap(LazyTensor, cell), labels
        note("num_workers_0")
        cells = [item[0]._hr for item in batch]
        return speculate.collated(cells, cell), labels

    return fast_collate


def _bytes_stacked(batch: Any) -> Cell | None:
    if type(batch) is not list or modes():
        return None
    for item in batch:
        if type(item) is not tuple or len(item) < 2:
            return None
    cell = stacked([item[0] for item in batch])
    if cell is None or cell.dtype is not torch.uint8:
        return None
    return cell if len(cell.lead) == 1 else None
