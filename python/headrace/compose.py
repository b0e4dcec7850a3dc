# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision as ops: what can be said in both ways."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from . import _core, ops
from ._arguments import made_channels
from .errors import ArgumentError
from .ops import Arithmetic, Filter, Ops

_V1 = "torchvision.transforms.transforms"
_POLICIES = "timm.data.auto_augment"
_MODULES = (
    _V1, "torchvision.transforms.autoaugment", "timm.data.transforms",
    "timm.data.random_erasing", _POLICIES,
)
_V2 = "torchvision.transforms.v2."
_Make: TypeAlias = Callable[..., Any]  # an op, or several, of a transform
# Filters by Pillow's numbers.
_NAMES: tuple[Filter, ...] = (
    "nearest", "lanczos", "bilinear", "bicubic", "box", "hamming",
)
_FILTERS: dict[Any, Filter] = {
    "nearest-exact": "nearest",  # as torchvision does with pictures
    **{name: name for name in _NAMES},
    **dict(enumerate(_NAMES)),
}


def translate(transform: Any) -> tuple[Ops, str]:
    """Return the ops of torchvision's transforms, and the dtype they make.

    transform: a Compose, a list, or one transform, of torchvision.transforms
    or of its v2: Resize, CenterCrop, Pad, RandomCrop, RandomResizedCrop,
    RandomHorizontalFlip, RandomVerticalFlip; ColorJitter, Grayscale,
    RandomGrayscale, RandomPosterize, RandomSolarize, RandomEqualize,
    RandomAutocontrast, RandomInvert, RandomAdjustSharpness; RandomRotation,
    RandomAffine, RandomPerspective; TrivialAugmentWide, RandAugment,
    AutoAugment; RandomApply and RandomChoice of them; ToTensor, PILToTensor,
    ToImage, ToDtype, ConvertImageDtype, Normalize, RandomErasing; of v2 also
    Identity, RGB and ToPureTensor; of timm RandomResizedCropAndInterpolation,
    MaybeToTensor, MaybePILToTensor, ToNumpy and its RandomErasing. It is one
    that takes an RGB picture of Pillow, as ImageFolder opens it, and ends in a
    tensor of uint8 or float32. Behind ToImage or PILToTensor, v2's Resize and
    RandomResizedCrop are torch's resize of bytes (reference torch-2), which
    torchvision takes for "bilinear" where the processor has AVX2 or is an Arm.

    Raises headrace.ArgumentError that names the first transform that has no
    ops, with the reason. Subclasses and functions have none.
    """
    made = _Made([ops.decode()])
    for each in _flat(transform):
        if not _is_known(each):
            raise _refused(each, "it is not one of torchvision.transforms")
        name = type(each).__name__
        if made.is_gray and _makes_three(each):
            raise _refused(each, "it makes three channels of one")
        if name in _STEPS:
            made.step(each)
        elif name in _TENSORS:
            made.tensor(each)
        elif name in ("ToDtype", "ConvertImageDtype"):
            made.scale(each)
        elif name == "Normalize":
            made.normalize(each)
        elif name == "RandomErasing":
            made.erase(each)
        elif name not in _NOTHING:
            raise _refused(
                each, "there are no such ops; the drop-in takes it: "
                "headrace.set_image_backend() and torch's DataLoader"
            )
    return made.all()


