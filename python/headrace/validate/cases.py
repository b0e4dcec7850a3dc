# SPDX-License-Identifier: Apache-2.0
"""Comparisons with Pillow alone: the ops, and Pillow doing the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from PIL import Image

from .. import _core, _oracle, ops
from .files import File
from .stock import TORCH, Stock

FILTERS: tuple[ops.Filter, ...] = (
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos",
)
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

    @property
    def layout(self) -> Literal["nchw", "nhwc"]:
        return "nchw" if self.dtype == "f32" else "nhwc"


class Picture:
    """A file that Pillow has opened. index: in the list of all files."""

    def __init__(self, file: File, index: int) -> None:
        self.file, self.index = file, index
        with Image.open(file.path) as opened:
            opened.load()
            self.size: tuple[int, int] = opened.size
            self.orientation = opened.getexif().get(0x0112, 1)
            self.rgb: Any = _oracle.apply(opened, (ops.decode("RGB"),))
            self.gray: Any = _oracle.apply(opened, (ops.decode("L"),))

    def turned(self, mode: ops.Mode) -> Any:
        """The picture turned as its EXIF says, in that mode."""
        decode = ops.decode(mode, apply_orientation=True)
        with Image.open(self.file.path) as opened:
            return _oracle.apply(opened, (decode,))


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
        lambda: _oracle.apply(image, steps, stock.resize).tobytes(),
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
        if stock.reference == TORCH:
            return
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
        made = _oracle.apply(picture.rgb, steps, stock.resize)
        pixels: bytes = made.tobytes()
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


# Recipes' changes of pixels, each behind a resize.
_AUGMENT = (
    "adjust_brightness=1.4", "adjust_contrast=0.6", "adjust_saturation=1.7",
    "adjust_hue=-0.1", "adjust_sharpness=1.9", "grayscale", "posterize=3",
    "solarize=128", "invert", "equalize", "autocontrast", "gaussian_blur=1.3",
    "adjust_contrast=1.4,adjust_hue=0.3,adjust_saturation=0.5,hflip,equalize",
)


def _augment(picture: Picture, stock: Stock, seed: int) -> Cases:
    head = (ops.resize(224, 224),)
    for text in _AUGMENT:
        steps = head + ops.parse(text)[1:]
        yield from _case("augment", text, picture, steps, stock)
    steps = head + ops.parse(_AUGMENT[-1])[1:]
    yield from _case("augment", "grey", picture, steps, stock, gray=True)


def of_list(steps: ops.Ops) -> Callable[[Picture, Stock, int], Cases]:
    """The cases of what a list makes; Pillow gets what is drawn here."""

    def cases(picture: Picture, stock: Stock, seed: int) -> Cases:
        key, path = (seed, picture.index, 0), picture.file.path
        facts = (*picture.size, picture.orientation)
        drawn = _core.draw_ops(steps, key, *facts)
        kinds = {op[0] for op in drawn}
        numbers = bool(kinds & {_core.NORMALIZE, _core.TABLE})

        def theirs() -> bytes:
            with Image.open(path) as opened:
                made = _oracle.apply(opened, drawn, stock.resize)
            pixels: bytes = made.tobytes()
            return pixels

        yield Case(
            "ops", ops.text(steps), (path, steps, key),
            _core.output_size(drawn, *facts), 1 if is_gray(drawn) else 3,
            "f32" if numbers else "u8", theirs)

    return cases


def is_gray(steps: ops.Ops) -> bool:
    return bool(steps[0][1] == _core.GRAY)


# Names of rows -> cases of a picture.
PIPELINES: dict[str, Callable[[Picture, Stock, int], Cases]] = {
    "decode": _decode,
    **{"resize-" + name: _resizes(name) for name in FILTERS},
    "random-crop": _random_crop,
    "crop-pad": _crop_pad,
    "flip": _flips,
    "augment": _augment,
}
# Pipelines that depend on the reference.
RESIZING = tuple(
    name for name in (*PIPELINES, "ops")
    if name.startswith(("resize-", "random-", "augment", "ops"))
)
