# SPDX-License-Identifier: Apache-2.0
"""Decoders of torchvision.io and torchcodec, recorded in a fetch.

decode_image(), decode_jpeg() and read_image() give lazy tensors of those JPEG
files of which they and Headrace make the same bytes. A tensor of a file is
copied, and a path is read, at the call. Imports torch.

The stock package makes the pictures that a job cannot make, or raises its own
error, in any process: the op that decodes such a picture is a Decode.

Each function takes the stock one and returns its replacement, which has all
arguments of the stock one.
"""

from __future__ import annotations

import ctypes
import importlib
import pathlib
import sys
from typing import Any, Literal

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
CODEC = "torchcodec.decoders._image_decoders"
# The packages that decode as Headrace does. Set by selftest.py.
agree: set[str] = set()


class Decode(tuple[Any, ...]):
    """The op that decodes a picture which torchvision has been asked for."""

    __slots__ = ()

    def open(self, source: jobs.Source) -> Image.Image:
        """torchvision's decode of the file. Raises torchvision's errors."""
        if jobs.is_packed(source):
            return jobs.open_stock(source)
        data = torch.frombuffer(bytearray(source), dtype=torch.uint8)
        with fetch.at(fetch.OFF):
            mode = "RGB" if self[1] == jobs.RGB else "GRAY"
            made = self.decoded(data, mode)
        c, h, w = made.shape
        pixels = _bytes(made.permute(1, 2, 0).contiguous())
        return Image.frombytes("RGB" if c == 3 else "L", (w, h), pixels)

    def decoded(self, data: Tensor, mode: str) -> Tensor:
        module = importlib.import_module(MODULE)
        how = {"apply_exif_orientation": True} if self[2] else {}
        mode = module.ImageReadMode[mode]
        made: Tensor = module.decode_jpeg(data, mode, **how)
        return made


class CodecDecode(Decode):
    """The same of torchcodec."""

    __slots__ = ()

    def decoded(self, data: Tensor, mode: str) -> Tensor:
        module = importlib.import_module(CODEC)
        made: Tensor = module.decode_jpeg(data, mode=mode)
        return made


# By package, mode, and whether the picture is turned as its EXIF says.
OPS = {
    (package, mode, upright): (kind((jobs.DECODE, code, upright)),)
    for package, kind in ((MODULE, Decode), (CODEC, CodecDecode))
    for mode, code in (("RGB", jobs.RGB), ("L", jobs.GRAY))
    for upright in (False, True)
}


def decode_image(stock: Any) -> Any:
    """The first argument may be a path, if torchvision is new."""

    def decode_image(input: Any, mode: Any, *turned: Any) -> Any:
        made, is_file = None, type(input) is Tensor
        if is_file or "read_file" in stock.__code__.co_names:
            warns = 1 if is_file else 2
            made = _recorded(stock, input, mode, warns, any(turned))
        return stock(input, mode, *turned) if made is None else made

    return decode_image


def decode_jpeg(stock: Any) -> Any:
    def decode_jpeg(input: Any, mode: Any, device: Any, *turned: Any) -> Any:
        made = None
        if type(input) is Tensor and str(device) == "cpu":
            made = _recorded(stock, input, mode, 1, any(turned))
        return stock(input, mode, device, *turned) if made is None else made

    return decode_jpeg


def read_image(stock: Any) -> Any:
    """It calls decode_image(), which counts what is not recorded."""

    def read_image(path: Any, mode: Any, *turned: Any) -> Any:
        made = _recorded(stock, path, mode, 3, any(turned), known=False)
        return stock(path, mode, *turned) if made is None else made

    return read_image


def codec_decode_image(stock: Any) -> Any:
    """torchcodec's, which turns pictures as their EXIF says."""

    def decode_image(source: Any, *, mode: Any, output_dtype: Any) -> Any:
        made = _of_codec(stock, source, mode, output_dtype)
        if made is None:
            made = stock(source, mode=mode, output_dtype=output_dtype)
        return made

    return decode_image


def codec_decode_jpeg(stock: Any) -> Any:
    """torchcodec's, also of a list."""

    def decode_jpeg(
        source: Any, *, mode: Any, output_dtype: Any, device: Any
    ) -> Any:
        if type(source) in (list, tuple):
            if str(device) == "cpu" and _may_record(CODEC):
                # As stock does: one by one, up to the first bad one.
                how = {"mode": mode, "output_dtype": output_dtype}
                return [decode_jpeg(x, device=device, **how) for x in source]
        elif str(device) == "cpu":
            made = _of_codec(stock, source, mode, output_dtype)
            if made is not None:
                return made
        return stock(
            source, mode=mode, output_dtype=output_dtype, device=device
        )

    return decode_jpeg


def _of_codec(stock: Any, source: Any, mode: Any, dtype: Any) -> Any:
    of_bytes = dtype is torch.uint8 or type(dtype) is str and dtype == "auto"
    return _recorded(stock, source, mode, 0, True) if of_bytes else None


def _may_record(package: str) -> bool:
    return (
        package in agree
        and pictures.active
        and fetch.is_lazy() != 0
        and not modes()
        and torch._C._get_tracing_state() is None
    )


