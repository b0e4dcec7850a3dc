# SPDX-License-Identifier: Apache-2.0
"""The steps of the image processors of transformers, as ops.

plan() reads a preprocessor_config as the class does that it names, in
transformers 5: what it leaves out is the class's. It imports nothing, and
refuses what has no ops.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from . import _core, ops
from .errors import ArgumentError

Backend: TypeAlias = Literal["torchvision", "pil"]
Size: TypeAlias = tuple[int, int]  # width, height

_HALF = (0.5, 0.5, 0.5)
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_BILINEAR, _BICUBIC = 2, 3  # Pillow's numbers
# Pillow's filters that torch has for bytes.
_OF_TORCH = (1, _BILINEAR, _BICUBIC)
_MOST = 65535  # of a side


class _Kind(NamedTuple):
    """Defaults of a class. square: a size that is one number is both sides."""

    size: Mapping[str, int]
    crop: bool = False
    crop_size: int | None = 224
    resample: int = _BICUBIC
    mean: tuple[float, ...] = _HALF
    std: tuple[float, ...] = _HALF
    square: bool = True


_SQUARE = {"height": 224, "width": 224}
_LIKE_CLIP = _Kind(
    {"shortest_edge": 224}, True, mean=_CLIP_MEAN, std=_CLIP_STD, square=False
)
# Name of the class before ImageProcessor -> its defaults. DINOv2's is Bit, and
# Swin's is ViT.
KINDS = {
    "ViT": _Kind(_SQUARE, crop_size=None, resample=_BILINEAR),
    "DeiT": _Kind({"height": 256, "width": 256}, True),
    "Beit": _Kind(_SQUARE),
    "Siglip": _Kind(_SQUARE, crop_size=None, square=False),
    "CLIP": _LIKE_CLIP,
    "Bit": _LIKE_CLIP,
    "ConvNext": _Kind({"shortest_edge": 384}, crop_size=None, square=False),
}
_ENDINGS = (
    "ImageProcessorFast", "ImageProcessorPil", "ImageProcessor",
    "FeatureExtractor",
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps for a picture, in this order.

    size: it is resized to; short: or so that its shorter side is this; crops:
    from the middle. numbers: a table for bytes, 3 x 256 float32; None: they
    stay bytes.
    """

    backend: Backend
    resample: int = _BILINEAR
    size: Size | None = None
    short: int | None = None
    crops: tuple[Size, ...] = ()
    numbers: bytes | None = None

    @property
    def out(self) -> Size | None:
        """The size of all results; None: the picture's own."""
        return self.crops[-1] if self.crops else self.size

    def steps(self) -> ops.Ops:
        """Ops that follow ops.decode(), for any picture."""
        made: list[ops.Op] = []
        filter_: Any = _core.PIL_FILTER[self.resample]
        order: ops.Order = (
            "torch" if self.backend == "torchvision" else "reference"
        )
        if self.size:
            made.append(ops.resize(*self.size, filter=filter_, order=order))
        if self.short:
            made.append(
                ops.resize_short(self.short, filter=filter_, order=order)
            )
        made += [ops.center_crop(*c, pad=True, down=True) for c in self.crops]
        if self.numbers:
            made.append(ops.table(self.numbers))
        return tuple(made)

    def sizes(self, have: Size) -> tuple[Size | None, list[tuple[int, ...]]]:
        """The size that a picture is resized to, and (x, y, w, h) of crops."""
        size, windows = self.size, []
        if self.short:
            long = int(self.short * max(have) / min(have))
            size = (self.short, long) if have[0] <= have[1] else (
                long, self.short)
        if size:
            have = size
        for crop in self.crops:
            corner = [
                (a - b) // 2 if a >= b else -((b - a) // 2)
                for a, b in zip(have, crop)
            ]
            windows.append((*corner, *crop))
            have = crop
        return size, windows


