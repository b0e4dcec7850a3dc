# SPDX-License-Identifier: Apache-2.0
"""One picture of 16 x 24, stock and recorded: run when hooks are installed.

A difference stops the drop-in. Ops that change pixels are compared one by one,
once: an op that differs (another compiler's Pillow, a program's own ImageOps)
stays with stock Pillow.
"""

from __future__ import annotations

import functools
import io
import sys
import warnings
from collections.abc import Collection
from typing import Any

from PIL import Image

from .. import _core, _oracle
from .base import fetch
from .base.report import add, take
from .pillow import asked, jobs, originals, pictures, pixels

_MEAN = [0.485, 0.456, 0.406]
_STD = [0.229, 0.224, 0.225]


# Each op that pixels.py records, with arguments that take its ways.
_PROBES: tuple[tuple[Any, ...], ...] = (
    ("adjust_brightness", 1.7),
    ("adjust_contrast", 1.3),
    ("adjust_contrast", 0.4),
    ("adjust_saturation", 1.6),
    ("adjust_sharpness", 1.9),
    ("adjust_hue", -0.3),
    ("grayscale",),
    ("posterize", 3),
    ("solarize", 99.5),
    ("invert",),
    ("equalize",),
    ("autocontrast", (0.0, 0.0)),
    ("autocontrast", (3.0, 7.5)),
    ("gaussian_blur", (0.8, 0.8)),
    ("gaussian_blur", (2.5, 2.5)),
    ("box_blur", (1.3, 1.3)),
    ("kernel3", (1, 1, 1, 1, 5, 1, 1, 1, 1), 13, 0),
    ("kernel3", (-1, 0.5, 0, 2, 9, 3, -2, 1, -1.5), 6.5, 3),
    ("permute_channels", (2, 0, 1)),
    ("lut", bytes(value * 7 & 255 for value in range(768))),
    *(
        (name, matrix, 16, 24, filter_, (7, 90, 200))
        for name, matrix in (
            ("affine", (0.9, 0.2, -1.5, -0.3, 1.1, 2.25)),
            ("affine", (1.2, 0.0, 0.5, 0.0, 0.8, -1.0)),
            ("perspective", (1, 0.1, -1, 0.2, 0.9, 1, 0.01, -0.005)),
        )
        for filter_ in (jobs.FILTERS[number] for number in (0, 2, 3))
    ),
)
_W, _H = 16, 24


def _jpeg(mode: str = "RGB") -> bytes:
    w, h = _W, _H
    state, pixels = 1, bytearray()
    for _ in range(w * h * len(mode)):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        pixels.append(state >> 16 & 255)
    file = io.BytesIO()
    Image.frombytes(mode, (w, h), bytes(pixels)).save(file, "JPEG")
    return file.getvalue()


def _ops(picture: Image.Image) -> Image.Image:
    picture = picture.convert("RGB").crop((1, 2, 15, 23))
    if pictures.reference is not None:
        picture = picture.resize((8, 7), 2)
    return picture.transpose(0)


def run(hooked: Collection[str]) -> str | None:
    """Name of the first thing that differs; None if all is well.

    A method that the program has replaced is not recorded, and may do anything:
    then there is nothing to compare with.
    """
    if originals.is_patched():
        return None
    before = take()
    # (The user's cache holds the user's pictures.)
    jobs.aside.cache = _core.Cache(1 << 20)
    try:
        return _run(hooked)
    finally:
        jobs.aside.cache = None
        take()
        add(before)


def _run(hooked: Collection[str]) -> str | None:
    data = _jpeg()

    def recorded() -> Image.Image:
        return _ops(Image.open(io.BytesIO(data)))

    stock = _ops(jobs.open_stock(data))
    if type(recorded()) is not pictures.HeadraceImage:
        return "recording (nothing was recorded)"
    if recorded().tobytes() != stock.tobytes():
        return "a picture"
    if not pixels.compared:
        pixels.refuse(differing(data))
    _try_decoders(hooked, data)
    if "torchvision.transforms.functional" in hooked:
        functional = sys.modules["torchvision.transforms.functional"]
        if not _equal(_v1, functional, recorded(), stock):
            return "torchvision.transforms.functional"
    if "torchvision.transforms.transforms" in hooked:
        _try_draws(recorded(), stock)
    if "torchvision.transforms.v2" in hooked:
        functional = sys.modules["torchvision.transforms.v2.functional"]
        if not _equal(_v2, functional, recorded(), stock):
            return "torchvision.transforms.v2.functional"
        _try_filters(functional, recorded, stock)
    return None


