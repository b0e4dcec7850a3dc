# SPDX-License-Identifier: Apache-2.0
"""Image processors of backend pil that make pieces of pictures. Imports torch.

Qwen2-VL resizes a picture to whole patches, and cuts them out; LLaVA-NeXT makes
a small picture and several windows of a large one. A class here says which ops
make the pieces of a picture, and what its processor makes of them: with the
processor's own methods, so only pixels come from Headrace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy
import torch

from ... import _core, _processors
from ..pillow import jobs
from .batches import made_by
from .tables import Table

Size = tuple[int, int]  # width, height
Resize = Callable[[Size, Size], Any]  # (have, want) -> the op, or ()
# All pieces get these ops, a resize and a crop, and have this size then.
Rest = Callable[[Size], tuple[list[Any], Size]]

PAD = _core.OPS["pad"][0]


class Piece(NamedTuple):
    ops: list[Any]
    size: Size


class Qwen2VL:
    """Sides are made multiples of a patch, and the number of pixels limited."""

    one_size = False
    steps = ("patchify",)

    @staticmethod
    def rest(kwargs: Any) -> dict[str, Any]:
        """Arguments of what follows: numbers."""
        return {**kwargs, "do_resize": False, "do_center_crop": False,
                "crop_size": None}

    @staticmethod
    def pieces(
        processor: Any, kwargs: Any, have: Size, resize: Resize, rest: Rest
    ) -> list[Piece]:
        if not kwargs["do_resize"]:
            return [Piece([], have)]
        sides = kwargs["size"]
        h, w = _module(processor).smart_resize(
            have[1],
            have[0],
            factor=kwargs["patch_size"] * kwargs["merge_size"],
            min_pixels=_side(sides.shortest_edge),
            max_pixels=_side(sides.longest_edge),
        )
        return [Piece(_ops(resize(have, (w, h))), (w, h))]

    @staticmethod
    def made(
        processor: Any, kwargs: Any, have: Sequence[Size], pixels: Any
    ) -> dict[str, Any]:
        names = "patch_size", "merge_size", "temporal_patch_size"
        sizes = {name: kwargs[name] for name in names}
        cut = [processor.patchify(x, **sizes) for (x,) in pixels]
        grids = [[1, h, w] for _, h, w in cut]
        return {
            "pixel_values": numpy.concatenate([x for x, _, _ in cut], axis=0),
            "image_grid_thw": numpy.array(grids, dtype=numpy.int64),
        }


class LlavaNext:
    """The picture in small, and windows of it resized and padded."""

    one_size = True  # of all pieces
    steps = ("get_image_patches", "_resize_for_patching", "_pad_for_patching",
             "_get_padding_size", "_pad_for_batching")

    @staticmethod
    def rest(kwargs: Any) -> dict[str, Any]:
        return {**kwargs, "do_pad": False}

    @staticmethod
    def pieces(
        processor: Any, kwargs: Any, have: Size, resize: Resize, rest: Rest
    ) -> list[Piece]:
        module, sides = _module(processor), kwargs["size"]
        crop = kwargs["crop_size"]
        small = sides.width, sides.height
        if not all(small):
            small = (_side(sides.shortest_edge),) * 2
        side = (crop and crop.height) or sides.height or sides.shortest_edge
        w, h = have
        grid = kwargs["image_grid_pinpoints"]
        if type(grid) is not list:
            raise TypeError("no list")  # stock says so
        best = module.select_best_resolution((h, w), grid)
        like = numpy.broadcast_to(numpy.uint8(0), (3, h, w))
        h, w = module.get_patch_output_size(like, best, "channels_first")
        (top, bottom), (left, right) = processor._get_padding_size((h, w), best)
        whole = _ops(resize(have, (w, h)))
        if any((left, top, right, bottom)):
            whole.append((PAD, left, top, right, bottom, 0, 0))
        made = [(_ops(resize(have, small)), small)]
        for y in range(0, best[0], side):
            for x in range(0, best[1], side):
                part = min(side, best[1] - x), min(side, best[0] - y)
                made.append((
                    [*whole, (jobs.CROP, x, y, *part, False)], part))
        found = []
        for ops, part in made:
            more, size = rest(part)
            found.append(Piece(ops + more, size))
        return found

    @staticmethod
    def made(
        processor: Any, kwargs: Any, have: Sequence[Size], pixels: Any
    ) -> dict[str, Any]:
        values = [numpy.array(each) for each in pixels]
        if kwargs["do_pad"]:
            values = processor._pad_for_batching(values)
        sizes = [(h, w) for w, h in have]
        return {"pixel_values": values, "image_sizes": sizes}


def _module(processor: Any) -> Any:
    return sys.modules[type(processor).__module__]


def _side(side: int | None) -> int:
    if not side:
        raise _processors._refused("size", side, "it must have both edges")
    return side


def _ops(op: Any) -> list[Any]:
    if op is None:
        raise _processors._refused("resize", op, "Pillow must do it")
    return [op] if op else []


KINDS: dict[str, Any] = {"Qwen2VL": Qwen2VL, "LlavaNext": LlavaNext}


def pixels(
    samples: Sequence[jobs.Recording],
    cut: Sequence[Sequence[Piece]],
    table: Table | None,
) -> Sequence[Sequence[Any]] | None:
    """Arrays of the pieces of each picture: a job makes those of one size.

    None: a piece has too many ops.
    """
    alike: dict[Size, list[jobs.Recording]] = {}
    places = []
    for sample, parts in zip(samples, cut):
        for ops, size in parts:
            found = alike.setdefault(size, [])
            places.append((size, len(found)))
            found.append(sample.followed_by(*ops))
            if len(found[-1].ops) > jobs.MAX_OPS:
                return None
    dtype = torch.uint8 if table is None else torch.float32
    groups = {
        (w, h): made_by(each, [table] * len(each), (3, h, w), dtype)
        for (w, h), each in alike.items()
    }
    made = {
        size: group.slots(0, len(alike[size])).numpy()
        for size, group in groups.items()
    }
    values = iter([made[size][i] for size, i in places])
    return [[next(values) for _ in parts] for parts in cut]
