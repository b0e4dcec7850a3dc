# SPDX-License-Identifier: Apache-2.0
"""Which files Headrace decodes as Pillow does, and what they are taken as.

Nothing here decodes: one look at a header. Threads: any.
"""

from __future__ import annotations

import io
import os
import re
import stat
from typing import Any

from PIL import features

from .. import _core
from . import headers, jobs
from .report import count

probe = _core.probe


def absolute(path: Any) -> str:
    if type(path) is str and path[:1] == "/":
        return path
    return os.path.abspath(os.fsdecode(path))


def may_decode(info: Any, source: Any, mode: str | None) -> bool:
    """Is it a picture that Headrace decodes as Pillow does? Counts why not."""
    reason = _objection(info, source)
    if reason is None and mode is not None:
        if mode != ("L" if info.components == 1 else "RGB"):
            reason = "mode " + mode
    if reason is not None:
        count("pillow", reason)
        return False
    return True


def _objection(info: Any, source: Any) -> str | None:
    if info.format != "jpeg":
        return "not a JPEG file"
    if info.process == "lossless":
        return "lossless"
    if info.precision != 8:
        return "%d bits" % info.precision
    if info.components not in (1, 3) or info.color in ("cmyk", "ycck"):
        return "%d components" % info.components
    if not info.ends:
        return "no end of image"
    if info.process == "progressive" and not scans_agree:
        return _missing_scans(info, source)
    return None


def _missing_scans(info: Any, source: Any) -> str | None:
    scans = info.all_scans
    if scans is None:
        try:
            with open(source, "rb") as file:
                scans = probe(file.read()).all_scans
        except Exception as error:
            return header_fault(error)
    return None if scans else "partial progressive"


def header_fault(error: Exception) -> str:
    return "header: " + getattr(error, "status", type(error).__name__)


def _version(text: str | None) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, found.groups())) if found else (0,)


# Do Pillow's libjpeg-turbo and ours guess missing coefficients alike?
scans_agree = _version(_core.jpeg_library()) >= (3, 0, 1) <= _version(
    features.version("libjpeg_turbo")
)


def take(picture: Any) -> jobs.Source:
    """The path of a regular file opened by name, else all bytes."""
    fp = picture.fp
    if type(fp) is io.BytesIO:
        return fp.getvalue()
    name = getattr(fp, "name", None)
    if headers.is_plain_file(fp) and isinstance(name, (str, bytes)):
        status = os.fstat(fp.fileno())
        if stat.S_ISREG(status.st_mode):
            source = jobs.file_of(absolute(name), status)
            if jobs.is_same(source):
                return source
    place = fp.tell()
    fp.seek(0)
    data = fp.read()
    fp.seek(place)
    return data
