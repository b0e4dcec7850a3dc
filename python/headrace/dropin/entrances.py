# SPDX-License-Identifier: Apache-2.0
"""Where lazy tensors begin, and where they end: what hooks.py installs.

Each function takes what stood in its place and returns what stands there then.
Imports torch.
"""

from __future__ import annotations

from typing import Any

import torch
from PIL import Image
from torch import Tensor

from . import ahead, pillow
from .functions import stacked
from .jobs import GRAY
from .report import note
from .tables import Table, identity
from .tensor import (
    Cell,
    LazyTensor,
    collect,
    copy_of,
    lazy,
    lazy_tv_image,
    make_values,
    plain,
    remember,
    wrap,
)
from .workers import in_worker

_to_tensor_tables: dict[Any, Table] = {}


def _ramp_picture(mode: str) -> Image.Image:
    channels = 1 if mode == "L" else 3
    data = bytes(value for value in range(256) for _ in range(channels))
    return Image.frombytes(mode, (256, 1), data)


def to_tensor(stock: Any) -> Any:
    """torchvision.transforms.functional.to_tensor, around the stock one."""

    def to_tensor(pic: Any) -> Any:
        if type(pic) not in pillow.RECORDERS:
            return stock(pic)
        hr = pic._hr or pic._record()
        if hr is None or not pillow.active:
            return stock(pic)
        size = _chw(hr, pic)
        key = (stock, size[0], torch.get_default_dtype())
        table = _to_tensor_tables.get(key)
        if table is None:
            table = Table(stock(_ramp_picture(pic.mode)))
            _to_tensor_tables[key] = table
        return lazy(LazyTensor, hr[0], size, table)

    return to_tensor


def _chw(hr: Any, pic: Any) -> tuple[int, int, int]:
    w, h = pic._size
    return (1 if hr[0][1][0][1] == GRAY else 3), h, w


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
    hr = pic._hr or pic._record()
    if hr is None or not pillow.active:
        return None
    return lazy(cls, hr[0], _chw(hr, pic), None, True)


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
    remember(other)
    return wrap(type(tensor), other)


def fast_kernel(stock: Any) -> Any:
    """A kernel of transforms v2 for lazy tensors of both classes.

    stock is the kernel of plain tensors; it runs once, on the table.
    """

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        cell = inpt._hr
        made = _kernel_table(stock, cell, args, kwargs)
        if made is None:
            out = stock(inpt.as_subclass(Tensor), *args, **kwargs)
            return out.as_subclass(type(inpt).stands_for)
        other = cell.like(made)
        remember(other)
        return wrap(type(inpt), other)

    return kernel


def crop_kernel(stock: Any) -> Any:
    """v2's resized_crop for lazy tensors: only the window is decoded.

    The stock kernel crops, then resizes. The picture that it crops is one of
    its own, so that nobody can write into it through the window.
    """

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        cell = inpt._hr
        if cell.value is None:
            copy = copy_of(cell)
            copy.alone = True
            picture = wrap(LazyTensor, copy)
        else:
            picture = inpt.as_subclass(Tensor)
        out = stock(picture, *args, **kwargs)
        return out.as_subclass(type(inpt).stands_for)

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
        if not all(map(_is_plain, kwargs.values())):
            return None
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
    return name, tuple(value) if isinstance(value, (list, tuple)) else value


def _is_plain(value: Any) -> bool:
    """Not a list of anything but floats."""
    return not isinstance(value, (list, tuple)) or all(
        type(number) is float for number in value
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
        return ahead.collated([tensor._hr for tensor in batch], cell)

    return collate_lazy
