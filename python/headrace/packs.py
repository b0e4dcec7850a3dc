# SPDX-License-Identifier: Apache-2.0
"""How pack files and their pictures travel between processes.

PackFile and PackEntry are of the extension; these functions pickle them. A file
that is already open in the receiving process is not opened again, so that
pictures that were checked are not checked again.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from ._core import PackEntry, PackFile
from .errors import ReadError

# (absolute path, fingerprint) -> the file, as long as something refers to it.
_files: weakref.WeakValueDictionary[tuple[str, bytes], PackFile] = (
    weakref.WeakValueDictionary()
)


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _opened(pack: PackFile) -> None:
    """Called by the extension for every file that it has opened."""
    _files[pack.path, pack._fingerprint] = pack


def _reduce(pack: PackFile) -> Any:
    return open_again, (pack.path, pack._fingerprint)


def _reduce_entry(entry: PackEntry) -> Any:
    pack = entry.pack
    return entry_again, (pack.path, pack._fingerprint, entry.index)


def open_again(path: str, fingerprint: bytes) -> PackFile:
    """The pack file with these contents, opened if it is not open."""
    pack = _files.get((path, fingerprint))
    if pack is not None:
        return pack
    pack = PackFile(path)
    if pack._fingerprint != fingerprint:
        raise ReadError(
            "%s: is another pack file than it was" % path,
            status="HR_EIO",
            file=path,
        )
    return pack


def entry_again(path: str, fingerprint: bytes, index: int) -> PackEntry:
    """A picture of the pack file with these contents."""
    return open_again(path, fingerprint)[index]