@dataclasses.dataclass
class _Made:
    """The ops that were translated so far."""

    steps: list[ops.Op]
    dtype: str = ""  # once there is a tensor
    arithmetic: Arithmetic = "div"  # of its numbers, if they are float32
    numbers: bool = False  # whether normalize() is there
    moved: bool = True  # whether steps do nothing but that to pixels

    @property
    def is_gray(self) -> bool:
        return made_channels(self.steps, 3) == 1

    def step(self, t: Any) -> None:
        if self.numbers:
            raise _refused(t, "it must stand before Normalize")
        fill = getattr(t, "fill", None)
        if self.is_gray and isinstance(fill, (list, tuple)) and len(fill) > 1:
            raise _refused(t, "fill: there is one channel")
        if self.dtype == "u8" and type(t).__name__ in _OF_BYTES:
            self.steps.append(_of_bytes(t))
        elif self.dtype and not _moves(t):
            raise _refused(
                t, "there is a tensor already, which torchvision changes by "
                "other arithmetic than a picture"
            )
        elif _is_gray(t) and self.moved:
            self.steps[0] = ops.decode("L")
        else:
            self.steps += _steps_of(t)
        self.moved = self.moved and _moves(t)

    def tensor(self, t: Any) -> None:
        if self.dtype:
            raise _refused(t, "there is a tensor already")
        self.dtype = _TENSORS[type(t).__name__]

    def scale(self, t: Any) -> None:
        if not self.dtype:
            raise _refused(t, "there is no tensor yet")
        to = str(t.dtype)
        if to == "torch.uint8" and self.dtype == "u8":
            return
        if to != "torch.float32":
            raise _refused(t, "dtype must be torch.float32")
        if self.dtype == "f32":
            return
        if type(t).__name__ == "ToDtype" and not t.scale:
            raise _refused(t, "scale must be True")
        self.dtype = "f32"
        # v2 multiplies by 1 / 255, v1 divides.
        self.arithmetic = "div" if type(t).__module__ == _V1 else "mul"

    def normalize(self, t: Any) -> None:
        if self.dtype != "f32" or self.numbers:
            raise _refused(t, "it must follow ToTensor or ToDtype, once")
        try:
            mean, std = _floats(t.mean), _floats(t.std)
        except (TypeError, ValueError):
            raise _refused(t, "mean and std must be numbers") from None
        if self.is_gray and max(len(mean), len(std)) > 1:
            raise _refused(t, "there is one channel")
        self._normalize(mean, std)

    def _normalize(self, mean: Any, std: Any) -> None:
        self.steps.append(
            ops.normalize(mean, std, arithmetic=self.arithmetic)
        )
        self.numbers = True

    def erase(self, t: Any) -> None:
        if self.dtype != "f32":
            raise _refused(t, "it must follow ToTensor or ToDtype")
        if not self.numbers:
            self._normalize(0.0, 1.0)
        self.steps.append(_erasing(t))

    def all(self) -> tuple[Ops, str]:
        if not self.dtype:
            raise ArgumentError(
                "the transforms do not end in a tensor: ToTensor"
            )
        if self.dtype == "f32" and not self.numbers:
            self._normalize(0.0, 1.0)
        return tuple(self.steps), self.dtype


def is_transform(steps: Any) -> bool:
    """Say whether these are no ops, but perhaps transforms."""
    return callable(steps) or (
        isinstance(steps, (list, tuple)) and any(map(callable, steps))
    )


def as_ops(steps: Any) -> tuple[Ops, str | None]:
    """Ops, or transforms as ops; and the dtype that transforms make."""
    if is_transform(steps):
        return translate(steps)
    try:
        found = tuple(steps)
    except TypeError:
        found = (None,)
    # Their fields are checked when they are used.
    if not all(isinstance(op, tuple) and op for op in found):
        raise TypeError(
            "steps must be ops, as in (ops.decode(), ...), or transforms of "
            f"torchvision, not {steps!r:.60}"
        )
    return found, None


def _flat(transform: Any) -> Iterator[Any]:
    if isinstance(transform, (list, tuple)):
        for each in transform:
            yield from _flat(each)
    elif type(transform).__name__ == "Compose" and _is_known(transform):
        yield from _flat(transform.transforms)
    elif type(transform).__module__ == "torch.nn.modules.container":
        yield from _flat(list(transform))
    else:
        yield transform


def _is_known(transform: Any) -> bool:
    module = type(transform).__module__
    return module in _MODULES or module.startswith(_V2)


