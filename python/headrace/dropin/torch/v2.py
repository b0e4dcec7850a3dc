# SPDX-License-Identifier: Apache-2.0
"""Places in torchvision.transforms.v2 that ask for an exact type.

They look up type(input) in the user's dictionary, where a recorded picture
must be found under the name of what it stands for.
"""

from __future__ import annotations

import types
from typing import Any

import PIL.Image
from PIL.JpegImagePlugin import JpegImageFile

from ..pillow import pictures
from . import tensor


def stands_for(kind: type) -> type:
    """The stock class that one of ours stands for."""
    if kind is pictures.HeadraceImage:
        return PIL.Image.Image
    if kind is pictures.HeadraceJpeg:
        return JpegImageFile
    if kind in tensor.lazy_types():
        return kind.stands_for  # type: ignore[attr-defined]
    return kind


def get_fill(stock: Any) -> Any:
    """_get_fill(fill_dict, inpt_type), around the stock one."""

    def _get_fill(fill_dict: Any, inpt_type: Any) -> Any:
        return stock(fill_dict, stands_for(inpt_type))

    return _get_fill


def to_dtype_transform(stock: Any) -> Any:
    """ToDtype.transform, around the stock one."""

    def transform(self: Any, inpt: Any, params: Any) -> Any:
        kind = type(inpt)
        if not isinstance(self.dtype, dict) or kind not in (
            tensor.lazy_types()
        ):
            return stock(self, inpt, params)
        real = stands_for(kind)
        if real not in self.dtype and "others" not in self.dtype:
            return stock(self, tensor.plain(inpt), params)  # its error
        dtype = self.dtype.get(real, self.dtype.get("others"))
        # The stock method, with a dictionary that knows the class.
        twin = types.SimpleNamespace(
            dtype={**self.dtype, kind: dtype},
            scale=self.scale,
            _call_kernel=self._call_kernel,
        )
        return stock(twin, inpt, params)

    return transform
