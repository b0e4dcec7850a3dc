# SPDX-License-Identifier: Apache-2.0
"""What is compared with Pillow alone: the ops, and Pillow doing the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from PIL import Image, ImageOps

from .. import _core, ops
from .files import File
from .stock import Stock

FILTERS: tuple[ops.Filter, ...] = (
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos",
)
# Numbers of our filters -> Pillow's.
_PIL = {ours: number for number, ours in _core.PIL_FILTER.items()}
# More pixels than this are not asked for.
_MOST = 50_000_000
_WINDOW = 512


class Case(NamedTuple):
    """One picture to be made on both sides.

    pipeline: its row in the table; what: in words. sample: for
    headrace.submit(). size: w, h of the result, channels, dtype: "u8" with
    pixels of H x W x C, "f32" with C x H x W. theirs(): its bytes.
    """

    pipeline: str
    what: str
    sample: tuple[Any, ...]
    size: tuple[int, int]
    channels: int
    dtype: str
    theirs: Callable[[], bytes]


class Picture:
    """A file that Pillow has opened. index: in the list of all files."""

    def __init__(self, file: File, index: int) -> None:
        self.file, self.index = file, index
        with Image.open(file.path) as opened:
            opened.load()
            self.size: tuple[int, int] = opened.size
            self.orientation = opened.getexif().get(0x0112, 1)
            self.rgb: Any = opened.convert("RGB")
            self.gray: Any = opened.convert("L")

    def turned(self, mode: str) -> Any:
        """As its EXIF says, then in that mode."""
        with Image.open(self.file.path) as opened:
            return ImageOps.exif_transpose(opened).convert(mode)


def replay(image: Any, steps: ops.Ops, stock: Stock) -> Any:
    """Does with Pillow what ops say; all but decode and normalize."""
    for kind, *fields in steps:
        image = _STEPS[kind](image, stock, *fields)
    return image


def _crop(
    image: Any, _: Stock, x: int, y: int, w: int, h: int, *__: Any
) -> Any:
    return image.crop((x, y, x + w, y + h))


def _center_crop(image: Any, _: Stock, w: int, h: int, *__: Any) -> Any:
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
    image: Any, stock: Stock, w: int, h: int, filter_: int, box: Any, *_: Any
) -> Any:
    return stock.resize(image, (w, h), _PIL[filter_], box)


def _resize_short(
    image: Any, stock: Stock, side: int, filter_: int, *_: Any
) -> Any:
    """torchvision's Resize(side)."""
    w, h = image.size
    long = int(side * max(w, h) / min(w, h))
    size = (side, long) if w <= h else (long, side)
    return stock.resize(image, size, _PIL[filter_])


def _flip(
    image: Any, _: Stock, horizontal: bool, vertical: bool, transpose: bool
) -> Any:
    for wanted, method in ((transpose, 5), (horizontal, 0), (vertical, 1)):
        if wanted:
            image = image.transpose(method)
    return image


_STEPS: dict[int, Callable[..., Any]] = {
    _core.CROP: _crop,
    _core.CENTER_CROP: _center_crop,
    _core.RESIZE: _resize,
    _core.RESIZE_SHORT: _resize_short,
    _core.FLIP: _flip,
}


# ---- the pipelines ----------------------------------------------------------

Cases = Iterator[Case]


def _case(
    pipeline: str,
    what: str,
    picture: Picture,
    steps: ops.Ops,
    stock: Stock,
    gray: bool = False,
) -> Cases:
    """One case, or none where the result would be too large."""
    w, h = _core.output_size(steps, *picture.size)
    if w * h > _MOST or max(w, h) > 65535:
        return
    image = picture.gray if gray else picture.rgb
    decode = ops.decode("L" if gray else "RGB")
    yield Case(
        pipeline,
        what,
        (picture.file.path, (decode, *steps)),
        (w, h),
        1 if gray else 3,
        "u8",
        lambda: replay(image, steps, stock).tobytes(),
    )


