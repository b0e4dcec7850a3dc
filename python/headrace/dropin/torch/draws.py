# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision that draw: the same draws in less time.

Torch draws as in stock, by the same calls. Left out is what stock computes
beside that, each time anew: constants, and comparisons of numbers that are
tensors. It takes longer than the recording.

Threads: any.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..pillow import pictures
from .wrappers import modes

# Does the installed torchvision draw like this? selftest.py sets it.
agree = False

_MOST_KEPT = 64


def _is_ours(image: Any) -> bool:
    return agree and type(image) in pictures.RECORDERS and not modes()


class _Drawn:
    """Stands for a ColorJitter that has drawn."""

    brightness = contrast = saturation = hue = None

    def __init__(self, *params: Any) -> None:
        self._params = params

    def get_params(self, *ranges: Any) -> Any:
        return self._params


def color_jitter(stock: Any) -> Any:
    """ColorJitter.forward(): stock compares each number of the order."""

    def forward(self: Any, img: Any) -> Any:
        if not _is_ours(img):
            return stock(self, img)
        order, *factors = self.get_params(
            self.brightness, self.contrast, self.saturation, self.hue
        )
        return stock(_Drawn(_numbers(order), *factors), img)

    return forward


def color_jitter_of_v2(stock: Any) -> Any:
    """ColorJitter.transform() of v2."""

    def transform(self: Any, inpt: Any, params: Any) -> Any:
        if _is_ours(inpt) and "fn_idx" in params:
            params = {**params, "fn_idx": _numbers(params["fn_idx"])}
        return stock(self, inpt, params)

    return transform


def _numbers(order: Any) -> Any:
    return order.tolist() if type(order) is Tensor else order


def augmentation_space(stock: Any) -> Any:
    """_augmentation_space() of AutoAugment and its kin: tables of numbers."""
    kept: dict[Any, Any] = {}

    def _augmentation_space(self: Any, *args: Any) -> Any:
        if modes() or torch.is_inference_mode_enabled():
            return stock(self, *args)
        key = args, torch.get_default_dtype()
        try:
            found = kept.get(key)
        except TypeError:  # a list: no key
            return stock(self, *args)
        if found is None or any(x._version for x, _ in found.values()):
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            found = kept[key] = stock(self, *args)
        return found.copy()

    return _augmentation_space


def crop_params(stock: Any) -> Any:
    """RandomResizedCrop.get_params()"""
    logarithms: dict[Any, list[float]] = {}

    def get_params(img: Any, scale: Any, ratio: Any) -> Any:
        if not _is_ours(img) or not _are_numbers(ratio):
            return stock(img, scale, ratio)
        key = *ratio, torch.get_default_dtype()
        bounds = logarithms.get(key)
        if bounds is None:
            if len(logarithms) >= _MOST_KEPT:
                logarithms.clear()
            bounds = torch.log(torch.tensor(ratio)).tolist()
            logarithms[key] = bounds
        _, height, width = stock.__globals__["F"].get_dimensions(img)
        one = torch.empty(1)
        for _ in range(10):
            area = width * height * one.uniform_(scale[0], scale[1]).item()
            shape = one.uniform_(bounds[0], bounds[1]).exp_().item()
            w = round(math.sqrt(area * shape))
            h = round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                top = torch.randint(0, height - h + 1, (1,)).item()
                return top, torch.randint(0, width - w + 1, (1,)).item(), h, w
        return _middle(width, height, min(ratio), max(ratio))

    return get_params


def _are_numbers(pair: Any) -> bool:
    """Numbers of NumPy have a type of their own, in which torch computes."""
    return (
        type(pair) in (list, tuple)
        and len(pair) == 2
        and all(type(x) in (int, float) for x in pair)
    )


def _middle(width: int, height: int, least: float, most: float) -> Any:
    """The largest window of such a ratio."""
    w = round(height * most) if width / height > most else width
    h = round(width / least) if width / height < least else height
    return (height - h) // 2, (width - w) // 2, h, w