def _recorded(
    stock: Any,
    file: Any,
    mode: Any,
    warns: int,
    upright: bool,
    known: bool = True,
) -> Any:
    """A lazy tensor, or None: stock makes it, or says what is wrong.

    warns: so many functions say that they are deprecated, where they are.
    upright: it is turned as its EXIF says.
    known=False: the report does not count why it is stock's.
    """
    package = stock.__module__
    if not _may_record(package):
        return None
    module = sys.modules[package]
    try:
        wanted = _wanted(module, mode)
        source = _source(module, file) if wanted else None
        if source is None:
            return None
        info = files.probe(source)
        reason = _objection(info, wanted)
        if reason is None and upright and not may_turn(source, info):
            reason = "turned by its EXIF"
    except Exception:
        return None
    if reason is None and not fetch.can_ask_again():
        reason, source = files.checked(source)
    if reason is not None or source is None:
        if known:
            count("pillow", "%s: %s" % (_NAMES[package], reason))
        return None
    if package == MODULE:
        warned(warns)
    grey = wanted != "RGB" and info.components == 1
    made = "L" if grey else "RGB"
    turned = upright and info.orientation != 1
    ops = OPS[package, made, turned]
    return (_turned if turned else _begun)(source, ops, info)


def warned(times: int) -> None:
    """Says what torchvision does of its decoders, if it is that new."""
    module = sys.modules.get(MODULE)
    for _ in range(times if hasattr(module, "_warn_deprecated") else 0):
        module._warn_deprecated()  # type: ignore[union-attr]


_NAMES = {MODULE: "torchvision.io", CODEC: "torchcodec"}


def _begun(source: jobs.Source, ops: Any, info: Any) -> Any:
    """The tensor: a view of an H x W x C array, as torchvision's."""
    fetch.recorded(source, ops[0].open)
    total("recorded")
    size = jobs.channels(ops), info.height, info.width
    return begin(LazyTensor, jobs.recorded((source, ops)), size, None, True)


def _turned(source: jobs.Source, ops: Any, info: Any) -> Any:
    """The tensor of an upright picture: strides are those of the file's.

    Orientation 5 alone is a view, of the picture as it lies in the file.
    """
    fetch.recorded(source, ops[0].open)
    total("recorded")
    c, (w, h) = jobs.channels(ops), turned_size(info)
    strides = (1, c, c * h) if info.orientation >= 5 else None
    hr = jobs.recorded((source, ops))
    made = begin(LazyTensor, hr, (c, h, w), None, not strides, strides)
    made._hr.permuted = info.orientation == 5
    return made


def turned_size(info: Any) -> tuple[int, int]:
    """Width and height of the upright picture."""
    if info.orientation < 5:
        return info.width, info.height
    return info.height, info.width


def _wanted(module: Any, mode: Any) -> str | None:
    """The name of a mode that may be recorded."""
    if type(mode) is str and _takes_texts(module):
        mode = module.ImageReadMode[mode.upper()]
    if type(mode) is module.ImageReadMode:
        name: str = mode.name
        return name if name in ("UNCHANGED", "RGB", "GRAY") else None
    return None


def _takes_texts(module: Any) -> bool:
    is_codec: bool = module.__name__ == CODEC
    return is_codec or hasattr(module, "_warn_deprecated")


def _source(module: Any, file: Any) -> bytes | _core.FileBytes | None:
    """The encoded bytes in a tensor, or of a file; None: left to stock."""
    if module.__name__ == CODEC and type(file) is not Tensor:
        if type(file) in (bytes, bytearray):
            return bytes(file)
        is_path = type(file) is str or isinstance(file, pathlib.Path)
        return _core.read_file(str(file)) if is_path else None
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


_ORDERS: dict[bytes, Literal["little", "big"]] = {
    b"II*\0": "little", b"MM\0*": "big"
}
_APP1, _SCAN = 0xE1, 0xDA


def may_turn(source: bytes | _core.FileBytes, info: Any) -> bool:
    """Do all readers of EXIF see one orientation, and ops know its strides?"""
    turn = info.orientation
    if turn != 1 and min(info.width, info.height) < 2:
        return False
    if jobs.is_packed(source):
        return bool(turn == 1)
    header = bytes(memoryview(source)[: info.header_size])
    return bool(_said(header) == turn)


def _said(header: bytes) -> int | None:
    """The orientation, as every reader of EXIF finds it; 1 without the tag.

    None: readers may differ. torchvision takes the first APP1 segment for
    EXIF, whatever its name, and reads its first list of tags.
    """
    found = _app1s(header) if b"\xff\xe1" in header else [b""]
    if found is None or any(each[:4] == b"Exif" for each in found[1:]):
        return None
    exif = found[0] if found else b""
    if exif[8:10] not in (b"*\0", b"\0*"):
        return 1
    order = _ORDERS.get(exif[6:10])
    if order is None:
        return None
    at = 6 + int.from_bytes(exif[10:14], order)
    size = 12 * int.from_bytes(exif[at : at + 2], order)
    entries = exif[at + 2 : at + 2 + size]
    if at < 14 or not size or len(entries) < size:
        return None
    tags = [entries[i : i + 2] for i in range(0, size, 12)]
    tag = (0x112).to_bytes(2, order)
    if b"\xff\xff" in tags or tags.count(tag) > 1:  # the first ends the list
        return None
    if tag not in tags:
        return 1
    at = 12 * tags.index(tag)
    kind = (3).to_bytes(2, order) + (1).to_bytes(4, order)  # a SHORT
    if entries[at + 2 : at + 8] != kind:
        return None
    return int.from_bytes(entries[at + 8 : at + 10], order)


def _app1s(header: bytes) -> list[bytes] | None:
    """Contents of all APP1 segments; None: a segment has no proper size."""
    found: list[bytes] = []
    at = 2
    while header[at : at + 1] == b"\xff":
        marker = header[at + 1]
        size = int.from_bytes(header[at + 2 : at + 4], "big")
        if marker == _SCAN:
            return found
        if not 0xC0 <= marker < 0xFF or 0xD0 <= marker < 0xDA or size < 2:
            return None
        if marker == _APP1:
            found.append(header[at + 4 : at + 2 + size])
        at += 2 + size
    return None


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
