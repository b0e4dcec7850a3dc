# SPDX-License-Identifier: Apache-2.0
"""The drop-in: unchanged Pillow and torchvision programs run on Headrace.

    import headrace
    headrace.set_image_backend("auto")

After that, pictures that Pillow opens record what is done to them, tensors of
torchvision's transforms record it, too, and collating a batch runs one job.
A call that cannot be recorded is made at once, and is stock from
then on: same values, same errors. ``headrace.report()`` says what ran where.

Importing this package replaces nothing; install() does, and imports neither
PIL nor torch: it hooks them if they are there, or as soon as they are.
"""

from __future__ import annotations

from .base.report import report


def install(reference: str | None = None) -> None:
    """Switches the drop-in on in this process; see hooks.install."""
    from . import hooks

    hooks.install(reference)


def uninstall() -> None:
    """Puts back everything that install() replaced."""
    from . import hooks

    hooks.uninstall()


def installed() -> bool:
    from . import hooks

    return hooks.installed()


__all__ = ["install", "installed", "report", "uninstall"]
