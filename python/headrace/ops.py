# SPDX-License-Identifier: Apache-2.0
"""Ops: what shall be done with a picture, as plain data.

    from headrace import ops

    train = (
        ops.decode(),
        ops.random_resized_crop(224, 224),
        ops.random_flip(),
        ops.normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    )

A list of ops is a tuple; each op is a tuple of numbers, so both can be
pickled, compared and kept. The order is: decode (only of encoded pictures);
crops, resizes, flips and ops that change pixels, in any order; at most one
normalize or table; erase and random_erasing. Each op takes the picture of the
one before it, as torchvision's transforms do. Sizes are in pixels. Little is
checked here: submit() checks, and raises headrace.ArgumentError or TypeError
that names the op.

Pixels are those of libjpeg-turbo, Pillow's resize (which release:
headrace.reference()) and torchvision's ToTensor and Normalize, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from . import _core
from .errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Op: TypeAlias = tuple[Any, ...]
Ops: TypeAlias = tuple[Op, ...]
# (seed of the run, index of the picture, epoch): what random ops draw from.
Key: TypeAlias = tuple[int, int, int]

Mode: TypeAlias = Literal["RGB", "L"]
Filter: TypeAlias = Literal[
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"
]
Order: TypeAlias = Literal["reference", "horizontal", "vertical", "torch"]
Kernel: TypeAlias = Literal[
    "contour", "detail", "edge_enhance", "edge_enhance_more", "emboss",
    "find_edges", "sharpen", "smooth",
]
Edges: TypeAlias = Literal["constant", "edge", "reflect", "symmetric"]
WarpFilter: TypeAlias = Literal["nearest", "bilinear", "bicubic"]
Arithmetic: TypeAlias = Literal["div", "mul"]
Policy: TypeAlias = Literal["imagenet", "cifar10", "svhn"]
Amount: TypeAlias = Union[float, tuple[float, float]]
Color: TypeAlias = int | Sequence[int]
Pair: TypeAlias = tuple[float, float]

def _op(name: str, *values: Any) -> Op:
    """The tuple of an op; words become the library's numbers."""
    number, _, fields = _core.OPS[name]
    made = [number]
    for value, (field, words) in zip(values, fields.items()):
        if words is not None and isinstance(value, str):
            if value not in words:
                raise ArgumentError(
                    f"{field} {value!r}: must be one of {', '.join(words)}"
                )
            value = words[value]
        made.append(value)
    return tuple(made)


def parse(text: str) -> Ops:
    """Return the ops of a text, as the command's --ops takes it.

    Raises headrace.ArgumentError that says at which character it is wrong.
    """
    return _core.parse_ops(text)


def text(ops: Ops) -> str:
    """Return a text of which parse() makes the same ops.

    Raises headrace.Error if an op has none, as a table.
    """
    return _core.format_ops(ops)


def decode(mode: Mode = "RGB", *, apply_orientation: bool = False) -> Op:
    """Decode to 3 channels ("RGB") or 1 ("L", grey), as Pillow's convert().

    apply_orientation turns the picture as its EXIF says; Pillow and
    torchvision do not by themselves.
    """
    return _op("decode", mode, apply_orientation)


def crop(
    x: int, y: int, w: int, h: int, *, pad: bool = False, fill: Color = 0
) -> Op:
    """Keep w x h pixels from (x, y).

    Pixels outside of the picture have the colour fill with pad; without pad
    they are an error.
    """
    return _op("crop", x, y, w, h, pad, fill)


def center_crop(
    w: int, h: int | None = None, *, pad: bool = False, fill: Color = 0,
    down: bool = False,
) -> Op:
    """Keep w x h (or w x w) pixels in the middle: torchvision's CenterCrop.

    down: where as much on both sides is no whole number, the left and the top
    get less: center_crop() of Hugging Face's processors.
    """
    return _op("center_crop", w, w if h is None else h, pad, fill, down)


def resize(
    w: int,
    h: int,
    *,
    filter: Filter = "bilinear",
    box: tuple[float, float, float, float] | None = None,
    order: Order = "reference",
) -> Op:
    """Resize to w x h, of box = (x0, y0, x1, y1) only: Pillow's resize().

    order says which of the two passes comes first; "reference": as
    headrace.reference() does. "torch" makes it torch's resize of bytes:
    interpolate(antialias=True) by "bilinear", "bicubic" or "lanczos", or
    its "nearest", without a box.
    """
    return _op("resize", w, h, filter, box, order)


