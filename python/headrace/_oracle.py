# SPDX-License-Identifier: Apache-2.0
"""How Pillow, torchvision and NumPy do each op: a row per op, of its name.

What headrace.validate and tests/compare hold our pictures against, and how the
drop-in makes a picture where no job made it. Random ops have no row: they are
drawn first (_core.draw_ops()).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from . import _core, ops

# resize(image, size, filter, box): Pillow's, or one that stands for another
# release of it. filter is Pillow's number.
Resize = Callable[[Any, tuple[int, int], int, Any], Any]

# Our numbers of filters -> Pillow's.
PIL_FILTERS = {ours: number for number, ours in _core.PIL_FILTER.items()}
FLIPS = {  # Image.Transpose -> (horizontal, vertical, transpose)
    0: (True, False, False),  # FLIP_LEFT_RIGHT
    1: (False, True, False),  # FLIP_TOP_BOTTOM
    2: (False, True, True),  # ROTATE_90, counter-clockwise
    3: (True, True, False),  # ROTATE_180
    4: (True, False, True),  # ROTATE_270
    5: (False, False, True),  # TRANSPOSE
    6: (True, True, True),  # TRANSVERSE
}
_MUL = ops.normalize(arithmetic="mul")[-1]
_TRANSPOSES = {flip: number for number, flip in FLIPS.items()}


def plain_resize(
    image: Any, size: tuple[int, int], filter_: int, box: Any
) -> Any:
    return image.resize(size, filter_, box)


def apply(
    image: Any, ops: Iterable[tuple[Any, ...]], resize: Resize = plain_resize
) -> Any:
    """The picture that they make of it; an array, where the last is a number's.

    Raises what Pillow raises.
    """
    for kind, *fields in ops:
        image = STEPS[kind](image, resize, *fields)
    return image


# ---- pictures ---------------------------------------------------------------


def _decode(
    image: Any, _: Resize, mode: int, apply_orientation: bool = False
) -> Any:
    if apply_orientation:
        image = ImageOps.exif_transpose(image)
    return image.convert("L" if mode == _core.GRAY else "RGB")


def _crop(
    image: Any, _: Resize, x: int, y: int, w: int, h: int, *__: Any
) -> Any:
    return image.crop((x, y, x + w, y + h))


def _center_crop(image: Any, _: Resize, w: int, h: int, *__: Any) -> Any:
    """torchvision's CenterCrop: pads first, then rounds half to even."""
    more_w, more_h = max(w - image.width, 0), max(h - image.height, 0)
    border = (
        more_w // 2, more_h // 2, (more_w + 1) // 2, (more_h + 1) // 2,
    )
    image = ImageOps.expand(image, border)
    x = int(round((image.width - w) / 2.0))
    y = int(round((image.height - h) / 2.0))
    return image.crop((x, y, x + w, y + h))


def _resize(
    image: Any,
    resize: Resize,
    w: int,
    h: int,
    filter_: int,
    box: Any = None,
    *_: Any,
) -> Any:
    return resize(image, (w, h), PIL_FILTERS[filter_], box)


def _resize_short(
    image: Any, resize: Resize, side: int, filter_: int, *_: Any
) -> Any:
    """torchvision's Resize(side)."""
    w, h = image.size
    long = int(side * max(w, h) / min(w, h))
    size = (side, long) if w <= h else (long, side)
    return resize(image, size, PIL_FILTERS[filter_], None)


def _fit(
    image: Any,
    _: Resize,
    w: int,
    h: int,
    filter_: int,
    enlarge: bool = False,
    *__: Any,
) -> Any:
    """ImageOps.contain(), or thumbnail() without its reducing."""
    if not enlarge:
        image = image.copy()
        image.thumbnail((w, h), PIL_FILTERS[filter_], reducing_gap=None)
        return image
    image = ImageOps.contain(image, (w, h), PIL_FILTERS[filter_])
    if not image.width or not image.height:  # newer ones do not refuse it
        raise ValueError("an empty picture")
    return image


def _flip(
    image: Any,
    _: Resize,
    horizontal: bool = False,
    vertical: bool = False,
    transpose: bool = False,
) -> Any:
    number = _TRANSPOSES.get((horizontal, vertical, transpose))
    return image if number is None else image.transpose(number)


def _enhance(kind: Any) -> Callable[..., Any]:
    return lambda image, _, factor: kind(image).enhance(factor)


def _hue(image: Any, _: Resize, factor: float) -> Any:
    """torchvision's adjust_hue() of pictures."""
    if image.mode == "L":
        return image
    hue, *rest = image.convert("HSV").split()
    shift = int(factor * 255)
    hue = hue.point([(value + shift) & 255 for value in range(256)])
    return Image.merge("HSV", (hue, *rest)).convert("RGB")


def _gaussian_blur(image: Any, _: Resize, sigma: float) -> Any:
    return image.filter(ImageFilter.GaussianBlur(sigma))


# ---- numbers: NumPy's, C x H x W --------------------------------------------


def _normalize(
    image: Any, _: Resize, mean: Any, std: Any, arith: int
) -> Any:
    """torchvision's ToTensor and Normalize; MUL: as v2's ToDtype scales."""
    import numpy as np

    def channels(values: Any) -> Any:
        return np.array(values[: len(pixels)], np.float32)[:, None, None]

    pixels = _pixels(image).astype(np.float32)
    if arith == _MUL:
        pixels = pixels * np.float32(1.0 / 255)
    else:
        pixels = pixels / np.float32(255)
    return (pixels - channels(mean)) / channels(std)


def _table(image: Any, _: Resize, table: Any) -> Any:
    import numpy as np

    rows = np.frombuffer(table, np.float32).reshape(-1, 256)
    return np.stack([row[c] for row, c in zip(rows, _pixels(image))])


def _pixels(image: Any) -> Any:
    import numpy as np

    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


_ROWS: dict[str, Callable[..., Any]] = {
    "decode": _decode,
    "crop": _crop,
    "center_crop": _center_crop,
    "resize": _resize,
    "resize_short": _resize_short,
    "fit": _fit,
    "flip": _flip,
    "invert": lambda image, _: ImageOps.invert(image),
    "adjust_brightness": _enhance(ImageEnhance.Brightness),
    "adjust_contrast": _enhance(ImageEnhance.Contrast),
    "adjust_saturation": _enhance(ImageEnhance.Color),
    "adjust_hue": _hue,
    "adjust_sharpness": _enhance(ImageEnhance.Sharpness),
    "grayscale": lambda image, _: image.convert("L").convert(image.mode),
    "posterize": lambda image, _, bits: ImageOps.posterize(image, bits),
    "solarize": lambda image, _, limit: ImageOps.solarize(image, limit),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "gaussian_blur": _gaussian_blur,
    "normalize": _normalize,
    "table": _table,
}
STEPS = {_core.OPS[name][0]: row for name, row in _ROWS.items()}
