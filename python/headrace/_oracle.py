# SPDX-License-Identifier: Apache-2.0
"""How Pillow, torchvision and NumPy do each op: a row per op, of its name.

headrace.validate and tests/compare compare our pictures with these, and the
drop-in makes a picture with them where no job made it. Random ops have no row:
they are drawn first (_core.draw_ops()).
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
    image: Any,
    _: Resize,
    x: int,
    y: int,
    w: int,
    h: int,
    pad: bool = False,
    fill: Any = 0,
) -> Any:
    if not pad or not fill or fill == (0, 0, 0):
        return image.crop((x, y, x + w, y + h))
    made = Image.new(image.mode, (w, h), _fill(image, fill))
    made.paste(image, (-x, -y))
    return made


def _center_crop(
    image: Any,
    _: Resize,
    w: int,
    h: int,
    pad: bool = False,
    fill: Any = 0,
    down: bool = False,
) -> Any:
    """torchvision's CenterCrop: pads first, then rounds half to even."""
    more_w, more_h = max(w - image.width, 0), max(h - image.height, 0)
    border = (
        more_w // 2, more_h // 2, (more_w + 1) // 2, (more_h + 1) // 2,
    )
    image = ImageOps.expand(image, border, _fill(image, fill))
    half = int if down else round
    x, y = half((image.width - w) / 2.0), half((image.height - h) / 2.0)
    return image.crop((x, y, x + w, y + h))


def _resize(
    image: Any,
    resize: Resize,
    w: int,
    h: int,
    filter_: int,
    box: Any = None,
    order: int = 0,
) -> Any:
    if order == _core.ORDER_TORCH:
        resize = torch_resize
    return resize(image, (w, h), PIL_FILTERS[filter_], box)


_TORCH_MODES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


def torch_resize(
    image: Any, size: tuple[int, int], filter_: int, box: Any = None
) -> Any:
    """torch's, of tensors of bytes."""
    import numpy as np
    import torch

    if box is not None or filter_ not in _TORCH_MODES:
        raise ValueError("torch's resize has no box, and not that filter")
    pixels = torch.from_numpy(np.array(image)).reshape(
        1, image.height, image.width, -1
    )
    antialias = {"align_corners": False, "antialias": True} if filter_ else {}
    made = torch.nn.functional.interpolate(
        pixels.permute(0, 3, 1, 2), size=size[::-1],
        mode=_TORCH_MODES[filter_], **antialias,
    )
    array = made[0].permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if image.mode == "L" else array)


def _resize_short(
    image: Any, resize: Resize, side: int, filter_: int, order: int = 0
) -> Any:
    """torchvision's Resize(side)."""
    w, h = image.size
    long = int(side * max(w, h) / min(w, h))
    size = (side, long) if w <= h else (long, side)
    return _resize(image, resize, *size, filter_, None, order)


def _fit(
    image: Any,
    resize: Resize,
    w: int,
    h: int,
    filter_: int,
    enlarge: bool = False,
    order: int = 0,
) -> Any:
    """ImageOps.contain(), or thumbnail() without its reducing."""
    empty = Image.new("1", image.size)  # it tells the size
    if enlarge:
        empty = ImageOps.contain(empty, (w, h))
    else:
        empty.thumbnail((w, h), reducing_gap=None)
    if not empty.width or not empty.height:  # newer ones do not refuse it
        raise ValueError("an empty picture")
    if empty.size == image.size:
        return image.copy()
    w, h = empty.size
    return _resize(image, resize, w, h, filter_, None, order)


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


def _gaussian_blur(image: Any, _: Resize, sigma: Any) -> Any:
    x, y = sigma  # (before 10.1 there is one)
    return image.filter(ImageFilter.GaussianBlur(x if x == y else (x, y)))


def _fill(image: Any, fill: Any) -> Any:
    """A colour of the picture's mode, of an int or 3."""
    red, *more = (fill,) if isinstance(fill or 0, int) else fill
    return (red or 0) if image.mode == "L" else tuple([red or 0, *more] * 3)[:3]


