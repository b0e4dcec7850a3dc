# SPDX-License-Identifier: Apache-2.0
"""A value as a program can see it: lines of text that are compared."""

from __future__ import annotations

import hashlib
import os
import random
import re
import traceback
from typing import Any

import numpy as np
import torch
from PIL import Image


def digest(data: Any) -> str:
    return hashlib.sha1(data).hexdigest()[:12]


def kind(value: Any) -> str:
    """The class as stock has it: recording ones are subclasses of theirs."""
    cls = type(value)
    if cls.__module__.startswith("headrace.dropin"):
        cls = getattr(cls, "stands_for", None) or [
            each for each in cls.__mro__ if "headrace" not in each.__module__
        ][0]
    text = "%s.%s" % (cls.__module__, cls.__qualname__)
    return text.removeprefix("builtins.")


def words(text: Any) -> str:
    """The text without addresses and numbers of processes, which differ from
    run to run, and without other processes' frames."""
    text = re.sub(r"0x[0-9a-fA-F]+", "0x", str(text))
    text = re.sub(r"\b(pid|process|pymp-|torch_)[ (=]*[\w.-]*\d+", r"\1", text)
    if "Original Traceback" in text:
        lines = text.strip().splitlines()
        return "%s ... %s" % (lines[0], lines[-1])
    return text


def describe(value: Any, depth: int = 0) -> str:
    if isinstance(value, Image.Image):
        return picture(value)
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, np.ndarray):
        return "%s %s %s %s w%d %s" % (
            kind(value), value.dtype, value.shape, value.strides,
            value.flags.writeable, digest(np.ascontiguousarray(value)))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "%s %d %s" % (kind(value), len(value), digest(value))
    if isinstance(value, BaseException):
        return "%s: %s" % (kind(value), words(value))
    if isinstance(value, dict):
        parts = ["%s: %s" % (describe(k), describe(v))
                 for k, v in value.items()]
        return "%s {%s}" % (kind(value), ", ".join(parts))
    if isinstance(value, (list, tuple)):
        parts = [describe(v) for v in value]
        return "%s (%s)" % (kind(value), ", ".join(parts))
    if isinstance(value, (set, frozenset)):
        return "%s %s" % (kind(value), sorted(map(describe, value)))
    if isinstance(value, type):
        return words(value)
    if depth == 0 and type(value).__module__.startswith("programs."):
        return "%s %s" % (kind(value), describe(vars(value)))
    plain = value is None or isinstance(value, (bool, int, float, str))
    return words(repr(value)) if plain else "%s %s" % (
        kind(value), words(repr(value)))


def picture(value: Any) -> str:
    try:
        pixels = digest(value.tobytes())
    except Exception as error:
        pixels = describe(error)
    own = {name: found for name, found in sorted(vars(value).items())
           if name in ("filename", "readonly", "tile", "tag", "pyaccess")}
    palette = value.palette and digest(bytes(value.palette.palette))
    return "%s %s %s %s %s %s %s %s" % (
        kind(value), value.mode, value.size, value.format, palette,
        describe(own), describe(dict(value.info)), pixels)


def tensor(value: Any) -> str:
    about = "%s %s %s %s %s leaf%d grad%d" % (
        kind(value), value.dtype, tuple(value.shape), value.stride(),
        value.device, value.is_leaf, value.requires_grad)
    if value.device.type != "cpu" or value.layout != torch.strided:
        return about
    whole = value.detach().as_subclass(torch.Tensor).contiguous()
    if whole.is_quantized:
        whole = whole.int_repr()
    raw = whole.reshape(-1).view(torch.uint8) if whole.numel() else whole
    return "%s c%d o%d %s" % (
        about, value.is_contiguous(), value.storage_offset(),
        digest(raw.numpy()))


def where(error: BaseException) -> str:
    """Lines of the program itself through which the error came."""
    return " ".join(
        "%s:%d" % (os.path.basename(frame.filename), frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.endswith(("<program>", "programs/loaders.py"))
    )


def generators() -> str:
    state: Any = np.random.get_state()
    return "%s %s %s" % (
        digest(torch.get_rng_state().numpy()),
        digest(state[1].tobytes() + b"%d" % state[2]),
        digest(repr(random.getstate()).encode()))


def files(folder: str) -> list[str]:
    """Names, kinds, modes and bytes of all files."""
    found = []
    for root, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(root, name)
            what = os.lstat(path)
            content = ""
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path) and os.access(path, os.R_OK):
                with open(path, "rb") as file:
                    content = digest(file.read())
            found.append("%s %o %s" % (
                os.path.relpath(path, folder), what.st_mode, content))
    return sorted(found)


def descriptors(folder: str) -> list[str]:
    """Files of the folder that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if path.startswith(folder):
            found.append(os.path.relpath(path, folder))
    return sorted(found)
