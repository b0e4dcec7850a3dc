# SPDX-License-Identifier: Apache-2.0
"""Functions of Pillow and torchvision that change a recorded picture's pixels.

Each function here takes the stock one and returns what stands in its place.
They stand where stock would look at pixels (a mean, a histogram, an array), or
would make a long list in Python; all else goes through the picture's own
methods.

An enhancer of PIL.ImageEnhance keeps its `degenerate`: a recorded picture,
which is that of factor 0, and Image.blend() of both is the op.

Threads: as Pillow's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PIL import Image

from . import pictures, pixels
from .pictures import RECORDERS, HeadraceImage

_NAMES = {
    "Brightness": "adjust_brightness",
    "Contrast": "adjust_contrast",
    "Color": "adjust_saturation",
    "Sharpness": "adjust_sharpness",
}
ENHANCERS = tuple(_NAMES)
ADJUST = tuple(_NAMES.values())


def _is_recorded(image: Any) -> bool:
    return type(image) in RECORDERS and pictures.active


def enhancer(stock: Any, kind: str) -> Any:
    """__init__ of a class of PIL.ImageEnhance."""
    name = _NAMES[kind]

    def __init__(self: Any, image: Any) -> None:
        degenerate = None
        if _can_enhance(image, name):
            op = pixels.degenerate(name)
            degenerate = pictures.record(image, op, None, name in _FRESH)
        if degenerate is None:
            stock(self, image)
            return
        self.image = image
        if kind == "Color":
            self.intermediate_mode = "L"
        self.degenerate = degenerate

    return __init__


# Their degenerate is a new picture; the others' is made of the picture.
_FRESH = "adjust_brightness", "adjust_contrast"


def _can_enhance(image: Any, name: str) -> bool:
    """(Stock Brightness does not read the file yet. A grey picture is its own
    degenerate in Color of Pillow 13.)"""
    return (
        _is_recorded(image)
        and (name != "adjust_brightness" or image._hr is not None)
        and (name != "adjust_saturation" or image.mode != "L")
    )


def adjust(stock: Any, name: str) -> Any:
    """A function of torchvision that enhances Pillow's pictures by a factor.

    It records the op without the enhancer and its degenerate.
    """
    factor = name.replace("adjust_", "") + "_factor"

    def adjust(img: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) == 1 and _can_enhance(img, name):
            op = pixels.enhanced(name, args[0] if args else kwargs.get(factor))
            made = pictures.record(img, op, None, name in _FRESH)
            if made is not None:
                return made
        return stock(img, *args, **kwargs)

    return adjust


def blend(stock: Any) -> Any:
    """PIL.Image.blend, where one picture is the other's degenerate."""

    def blend(im1: Any, im2: Any, alpha: Any) -> Any:
        if type(im1) is HeadraceImage and type(im2) in RECORDERS:
            made = pictures.blended(im1, im2, alpha)
            if made is not None:
                return made
        return stock(im1, im2, alpha)

    return blend


def one_op(
    stock: Any,
    op: Callable[..., pixels.Op | None],
    is_colored: bool = False,
) -> Any:
    """A function of a picture that is one op, of its other arguments.

    is_colored: one of pictures in RGB, whose result is a new picture.
    """

    def changed(image: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_recorded(image) and not (is_colored and image.mode != "RGB"):
            made = pictures.record(
                image, op(*args, **kwargs), None, is_colored
            )
            if made is not None:
                return made
        return stock(image, *args, **kwargs)

    return changed


def adjust_hue(stock: Any) -> Any:
    """torchvision's adjust_hue() of Pillow's pictures."""
    return one_op(stock, pixels.hue, True)


def to_grayscale(stock: Any) -> Any:
    """torchvision's to_grayscale() of Pillow's pictures."""
    return one_op(stock, pixels.gray_of, True)


def permute_channels(stock: Any) -> Any:
    """The kernel of v2's permute_channels() for Pillow's pictures."""
    return one_op(stock, pixels.permuted, True)


def pad(stock: Any) -> Any:
    """torchvision's pad() of Pillow's pictures, where NumPy pads them."""

    def pad(img: Any, padding: Any, fill: Any, padding_mode: Any) -> Any:
        # (Of a grey one it makes a picture that is "readonly".)
        if _is_recorded(img) and img.mode == "RGB":
            if type(fill) in _FILLS:
                made = _mirrored(img, padding, padding_mode)
                if made is not None:
                    return made
        return stock(img, padding, fill, padding_mode)

    return pad


_FILLS = int, float, tuple, list, type(None)


def _mirrored(image: Any, padding: Any, mode: Any) -> HeadraceImage | None:
    sides = (padding,) if type(padding) is int else padding
    if type(mode) is not str or mode not in pixels.EDGES:
        return None
    if type(sides) not in (tuple, list):
        return None
    if len(sides) not in (1, 2, 4) or any(type(x) is not int for x in sides):
        return None
    left, top, right, bottom = tuple(sides) * (4 // len(sides))
    if min(sides) < 0:
        w, h = image._size
        image = image.crop(
            (-min(left, 0), -min(top, 0), w + min(right, 0), h + min(bottom, 0))
        )
        if not _is_recorded(image):
            return None
    sides = [max(side, 0) for side in (left, top, right, bottom)]
    w, h = image._size
    op = pixels.mirrored((w, h), sides, mode)
    size = (w + sides[0] + sides[2], h + sides[1] + sides[3])
    return pictures.record(image, op, size, True)


def gaussian_blur(stock: Any) -> Any:
    """torchvision's gaussian_blur() of Pillow's pictures.

    Its bits are those of torch's convolution: stock makes it, and what comes
    next is recorded again.
    """

    def gaussian_blur(img: Any, *args: Any, **kwargs: Any) -> Any:
        made = stock(img, *args, **kwargs)
        return pictures.again(made) if type(img) in _PICTURES else made

    return gaussian_blur


# (Where stock has looked at a recorded one it is plain.)
_PICTURES = (*RECORDERS, Image.Image)


def expand(stock: Any) -> Any:
    """PIL.ImageOps.expand, around the stock one: borders are recorded.

    This is how torchvision pads a picture.
    """

    def expand(image: Any, border: Any = 0, fill: Any = 0) -> Any:
        if _is_recorded(image) and pictures.recording(image):
            picture = _padded(image, border, fill)
            if picture is not None:
                return picture
        return stock(image, border, fill)

    return expand


def _padded(image: Any, border: Any, fill: Any) -> HeadraceImage | None:
    if type(border) is int:
        border = (border,) * 4
    if type(border) is not tuple or len(border) not in (2, 4):
        return None
    if any(type(side) is not int or side < 0 for side in border):
        return None
    left, top, right, bottom = border * (4 // len(border))
    w, h = image._size
    size = (w + left + right, h + top + bottom)
    picture: Any
    most = Image.MAX_IMAGE_PIXELS or 0  # a crop looks at that, stock does not
    if pixels.filled(image.mode, fill) == 0 and size[0] * size[1] <= most:
        picture = image.crop((-left, -top, w + right, h + bottom))
    else:
        op = pixels.padded(image.mode, size, left, top, fill)
        picture = pictures.record(image, op, size)
    if type(picture) is not HeadraceImage:
        return None
    picture.info = {}  # stock pastes into a new picture
    return picture
