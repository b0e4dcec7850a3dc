# SPDX-License-Identifier: Apache-2.0
"""The one call that switches a program over, and back."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

from . import _core, dropin
from .dropin import base
from .errors import ArgumentError

Tier: TypeAlias = Literal["exact", "close", "fast"]

# The last name for set_image_backend(); None: not called, or undone.
_name: str | None = None
# The device that was chosen last; None: none was.
_device: str | None = None


def _choose(name: str) -> None:
    global _device
    _core.set_image_backend(name)
    _device = name


def set_image_backend(
    name: str | None = "auto", *, tier: Tier = "exact"
) -> None:
    """Make pictures on this device from now on.

    Sets the default device of the process ("cpu", "opencl", "opencl:1",
    "vaapi", ...; "auto": the best that works) and switches the drop-in on:
    what Pillow opens and torchvision transforms is recorded, and made there.
    None undoes it, as reset_image_backend() does.

    tier says how exact the drop-in's pictures must be, see headrace.submit():
    "exact" is stock's pixels bit for bit; of a device that is not exact here
    ("vaapi" on most hardware) the CPU then does the work. headrace.submit(),
    Loader and Pipeline have a tier of their own.

    Raises headrace.DeviceError if the device cannot be opened: then nothing
    changes; headrace.Error if the drop-in does not know this Pillow, torch or
    torchvision: then only Headrace's own functions use the device. Calling it
    again changes the device.
    """
    global _name
    if tier not in get_args(Tier):
        raise ArgumentError(f"tier {tier!r}: must be one of exact, close, fast")
    if name is None:
        reset_image_backend()
        return
    if not isinstance(name, str):
        raise TypeError(
            f"name must be a str, as 'cpu' or 'auto', not {name!r}"
        )
    _choose(name)
    dropin.install()
    _name, base.tier = name, tier


def get_image_backend() -> str:
    """Return the name of the default device, e.g. "cpu" or "opencl:0".

    Opens it if it is not open; headrace.DeviceError if that fails. Warns if the
    drop-in has switched itself off, for a release that it does not know.
    """
    hooks: Any = sys.modules.get("headrace.dropin.hooks")
    failure = hooks.failure() if hooks else None
    if failure:
        warnings.warn(
            "headrace: only its own functions use the device: " + failure,
            RuntimeWarning,
            stacklevel=2,
        )
    return _core.get_image_backend()


def reset_image_backend() -> None:
    """Switch the drop-in off: Pillow and torchvision are stock again.

    Pictures that were recorded can still be used, and are still made.
    """
    global _name
    dropin.uninstall()
    _name, base.tier = None, "exact"


@contextlib.contextmanager
def image_backend(
    name: str = "auto", *, tier: Tier = "exact"
) -> Iterator[str]:
    """Use a device for the length of a with statement, for all threads.

    Gives the name of the device; afterwards all is as it was before.
    """
    before, tier_before = _name, base.tier
    # Without a choice it is the device that "auto" names.
    device = _device or "auto"
    set_image_backend(name, tier=tier)
    try:
        yield get_image_backend()
    finally:
        set_image_backend(before, tier=tier_before)
        if before is None:
            _choose(device)