def _transform(method: Image.Transform, image: Any, fields: Any) -> Any:
    data, w, h, filter_, fill = fields
    return image.transform(
        (w, h) if w else image.size, method, data, PIL_FILTERS[filter_],
        fillcolor=_fill(image, fill),
    )


def _affine(
    image: Any,
    _: Resize,
    matrix: Any,
    w: int = 0,
    h: int = 0,
    filter_: int = 0,
    fill: Any = 0,
    centered: bool = False,
) -> Any:
    if centered:  # torchvision's _get_inverse_affine_matrix()
        a, b, tx, d, e, ty = matrix
        cx, cy = image.width * 0.5, image.height * 0.5
        c = a * (-cx - tx) + b * (-cy - ty) + cx
        f = d * (-cx - tx) + e * (-cy - ty) + cy
        matrix = (a, b, c, d, e, f)
    fields = matrix, w, h, filter_, fill
    return _transform(Image.Transform.AFFINE, image, fields)


def _perspective(
    image: Any,
    _: Resize,
    matrix: Any,
    w: int = 0,
    h: int = 0,
    filter_: int = 0,
    fill: Any = 0,
) -> Any:
    fields = matrix, w, h, filter_, fill
    return _transform(Image.Transform.PERSPECTIVE, image, fields)


def _gamma(image: Any, _: Resize, gamma: float, gain: float = 0.0) -> Any:
    """torchvision's adjust_gamma() of pictures."""
    curve = [int((255 + 1 - 1e-3) * gain * pow(x / 255.0, gamma))
             for x in range(256)]
    return image.convert("RGB").point(curve * 3).convert(image.mode)


def _solarize_add(
    image: Any, _: Resize, add: int, threshold: int = 0
) -> Any:
    """timm's."""
    curve = [min(255, x + add) if x < threshold else x for x in range(256)]
    return image.point(curve * len(image.getbands()))


def _kernel3(
    image: Any, _: Resize, kernel: Any, scale: Any = None, offset: float = 0.0
) -> Any:
    scale = scale or None
    return image.filter(ImageFilter.Kernel((3, 3), kernel, scale, offset))


def _box_blur(image: Any, _: Resize, radius: Any) -> Any:
    x, y = radius  # (before 10.1 there is one radius)
    return image.filter(ImageFilter.BoxBlur(x if x == y else (x, y)))


def _permute(image: Any, _: Resize, order: Any) -> Any:
    if image.mode == "L":
        return image
    bands = image.split()
    return Image.merge("RGB", [bands[channel] for channel in order])


def _rotate(
    image: Any,
    _: Resize,
    angle: float,
    expand: bool = False,
    filter_: int = 0,
    fill: Any = 0,
    around: bool = False,
    center: Any = None,
) -> Any:
    return image.rotate(
        angle, PIL_FILTERS[filter_], expand, center if around else None,
        fillcolor=_fill(image, fill),
    )


def _pad(
    image: Any,
    _: Resize,
    left: int,
    top: int = 0,
    right: int = 0,
    bottom: int = 0,
    mode: int = 0,
    fill: Any = 0,
) -> Any:
    """torchvision's pad() of pictures."""
    if not mode:
        border = left, top, right, bottom
        return ImageOps.expand(image, border, _fill(image, fill))
    import numpy as np

    cut = [max(-side, 0) for side in (left, top, right, bottom)]
    image = image.crop(
        (cut[0], cut[1], image.width - cut[2], image.height - cut[3])
    )
    left, top, right, bottom = (max(x, 0) for x in (left, top, right, bottom))
    borders = [(top, bottom), (left, right), (0, 0)][: np.ndim(image)]
    name: Any = ("edge", "reflect", "symmetric")[mode - 1]
    return Image.fromarray(np.pad(np.asarray(image), borders, name))


def _grayscale(image: Any, _: Resize, single: bool = False) -> Any:
    return image.convert("L").convert("L" if single else image.mode)


def _lut(image: Any, _: Resize, table: Any) -> Any:
    table = list(bytes(table))
    count = 256 * len(image.getbands())
    return image.point((table * 3)[:count])


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
    numbers = pixels - channels(mean)
    return numbers if std is None else numbers / channels(std)


