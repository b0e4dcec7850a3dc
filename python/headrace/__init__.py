# SPDX-License-Identifier: Apache-2.0
"""Headrace: pictures become tensors on whatever engine the machine has.

Two lines make an unchanged torchvision program use it:

    import headrace
    headrace.set_image_backend("auto")

One picture:

    pixels = headrace.decode("cat.jpg").resize_short(256).numpy()

Many, into memory of yours, without waiting:

    from headrace import ops

    out = headrace.Batch(64, 3, 224, 224, data=array)
    job = headrace.submit([(path, steps) for path in paths], out)
    ...
    job.wait()                     # or: await job

From the second epoch on without reading and decoding files again:

    headrace.set_cache("2G")

From the first epoch on, of a data set that 'headrace pack' made:

    data = headrace.PackFolder("train.hrp", transform)

Switching the backend changes the speed, never the picture. Importing this
imports neither NumPy nor Pillow nor torch, and replaces nothing.
"""

from __future__ import annotations

import sys
from typing import Any

# Before the extension is looked for: what Python says of it then is no help.
if "t" in sys.abiflags:
    raise ImportError(
        "headrace does not work in free-threaded builds of Python: its"
        " extension module needs the stable ABI, which they do not have"
    )

from . import ops  # noqa: E402
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
    MemoryError,
    PictureError,
    ReadError,
    TimeoutError,
)
from .image import Image, decode, from_pixels  # noqa: E402
from .job import submit  # noqa: E402
from .loader import Cifar, Loader  # noqa: E402
from .packfolder import PackFolder  # noqa: E402
from .pipeline import Output, Pipeline  # noqa: E402

__version__ = version()

__all__ = [
    "ArgumentError",
    "Batch",
    "Cache",
    "CacheStats",
    "CanceledError",
    "Cifar",
    "Device",
    "DeviceError",
    "Error",
    "Image",
    "Info",
    "Job",
    "Loader",
    "MemoryError",
    "Output",
    "PackEntry",
    "PackFile",
    "PackFolder",
    "PictureError",
    "Pipeline",
    "Pixels",
    "ReadError",
    "Result",
    "TimeoutError",
    "decode",
    "devices",
    "draw_ops",
    "find_reference",
    "from_pixels",
    "get_cache",
    "get_image_backend",
    "image_backend",
    "jpeg_library",
    "ops",
    "output_size",
    "pack",
    "probe",
    "reference",
    "report",
    "reset_image_backend",
    "resize_order",
    "set_cache",
    "set_image_backend",
    "set_reference",
    "submit",
    "version",
]


def report() -> Any:
    """Return what the drop-in did: what ran where, what fell back, and why."""
    from . import dropin

    return dropin.report()
