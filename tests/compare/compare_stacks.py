# SPDX-License-Identifier: Apache-2.0
"""What people make their tensors with, as compare_cases.py wants it: each
stack resizes, crops and flips Pillow's pictures and makes tensors of them.

  Plain          Pillow and NumPy, with torchvision's sizes restated here. It
                 needs no torch; where torch is there, test_plain() holds it
                 to the real one.
  TorchvisionV1  torchvision.transforms.functional
  TorchvisionV2  torchvision.transforms.v2.functional on PIL pictures
"""
import numpy as np
from PIL import Image

PILLOW_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR, "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX, "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}


def hwc(image):
    a = np.asarray(image)
    return a[:, :, None] if a.ndim == 2 else a


def per_channel(values, n):
    return np.array(values[:n], np.float32)[:, None, None]


class Plain:
    name = "plain"
    mul = None  # both tables: by division, or by multiplication

    def describe(self):
        return f"NumPy {np.__version__}"

    def resize_short(self, im, side, filter):
        w, h = im.size
        short, long = min(w, h), max(w, h)
        if short == side:
            return im
        new = int(side * long / short)
        size = (side, new) if w <= h else (new, side)
        return im.resize(size, PILLOW_FILTERS[filter])

    def resized_crop(self, im, x, y, w, h, size, filter):
        return im.crop((x, y, x + w, y + h)).resize(
            (size[1], size[0]), PILLOW_FILTERS[filter])

    def hflip(self, im):
        return im.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    def vflip(self, im):
        return im.transpose(Image.Transpose.FLIP_TOP_BOTTOM)

    def center_crop(self, im, size):
        h, w = size
        # What is smaller is padded first: half of what lacks on the left.
        left = max(0, (w - im.width) // 2)
        top = max(0, (h - im.height) // 2)
        if w > im.width or h > im.height:
            padded = Image.new(im.mode, (max(w, im.width),
                                         max(h, im.height)))
            padded.paste(im, (left, top))
            im = padded
        x, y = round((im.width - w) / 2), round((im.height - h) / 2)
        return im.crop((x, y, x + w, y + h))

    def tensor(self, im, mean=None, std=None, mul=False):
        """C x H x W float32; mul: bytes * (1 / 255), else bytes / 255."""
        x = hwc(im).transpose(2, 0, 1).astype(np.float32)
        x = x * np.float32(1.0 / 255) if mul else x / np.float32(255)
        if mean is None:
            return x
        n = x.shape[0]
        return (x - per_channel(mean, n)) / per_channel(std, n)


class Torchvision:
    def describe(self):
        import torchvision
        return f"torchvision {torchvision.__version__} {self.name}"

    def filter(self, name):
        modes = self.F.InterpolationMode
        return {"bilinear": modes.BILINEAR, "nearest": modes.NEAREST,
                "box": modes.BOX, "hamming": modes.HAMMING,
                "bicubic": modes.BICUBIC, "lanczos": modes.LANCZOS}[name]

    def resize_short(self, im, side, filter):
        return self.F.resize(im, [side], interpolation=self.filter(filter))

    def resized_crop(self, im, x, y, w, h, size, filter):
        return self.F.resized_crop(im, y, x, h, w, size,
                                   interpolation=self.filter(filter))

    def hflip(self, im):
        return self.flips.hflip(im)

    def vflip(self, im):
        return self.flips.vflip(im)

    def center_crop(self, im, size):
        return self.F.center_crop(im, size)


class TorchvisionV1(Torchvision):
    name = "v1"
    mul = False

    def __init__(self):
        from torchvision.transforms import functional
        self.F = self.flips = functional

    def tensor(self, im, mean=None, std=None, mul=False):
        t = self.F.to_tensor(im)
        if mean is not None:
            n = t.shape[0]
            t = self.F.normalize(t, mean[:n], std[:n])
        return t.numpy()


class TorchvisionV2(Torchvision):
    name = "v2"
    mul = True

    def __init__(self):
        import torch
        from torchvision import transforms
        from torchvision.transforms import v2
        self.F, self.torch = v2.functional, torch
        self.flips = v2.functional
        self.modes = transforms.InterpolationMode

    def filter(self, name):
        return getattr(self.modes, name.upper())

    def hflip(self, im):
        return self.F.horizontal_flip(im)

    def vflip(self, im):
        return self.F.vertical_flip(im)

    def tensor(self, im, mean=None, std=None, mul=True):
        t = self.F.to_dtype(self.F.to_image(im), self.torch.float32,
                            scale=True)
        if mean is not None:
            n = t.shape[0]
            t = self.F.normalize(t, mean[:n], std[:n])
        return t.numpy()


def available():
    """(stacks, why others are not here). Plain is always the first."""
    stacks, missing = [Plain()], []
    for make in (TorchvisionV1, TorchvisionV2):
        try:
            stacks.append(make())
        except ImportError as e:
            missing.append(f"torchvision {make.name}: {e}")
    return stacks, missing


def test_plain(stacks, pictures, rng):
    """Where Plain differs from the real ones: a list of sentences."""
    faults = []
    plain = stacks[0]
    for stack in stacks[1:]:
        for im in pictures:
            side, w, h = (rng.randint(1, 90) for _ in range(3))
            filter = rng.choice(list(PILLOW_FILTERS))
            mean, std = [.1, .2, .3], [.4, .5, .6]
            box = (1, 2, max(1, im.width - 3), max(1, im.height - 3))
            for what, make in (
                    ("resize_short",
                     lambda s: hwc(s.resize_short(im, side, filter))),
                    ("center_crop", lambda s: hwc(s.center_crop(im, [h, w]))),
                    ("resized_crop", lambda s: hwc(
                        s.resized_crop(im, *box, [h, w], filter))),
                    ("hflip", lambda s: hwc(s.hflip(im))),
                    ("vflip", lambda s: hwc(s.vflip(im))),
                    ("tensor", lambda s: s.tensor(im, mul=stack.mul)),
                    ("normalize",
                     lambda s: s.tensor(im, mean, std, stack.mul))):
                if not np.array_equal(make(plain), make(stack)):
                    faults.append(f"{what} of {im.size} {im.mode} is not "
                                  f"that of torchvision {stack.name}")
    return faults