def resize_short(
    side: int, *, filter: Filter = "bilinear", order: Order = "reference"
) -> Op:
    """Resize so that the short side becomes side: torchvision's Resize(int)."""
    return _op("resize_short", side, filter, order)


def fit(
    w: int, h: int, *, filter: Filter = "bicubic", enlarge: bool = False,
    order: Order = "reference",
) -> Op:
    """Resize to the largest size within w x h of the same shape.

    As Pillow's thumbnail(reducing_gap=None), which leaves small pictures as
    they are; with enlarge as its ImageOps.contain().
    """
    return _op("fit", w, h, filter, enlarge, order)


def flip(
    *, horizontal: bool = False, vertical: bool = False,
    transpose: bool = False,
) -> Op:
    """Turn by one of 8 orientations: swap x and y first, then mirror."""
    return _op("flip", horizontal, vertical, transpose)


def random_crop(
    w: int, h: int | None = None, *, pad: int = 0, pad_if_needed: bool = False,
    mode: Edges = "constant", fill: Color = 0,
) -> Op:
    """Keep w x h (or w x w) pixels at a random place: torchvision's RandomCrop.

    pad: pixels that are put on each side first, of mode and fill as pad()'s;
    pad_if_needed: and what the window needs.
    """
    h = w if h is None else h
    return _op("random_crop", w, h, pad, pad_if_needed, mode, fill)


def random_resized_crop(
    w: int, h: int | None = None, *, filter: Filter = "bilinear",
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3), order: Order = "reference",
) -> Op:
    """Resize a window of random area and shape to w x h (or w x w).

    torchvision's RandomResizedCrop.
    scale: least and greatest share of the area; ratio: of width / height.
    """
    h = w if h is None else h
    return _op("random_resized_crop", w, h, filter, scale, ratio, order)


def random_flip(
    *, horizontal: float | None = None, vertical: float | None = None
) -> Op:
    """Mirror with these probabilities, 0 .. 1, independently.

    random_flip() mirrors left and right with 0.5, as RandomHorizontalFlip()
    does. Where only one probability is named, the other is 0.
    """
    if horizontal is None and vertical is None:
        horizontal = 0.5
    if not horizontal and not vertical:  # it was asked for
        return flip()
    return _op("random_flip", horizontal or 0.0, vertical or 0.0)


def lut(table: Buffer | Sequence[int]) -> Op:
    """Map bytes by a table of 256 entries, or 256 for each of 3 channels.

    Pillow's Image.point(). A job holds a buffer until it is done.
    """
    if isinstance(table, (list, tuple)):
        table = bytes(table)
    return _op("lut", table)


def adjust_gamma(gamma: float, gain: float = 1.0) -> Op:
    """Map bytes as torchvision's adjust_gamma() does those of pictures."""
    return _op("adjust_gamma", gamma, gain)


def autocontrast(cutoff: float | Pair = 0.0) -> Op:
    """Stretch each channel from 0 to 255: Pillow's autocontrast().

    cutoff: percent of the darkest and of the brightest pixels not to count.
    """
    return _op("autocontrast", _both(cutoff))


def solarize_add(add: int, threshold: int = 128) -> Op:
    """Add to bytes below the threshold: timm's SolarizeAdd."""
    return _op("solarize_add", add, threshold)


def kernel3(
    kernel: Kernel | Sequence[float],
    scale: float | None = None,
    offset: float = 0.0,
) -> Op:
    """Add up the 3 x 3 pixels around each: Pillow's ImageFilter.Kernel.

    kernel: nine numbers, or the name of one of Pillow's, which has a scale and
    an offset of its own. Without a scale it is their sum.
    """
    if isinstance(kernel, str):
        (op,) = parse(f"image,kernel3={kernel}")
        return op
    return _op("kernel3", tuple(kernel), scale, offset)


def box_blur(radius: float | Pair) -> Op:
    """Average the pixels of boxes: Pillow's BoxBlur, along x and y."""
    return _op("box_blur", _both(radius))


def gaussian_blur(sigma: float | Pair) -> Op:
    """Blur by Pillow's GaussianBlur, along x and y.

    torchvision's gaussian_blur() is another function.
    """
    return _op("gaussian_blur", _both(sigma))


def _both(x: float | Pair) -> Pair:
    return (x, x) if isinstance(x, (int, float)) else x


