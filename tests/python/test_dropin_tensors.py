# SPDX-License-Identifier: Apache-2.0
"""Lazy tensors: whatever is asked of one gives what stock gives, values,
types, errors. Each operation runs on fresh objects of both."""

import copy
import gc
import io
import pickle
import sys
import unittest
import warnings

import dropin_case as case  # first: it may skip this file
import numpy as np
import torch
import torchvision
from dropin_case import KINDS, digest, facts, in_fetch, on
from headrace import dropin
from headrace.dropin.torch import tensor
from PIL import Image
from torchvision.transforms import functional as F


def cut(x):
    x[..., 2:9, 3:12] = 0
    return x


def window(x):
    part = x[:, 2:9, 3:12]
    part.mul_(0)
    return x, part


def window_of(x):
    part = x[..., 2:9, 3:12]
    x.sub_(1)
    return part, x


def window_kept(x):
    part = x[..., 2:20, 3:22]
    return part.flip(-1), part[..., 1:5, 1:6], part.clone().mul_(2), x


def detached(x):
    other = x.detach()
    other.add_(1)
    return x, other


def cloned(x):
    other = x.clone()
    other.add_(1)
    return x, other


def row(x):
    first = x[0]
    first.zero_()
    return x


def iadd(x):
    y = x
    y += 1
    y /= 3
    return x, y