def _table(image: Any, _: Resize, table: Any) -> Any:
    import numpy as np

    rows = np.frombuffer(table, np.float32).reshape(-1, 256)
    return np.stack([row[c] for row, c in zip(rows, _pixels(image))])


def _erase(
    image: Any,
    _: Resize,
    x: int,
    y: int,
    w: int,
    h: int,
    value: Any = 0.0,
    values: Any = None,
    noise: int = 0,
) -> Any:
    """As torch assigns to [..., y : y + h, x : x + w].

    image: a picture, or the bytes H x W x C that an earlier call returned.
    """
    import numpy as np

    made = np.array(image)
    planes = made
    if made.dtype == np.uint8:  # of a picture
        planes = np.moveaxis(np.atleast_3d(made), 2, 0)
    c = len(planes)
    value = np.array(value, np.float32).flatten()[:c].reshape(-1, 1, 1)
    block = np.broadcast_to(value, (c, h, w))
    if values is not None:
        block = np.frombuffer(values, np.float32, c * h * w)
    elif noise:
        block = _normals(noise, c * h * w)
    block = block.reshape(c, h, w)
    if made.dtype == np.uint8:
        block = np.nan_to_num(np.clip(block, 0, 255)).astype(np.uint8)
    inside = planes[:, y : y + h, x : x + w]
    inside[...] = block[:, : inside.shape[1], : inside.shape[2]]
    return made


def _normals(noise: int, n: int) -> Any:
    """hal/ops/random.c: Philox4x32-10, and Wichura's PPND7."""
    import numpy as np

    low = np.uint64(0xFFFFFFFF)
    words = [np.arange(-(-n // 4), dtype=np.uint64)]
    words += [np.zeros_like(words[0])] * 3
    keys = [noise, 0]
    for _ in range(10):
        one = words[0] * np.uint64(0xD2511F53)
        two = words[2] * np.uint64(0xCD9E8D57)
        words = [
            (two >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]),
            two & low,
            (one >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]),
            one & low,
        ]
        keys[0] = (keys[0] + 0x9E3779B9) & 0xFFFFFFFF
        keys[1] = (keys[1] + 0xBB67AE85) & 0xFFFFFFFF
    p = (np.stack(words, 1).flatten()[:n].astype(np.float64) + 0.5) / 2.0**32
    q = p - 0.5
    r = 0.180625 - q * q
    middle = q * (
        (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r
         + 3.3871327179)
        / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1)
    )
    tail = np.where(q < 0, p, 1 - p)
    m, exponent = np.frexp(tail)
    small = m < 0.70710678118654752
    m, exponent = np.where(small, m * 2, m), exponent - small
    s = (m - 1) / (m + 1)
    s2 = s * s
    series = 1 + s2 * (
        1 / 3 + s2 * (1 / 5 + s2 * (1 / 7 + s2 * (1 / 9 + s2 / 11)))
    )
    r = np.sqrt(-0.69314718055994531 * exponent - 2 * s * series) - 1.6
    far = (
        ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r
        + 1.4234372777
    ) / ((0.12021132975 * r + 0.73700164250) * r + 1)
    made = np.where(np.abs(q) <= 0.425, middle, np.where(q < 0, -far, far))
    return made.astype(np.float32)


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
    "grayscale": _grayscale,
    "posterize": lambda image, _, bits: ImageOps.posterize(image, bits),
    "solarize": lambda image, _, limit: ImageOps.solarize(image, limit),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "autocontrast": lambda image, _, cut: ImageOps.autocontrast(image, cut),
    "gaussian_blur": _gaussian_blur,
    "lut": _lut,
    "adjust_gamma": _gamma,
    "solarize_add": _solarize_add,
    "kernel3": _kernel3,
    "box_blur": _box_blur,
    "permute_channels": _permute,
    "affine": _affine,
    "rotate": _rotate,
    "pad": _pad,
    "perspective": _perspective,
    "normalize": _normalize,
    "table": _table,
    "erase": _erase,
}
STEPS = {_core.OPS[name][0]: row for name, row in _ROWS.items()}