def affine(
    matrix: Sequence[float] | None = None, *, angle: float = 0.0,
    translate: Pair = (0.0, 0.0), scale: float = 1.0, shear: Pair | float = 0.0,
    center: Pair | None = None, w: int = 0, h: int = 0,
    filter: WarpFilter = "nearest", fill: Color = 0,
) -> Op:
    """Take each pixel from where an affine map says.

    matrix: Pillow's transform(AFFINE): pixel (x, y) comes from
    (a x + b y + c, d x + e y + f). Without it the others make one, as
    torchvision's affine() does: degrees clockwise, pixels, factor, degrees;
    around the centre of the picture, unless center says around which point.
    w, h: of what is made; 0: the picture's. fill: what lies outside.
    """
    centered = matrix is None and center is None
    if matrix is None:
        if not scale > 0:
            raise ArgumentError(f"affine: scale must be above 0, not {scale}")
        sheared = (shear, 0.0) if isinstance(shear, (int, float)) else shear
        matrix = _core.warp_matrix(
            angle, translate, scale, sheared, center or (0.0, 0.0), centered
        )
    return _op("affine", tuple(matrix), w, h, filter, fill, centered)


def rotate(
    angle: float, *, expand: bool = False, center: Pair | None = None,
    filter: WarpFilter = "nearest", fill: Color = 0,
) -> Op:
    """Turn counter-clockwise by degrees: Pillow's Image.rotate().

    expand: all of it stays in the picture, which becomes larger. center: the
    point that stays, else the middle.
    """
    return _op("rotate", angle, expand, filter, fill, *_point(center))


def _point(center: Pair | None) -> tuple[bool, Pair]:
    """Say whether a warp is around a point, and return the point."""
    return center is not None, center or (0, 0)


def pad(
    left: int, top: int | None = None, right: int | None = None,
    bottom: int | None = None, *, mode: Edges = "constant", fill: Color = 0,
) -> Op:
    """Add pixels around the picture: torchvision's pad().

    One number is for all sides, two are for left and right, top and bottom.
    Numbers below 0 cut away. mode: "constant" has the colour fill.
    """
    top = left if top is None else top
    right = left if right is None else right
    bottom = top if bottom is None else bottom
    return _op("pad", left, top, right, bottom, mode, fill)


def perspective(
    matrix: Sequence[float] | None = None, *, start: Sequence[Pair] = (),
    end: Sequence[Pair] = (), w: int = 0, h: int = 0,
    filter: WarpFilter = "bilinear", fill: Color = 0,
) -> Op:
    """Take each pixel from where a perspective map says.

    matrix: Pillow's transform(PERSPECTIVE): of eight numbers, the first six
    as affine()'s, both divided by g x + h y + 1. Without it four corners move
    from start to end, as torchvision's perspective() says; its numbers come
    from LAPACK and may be off by one float32.
    """
    if matrix is None:
        points = [tuple(x for point in p for x in point) for p in (start, end)]
        if [len(p) for p in points] != [8, 8]:
            raise ArgumentError("perspective: start and end must be 4 points")
        matrix = _core.warp_matrix(*points)
        if matrix is None:
            raise ArgumentError(f"perspective: nothing moves {start} to {end}")
    return _op("perspective", tuple(matrix), w, h, filter, fill)


def random_apply(steps: Iterable[Op | Ops], p: float = 0.5) -> Ops:
    """Do all of steps with probability p, or none: torchvision's RandomApply.

    Returns several ops, which stand in a list with a star; steps may have such
    ones. Steps of random_apply and random_choice keep the size of a picture.

        ops.decode(), *ops.random_apply([ops.color_jitter(0.4)], 0.8)
    """
    flat = _flat(steps)
    if not flat:
        raise ArgumentError("random_apply: there are no steps")
    return (_op("random_apply", p, _items(flat)), *flat)


def random_choice(*choices: Op | Ops, weights: Sequence[float] = ()) -> Ops:
    """Do one of these: torchvision's RandomChoice.

    A choice is an op, or several; see random_apply() for what is returned.
    weights: of up to 8 choices; without them each is as likely as the others.
    """
    if weights and len(weights) != len(choices):
        raise ArgumentError(
            f"random_choice: {len(weights)} weights of {len(choices)} choices"
        )
    if len(weights) > 8:
        raise ArgumentError("random_choice: 8 choices at most have weights")
    if weights and not any(weights):
        raise ArgumentError("random_choice: no weight is above 0")
    made: list[Op] = []
    for choice in choices:
        flat = _flat([choice])
        made += flat if _items(flat) == 1 else random_apply(flat, 1.0)
    padded = (*weights, *[0.0] * 8)[:8]
    return (_op("random_choice", len(choices), padded), *made)


