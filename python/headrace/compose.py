# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision as ops: what can be said in both ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from . import ops
from .errors import ArgumentError
from .ops import Arithmetic, Filter, Ops

_V1 = "torchvision.transforms.transforms"
_V2 = "torchvision.transforms.v2."
# By Pillow's numbers.
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
    or of its v2: Resize, CenterCrop, RandomCrop, RandomResizedCrop,
    RandomHorizontalFlip, RandomVerticalFlip; ToTensor, PILToTensor, ToImage,
    ToDtype, ConvertImageDtype, Normalize; of v2 also Identity, RGB and
    ToPureTensor. It is one that takes an RGB picture of Pillow, as
    ImageFolder opens it, and ends in a tensor of uint8 or float32.

    Raises headrace.ArgumentError that names the first transform that has no
    ops, with the reason. Subclasses and functions have none.
    """
    made = _Made([ops.decode()])
    for each in _flat(transform):
        if not _is_known(each):
            raise _refused(each, "it is not one of torchvision.transforms")
        name = type(each).__name__
        if name in _STEPS:
            made.geometry(each)
        elif name in _TENSORS:
            made.tensor(each)
        elif name in ("ToDtype", "ConvertImageDtype"):
            made.scale(each)
        elif name == "Normalize":
            made.normalize(each)
        elif name not in _NOTHING:
            raise _refused(
                each, "there are no such ops; the drop-in takes it: "
                "headrace.set_image_backend() and torch's DataLoader"
            )
    return made.all()


@dataclasses.dataclass
class _Made:
    """What was translated so far."""

    steps: list[ops.Op]
    dtype: str = ""  # once there is a tensor
    arithmetic: Arithmetic = "div"  # of its numbers, if they are float32
    numbers: bool = False  # whether normalize() is there

    def geometry(self, t: Any) -> None:
        if self.numbers:
            raise _refused(t, "it must stand before Normalize")
        if self.dtype and "Resize" in type(t).__name__:
            raise _refused(
                t, "there is a tensor already, which torchvision resizes by "
                "other arithmetic than a picture"
            )
        self.steps.append(_STEPS[type(t).__name__](t))

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
        self._normalize(mean, std)

    def _normalize(self, mean: Any, std: Any) -> None:
        self.steps.append(
            ops.normalize(mean, std, arithmetic=self.arithmetic)
        )
        self.numbers = True

    def all(self) -> tuple[Ops, str]:
        if not self.dtype:
            raise ArgumentError(
                "the transforms do not end in a tensor: ToTensor"
            )
        if self.dtype == "f32" and not self.numbers:
            self._normalize(0.0, 1.0)
        return tuple(self.steps), self.dtype


def is_transform(steps: Any) -> bool:
    """Whether these are no ops, but perhaps transforms."""
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
    # What they mean is looked at when they are used.
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
    else:
        yield transform


def _is_known(transform: Any) -> bool:
    module = type(transform).__module__
    return module == _V1 or module.startswith(_V2)


def _refused(transform: Any, why: str) -> ArgumentError:
    text = " ".join(repr(transform).split())
    return ArgumentError(f"{text} cannot be translated to ops: {why}")


def _floats(x: Any) -> tuple[float, ...]:
    """Of a sequence, or of one number: torchvision takes both."""
    one = isinstance(x, (int, float)) or getattr(x, "ndim", 1) == 0
    return (float(x),) if one else tuple(float(y) for y in x)


def _sequence(x: Any) -> Any:
    return (x,) if isinstance(x, int) else x


def _pair(transform: Any) -> tuple[int, int]:
    """Height and width."""
    size = _sequence(transform.size)
    return int(size[0]), int(size[-1])


def _filter(transform: Any) -> Filter:
    value = transform.interpolation  # a word, a number, or an enum of words
    try:
        return _FILTERS[getattr(value, "value", value)]
    except (KeyError, TypeError):
        raise _refused(transform, "no such filter") from None


def _resize(t: Any) -> ops.Op:
    if t.max_size is not None:
        raise _refused(t, "max_size")
    if len(_sequence(t.size)) == 1:
        return ops.resize_short(_pair(t)[0], filter=_filter(t))
    h, w = _pair(t)
    return ops.resize(w, h, filter=_filter(t))


def _center_crop(t: Any) -> ops.Op:
    h, w = _pair(t)
    return ops.center_crop(w, h, pad=True)


def _random_crop(t: Any) -> ops.Op:
    # (v2 keeps one number as four.)
    pads = {0} if t.padding is None else set(_sequence(t.padding))
    if len(pads) != 1:
        raise _refused(t, "padding must be one number")
    pad = int(pads.pop())
    if t.fill not in (0, (0, 0, 0), [0, 0, 0]) or t.padding_mode != "constant":
        raise _refused(t, "padding is black")
    h, w = _pair(t)
    return ops.random_crop(w, h, pad=pad, pad_if_needed=t.pad_if_needed)


def _random_resized_crop(t: Any) -> ops.Op:
    h, w = _pair(t)
    scale, ratio = _floats(t.scale), _floats(t.ratio)
    return ops.random_resized_crop(
        w,
        h,
        filter=_filter(t),
        scale=(scale[0], scale[1]),
        ratio=(ratio[0], ratio[1]),
    )


_STEPS: dict[str, Callable[[Any], ops.Op]] = {
    "Resize": _resize,
    "CenterCrop": _center_crop,
    "RandomCrop": _random_crop,
    "RandomResizedCrop": _random_resized_crop,
    "RandomHorizontalFlip": lambda t: ops.random_flip(horizontal=float(t.p)),
    "RandomVerticalFlip": lambda t: ops.random_flip(vertical=float(t.p)),
}
_TENSORS = {"ToTensor": "f32", "PILToTensor": "u8", "ToImage": "u8"}
# What does nothing with an RGB picture, or the tensor of one.
_NOTHING = ("Identity", "RGB", "ToPureTensor")