def differing(data: bytes) -> list[str]:
    """Names of the ops whose pixels are not the installed Pillow's."""
    picture = jobs.open_stock(data).convert("RGB")
    size = _W * _H * 3
    probes = [pixels.op(name, *values) for name, *values in _PROBES]
    made = bytearray(size * len(probes))
    batch = _core.Batch(len(probes), 3, _H, _W, "u8", "nhwc", data=made)
    failed = jobs.run(
        [jobs.Recording(data, (_DECODE, op)) for op in probes], batch
    )
    wrong = {_PROBES[index][0] for index, _ in failed}
    for index, (probe, op) in enumerate(zip(_PROBES, probes)):
        want = _oracle.apply(picture, (op,)).tobytes()
        if made[index * size : (index + 1) * size] != want:
            wrong.add(probe[0])
    return sorted(wrong)


_DECODE = asked.DECODE_OPS["RGB"][0]


def _equal(way: Any, functional: Any, recorded: Any, stock: Any) -> bool:
    import torch

    from .torch import tensor

    with fetch.at(fetch.MAP):  # where tensors are lazy
        lazy = way(functional, recorded)
    if type(lazy) not in tensor.lazy_types():
        return False
    value = tensor.plain(lazy).as_subclass(torch.Tensor)
    return torch.equal(value, way(functional, stock).as_subclass(torch.Tensor))


def _try_decoders(hooked: Collection[str], data: bytes) -> None:
    """Finds out which packages decode as ours does."""
    for name in "torchvision.io.image", "torchcodec.decoders._image_decoders":
        if name in hooked:
            _try_decoder(name, data)


def _try_decoder(name: str, data: bytes) -> None:
    import torch

    from .torch import encoded

    def decoded(module: Any, data: Any) -> Any:
        return module.decode_jpeg(data, mode=module.ImageReadMode.RGB)

    encoded.agree.add(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are deprecated
            for each in data, _jpeg("L"):
                x = torch.frombuffer(bytearray(each), dtype=torch.uint8)
                if not _equal(decoded, sys.modules[name], x, x):
                    encoded.agree.discard(name)
    except Exception:
        encoded.agree.discard(name)


def _try_draws(recorded: Any, stock: Any) -> None:
    """Finds out if torchvision's transforms draw as ours do."""
    from .torch import draws

    draws.agree = True
    try:
        draws.agree = _drawn(recorded) == _drawn(stock)
    except Exception:
        draws.agree = False


def _drawn(picture: Any) -> list[Any]:
    import torch

    module = sys.modules["torchvision.transforms.transforms"]
    with torch.random.fork_rng(devices=[]):
        # (torch.manual_seed() is for all devices, whose draws are not ours.)
        torch.default_generator.manual_seed(1)
        params = module.RandomResizedCrop.get_params
        found = [params(picture, [0.1, 2.0], list(ratio))
                 for ratio in ((0.5, 2.0), (0.8, 9.0), (9.0, 9.5), (0.1, 0.2))]
        made = module.ColorJitter(0.4, 0.4, 0.4, 0.1)(picture)
        return [*found, made.tobytes(), torch.get_rng_state().tolist()]


def _try_filters(functional: Any, recorded: Any, stock: Any) -> None:
    """Finds out with which filters torch resizes bytes as ours does."""
    from .torch import images

    for name in images.FILTERS:
        images.filters.add(name)
        for size in ([5, 11], [31, 3]):
            way = functools.partial(_resized, name=name, size=size)
            try:
                equal = _equal(way, functional, recorded(), stock)
            except Exception:
                equal = False
            if not equal:
                images.filters.discard(name)


def _resized(functional: Any, picture: Any, name: str, size: Any) -> Any:
    image = functional.to_image(picture)
    mode = functional.InterpolationMode(name)
    return functional.resize(image, size, mode, antialias=True)


def _v1(functional: Any, picture: Any) -> Any:
    return functional.normalize(functional.to_tensor(picture), _MEAN, _STD)


def _v2(functional: Any, picture: Any) -> Any:
    import torch

    image = functional.to_image(picture)
    image = functional.to_dtype(image, dtype=torch.float32, scale=True)
    return functional.normalize(image, mean=_MEAN, std=_STD)