def family(name: str) -> str | None:
    """The class's name without its ending; None if there are no such ops."""
    for ending in _ENDINGS:
        if name.endswith(ending):
            kind = name.removesuffix(ending)
            return kind if kind in KINDS else None
    return None


def plan(config: Mapping[str, Any], backend: Backend | None = None) -> Plan:
    """Raises headrace.ArgumentError that names what it cannot do."""
    name = str(
        config.get("image_processor_type")
        or config.get("feature_extractor_type")
    )
    kind = family(name)
    if kind is None:
        raise _refused(
            "image_processor_type", name,
            f"it must be of {', '.join(sorted(KINDS))}",
        )
    if backend is None:
        backend = "pil" if name.endswith("Pil") else "torchvision"
    if backend not in ("torchvision", "pil"):
        raise ArgumentError(
            f"backend must be torchvision or pil, not {backend!r}"
        )
    return planned(kind, backend, _filled(KINDS[kind], config))


def _filled(kind: _Kind, config: Mapping[str, Any]) -> dict[str, Any]:
    """A config filled with the class's defaults. Null is no, or not given."""
    said: dict[str, Any] = {
        "do_resize": True,
        "size": kind.size,
        "resample": kind.resample,
        "do_center_crop": kind.crop,
        "crop_size": kind.crop_size,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": kind.mean,
        "image_std": kind.std,
        "default_to_square": kind.square,
    }
    said |= config
    said["size"] = _sized("size", said["size"], said["default_to_square"])
    said["crop_size"] = _sized("crop_size", said["crop_size"], True)
    return said


def _sized(key: str, value: Any, square: bool) -> Any:
    """A size as a dict, of a number or of height and width."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if square:
            return {"height": value, "width": value}
        return {"shortest_edge": value}
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return {"height": value[0], "width": value[1]}
    return value


def planned(kind: str, backend: Backend, said: Mapping[str, Any]) -> Plan:
    """The plan of arguments that have all of the names below.

    Sizes are mappings, as transformers has them when it has looked at them.
    """
    for key in ("do_pad", "use_square_size"):
        if said.get(key):
            raise _refused(key, said[key], "there are no such ops")
    for key, most in (("data_format", "channels_first"), ("device", "cpu")):
        value = said.get(key)
        if value is not None and str(getattr(value, "value", value)) != most:
            raise _refused(key, value, f"it must be {most!r}")
    made = Plan(backend)
    if said["do_resize"]:
        made = _resized(kind, made, said)
    if said["do_center_crop"]:
        crop = _both("crop_size", said["crop_size"])
        made = dataclasses.replace(made, crops=(*made.crops, crop))
    if backend == "pil" and not _is_larger(made):
        raise _refused(
            "crop_size", said["crop_size"],
            "backend pil would pad what is resized, on the other side",
        )
    return dataclasses.replace(made, numbers=_numbers(backend, said))


def _resized(kind: str, made: Plan, said: Mapping[str, Any]) -> Plan:
    size = _said_of("size", said["size"])
    resample = _resample(made.backend, said["resample"])
    made = dataclasses.replace(made, resample=resample)
    if set(size) == {"height", "width"} and kind != "ConvNext":
        return dataclasses.replace(made, size=_both("size", size))
    if set(size) != {"shortest_edge"}:
        raise _refused(
            "size", size, "it must have "
            + ("" if kind == "ConvNext" else "height and width, or ")
            + "shortest_edge alone",
        )
    short = _side("size", size["shortest_edge"])
    if kind != "ConvNext":
        return dataclasses.replace(made, short=short)
    if short >= 384:
        return dataclasses.replace(made, size=(short, short))
    part = said.get("crop_pct")
    part = 224 / 256 if part is None else part
    if not isinstance(part, (int, float)) or not 0 < part <= 1:
        raise _refused("crop_pct", part, "it must be above 0, and 1 at most")
    return dataclasses.replace(
        made, short=int(short / part), crops=((short, short),)
    )


def _resample(backend: Backend, value: Any) -> int:
    """Pillow's number of a filter."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    known = _OF_TORCH if backend == "torchvision" else range(6)
    if number not in known or isinstance(value, bool):
        raise _refused(
            "resample", value, f"backend {backend} has "
            f"{', '.join(map(str, known))} of Pillow's numbers"
        )
    return number