MEAN = torch.tensor([0.4, 0.5, 0.6])[:, None, None]
OPERATIONS = {
    "add": lambda x: x + 1,
    "radd": lambda x: 1 + x,
    "sub": lambda x: x - 0.5,
    "rsub": lambda x: 1 - x,
    "mul": lambda x: x * 3,
    "div": lambda x: x / 255,
    "div int": lambda x: x / 7,
    "rdiv": lambda x: 1 / (x + 1),
    "floor": lambda x: x // 2,
    "neg": lambda x: -x.float(),
    "clamp": lambda x: x.clamp(0.2, 0.7),
    "clip": lambda x: torch.clip(x, 0, 1),
    "float": lambda x: x.float(),
    "half": lambda x: x.half(),
    "double": lambda x: x.double(),
    "bfloat16": lambda x: x.bfloat16().float(),
    "int": lambda x: (x * 100).int(),
    "long": lambda x: (x * 100).long(),
    "bool": lambda x: x.bool(),
    "byte": lambda x: (x.float() * 200).clamp(0, 255).byte(),
    "to": lambda x: x.to(torch.float64),
    "to same": lambda x: x.to(x.dtype),
    "to copy": lambda x: x.to(x.dtype, copy=True).add_(1),
    "to cpu": lambda x: x.to("cpu"),
    "to device": lambda x: x.to(torch.device("cpu"), torch.float16),
    "to other": lambda x: x.to(torch.zeros(1, dtype=torch.float64)),
    "type": lambda x: x.type(torch.float64),
    "type name": lambda x: x.type(),
    "channels": lambda x: (x.float() - MEAN) / MEAN,
    "channels in place": lambda x: x.float().sub_(MEAN).div_(MEAN),
    "number tensor": lambda x: x * torch.tensor(3.0),
    "number double": lambda x: x * torch.tensor(3.0, dtype=torch.float64),
    "one double": lambda x: x * torch.tensor([3.0], dtype=torch.float64),
    "four dimensions": lambda x: x + MEAN[None],
    "minus zero": lambda x: (x * 0.0, x * -0.0, 1 / (x.float() * -0.0)),
    "nan": lambda x: torch.nan_to_num(x.float() / 0),
    "true and one": lambda x: (x * True, x * 1, x * 1.0),
    "alpha": lambda x: torch.add(x, 1, alpha=2),
    "rounding": lambda x: torch.div(x, 3, rounding_mode="floor"),
    "bad shape": lambda x: x + torch.zeros(7),
    "bad type": lambda x: x + "a",
    "in place type": lambda x: x.to(torch.uint8).div_(2),
    "sqrt": lambda x: x.float().sqrt(),
    "mean": lambda x: x.float().mean((1, 2)),
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max().item(),
    "clone": cloned,
    "detach": detached,
    "contiguous": lambda x: x.contiguous(),
    "cut": cut,
    "window": window,
    "window of": window_of,
    "window kept": window_kept,
    "row": row,
    "iadd": iadd,
    "flip": lambda x: x.flip(-1),
    "flip both": lambda x: x.flip((1, 2)),
    "flip channels": lambda x: x.flip(0),
    "torch.flip": lambda x: torch.flip(x, (2,)),
    "flip none": lambda x: x.flip(()),
    "slice step": lambda x: x[:, ::2, 1:5],
    "slice negative": lambda x: x[..., -9:, :-4],
    "slice all": lambda x: x[..., :, :],
    "slice empty": lambda x: x[..., 5:5, :],
    "index": lambda x: x[0, 3, 4],
    "mask": lambda x: x[x > 0.5].sum(),
    "view": lambda x: x.contiguous().view(-1)[5:9],
    "permute": lambda x: x.permute(1, 2, 0),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "stack": lambda x: torch.stack([x, x.flip(-1)]),
    "stack 1": lambda x: torch.stack([x, x], 1),
    "stack scaled": lambda x: torch.stack([x, x]) * 2.0,
    "stack channels": lambda x: torch.stack([x, x]).float().sub_(MEAN),
    "stack mixed": lambda x: torch.stack([x, x * 2]) + 1,
    "stack plain": lambda x: torch.stack([x, torch.zeros(x.shape).to(x)]),
    "stack of stacks": lambda x: torch.stack([torch.stack([x, x])] * 2),
    "cat": lambda x: torch.cat([x, x]),
    "numpy": lambda x: x.numpy().copy(),
    "asarray": lambda x: np.asarray(x).copy(),
    "tolist": lambda x: x[0, 0, :3].tolist(),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "iterate": lambda x: [part.sum().item() for part in x],
    "len": len,
    "facts": lambda x: (
        x.shape,
        x.dtype,
        x.device,
        x.ndim,
        x.dim(),
        x.size(),
        x.size(-1),
        x.stride(),
        x.is_contiguous(),
        x.numel(),
        x.nelement(),
        x.element_size(),
        x.is_floating_point(),
        x.requires_grad,
        x.layout,
        x.is_cuda,
        x.grad,
        torch.is_tensor(x),
        isinstance(x, torch.Tensor),
    ),
    "repr": lambda x: repr(x[:, :2, :2]),
    "bool of": lambda x: bool(x),
    "where": lambda x: torch.where(x > 0.5, x, torch.zeros_like(x)),
    "conv": lambda x: torch.nn.functional.avg_pool2d(x.float()[None], 2),
    "no grad": lambda x: x.requires_grad_(False) * 2,
    "grad": lambda x: (
        (y := x.float().clone().requires_grad_()),
        (y * y).sum().backward(),
        y.grad,
    )[2],
    "normalize": lambda x: F.normalize(x, [0.1] * 3, [0.3] * 3),
    "normalize ints": lambda x: F.normalize(x, [1, 0, 2], [1, 2, 3]),
    "normalize tensor": lambda x: F.normalize(x, MEAN.flatten(), [1.0] * 3),
    "normalize zero": lambda x: F.normalize(x, [0.1] * 3, [0.0] * 3),
    "normalize one": lambda x: F.normalize(x, [0.5], [0.5]),
    "normalize bad": lambda x: F.normalize(x, [0.1] * 2, [0.3] * 2),
    "normalize in place": lambda x: (
        F.normalize(x, [0.1] * 3, [0.3] * 3, inplace=True),
        x,
    ),
    "hflip": F.hflip,
    "vflip": F.vflip,
    "center_crop": lambda x: F.center_crop(x, [20, 20]),
    "F.crop": lambda x: F.crop(x, -3, 2, 30, 30),
    "F.resize": lambda x: F.resize(x, [20, 20]),
    "F.pad": lambda x: F.pad(x, [1, 2]),
    "F.erase": lambda x: F.erase(x, 1, 2, 5, 6, torch.zeros(3, 1, 1).to(x)),
    "to_pil": lambda x: F.to_pil_image(x).tobytes(),
    "convert": lambda x: F.convert_image_dtype(x, torch.float32),
    "convert 16": lambda x: F.convert_image_dtype(x, torch.int16),
    "invert": F.invert,
    "grayscale": lambda x: F.rgb_to_grayscale(x),
    "share": lambda x: x.share_memory_().is_shared(),
}


