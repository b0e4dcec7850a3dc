# SPDX-License-Identifier: Apache-2.0
"""How Pillow, torchvision and NumPy do each op: a row per op, of its name.

headrace.validate and tests/compare compare our pictures with these, and the
drop-in makes a picture with them where no job made it. Random ops have no row:
they are drawn first (_core.draw_ops()).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
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


def reference_of(stock: Any) -> str | None:
    """The reference that a resize() of Pillow's follows, by trying it."""

    def resize(
        pixels: bytes, w: int, h: int, filter_: int, out_w: int, out_h: int
    ) -> bytes:
        picture = Image.frombytes("RGB", (w, h), bytes(pixels))
        made: bytes = stock(
            picture, (out_w, out_h), PIL_FILTERS[filter_]
        ).tobytes()
        return made

    return _core.find_reference(resize)


def apply(
    image: Any, ops: Iterable[tuple[Any, ...]], resize: Resize = plain_resize
) -> Any:
    """The picture that they make of it; an array, where the last is a number's.

    Raises what Pillow raises.
    """
    for kind, *values in ops:
        names = _FIELDS[kind]
        fields = dict.fromkeys(names) | dict(zip(names, values))
        image = STEPS[kind](image, SimpleNamespace(**fields, resize=resize))
    return image


# The names of each op's fields. A row has them as its second argument: None is
# one that is missing.
_FIELDS = {number: tuple(names) for number, _, names in _core.OPS.values()}


# ---- pictures ---------------------------------------------------------------


def _decode(image: Any, op: Any) -> Any:
    if op.apply_orientation:
        image = ImageOps.exif_transpose(image)
    return image.convert("L" if op.mode == _core.GRAY else "RGB")


def _crop(image: Any, op: Any) -> Any:
    if not op.pad or not op.fill or op.fill == (0, 0, 0):
        return image.crop((op.x, op.y, op.x + op.w, op.y + op.h))
    made = Image.new(image.mode, (op.w, op.h), _fill(image, op.fill))
    made.paste(image, (-op.x, -op.y))
    return made


def _center_crop(image: Any, op: Any) -> Any:
    """torchvision's CenterCrop: pads first, then rounds half to even."""
    w, h = op.w, op.h
    more_w, more_h = max(w - image.width, 0), max(h - image.height, 0)
    border = (
        more_w // 2, more_h // 2, (more_w + 1) // 2, (more_h + 1) // 2,
    )
    image = ImageOps.expand(image, border, _fill(image, op.fill))
    half = int if op.down else round
    x, y = half((image.width - w) / 2.0), half((image.height - h) / 2.0)
    return image.crop((x, y, x + w, y + h))


def _resize(image: Any, op: Any) -> Any:
    return _resized(image, op, (op.w, op.h), op.box)


def _resized(image: Any, op: Any, size: Any, box: Any = None) -> Any:
    torchs = op.order == _core.ORDER_TORCH
    resize = torch_resize if torchs else op.resize
    return resize(image, size, PIL_FILTERS[op.filter], box)


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


def _resize_short(image: Any, op: Any) -> Any:
    """torchvision's Resize(side)."""
    w, h = image.size
    long = int(op.side * max(w, h) / min(w, h))
    return _resized(image, op, (op.side, long) if w <= h else (long, op.side))


def _fit(image: Any, op: Any) -> Any:
    """ImageOps.contain(), or thumbnail() without its reducing."""
    empty = Image.new("1", image.size)  # it tells the size
    if op.enlarge:
        empty = ImageOps.contain(empty, (op.w, op.h))
    else:
        empty.thumbnail((op.w, op.h), reducing_gap=None)
    if not empty.width or not empty.height:  # newer ones do not refuse it
        raise ValueError("an empty picture")
    if empty.size == image.size:
        return image.copy()
    return _resized(image, op, empty.size)


def _flip(image: Any, op: Any) -> Any:
    flip = bool(op.horizontal), bool(op.vertical), bool(op.transpose)
    number = _TRANSPOSES.get(flip)
    return image if number is None else image.transpose(number)


def _enhance(kind: Any) -> Callable[..., Any]:
    return lambda image, op: kind(image).enhance(op.factor)


def _adjust_hue(image: Any, op: Any) -> Any:
    """torchvision's adjust_hue() of pictures."""
    if image.mode == "L":
        return image
    hue, *rest = image.convert("HSV").split()
    shift = int(op.factor * 255)
    hue = hue.point([(value + shift) & 255 for value in range(256)])
    return Image.merge("HSV", (hue, *rest)).convert("RGB")


def _blur(kind: Any, image: Any, pair: Any) -> Any:
    x, y = pair  # (before 10.1 there is one)
    return image.filter(kind(x if x == y else (x, y)))


def _fill(image: Any, fill: Any) -> Any:
    """A colour of the picture's mode, of an int or 3."""
    red, *more = (fill,) if isinstance(fill or 0, int) else fill
    return (red or 0) if image.mode == "L" else tuple([red or 0, *more] * 3)[:3]


def _transform(method: Image.Transform, image: Any, op: Any) -> Any:
    return image.transform(
        (op.w, op.h) if op.w else image.size, method, op.matrix,
        PIL_FILTERS[op.filter or 0], fillcolor=_fill(image, op.fill),
    )


def _affine(image: Any, op: Any) -> Any:
    if op.centered:  # torchvision's _get_inverse_affine_matrix()
        a, b, tx, d, e, ty = op.matrix
        cx, cy = image.width * 0.5, image.height * 0.5
        c = a * (-cx - tx) + b * (-cy - ty) + cx
        f = d * (-cx - tx) + e * (-cy - ty) + cy
        op.matrix = (a, b, c, d, e, f)
    return _transform(Image.Transform.AFFINE, image, op)