def _flat(steps: Iterable[Op | Ops]) -> Ops:
    """Ops, and those of groups that have no star."""
    flat: Ops = ()
    for step in steps:
        is_op = step and isinstance(step[0], int)
        flat += (step,) if is_op else _flat(step)
    return flat


def _items(flat: Ops) -> int:
    """How many there are, where a group counts with its items as one."""
    items, left = 0, 0  # left: of the group that is counted
    for op in flat:
        if not left:
            items, left = items + 1, 1
        left += _count(op) - 1
    return items


def _count(op: Op) -> int:
    """How many items an op has behind it."""
    for name in ("random_apply", "random_choice"):
        number, _, fields = _core.OPS[name]
        if op[0] == number:
            place = 1 + list(fields).index("count")
            return op[place] or 1 if len(op) > place else 1
    return 0


def color_jitter(
    brightness: Amount = 0.0,
    contrast: Amount = 0.0,
    saturation: Amount = 0.0,
    hue: Amount = 0.0,
) -> Op:
    """Change all four by random factors, in a random order: ColorJitter.

    Each is a pair of factors, or how far they go from 1 (hue: from 0) to both
    sides.
    """
    factors = (_around(x, 1.0) for x in (brightness, contrast, saturation))
    return _op("color_jitter", *factors, _around(hue, 0.0))


def _around(x: Amount, middle: float) -> tuple[float, float] | None:
    if not isinstance(x, (int, float)):
        low, high = x
        if middle and low == high == 0:
            raise ArgumentError(
                "color_jitter: factors 0 .. 0 leave nothing to chance: "
                "adjust_brightness(0.0) and its like"
            )
        return low, high
    if x < 0:
        raise ArgumentError(f"color_jitter: {x} must be 0 or more")
    return (max(middle - x, 0.0) if middle else -x, middle + x) if x else None


def grayscale(num_output_channels: int = 3) -> Op:
    """Make equal channels of luma: Grayscale.

    num_output_channels: 3, as many as the picture has; 1, as
    PIL.Image.convert("L").
    """
    if num_output_channels not in (1, 3):
        raise ArgumentError(
            "grayscale: num_output_channels must be 1 or 3, not "
            f"{num_output_channels}"
        )
    return _op("grayscale", num_output_channels == 1)


def random_grayscale(p: float = 0.1) -> Op:
    """Make three channels of luma with probability p: RandomGrayscale."""
    return _op("random_grayscale", p)


def random_solarize(threshold: float, p: float = 0.5) -> Op:
    """Invert bytes from threshold on with probability p: RandomSolarize."""
    return _op("random_solarize", p, threshold)


def random_gaussian_blur(
    p: float = 0.5, *, sigma: tuple[float, float] = (0.1, 2.0)
) -> Op:
    """Blur by Pillow's GaussianBlur with probability p, as MoCo and DINO do.

    sigma, in pixels, is drawn between these. torchvision's GaussianBlur is
    another function.
    """
    return _op("random_gaussian_blur", p, sigma)


def random_rotation(
    degrees: float | Pair,
    *,
    center: Pair | None = None,
    filter: WarpFilter = "nearest",
    fill: Color = 0,
) -> Op:
    """Turn counter-clockwise by a random angle: torchvision's RandomRotation.

    degrees: the angle is between these, or -degrees and degrees. center: the
    point that stays, else the middle.
    """
    angles = _angles(degrees)
    return _op("random_rotation", angles, filter, fill, *_point(center))


def random_affine(
    degrees: float | Pair = 0.0, *, translate: Pair = (0.0, 0.0),
    scale: Pair = (1.0, 1.0), shear: float | Sequence[float] = 0.0,
    center: Pair | None = None, filter: WarpFilter = "nearest", fill: Color = 0,
) -> Op:
    """Turn, move, scale and shear by chance: torchvision's RandomAffine.

    translate: shares of width and height, at most. shear: of x, in degrees, as
    those of the turn; four numbers have y's, too. center: the point that the
    turn leaves, else the middle.
    """
    sheared = (*_angles(shear), 0.0, 0.0)[:4]
    return _op(
        "random_affine", _angles(degrees), translate, scale, sheared, filter,
        fill, *_point(center),
    )


def random_perspective(
    distortion: float = 0.5,
    p: float = 0.5,
    *,
    filter: WarpFilter = "bilinear",
    fill: Color = 0,
) -> Op:
    """Move each corner inwards with probability p: RandomPerspective.

    distortion: 0 .. 1; a corner moves by at most this share of half a side.
    """
    return _op("random_perspective", p, distortion, filter, fill)


