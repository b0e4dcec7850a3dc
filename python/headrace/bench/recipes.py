# SPDX-License-Identifier: Apache-2.0
"""Training recipes by name: the transforms that people train with today.

    recipes.transform("moco", 224)(picture) -> tensor, or a list of views

It imports nothing of Headrace's, and a package only where a recipe needs it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LOCAL_VIEWS = 8  # of dino, beside two global ones


def loader(name: str) -> dict[str, Any]:
    """Arguments of ImageFolder that say how a recipe opens its files."""
    return {"loader": _read_image} if name == "io" else {}


def collate(name: str) -> Callable[[Any], Any] | None:
    """The function that makes a batch of samples; None: the DataLoader's."""
    if name != "timm_u8":
        return None
    from timm.data.loader import fast_collate

    made: Callable[[Any], Any] = fast_collate
    return made


def _read_image(path: str) -> Any:
    from torchvision import io

    return io.read_image(path, io.ImageReadMode.RGB)


def transform(name: str, size: int, v2: bool = False) -> Callable[..., Any]:
    """The transform of a recipe. v2: of torchvision.transforms.v2's classes.

    Raises ImportError where a package is missing, KeyError for other names.
    """
    make, _ = RECIPES[name]
    made: Callable[..., Any] = make(size, v2)
    return made


class Chance:
    """Changes a picture with probability p."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, picture: Any) -> Any:
        return picture if random.random() >= self.p else self.change(picture)

    def change(self, picture: Any) -> Any:
        raise NotImplementedError


class Blur(Chance):
    """Pillow's blur of a radius drawn from 0.1 to 2, as MoCo and DINO do."""

    def change(self, picture: Any) -> Any:
        from PIL import ImageFilter

        radius = random.uniform(0.1, 2)
        return picture.filter(ImageFilter.GaussianBlur(radius))


class Solarize(Chance):
    def change(self, picture: Any) -> Any:
        from PIL import ImageOps

        return ImageOps.solarize(picture)


class Views:
    """A list with what each of the transforms makes of a picture."""

    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> list[Any]:
        return [make(picture) for make in self.transforms]


# ---- the recipes -----------------------------------------------------------


def _module(v2: bool) -> Any:
    if v2:
        from torchvision.transforms import v2 as module

        return module
    from torchvision import transforms

    return transforms


def _tensor(v2: bool) -> list[Any]:
    t = _module(v2)
    if not v2:
        return [t.ToTensor(), t.Normalize(MEAN, STD)]
    import torch

    return [t.ToImage(), t.ToDtype(torch.float32, scale=True),
            t.Normalize(MEAN, STD)]


def _classes(
    *middle: Callable[[Any], Any], erasing: float = 0.0
) -> Callable[[int, bool], Any]:
    """torchvision's training preset with something behind the flip."""

    def make(size: int, v2: bool) -> Any:
        t = _module(v2)
        steps = [t.RandomResizedCrop(size), t.RandomHorizontalFlip(),
                 *(one(t) for one in middle), *_tensor(v2)]
        if erasing:
            steps.append(t.RandomErasing(erasing))
        return t.Compose(steps)

    return make


def _bilinear(name: str) -> Callable[[Any], Any]:
    def make(t: Any) -> Any:
        from torchvision.transforms import InterpolationMode

        kind = getattr(t, name)
        return kind(interpolation=InterpolationMode.BILINEAR)

    return make


def _tensors(size: int, v2: bool) -> Any:
    t = _module(True)
    image, *numbers = _tensor(True)
    return t.Compose([
        image, t.RandomResizedCrop(size, antialias=True),
        t.RandomHorizontalFlip(), *numbers])


def _jitter(t: Any) -> Any:
    return t.ColorJitter(0.4, 0.4, 0.4)


