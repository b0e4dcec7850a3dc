# SPDX-License-Identifier: Apache-2.0
"""The libraries that users transform with. A stack does ops one by one, as
headrace._oracle does, with functions of its own where it has them:

  Plain          none: Pillow and NumPy, with torchvision's sizes restated.
                 Where torchvision is, faults() holds it to the real one.
  TorchvisionV1  torchvision.transforms.functional
  TorchvisionV2  torchvision.transforms.v2.functional on PIL pictures
"""
import numpy as np

from headrace import _core, _oracle, ops


class Plain:
    name = "plain"
    arithmetic = None  # either

    def describe(self):
        return f"NumPy {np.__version__}"

    def apply(self, picture, steps):
        return _oracle.apply(picture, steps)


class Torchvision:
    """F: its functions. Filters are Pillow's numbers, which it knows."""

    def describe(self):
        import torchvision
        return f"torchvision {torchvision.__version__} {self.name}"

    def apply(self, picture, steps):
        for step in steps:
            own = self.rows().get(step[0])
            picture = (own(picture, *step[1:]) if own else
                       _oracle.apply(picture, (step,)))
        return picture

    def rows(self):
        F = self.F
        return {
            _core.CENTER_CROP: lambda im, w, h, *_: F.center_crop(im, [h, w]),
            _core.RESIZE: self.resize,
            _core.RESIZE_SHORT: lambda im, side, filter, *_: F.resize(
                im, [side], interpolation=self.mode(filter)),
            _core.FLIP: self.flip,
            _core.NORMALIZE: self.normalize,
        }

    def mode(self, filter):
        """Returns the stack's mode for our filter's number."""
        words = _core.OPS["resize"][2]["filter"]
        return {n: self.modes[word.upper()] for word, n in words.items()}[filter]

    def resize(self, im, w, h, filter, box, *_):
        if box:
            return _oracle.apply(im, [(_core.RESIZE, w, h, filter, box)])
        return self.F.resize(im, [h, w], interpolation=self.mode(filter))

    def flip(self, im, horizontal, vertical, transpose):
        im = _oracle.apply(im, [(_core.FLIP, False, False, transpose)])
        im = self.F.hflip(im) if horizontal else im
        return self.F.vflip(im) if vertical else im

    def normalize(self, im, mean, std, _):
        tensor = self.tensor(im)
        n = tensor.shape[0]
        return self.F.normalize(tensor, mean[:n], std[:n]).numpy()


class TorchvisionV1(Torchvision):
    name = "v1"
    arithmetic = "div"

    def __init__(self):
        from torchvision.transforms import InterpolationMode, functional
        self.F, self.modes = functional, InterpolationMode

    def tensor(self, im):
        return self.F.to_tensor(im)


class TorchvisionV2(Torchvision):
    name = "v2"
    arithmetic = "mul"

    def __init__(self):
        import torch
        from torchvision.transforms import InterpolationMode, v2
        self.F, self.torch = v2.functional, torch
        self.modes = InterpolationMode

    def tensor(self, im):
        return self.F.to_dtype(self.F.to_image(im), self.torch.float32,
                               scale=True)


def available():
    """(stacks, why others are not here). Plain is always the first."""
    stacks, missing = [Plain()], []
    for make in (TorchvisionV1, TorchvisionV2):
        try:
            stacks.append(make())
        except ImportError as e:
            missing.append(f"torchvision {make.name}: {e}")
    return stacks, missing


def faults(stacks, pictures, rng):
    """Where Plain differs from the real ones: a list of sentences."""
    found = []
    for stack in stacks[1:]:
        numbers = ops.normalize([.1, .2, .3], [.4, .5, .6],
                                arithmetic=stack.arithmetic)
        for im in pictures:
            side, w, h = (rng.randint(1, 90) for _ in range(3))
            filter = rng.choice(("nearest", "box", "bilinear", "hamming",
                                 "bicubic", "lanczos"))
            for step in (ops.resize_short(side, filter=filter),
                         ops.center_crop(w, h, pad=True),
                         ops.resize(w, h, filter=filter),
                         ops.flip(horizontal=True), ops.flip(vertical=True),
                         numbers):
                ours, theirs = (np.asarray(s.apply(im, [step]))
                                for s in (stacks[0], stack))
                if not np.array_equal(ours, theirs):
                    found.append(f"{step} of {im.size} {im.mode} is not that "
                                 f"of torchvision {stack.name}")
    return found
