# SPDX-License-Identifier: Apache-2.0
"""The files that Headrace decodes as Pillow does, and their modes.

Nothing here decodes: one look at a header. Threads: any.
"""

from __future__ import annotations

import io
import os
import re
from typing import Any

from PIL import ImageFile, features

from ... import _core
from ..base.report import count
from . import headers, originals

probe = _core.probe


def may_decode(info: Any, mode: str) -> bool:
    """Is it a picture that Headrace decodes as Pillow does? Counts why not."""
    reason = objection(info)
    if reason is None and mode != ("L" if info.components == 1 else "RGB"):
        reason = "mode " + mode
    if reason is not None:
        count("pillow", reason)
        return False
    return True


def objection(info: Any) -> str | None:
    """Why Headrace would not decode it as Pillow does; None: it would."""
    if info.format != "jpeg":
        return "not a JPEG file"
    if info.process == "lossless":
        return "lossless"
    if info.arithmetic:
        return "arithmetic coding"  # Pillow refuses what is over 64 KB
    if info.precision != 8:
        return "%d bits" % info.precision
    if info.components not in (1, 3) or info.color in ("cmyk", "ycck"):
        return "%d components" % info.components
    if not info.ends:
        return "no end of image"
    if info.process == "progressive" and not (scans_agree or info.all_scans):
        return "partial progressive"
    return None


def other_format(data: bytes | _core.FileBytes) -> str:
    """Names the kind of a file of which Pillow has no JPEG factory."""
    try:
        return "a %s picture" % probe(data).format.upper()
    except Exception as error:
        # "offset 0: a GIF picture, not decoded here"
        name = str(getattr(error, "reason", "")).split(": ")[-1].split(",")[0]
        return name if name.startswith("a ") else "not a JPEG file"


def header_fault(error: Exception) -> str:
    return "header: " + getattr(error, "status", type(error).__name__)


def _version(text: str | None) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, found.groups())) if found else (0,)


# Do Pillow's libjpeg-turbo and ours guess missing coefficients alike?
scans_agree = _version(_core.jpeg_library()) >= (3, 0, 1) <= _version(
    features.version("libjpeg_turbo")
)


def source_of(
    picture: Any,
) -> tuple[str | None, bytes | _core.FileBytes | None]:
    """(None, the file), or (reason or None, None). Reads no pixel."""
    mode, size = picture.mode, picture._size
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        return "LOAD_TRUNCATED_IMAGES", None
    if picture.fp is None or getattr(picture.fp, "closed", False):
        return "closed", None
    if mode not in ("RGB", "L"):
        return "mode " + mode, None
    if picture.decoderconfig:
        return "draft", None
    if ImageFile.ImageFile.load is not originals.LOAD:
        return "load() was replaced by other code", None
    if picture.tile != [("jpeg", (0, 0, *size), 0, (mode, ""))]:
        return "edited tile", None
    try:
        source = take(picture)
        info = probe(source)
    except Exception as error:
        return header_fault(error), None
    if (info.width, info.height) != size:
        return "header: size", None
    return None, source if may_decode(info, mode) else None


def checked(
    data: bytes | _core.FileBytes,
) -> tuple[str | None, bytes | _core.FileBytes | None]:
    """(None, the picture packed), or (reason, None) if it may be damaged.

    To pack it is to decode what can be damaged; what is left is done later.
    """
    if type(data) is _core.FileBytes and data.packed:
        return None, data
    try:
        return None, _core.pack(data)
    except Exception as error:
        return "check: " + getattr(error, "status", type(error).__name__), None


def take(picture: Any) -> bytes | _core.FileBytes:
    """The bytes of the file, read when and as far as Pillow would read it."""
    fp, block = picture.fp, picture.decodermaxblock
    if headers.is_plain_file(fp):
        read = _core.read_file(fp.fileno())
        if read is None:
            raise OSError("not a regular file")
        if picture._exclusive_fp:
            return read  # its position is not seen
        data = bytes(read)
        if read.packed:  # what is behind the picture counts, too
            data = os.pread(fp.fileno(), os.fstat(fp.fileno()).st_size, 0)
    elif type(fp) is io.BytesIO:
        data = fp.getvalue()
    else:
        return _take_blocks(fp, block)
    end = _end_of(data) or len(data)
    fp.seek(min(-(-end // block) * block, len(data)))
    return data


def _take_blocks(fp: Any, block: int) -> bytes:
    """Reads a picture from a stream, which may go on behind it for ever."""
    data = b""
    fp.seek(0)
    while not _end_of(data):
        more = fp.read(block)
        if not more:
            break
        data += more
    return data


def _end_of(data: bytes) -> int:
    """Behind the end marker; 0: it is not there."""
    try:
        return _core.end_marker(data, probe(data).header_size)
    except Exception:
        return 0  # not even the header is