def _is_larger(made: Plan) -> bool:
    """Is what is cropped as large as the window, whatever the picture is?"""
    have: Size = made.size or (made.short or 0, made.short or 0)
    for crop in made.crops:
        if crop[0] > have[0] or crop[1] > have[1]:
            return False
        have = crop
    return True


def _said_of(key: str, size: Any) -> dict[str, Any]:
    """Its sides that are not null."""
    if not isinstance(size, Mapping):
        raise _refused(key, size, "it must be a size")
    return {side: x for side, x in size.items() if x is not None}


def _both(key: str, size: Any) -> Size:
    found = _said_of(key, size)
    if set(found) != {"height", "width"}:
        raise _refused(key, size, "it must have height and width")
    return _side(key, found["width"]), _side(key, found["height"])


def _side(key: str, value: Any) -> int:
    if type(value) is not int or not 0 < value <= _MOST:
        raise _refused(key, value, f"a side is 1 to {_MOST}")
    return value


def _refused(key: str, value: Any, why: str) -> ArgumentError:
    return ArgumentError(f"{key} {value!r:.200}: {why}")


# ---- numbers ----------------------------------------------------------------


def _f32(x: float) -> float:
    """Rounded to float32; exact for +, -, *, / of two such numbers."""
    rounded: float = struct.unpack("f", struct.pack("f", x))[0]
    return rounded


def _numbers(backend: Backend, said: Mapping[str, Any]) -> bytes | None:
    """The numbers of 256 bytes in each channel, by the backend's arithmetic."""
    scale = said["rescale_factor"] if said["do_rescale"] else None
    if said["do_rescale"] and (
        not isinstance(scale, (int, float)) or not 0 < scale < 1e6
    ):
        raise _refused("rescale_factor", scale, "it must be above 0")
    if not said["do_normalize"]:
        if scale is None:
            return None
        if backend == "torchvision" and isinstance(scale, int):
            raise _refused(
                "rescale_factor", scale, "torch multiplies bytes by it"
            )
        return _packed([_scaled(backend, scale)] * 3)
    means = _channels("image_mean", said["image_mean"])
    stds = _channels("image_std", said["image_std"])
    if 0 in map(_f32, stds):
        raise _refused("image_std", said["image_std"], "it must not be 0")
    if backend == "pil":
        values = [float(x) for x in range(256)]
        if scale is not None:
            values = _scaled(backend, scale)
    else:  # mean and std are scaled in its place
        values = [float(x) for x in range(256)]
        if scale is not None:
            by = _f32(1.0 / scale)
            means = [_f32(_f32(x) * by) for x in means]
            stds = [_f32(_f32(x) * by) for x in stds]
    return _packed(
        [_f32(_f32(x - _f32(m)) / _f32(s)) for x in values]
        for m, s in zip(means, stds)
    )


def _scaled(backend: Backend, scale: float) -> list[float]:
    by = scale if backend == "pil" else _f32(scale)  # NumPy's is float64
    return [_f32(x * by) for x in range(256)]


def _channels(key: str, value: Any) -> list[float]:
    """Numbers for three channels: a single one is for all."""
    try:
        numbers = [float(x) for x in (
            [value] * 3 if isinstance(value, (int, float)) else value)]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 3 or not all(abs(x) < 1e6 for x in numbers):
        raise _refused(key, value, "it must be a number, or three")
    return numbers


def _packed(channels: Iterable[Iterable[float]]) -> bytes:
    return b"".join(struct.pack("256f", *row) for row in channels)