def _decode(picture: Picture, stock: Stock, seed: int) -> Cases:
    for mode, c in (("RGB", 3), ("L", 1)):
        image = picture.rgb if mode == "RGB" else picture.gray
        steps = (ops.decode(mode),)  # type: ignore[arg-type]
        yield Case("decode", mode, (picture.file.path, steps), picture.size,
                   c, "u8", image.tobytes)
    if picture.orientation not in range(2, 9):
        return
    turned = picture.turned("RGB")
    steps = (ops.decode(apply_orientation=True),)
    yield Case("decode", "turned as its EXIF says",
               (picture.file.path, steps), turned.size, 3, "u8",
               turned.tobytes)


def _resizes(filter_: ops.Filter) -> Callable[[Picture, Stock, int], Cases]:
    def cases(picture: Picture, stock: Stock, seed: int) -> Cases:
        name = "resize-" + filter_
        w, h = picture.size
        sizes = [
            (224, 224),
            (max(2 * w // 3, 1), max(h // 4, 1)),
            (min(w + w // 2 + 1, 700), min(h + h // 3 + 1, 700)),
        ]
        for size in sizes:
            step = ops.resize(*size, filter=filter_)
            what = "to %d x %d" % size
            yield from _case(name, what, picture, (step,), stock)
        side = 256 if max(w, h) <= 40 * min(w, h) else 16
        short = ops.resize_short(side, filter=filter_)
        what = "short side to %d" % side
        yield from _case(name, what, picture, (short,), stock)
        box = (w * 0.1, h * 0.2, w * 0.85, h * 0.9)
        part = ops.resize(64, 80, filter=filter_, box=box)
        what = "a box, grey, to 64 x 80"
        yield from _case(name, what, picture, (part,), stock, gray=True)

    return cases


def _random_crop(picture: Picture, stock: Stock, seed: int) -> Cases:
    """The library draws inside the job; Pillow gets the window drawn here."""
    for epoch in range(4):
        filter_: ops.Filter = "bicubic" if epoch == 3 else "bilinear"
        steps = (
            ops.decode(),
            ops.random_resized_crop(224, 224, filter=filter_),
            ops.random_flip(horizontal=0.5),
        )
        key = (seed, picture.index, epoch)
        drawn = _core.draw_ops(steps, key, *picture.size)[1:]
        sample = (picture.file.path, steps, key)
        yield Case("random-crop", f"seed {seed}, epoch {epoch}, {filter_}",
                   sample, (224, 224), 3, "u8",
                   _later(picture, drawn, stock))


def _later(
    picture: Picture, steps: ops.Ops, stock: Stock
) -> Callable[[], bytes]:
    def theirs() -> bytes:
        pixels: bytes = replay(picture.rgb, steps, stock).tobytes()
        return pixels

    return theirs


def _crop_pad(picture: Picture, stock: Stock, seed: int) -> Cases:
    w, h = picture.size
    half_w, half_h = max(w // 2, 1), max(h // 2, 1)
    for what, step in (
        ("inside", ops.crop(w // 5, h // 4, half_w, half_h)),
        ("beyond the edges", ops.crop(-9, -7, w + 20, h + 13, pad=True)),
        ("middle", ops.center_crop(min(w, 224), min(h, 224))),
        ("middle, wider", ops.center_crop(w + 31, half_h, pad=True)),
        ("middle, larger", ops.center_crop(w + 18, h + 17, pad=True)),
    ):
        yield from _case("crop-pad", what, picture, (step,), stock)


def _flips(picture: Picture, stock: Stock, seed: int) -> Cases:
    w, h = picture.size
    window = ops.crop(0, 0, min(w, _WINDOW), min(h, _WINDOW))
    for number in range(1, 8):
        turn = [bool(number & bit) for bit in (1, 2, 4)]
        names = ("horizontal", "vertical", "transpose")
        step = (_core.FLIP, *turn)
        what = " ".join(n for n, on in zip(names, turn) if on)
        yield from _case("flip", what, picture, (window, step), stock)


# Names of rows -> cases of a picture.
PIPELINES: dict[str, Callable[[Picture, Stock, int], Cases]] = {
    "decode": _decode,
    **{"resize-" + name: _resizes(name) for name in FILTERS},
    "random-crop": _random_crop,
    "crop-pad": _crop_pad,
    "flip": _flips,
}
# Those that need to know the reference.
RESIZING = tuple(
    name for name in PIPELINES if name.startswith(("resize-", "random-"))
)