def _refused(transform: Any, why: str) -> ArgumentError:
    text = " ".join(repr(transform).split())
    if len(text) > 200:
        text = f"{type(transform).__name__}({text[:160]}...)"
    return ArgumentError(f"{text} cannot be translated to ops: {why}")


def _floats(x: Any) -> tuple[float, ...]:
    """Floats of a sequence, or of one number: torchvision takes both."""
    one = isinstance(x, (int, float)) or getattr(x, "ndim", 1) == 0
    return (float(x),) if one else tuple(float(y) for y in x)


def _sequence(x: Any) -> Any:
    return (x,) if isinstance(x, int) else x


def _pair(transform: Any) -> tuple[int, int]:
    """Height and width."""
    size = _sequence(transform.size)
    return int(size[0]), int(size[-1])


def _filter(transform: Any) -> Filter:
    return _filter_of(transform, transform.interpolation)


def _filter_of(transform: Any, value: Any) -> Filter:
    """value: a word, a number, or an enum of words."""
    try:
        return _FILTERS[getattr(value, "value", value)]
    except (KeyError, TypeError):
        raise _refused(transform, "no such filter") from None


def _resize(t: Any, **how: Any) -> ops.Op:
    if t.max_size is not None:
        raise _refused(t, "max_size")
    how["filter"] = _filter(t)
    if len(_sequence(t.size)) == 1:
        return ops.resize_short(_pair(t)[0], **how)
    h, w = _pair(t)
    return ops.resize(w, h, **how)


def _of_bytes(t: Any) -> ops.Op:
    """A resize of a tensor of bytes."""
    if not type(t).__module__.startswith(_V2):
        raise _refused(t, "it resizes a tensor by float32: v2's does not")
    value = getattr(t.interpolation, "value", t.interpolation)
    if value not in ("bilinear", "bicubic", "lanczos", 2, 3, 1):
        raise _refused(t, "no such filter of tensors")
    if t.antialias is not True:
        raise _refused(t, "antialias must be True for tensors")
    made: ops.Op = _OF_BYTES[type(t).__name__](t, order="torch")
    return made


def _center_crop(t: Any) -> ops.Op:
    h, w = _pair(t)
    return ops.center_crop(w, h, pad=True)


def _random_crop(t: Any) -> ops.Op | Ops:
    borders, around = _borders(t), _edges(t)
    h, w = _pair(t)
    pad = borders[0] if len(set(borders)) == 1 and borders[0] > 0 else 0
    crop = ops.random_crop(
        w, h, pad=pad, pad_if_needed=t.pad_if_needed, **around
    )
    if not any(borders):
        return crop
    if (
        t.pad_if_needed
        and around["mode"] in ("reflect", "symmetric")
        and type(t).__module__.startswith(_V2)
    ):
        raise _refused(
            t, f"padding_mode {around['mode']!r} with padding and pad_if_needed"
        )
    return crop if pad else (ops.pad(*borders, **around), crop)


def _pad(t: Any) -> ops.Op:
    return ops.pad(*_borders(t), **_edges(t))


def _borders(t: Any) -> tuple[int, ...]:
    """Left, top, right, bottom."""
    given = 0 if t.padding is None else t.padding
    try:
        sides = tuple(int(side) for side in _sequence(given))
        sides *= 4 // len(sides)
    except (TypeError, ValueError, ZeroDivisionError):
        raise _refused(t, "padding must be 1, 2 or 4 numbers") from None
    if type(t).__name__ == "RandomCrop" and type(t).__module__.startswith(_V2):
        left, right, top, bottom = sides  # as that keeps them
        sides = left, top, right, bottom
    return sides


def _edges(t: Any) -> dict[str, Any]:
    """The mode and color of its border, as arguments of an op."""
    if t.padding_mode != "constant":
        return {"mode": t.padding_mode, "fill": 0}
    return {"mode": "constant", "fill": _color(t)}


def _random_resized_crop(t: Any, **how: Any) -> ops.Op:
    return _window(t, _filter(t), **how)