def _moco(size: int, v2: bool) -> Any:
    t = _module(v2)
    view = t.Compose([
        t.RandomResizedCrop(size, scale=(0.2, 1.0)),
        t.RandomApply([t.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        t.RandomGrayscale(0.2),
        Blur(0.5),
        t.RandomHorizontalFlip(),
        *_tensor(v2),
    ])
    return Views([view, view])


def _dino(size: int, v2: bool) -> Any:
    from torchvision.transforms import InterpolationMode

    t = _module(v2)

    def view(side: int, scale: tuple[float, float], *last: Any) -> Any:
        return t.Compose([
            t.RandomResizedCrop(side, scale=scale,
                                interpolation=InterpolationMode.BICUBIC),
            t.RandomHorizontalFlip(),
            t.RandomApply([t.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            t.RandomGrayscale(0.2),
            *last,
            *_tensor(v2),
        ])

    local = view(max(1, 96 * size // 224), (0.05, 0.4), Blur(0.5))
    return Views([
        view(size, (0.4, 1.0), Blur(1.0)),
        view(size, (0.4, 1.0), Blur(0.1), Solarize(0.2)),
        *[local] * LOCAL_VIEWS,
    ])


def _timm(
    policy: str, jitter: float, prefetched: bool = False
) -> Callable[[int, bool], Any]:
    def make(size: int, v2: bool) -> Any:
        from timm.data import create_transform

        return create_transform(
            size, is_training=True, auto_augment=_possible(policy),
            color_jitter=jitter, re_prob=0.25, re_mode="pixel",
            use_prefetcher=prefetched)

    return make


def _possible(policy: str) -> str:
    """timm's highest magnitude, 10, posterizes to 0 bits, which Pillow 13
    refuses: there it is 9."""
    from PIL import Image, ImageOps

    if not policy.startswith("rand"):
        return policy
    try:
        ImageOps.posterize(Image.new("L", (1, 1)), 0)
    except ValueError:
        return policy + "-mmax9"
    return policy


class Processor:
    """An image processor of transformers, for one picture."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, picture: Any) -> Any:
        made = self.processor(picture, return_tensors="pt")
        return made["pixel_values"][0]


def _vit(size: int, v2: bool) -> Any:
    import transformers

    sides = {"height": size, "width": size}
    return Processor(transformers.ViTImageProcessor(size=sides))


def _clip(size: int, v2: bool) -> Any:
    import transformers

    return Processor(transformers.CLIPImageProcessor(
        size={"shortest_edge": size},
        crop_size={"height": size, "width": size}))


# Name -> how it is made, and what it is in words.
RECIPES: dict[str, tuple[Callable[[int, bool], Any], str]] = {
    "plain": (_classes(), "RandomResizedCrop, flip"),
    "tensors": (_tensors, "v2 on tensors: ToImage, RandomResizedCrop, flip"),
    "io": (_tensors, "the same of torchvision.io.read_image"),
    "ta_wide": (
        _classes(_bilinear("TrivialAugmentWide"), erasing=0.1),
        "RandomResizedCrop, flip, TrivialAugmentWide, RandomErasing"),
    "ra": (_classes(_bilinear("RandAugment")),
           "RandomResizedCrop, flip, RandAugment"),
    "aa": (_classes(_bilinear("AutoAugment")),
           "RandomResizedCrop, flip, AutoAugment"),
    "jitter": (_classes(_jitter),
               "RandomResizedCrop, flip, ColorJitter(.4, .4, .4)"),
    "moco": (_moco, "MoCo v2's two views"),
    "dino": (_dino, f"DINO's {2 + LOCAL_VIEWS} views"),
    "timm": (_timm("rand-m9-mstd0.5-inc1", 0.4),
             "timm's rand-m9-mstd0.5-inc1, erasing"),
    "timm_u8": (_timm("rand-m9-mstd0.5-inc1", 0.4, prefetched=True),
                "the same for timm's prefetcher: bytes, by fast_collate"),
    "timm_3a": (_timm("3a", 0.3), "timm's 3a, ColorJitter(.3), erasing"),
    "hf-vit": (_vit, "transformers' ViTImageProcessor"),
    "hf-clip": (_clip, "transformers' CLIPImageProcessor"),
}
