# SPDX-License-Identifier: Apache-2.0
"""Headrace turns pictures into tensors, by the best engine that works here.

Two lines make an unchanged torchvision program use it:

    import headrace
    headrace.set_image_backend("auto")

One picture:

    pixels = headrace.decode("cat.jpg").resize_short(256).numpy()

Many pictures, into memory of yours, without waiting:

    from headrace import ops

    out = headrace.Batch(64, 3, 224, 224, data=array)
    keyed = [(path, steps, (seed, i, epoch)) for i, path in enumerate(paths)]
    job = headrace.submit(keyed, out)
    ...
    job.wait()                     # or: await job

A cache, so that later epochs neither read nor decode files again:

    headrace.set_cache("2G")

A data set that is packed once, for the same gain from the first epoch on:

    headrace.pack_folder("train/", "train.hrp")
    data = headrace.PackFolder("train.hrp", transform)

Switching the backend changes the speed, never the picture. Importing this
imports neither NumPy nor Pillow nor torch, and replaces nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

# Before the extension is looked for: what Python says of it then is no help.
if "t" in sys.abiflags:
    raise ImportError(
        "headrace does not work in free-threaded builds of Python: its"
        " extension module needs the stable ABI, which they do not have"
    )

try:
    from . import _core  # noqa: F401
except ImportError:
    import importlib.util

    if importlib.util.find_spec("headrace._core") is None:
        raise ImportError(
            f"headrace is not built in {__path__[0]}: its extension module"
            " _core is missing. In a checkout './dev build' makes it, for"
            " PYTHONPATH=build/python; 'pip install ./python' installs the"
            " package"
        ) from None
    raise

from . import (  # noqa: E402
    _opened,  # noqa: F401
    _others,  # noqa: F401
    ops,
)
from ._core import (  # noqa: E402
    Batch,
    Cache,
    CacheStats,
    Device,
    Info,
    Job,
    PackEntry,
    PackFile,
    Pixels,
    Result,
    devices,
    draw_ops,
    find_reference,
    get_cache,
    jpeg_library,
    output_size,
    pack,
    probe,
    reference,
    resize_order,
    set_cache,
    set_reference,
    version,
)
from .backend import (  # noqa: E402
    get_image_backend,
    image_backend,
    reset_image_backend,
    set_image_backend,
)
from .errors import (  # noqa: E402
    ArgumentError,
    CanceledError,
    DeviceError,
    Error,
    MemoryError as MemoryError,
    PictureError,
    ReadError,
    TimeoutError as TimeoutError,
)
from .image import Image, decode, from_pixels  # noqa: E402
from .job import submit  # noqa: E402
from .loader import Cifar, Loader  # noqa: E402
from .packfolder import PackFolder  # noqa: E402
from .pipeline import Output, Pipeline  # noqa: E402

__version__ = version()

__all__ = [
    "ArgumentError", "Batch", "Cache", "CacheStats", "CanceledError", "Cifar",
    "Device", "DeviceError", "Error", "Image", "Info", "Job", "Loader",
    "Output", "PackEntry", "PackFile", "PackFolder", "PictureError",
    "Pipeline", "Pixels", "ReadError", "Result", "decode", "devices",
    "draw_ops", "find_reference", "from_pixels", "get_cache",
    "get_image_backend", "image_backend", "jpeg_library", "ops", "output_size",
    "pack", "pack_folder", "probe", "reference", "report",
    "reset_image_backend", "resize_order", "set_cache", "set_image_backend",
    "set_reference", "submit", "version",
]


def pack_folder(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    split: int = 1,
    threads: int = 0,
    fields: tuple[str | None, str | None] | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Pack a data set into OUT.hrp; see headrace.packjob.pack_folder()."""
    from . import packjob

    return packjob.pack_folder(
        source,
        out,
        split=split,
        threads=threads,
        fields=fields,
        strict=strict,
    )


def report(reset: bool = False) -> dict[str, Any]:
    """Return what the drop-in did: what ran where, what fell back, and why.

    A dict: "totals", then {reason: times} by group; printed, it is a text.
    It adds up from the start, what DataLoader workers say included;
    reset=True sets the counters to zero behind it.
    """
    from . import dropin

    return dropin.report(reset=reset)