def _window(t: Any, filter: Filter, **how: Any) -> ops.Op:
    h, w = _pair(t)
    how |= {"scale": _two(t.scale), "ratio": _two(t.ratio)}
    return ops.random_resized_crop(w, h, filter=filter, **how)


# ---- what changes pixels ----------------------------------------------------


def _steps_of(t: Any) -> Ops:
    """The ops of one transform that is in _STEPS."""
    if type(t).__module__ == _POLICIES:
        raise _refused(t, "timm's policies have no ops")
    try:
        made = _STEPS[type(t).__name__](t)
        flat: Ops = made if not made or isinstance(made[0], tuple) else (made,)
        if type(t).__name__ in (*_PIXELS, "Pad", "RandomCrop"):
            _core.output_size((ops.decode(), *flat), 9999, 9999)
    except ArgumentError as error:
        if "cannot be translated" in str(error):
            raise
        raise _refused(t, str(error)) from None
    return flat


def _inside(t: Any, transforms: Any) -> Ops:
    """The ops of transforms that are those of t."""
    made: list[ops.Op] = []
    for each in _flat(transforms):
        name = type(each).__name__
        if not _is_known(each) or name not in (*_STEPS, *_NOTHING):
            raise _refused(t, f"{' '.join(repr(each).split())} is in it")
        made += _steps_of(each) if name in _STEPS else ()
    return tuple(made)


def _apply(t: Any) -> Ops:
    steps = _inside(t, list(t.transforms))
    return ops.random_apply(steps, float(t.p)) if steps else ()


def _choice(t: Any) -> Ops:
    alike = t.p is None or (len(set(t.p)) == 1 and t.p[0] > 0)
    weights = () if alike else _floats(t.p)
    made = [_inside(t, each) for each in t.transforms]
    return ops.random_choice(
        *(steps or (ops.flip(),) for steps in made), weights=weights
    )


def _by_chance(name: str, *fields: str) -> _Make:
    """An op of that name, with the transform's fields, in a random_apply."""
    make = getattr(ops, name)
    return lambda t: ops.random_apply(
        [make(*(getattr(t, field) for field in fields))], float(t.p)
    )


def _moves(t: Any) -> bool:
    """Say whether pixels stay as they are, beside black ones."""
    if type(t).__name__ not in ("Pad", "RandomCrop"):
        return type(t).__name__ in _MOVES
    around = _edges(t)
    return around["mode"] == "constant" and not any(around["fill"])


def _is_gray(t: Any) -> bool:
    return type(t).__name__ == "Grayscale" and t.num_output_channels == 1


def _makes_three(t: Any) -> bool:
    """Say whether it does so of pictures that have one channel."""
    name = type(t).__name__
    return (
        name == "RGB"
        or (name == "Grayscale" and t.num_output_channels == 3)
        or any(map(_makes_three, getattr(t, "transforms", ())))
    )


def _jitter(t: Any) -> ops.Op:
    ranges = t.brightness, t.contrast, t.saturation, t.hue
    return ops.color_jitter(*(0.0 if r is None else _two(r) for r in ranges))


def _two(x: Any) -> tuple[float, float]:
    low, high = _floats(x)
    return low, high


def _color(t: Any) -> tuple[int, ...]:
    fill = 0 if t.fill is None else t.fill
    try:
        # torchvision cuts them, too.
        return tuple(int(x) for x in _floats(fill))
    except (TypeError, ValueError):
        raise _refused(t, "fill must be a number, or three") from None


def _warp(t: Any) -> dict[str, Any]:
    """Filter and colour of a warp."""
    return {"filter": _filter(t), "fill": _color(t)}


def _center(t: Any) -> tuple[float, float] | None:
    return None if t.center is None else _two(t.center)


def _rotation(t: Any) -> ops.Op:
    if t.expand:
        raise _refused(t, "expand makes pictures of several sizes")
    return ops.random_rotation(
        _two(t.degrees), center=_center(t), **_warp(t)
    )


