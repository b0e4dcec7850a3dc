# SPDX-License-Identifier: Apache-2.0
"""The one call that switches a program over, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import _core

# What set_image_backend() was called with last; None: not at all, or undone.
_name: str | None = None


def set_image_backend(name: str | None = "auto") -> None:
    """Make pictures on this device from now on.

    Sets the default device of the process ("cpu", "opencl", "opencl:1",
    "vaapi", ...; "auto": the best that works) and switches the drop-in on:
    what Pillow opens and torchvision transforms is recorded, and made there.
    None undoes it, as reset_image_backend() does.

    Raises headrace.DeviceError if the device cannot be opened: then nothing
    changes; headrace.Error if the drop-in does not know this Pillow, torch or
    torchvision: then only Headrace's own functions use the device. Calling it
    again changes the device.
    """
    global _name
    if name is None:
        reset_image_backend()
        return
    from . import dropin

    _core.set_image_backend(name)
    dropin.install()
    _name = name


def get_image_backend() -> str:
    """Return the name of the default device, e.g. "cpu" or "opencl:0".

    Opens it if nobody has; headrace.DeviceError if that fails.
    """
    return _core.get_image_backend()


def reset_image_backend() -> None:
    """Switch the drop-in off: Pillow and torchvision are stock again.

    Pictures that were recorded can still be used, and are still made.
    """
    global _name
    from . import dropin

    dropin.uninstall()
    _name = None


@contextlib.contextmanager
def image_backend(name: str = "auto") -> Iterator[str]:
    """Use a device for the length of a with statement, for all threads.

    Gives the name of the device; afterwards all is as it was before.
    """
    before = _name
    set_image_backend(name)
    try:
        yield get_image_backend()
    finally:
        set_image_backend(before)