def _adjust_gamma(image: Any, op: Any) -> Any:
    """torchvision's adjust_gamma() of pictures."""
    curve = [int((255 + 1 - 1e-3) * (op.gain or 0) * pow(x / 255.0, op.gamma))
             for x in range(256)]
    return image.convert("RGB").point(curve * 3).convert(image.mode)


def _solarize_add(image: Any, op: Any) -> Any:
    """timm's."""
    curve = [min(255, x + op.add) if x < (op.threshold or 0) else x
             for x in range(256)]
    return image.point(curve * len(image.getbands()))


def _kernel3(image: Any, op: Any) -> Any:
    scale, offset = op.scale or None, op.offset or 0.0
    return image.filter(ImageFilter.Kernel((3, 3), op.kernel, scale, offset))


def _permute_channels(image: Any, op: Any) -> Any:
    if image.mode == "L":
        return image
    bands = image.split()
    order = getattr(op, "from")
    return Image.merge("RGB", [bands[channel] for channel in order])


def _rotate(image: Any, op: Any) -> Any:
    return image.rotate(
        op.angle, PIL_FILTERS[op.filter or 0], op.expand,
        op.center if op.around else None, fillcolor=_fill(image, op.fill),
    )


def _pad(image: Any, op: Any) -> Any:
    """torchvision's pad() of pictures."""
    sides = op.left, op.top or 0, op.right or 0, op.bottom or 0
    if not op.mode:
        return ImageOps.expand(image, sides, _fill(image, op.fill))
    import numpy as np

    cut = [max(-side, 0) for side in sides]
    image = image.crop(
        (cut[0], cut[1], image.width - cut[2], image.height - cut[3])
    )
    left, top, right, bottom = (max(x, 0) for x in sides)
    borders = [(top, bottom), (left, right), (0, 0)][: np.ndim(image)]
    name: Any = ("edge", "reflect", "symmetric")[op.mode - 1]
    return Image.fromarray(np.pad(np.asarray(image), borders, name))


def _grayscale(image: Any, op: Any) -> Any:
    return image.convert("L").convert("L" if op.single else image.mode)


def _lut(image: Any, op: Any) -> Any:
    count = 256 * len(image.getbands())
    return image.point((list(bytes(op.table)) * 3)[:count])


# ---- numbers: NumPy's, C x H x W --------------------------------------------


def _normalize(image: Any, op: Any) -> Any:
    """torchvision's ToTensor and Normalize; MUL: as v2's ToDtype scales."""
    import numpy as np

    def channels(values: Any) -> Any:
        return np.array(values[: len(pixels)], np.float32)[:, None, None]

    pixels = _pixels(image).astype(np.float32)
    if op.arithmetic == _MUL:
        pixels = pixels * np.float32(1.0 / 255)
    else:
        pixels = pixels / np.float32(255)
    numbers = pixels - channels(op.mean)
    return numbers if op.std is None else numbers / channels(op.std)


def _table(image: Any, op: Any) -> Any:
    import numpy as np

    rows = np.frombuffer(op.values, np.float32).reshape(-1, 256)
    return np.stack([row[c] for row, c in zip(rows, _pixels(image))])


def _erase(image: Any, op: Any) -> Any:
    """As torch assigns to [..., y : y + h, x : x + w].

    image: a picture, or the bytes H x W x C that an earlier call returned.
    """
    import numpy as np

    made = np.array(image)
    planes = made
    if made.dtype == np.uint8:  # of a picture
        planes = np.moveaxis(np.atleast_3d(made), 2, 0)
    c, w, h = len(planes), op.w, op.h
    value = np.array(op.value or 0.0, np.float32)
    block = np.broadcast_to(value.flatten()[:c].reshape(-1, 1, 1), (c, h, w))
    if op.values is not None:
        block = np.frombuffer(op.values, np.float32, c * h * w)
    elif op.noise:
        block = _normals(op.noise, c * h * w)
    block = block.reshape(c, h, w)
    if made.dtype == np.uint8:
        block = np.nan_to_num(np.clip(block, 0, 255)).astype(np.uint8)
    inside = planes[:, op.y : op.y + h, op.x : op.x + w]
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
    **{
        row.__name__[1:]: row
        for row in (
            _decode, _crop, _center_crop, _resize, _resize_short, _fit, _flip,
            _adjust_hue, _grayscale, _lut, _adjust_gamma, _solarize_add,
            _kernel3, _permute_channels, _affine, _rotate, _pad, _normalize,
            _table, _erase,
        )
    },
    "invert": lambda image, _: ImageOps.invert(image),
    "adjust_brightness": _enhance(ImageEnhance.Brightness),
    "adjust_contrast": _enhance(ImageEnhance.Contrast),
    "adjust_saturation": _enhance(ImageEnhance.Color),
    "adjust_sharpness": _enhance(ImageEnhance.Sharpness),
    "posterize": lambda image, op: ImageOps.posterize(image, op.bits),
    "solarize": lambda image, op: ImageOps.solarize(image, op.threshold),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "autocontrast": lambda image, op: ImageOps.autocontrast(image, op.cutoff),
    "gaussian_blur": lambda image, op: _blur(
        ImageFilter.GaussianBlur, image, op.sigma
    ),
    "box_blur": lambda image, op: _blur(ImageFilter.BoxBlur, image, op.radius),
    "perspective": lambda image, op: _transform(
        Image.Transform.PERSPECTIVE, image, op
    ),
}
STEPS = {_core.OPS[name][0]: row for name, row in _ROWS.items()}
