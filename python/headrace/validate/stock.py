# SPDX-License-Identifier: Apache-2.0
"""Their side: the installed Pillow, and its resize in another one's order.

Releases of Pillow differ in which of the two passes of a resize comes first,
which is what a reference says. A resize of one axis alone has no order. So
the installed Pillow makes every pixel of any reference: where the reference
is not its own, by two resizes of one axis each. torch makes those of torch-2.
"""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator
from typing import Any

from PIL import Image, features

from .. import _core
from .._oracle import reference_of, torch_resize

NEAREST, LANCZOS, BICUBIC = 0, 1, 3

TORCH = "torch-2"

_resize = Image.Image.resize


def installed_reference() -> str | None:
    """The reference that the installed Pillow follows; None: none known."""
    return reference_of(_resize)


def torch_lacks() -> str | None:
    """Why the installed torch cannot resize; None: it can."""
    try:
        torch_resize(Image.new("RGB", (4, 4)), (3, 2), LANCZOS)
    except ImportError:
        return "torch is not installed"
    except (RuntimeError, ValueError) as error:
        version = getattr(sys.modules["torch"], "__version__", "?")
        return f"torch {version}: {str(error).splitlines()[0]}"
    return None


class Stock:
    """Pillow, resizing as a reference does; None: as it does by itself."""

    def __init__(self, reference: str | None) -> None:
        self.reference = reference

    def resize(
        self, image: Any, size: Any, filter_: int, box: Any = None
    ) -> Any:
        """Image.resize() of an RGB or L picture."""
        if self.reference == TORCH:
            return torch_resize(image, size, filter_, box)
        if self.reference is None or filter_ == NEAREST:
            return _resize(image, size, filter_, box)
        order = _core.resize_order(self.reference, *image.size, *size)
        return _two_passes(image, size, filter_, box, order)

    @contextlib.contextmanager
    def in_order(self) -> Iterator[None]:
        """For torchvision: what it calls resizes in that order, too."""
        if self.reference in (None, TORCH):
            yield
            return
        before = Image.Image.resize
        Image.Image.resize = self._method()
        try:
            yield
        finally:
            Image.Image.resize = before

    def _method(self) -> Any:
        def resize(
            image: Any,
            size: Any,
            resample: Any = None,
            box: Any = None,
            reducing_gap: Any = None,
        ) -> Any:
            if image.mode not in ("RGB", "L") or reducing_gap is not None:
                return _resize(image, size, resample, box, reducing_gap)
            filter_ = BICUBIC if resample is None else resample
            return self.resize(image, tuple(size), filter_, box)

        return resize


def _two_passes(
    image: Any, size: Any, filter_: int, box: Any, order: int
) -> Any:
    width, height = image.size
    w, h = size
    x0, y0, x1, y1 = box or (0, 0, width, height)
    if order == _core.ORDER_VERTICAL:
        image = _resize(image, (width, h), filter_, (0, y0, width, y1))
        return _resize(image, size, filter_, (x0, 0, x1, h))
    image = _resize(image, (w, height), filter_, (x0, 0, x1, height))
    return _resize(image, size, filter_, (0, y0, w, y1))


def versions() -> dict[str, str | None]:
    """The installed versions; None: not installed."""
    found: dict[str, str | None] = {
        "python": platform.python_version(),
        "pillow": Image.__version__,
        "libjpeg_turbo": features.version("libjpeg_turbo"),
    }
    for name in ("torch", "torchvision"):
        found[name] = getattr(sys.modules.get(name), "__version__", None)
    return found
