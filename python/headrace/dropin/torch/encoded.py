# SPDX-License-Identifier: Apache-2.0
"""torchvision.io's decoders, recorded in a fetch. Imports torch.

decode_image(), decode_jpeg() and read_image() give lazy tensors of those JPEG
files of which torchvision and Headrace make the same bytes. A tensor of a file
is copied, and a path is read, at the call.

What a job cannot make torchvision makes, or says what is wrong with it, in
whatever process: the op that decodes such a picture is a Decode.

Each function takes torchvision's and returns what is called in its place, with
all arguments that torchvision's has.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ... import _core
from ..base import fetch
from ..base.report import count, total
from ..pillow import files, jobs, pictures
from .tensor import LazyTensor, begin
from .wrappers import modes

MODULE = "torchvision.io.image"
# Does the installed torchvision decode as Headrace does? Set by selftest.py.
agrees = False


class Decode(tuple[Any, ...]):
    """The op that decodes a picture which torchvision has been asked for."""

    __slots__ = ()

    def open(self, source: jobs.Source) -> Image.Image:
        """What torchvision makes of the file. Raises what it raises."""
        if jobs.is_packed(source):
            return jobs.open_stock(source)
        module = importlib.import_module(MODULE)
        data = torch.frombuffer(bytearray(source), dtype=torch.uint8)
        mode = "RGB" if self[1] == jobs.RGB else "GRAY"
        with fetch.at(fetch.OFF):
            made = module.decode_jpeg(data, module.ImageReadMode[mode])
        c, h, w = made.shape
        pixels = _bytes(made.permute(1, 2, 0).contiguous())
        return Image.frombytes("RGB" if c == 3 else "L", (w, h), pixels)


_OPS = {mode: (Decode(ops[0]),) for mode, ops in pictures.DECODE_OPS.items()}


def decode_image(stock: Any) -> Any:
    """The first argument may be a path, if torchvision is new."""

    def decode_image(input: Any, mode: Any, *turned: Any) -> Any:
        if not any(turned) and _may_record():
            is_file = type(input) is Tensor
            if is_file or "read_file" in stock.__code__.co_names:
                made = _recorded(stock, input, mode, 1 if is_file else 2)
                if made is not None:
                    return made
        return stock(input, mode, *turned)

    return decode_image


def decode_jpeg(stock: Any) -> Any:
    def decode_jpeg(input: Any, mode: Any, device: Any, *turned: Any) -> Any:
        if (
            type(input) is Tensor
            and str(device) == "cpu"
            and not any(turned)
            and _may_record()
        ):
            made = _recorded(stock, input, mode, 1)
            if made is not None:
                return made
        return stock(input, mode, device, *turned)

    return decode_jpeg


def read_image(stock: Any) -> Any:
    """It calls decode_image(), which counts what is not recorded."""

    def read_image(path: Any, mode: Any, *turned: Any) -> Any:
        if not any(turned) and _may_record():
            made = _recorded(stock, path, mode, 3, known=False)
            if made is not None:
                return made
        return stock(path, mode, *turned)

    return read_image


def _may_record() -> bool:
    return (
        agrees
        and pictures.active
        and fetch.is_lazy()
        and not modes()
        and torch._C._get_tracing_state() is None
    )


def _recorded(
    stock: Any, file: Any, mode: Any, warns: int, known: bool = True
) -> Any:
    """A lazy tensor, or None: stock makes it, or says what is wrong.

    warns: so many functions say that they are deprecated, where they are.
    known=False: the report does not count why it is stock's.
    """
    module = sys.modules[stock.__module__]
    try:
        wanted = _wanted(module, mode)
        source = _source(module, file) if wanted else None
        if source is None:
            return None
        info = files.probe(source)
    except Exception:
        return None
    reason = _objection(info, wanted)
    if reason is None and not fetch.can_ask_again():
        reason, source = files.checked(source)
    if reason is not None or source is None:
        if known:
            count("pillow", "torchvision.io: %s" % reason)
        return None
    for _ in range(warns if hasattr(module, "_warn_deprecated") else 0):
        module._warn_deprecated()
    grey = wanted != "RGB" and info.components == 1
    return _begun(source, _OPS["L" if grey else "RGB"], info)


def _begun(source: jobs.Source, ops: Any, info: Any) -> Any:
    """The tensor: a view of an H x W x C array, as torchvision's."""
    fetch.recorded(source, ops[0].open)
    total("recorded")
    size = jobs.channels(ops), info.height, info.width
    return begin(LazyTensor, jobs.recorded((source, ops)), size, None, True)


def _wanted(module: Any, mode: Any) -> str | None:
    """The name of a mode that may be recorded."""
    if type(mode) is str and hasattr(module, "_warn_deprecated"):
        mode = module.ImageReadMode[mode.upper()]
    if type(mode) is module.ImageReadMode:
        name: str = mode.name
        return name if name in ("UNCHANGED", "RGB", "GRAY") else None
    return None


def _source(module: Any, file: Any) -> bytes | _core.FileBytes | None:
    """What the decoders read of a tensor, or of what read_file() reads."""
    if type(file) is not Tensor:
        path = str(file)
        path.encode()
        if type(file) is not str and "str" not in _names(module.read_file):
            return None
        return _core.read_file(path)
    if (
        file.dtype is not torch.uint8
        or file.device.type != "cpu"
        or file.dim() != 1
        or not file.is_contiguous()
    ):
        return None
    return _bytes(file)


def _names(function: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = function.__code__.co_names
    return names


def _bytes(tensor: Tensor) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel())


def _objection(info: Any, wanted: str | None) -> str | None:
    """Why torchvision makes other bytes of it, or might."""
    reason = files.objection(info)
    if reason is not None:
        return reason
    if info.process == "progressive" and not info.all_scans:
        return "partial progressive"
    if wanted == "GRAY" and info.components != 1:
        return "gray of a colour picture"
    return None