def trivial_augment_wide(
    *, bins: int = 31, filter: WarpFilter = "nearest", fill: Color = 0
) -> Op:
    """Change pixels in one of 14 ways, by random strength.

    torchvision's TrivialAugmentWide; bins: strengths that there are.
    """
    return _op("trivial_augment_wide", bins, filter, fill)


def rand_augment(
    num_ops: int = 2,
    magnitude: int = 9,
    *,
    bins: int = 31,
    filter: WarpFilter = "nearest",
    fill: Color = 0,
) -> Op:
    """Change pixels num_ops times in one of 14 ways, by one strength.

    torchvision's RandAugment; magnitude: 0 .. bins - 1.
    """
    return _op("rand_augment", num_ops, magnitude, bins, filter, fill)


def auto_augment(
    policy: Policy = "imagenet",
    *,
    filter: WarpFilter = "nearest",
    fill: Color = 0,
) -> Op:
    """Change pixels by one of the 25 rules of a policy.

    torchvision's AutoAugment.
    """
    return _op("auto_augment", policy, filter, fill)


def _angles(degrees: float | Sequence[float]) -> tuple[float, ...]:
    if isinstance(degrees, (int, float)):
        return (-degrees, degrees)
    return tuple(degrees)


def normalize(
    mean: Sequence[float] | float = 0.0,
    std: Sequence[float] | float = 1.0,
    *,
    arithmetic: Arithmetic = "div",
) -> Op:
    """Make numbers (x - mean) / std, with x in 0 .. 1, of 1 or 3 channels.

    mean and std are in the same units: 0.485, not 123.7. A std of 0 raises
    headrace.ArgumentError.

    arithmetic: "div" is x / 255, torchvision v1's ToTensor and Normalize;
    "mul" is x * (1 / 255), v2's ToDtype(scale=True). Each step is rounded to
    float32.
    """
    if 0 in _channels(std):
        raise ArgumentError(f"normalize: std must be other than 0, not {std}")
    return _op("normalize", _channels(mean), _channels(std), arithmetic)


def _channels(x: Sequence[float] | float) -> tuple[float, ...]:
    return (x,) if isinstance(x, (int, float)) else tuple(x)


def table(values: Buffer) -> Op:
    """Make numbers by a table of 256 float32 for each channel.

    Entry [c, byte]; of float16 and uint8 tensors they are rounded half to
    even. A job holds the buffer until it is done.
    """
    return _op("table", values)


def erase(
    x: int, y: int, w: int, h: int, *, value: Sequence[float] | float = 0.0,
    values: Buffer | None = None, noise: int = 0,
) -> Op:
    """Paint w x h elements of the tensor from (x, y): torchvision's erase().

    It stands behind normalize or table, and paints numbers of the tensor as
    they are; what lies outside is ignored. value: one for all channels, or
    one for each. values: the caller's own, channels x h x w float32, which a
    job holds until it is done. noise: normal numbers, drawn from this one.
    """
    return _op("erase", x, y, w, h, _channels(value), values, noise)


def random_erasing(
    p: float = 0.5,
    *,
    scale: tuple[float, float] = (0.02, 0.33),
    ratio: tuple[float, float] = (0.3, 3.3),
    value: Sequence[float] | float | Literal["random"] = 0.0,
) -> Op:
    """Paint a rectangle with probability p: torchvision's RandomErasing.

    scale: least and greatest share of the area; ratio: of height / width.
    value: as of erase(), or "random" for normal numbers.
    """
    if not p:  # it was asked for
        return erase(0, 0, 0, 0)
    noise = value == "random"
    if isinstance(value, str):
        if not noise:
            raise ArgumentError(f'value must be "random", not {value!r}')
        value = 0.0
    return _op("random_erasing", p, scale, ratio, _channels(value), noise)


def __getattr__(name: str) -> Callable[..., Op]:
    """Return the function of an op that has none above: it takes its fields."""
    if name not in _core.OPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    fields = list(_core.OPS[name][2])

    def function(*values: Any, **named: Any) -> Op:
        given = dict(zip(fields, values))
        more = len(values) > len(fields) or set(given) & set(named)
        given.update(named)
        if more or set(given) != set(fields):
            raise TypeError(f"{name}() takes {', '.join(fields) or 'nothing'}")
        return _op(name, *(given[field] for field in fields))

    function.__name__ = name
    return function