class Tensors(case.Case):
    """Operations on tensors."""

    def results(self, make):
        found = {}
        for name, operation in OPERATIONS.items():

            def run():
                result = operation(make())
                # Values last: as late as a program could ask for them.
                gc.collect() if name == "stack" else None
                return result

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = case.outcome(lambda: self.plain(run()))
        return found

    def plain(self, result):
        if isinstance(result, (list, tuple)) and not isinstance(
            result, torch.Size
        ):
            return [self.plain(part) for part in result]
        if isinstance(result, torch.Tensor):
            result = result.as_subclass(torch.Tensor)
            result = tensor.plain(result)
            raw = result.detach().contiguous().reshape(-1).view(torch.uint8)
            return (
                result.dtype,
                result.shape,
                result.stride(),
                digest(raw.numpy().tobytes()),
            )
        return facts(result)

    def check(self, make):
        for place in in_fetch, lambda run: run():
            self.check_there(place, make)

    def check_there(self, place, make):
        wanted = self.results(make)
        with on():
            found = place(lambda: self.results(make))
        for name in OPERATIONS:
            with self.subTest(name):
                self.assertEqual(
                    self.comparable(found[name]),
                    self.comparable(wanted[name]),
                )

    @staticmethod
    def comparable(result):
        """Class names in the texts of TypeErrors are ours."""
        text = repr(result)
        for name in "LazyTensor", "LazyTVImage":
            text = text.replace("'%s'" % name, "'Tensor'")
        return text.replace("'Image'", "'Tensor'")

    @staticmethod
    def image():
        return Image.open(io.BytesIO(KINDS["colour"])).resize((40, 30))

    def test_float(self):
        self.check(lambda: F.to_tensor(self.image()))

    def test_bytes(self):
        self.check(lambda: F.pil_to_tensor(self.image()))

    def test_v2(self):
        if "torchvision.transforms.v2" not in sys.modules:
            self.skipTest("this torchvision has no transforms v2")
        from torchvision.transforms.v2 import functional as F2

        self.check(lambda: F2.to_image(self.image()))

    def test_v2_operands_that_change(self):
        """Tensors in a list may be written into; numbers may not."""
        if "torchvision.transforms.v2" not in sys.modules:
            self.skipTest("this torchvision has no transforms v2")
        from torchvision.transforms.v2 import functional as F2

        def results():
            x = F2.to_dtype(F2.to_image(self.image()), torch.float32, True)
            std = torch.tensor([0.5, 0.25, 0.125])
            made = [F2.normalize(x, MEAN, list(std.unbind()))]
            std += 1
            made += [F2.normalize(x, MEAN, list(std.unbind()))]
            made += [F2.normalize(x, [0.0] * 3, [1.0] * 3)]
            made += [F2.normalize(x, [0] * 3, [1] * 3)]
            one = [torch.tensor(0.5)] * 3
            for _ in range(2):
                made += [F2.normalize(x, MEAN, one)]
                one[0] += 1
            return [self.comparable(self.plain(each)) for each in made]

        wanted = results()
        with on():
            self.assertEqual(results(), wanted)

    def test_pointwise_is_recorded(self):
        with on():
            in_fetch(self.pointwise)

    def pointwise(self):
        x = F.to_tensor(self.image())
        x = (x.sub(0.5).div_(MEAN).half() * 2).float().clone().detach()
        x = torch.clamp(x.contiguous().neg(), -1, 1).flip(-1)
        x = torch.stack([x[..., 2:9, 3:12], x[..., 3:10, 1:10]]) + 1
        self.assertIs(type(x), tensor.LazyTensor)
        self.assertNotIn("jobs", dropin.report()["totals"])
        self.assertEqual(x.shape, (2, 3, 7, 9))

    def test_tables_are_forgotten(self):
        """Random factors must not fill the memory."""
        with on():
            self.assertLess(in_fetch(self.remembered), 100)

    def remembered(self):
        x = F.to_tensor(self.image())
        for index in range(1000):
            x * (index + 0.5)
        return len(x._hr.table.results)

    def test_dead_tables_are_not_mistaken(self):
        """What is remembered belongs to a table, not to its address."""
        wanted = [self.scaled(index) for index in range(50)]
        with on():
            found = in_fetch(lambda: [self.scaled(i) for i in range(50)])
        self.assertEqual(found, wanted)

    def scaled(self, index):
        x = F.to_tensor(self.image()) * (index + 0.5)
        result = (x + 1).sum().item()
        del x
        gc.collect()
        return result

if __name__ == "__main__":
    unittest.main()
