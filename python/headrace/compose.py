# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision as ops: what can be said in both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import ops
from .errors import ArgumentError
from .ops import Filter, Ops

_MODULES = ("torchvision.transforms.transforms",)
_FILTERS: dict[str, Filter] = {
    "nearest": "nearest",
    "box": "box",
    "bilinear": "bilinear",
    "hamming": "hamming",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}


def translate(transform: Any) -> tuple[Ops, str]:
    """Return the ops of torchvision's transforms, and the dtype they make.

    transform: a Compose, or one transform, of torchvision.transforms: Resize,
    CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip,
    RandomVerticalFlip, ToTensor, PILToTensor, Normalize. It is one that takes
    an RGB picture of Pillow, as ImageFolder opens it, and ends in a tensor.

    Raises headrace.ArgumentError that names the first transform that has no
    ops, with the reason. Subclasses and functions have none.
    """
    steps = [ops.decode()]
    made = ""  # the dtype, once there is a tensor
    numbers = False
    for each in _flat(transform):
        name = type(each).__name__
        if type(each).__module__ not in _MODULES:
            raise _refused(each, "it is not one of torchvision.transforms")
        if name == "ToTensor" and not made:
            made = "f32"
        elif name == "PILToTensor" and not made:
            made = "u8"
        elif name == "Normalize" and made == "f32" and not numbers:
            steps.append(ops.normalize(_floats(each.mean), _floats(each.std)))
            numbers = True
        elif name in _STEPS and not made:
            steps.append(_STEPS[name](each))
        elif name in _STEPS or name in ("ToTensor", "PILToTensor"):
            raise _refused(each, "there is a tensor already")
        elif name == "Normalize":
            raise _refused(each, "it must follow ToTensor, once")
        else:
            raise _refused(each, "there are no such ops")
    if not made:
        raise ArgumentError("the transforms do not end in a tensor: ToTensor")
    if made == "f32" and not numbers:
        steps.append(ops.normalize(0.0, 1.0))
    return tuple(steps), made


def is_transform(steps: Any) -> bool:
    """Whether these are no ops, but perhaps transforms."""
    return callable(steps)


def _flat(transform: Any) -> Iterator[Any]:
    kind = type(transform)
    if kind.__name__ == "Compose" and kind.__module__ in _MODULES:
        for each in transform.transforms:
            yield from _flat(each)
    else:
        yield transform


def _refused(transform: Any, why: str) -> ArgumentError:
    text = " ".join(repr(transform).split())
    return ArgumentError(f"{text} cannot be translated to ops: {why}")


def _floats(x: Any) -> tuple[float, ...]:
    return tuple(float(y) for y in x)


def _pair(transform: Any) -> tuple[int, int]:
    """Height and width."""
    size = transform.size
    if isinstance(size, int):
        return size, size
    if len(size) == 1:
        return int(size[0]), int(size[0])
    return int(size[0]), int(size[1])


def _filter(transform: Any) -> Filter:
    value = getattr(transform.interpolation, "value", None)
    try:
        return _FILTERS[value]  # type: ignore[index]
    except (KeyError, TypeError):
        raise _refused(transform, "no such filter") from None


def _resize(t: Any) -> ops.Op:
    if t.max_size is not None:
        raise _refused(t, "max_size")
    if isinstance(t.size, int) or len(t.size) == 1:
        return ops.resize_short(_pair(t)[0], filter=_filter(t))
    h, w = _pair(t)
    return ops.resize(w, h, filter=_filter(t))


def _center_crop(t: Any) -> ops.Op:
    h, w = _pair(t)
    return ops.center_crop(w, h, pad=True)


def _random_crop(t: Any) -> ops.Op:
    pad = 0 if t.padding is None else t.padding
    if not isinstance(pad, int):
        raise _refused(t, "padding must be one number")
    if t.fill not in (0, (0, 0, 0)) or t.padding_mode != "constant":
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