def _affine(t: Any) -> ops.Op:
    return ops.random_affine(
        _two(t.degrees),
        translate=_two((0, 0) if t.translate is None else t.translate),
        scale=_two((1, 1) if t.scale is None else t.scale),
        shear=0.0 if t.shear is None else _floats(t.shear),
        center=_center(t),
        **_warp(t),
    )


def _timm_crop(t: Any) -> ops.Op | Ops:
    """timm's, whose filter may be one of several by chance."""
    filters = t.interpolation
    if not isinstance(filters, (list, tuple)):
        filters = (filters,)
    made = [_window(t, _filter_of(t, each)) for each in filters]
    return made[0] if len(made) == 1 else ops.random_choice(*made)


def _erasing(t: Any) -> ops.Op:
    if type(t).__module__ == "timm.data.random_erasing":
        return _timm_erasing(t)
    value: Any = "random" if t.value is None else t.value
    if value != "random":
        value = _floats(value)
    return ops.random_erasing(
        float(t.p), scale=_two(t.scale), ratio=_two(t.ratio), value=value
    )


def _timm_erasing(t: Any) -> ops.Op:
    if t.rand_color:
        raise _refused(t, "mode 'rand'")
    if (t.min_count, t.max_count) != (1, 1):
        raise _refused(t, "max_count: one rectangle is erased")
    low, high = (math.exp(x) for x in t.log_aspect_ratio)
    return ops.random_erasing(
        float(t.probability),
        scale=(float(t.min_area), float(t.max_area)),
        ratio=(low, high),
        value="random" if t.per_pixel else 0.0,
    )


# Transforms that differ for tensors of bytes.
_OF_BYTES: dict[str, _Make] = {
    "Resize": _resize,
    "RandomResizedCrop": _random_resized_crop,
}
# By the picture's place alone, so tensors have them, too.
_MOVES: dict[str, _Make] = {
    "CenterCrop": _center_crop,
    "Pad": _pad,
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": lambda t: ops.random_flip(horizontal=float(t.p)),
    "RandomVerticalFlip": lambda t: ops.random_flip(vertical=float(t.p)),
}
_PIXELS: dict[str, _Make] = {
    "RandomApply": _apply,
    "RandomChoice": _choice,
    "ColorJitter": _jitter,
    "Grayscale": lambda t: ops.grayscale(t.num_output_channels),
    "RandomGrayscale": lambda t: ops.random_grayscale(float(t.p)),
    "RandomPosterize": _by_chance("posterize", "bits"),
    "RandomSolarize": _by_chance("solarize", "threshold"),
    "RandomEqualize": _by_chance("equalize"),
    "RandomAutocontrast": _by_chance("autocontrast"),
    "RandomInvert": _by_chance("invert"),
    "RandomAdjustSharpness": _by_chance("adjust_sharpness", "sharpness_factor"),
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "RandomPerspective": lambda t: ops.random_perspective(
        float(t.distortion_scale), float(t.p), **_warp(t)
    ),
    "TrivialAugmentWide": lambda t: ops.trivial_augment_wide(
        bins=t.num_magnitude_bins, **_warp(t)
    ),
    "RandAugment": lambda t: ops.rand_augment(
        t.num_ops, t.magnitude, bins=t.num_magnitude_bins, **_warp(t)
    ),
    "AutoAugment": lambda t: ops.auto_augment(t.policy.value, **_warp(t)),
}
_STEPS: dict[str, _Make] = {
    **_MOVES,
    **_PIXELS,
    **_OF_BYTES,
    "RandomResizedCropAndInterpolation": _timm_crop,
}
_TENSORS = {
    "ToTensor": "f32",
    "PILToTensor": "u8",
    "ToImage": "u8",
    "MaybeToTensor": "f32",
    "MaybePILToTensor": "u8",
    "ToNumpy": "u8",
}
# Transforms that leave an RGB picture, or its tensor, as it is.
_NOTHING = ("Identity", "RGB", "ToPureTensor")
