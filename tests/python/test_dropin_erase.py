# SPDX-License-Identifier: Apache-2.0
"""Writes into windows of recorded tensors: stock against drop-in.

Erasing of torchvision and of timm's kind, one job a batch; and random programs
of writes, copies, views and other uses of a few tensors, which see the same
as with stock."""

# Long: epochs of each recipe, and each program, twice.

import math
import random
import unittest

import dropin_case as case
import torch
from torchvision import datasets
from torchvision import transforms as T

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None

NORM = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
BATCH, PROGRAMS = 8, 200


class Erasing:
    """Boxes as timm draws and writes them."""

    def __init__(self, mode, count):
        self.mode, self.count = mode, count

    def __call__(self, image):
        c, height, width = image.size()
        for _ in range(random.randint(1, self.count)):
            area = random.uniform(0.02, 1 / 3) * height * width / self.count
            ratio = math.exp(random.uniform(-1.2, 1.2))
            h = int(round(math.sqrt(area * ratio)))
            w = int(round(math.sqrt(area / ratio)))
            if w < width and h < height:
                y, x = random.randint(0, height - h), random.randint(
                    0, width - w)
                image[:, y : y + h, x : x + w] = self.pixels(c, h, w, image)
        return image

    def pixels(self, c, h, w, image):
        if self.mode == "pixel":
            return torch.empty((c, h, w), dtype=image.dtype).normal_()
        if self.mode == "rand":
            return torch.empty((c, 1, 1), dtype=image.dtype).normal_()
        return torch.zeros((c, 1, 1), dtype=image.dtype)


def recipes():
    head = [T.RandomResizedCrop(64), T.RandomHorizontalFlip()]
    numbers = [T.ToTensor(), NORM]
    found = {
        "v1": [*head, *numbers, T.RandomErasing(0.7)],
        "v1 in place": [*head, *numbers, T.RandomErasing(0.7, inplace=True)],
        "v1 colour": [
            *head, *numbers, T.RandomErasing(0.7, value=(0.1, 0.2, 0.3))],
        "v1 random": [*head, *numbers, T.RandomErasing(0.7, value="random")],
        "v1 two": [*head, *numbers, T.RandomErasing(), T.RandomErasing()],
        "v1 bytes": [*head, T.PILToTensor(), T.RandomErasing(0.7, value=9)],
        "half": [*head, *numbers, lambda x: x.half(),
                 T.RandomErasing(0.7, value="random")],
        "bfloat16": [*head, *numbers, lambda x: x.bfloat16(),
                     T.RandomErasing(0.7, value="random")],
    }
    for mode in "const", "rand", "pixel":
        found["timm " + mode] = [*head, *numbers, Erasing(mode, 3)]
    if v2 is not None:
        numbers = [
            v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3)]
        for value in 0, "random":
            found[f"v2 {value}"] = [
                v2.RandomResizedCrop(64), *numbers,
                v2.RandomErasing(0.7, value=value), v2.ToPureTensor()]
    return found


def epoch(steps, workers=0):
    def run():
        data = datasets.ImageFolder(case.Samples.photos(), T.Compose(steps))
        loader = torch.utils.data.DataLoader(
            data, BATCH, shuffle=True, num_workers=workers)
        return [
            batch for _ in range(2) for batch, _ in loader
        ]

    return run


def same(a, b):
    return (
        type(a) is type(b)
        and a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and torch.equal(
            torch.nan_to_num(a.double()), torch.nan_to_num(b.double()))
    )


class Recipes(unittest.TestCase):
    def test_recipes(self):
        for name, steps in recipes().items():
            with self.subTest(name):
                want = case.stock(epoch(steps))
                got, report = case.ours(epoch(steps))
                self.assertEqual(len(want), len(got))
                self.assertTrue(all(map(same, want, got)), name)
                self.assertEqual(report["totals"]["jobs"], len(want))
                self.assertFalse(report.get("materialised"), report)

    def test_worker(self):
        steps = recipes()["v1 random"]
        want = case.stock(epoch(steps, 1))
        got, report = case.ours(epoch(steps, 1))
        self.assertTrue(all(map(same, want, got)))
        self.assertFalse(report.get("materialised"), report)


class Late(torch.utils.data.Dataset):
    """Writes into the sample before, when its recording seems complete."""

    def __init__(self):
        steps = T.Compose([T.Resize((40, 40)), T.ToTensor()])
        self.data = datasets.ImageFolder(case.Samples.photos(), steps)
        self.last = None

    def __len__(self):
        return 8 * BATCH

    def __getitem__(self, index):
        made = self.data[index % len(self.data)][0]
        if self.last is not None and index % 3 == 0:
            self.last[..., 2:9, 5:30] = index
        self.last = made
        return made


class Begun(unittest.TestCase):
    def test_write_after_it_was_begun(self):
        """A batch of the CPU is begun while it is recorded."""
        def run():
            return list(torch.utils.data.DataLoader(Late(), 2 * BATCH))

        want = case.stock(run)
        got, report = case.ours(run, "cpu")
        self.assertTrue(all(map(same, want, got)))
        self.assertIn("begun in vain", report["totals"])


# ---- random programs ---------------------------------------------------------


def window(rnd):
    """An index that is recorded, or another one."""
    y, x = rnd.randrange(30), rnd.randrange(30)
    spans = (slice(y, y + rnd.randrange(1, 30)),
             slice(x, x + rnd.randrange(1, 30)))
    return rnd.choice([
        (..., *spans), (slice(None), *spans), (..., *spans), spans,
        (..., slice(-9, None), slice(None, -3)), (..., spans[0]),
        (0, *spans), slice(None), ..., 1, (..., slice(5, 5), slice(3, 9)),
        (..., slice(0, 20, 2), slice(None)), (slice(1, 3), *spans),
    ])


def value(rnd, part):
    """A value to write that mostly fits the part."""
    kind = rnd.randrange(9)
    if kind < 2:
        return rnd.choice([0, 1, True, 0.3, -0.0, 7, 3.9, 300, -1])
    if kind == 2:
        return torch.randn(())
    if kind == 3:
        return torch.rand(3, 1, 1)
    if kind == 4:
        return torch.randint(0, 256, (3, 1, 1))
    if kind == 5:
        return rnd.choice([
            float("nan"), torch.randn(2, 1, 1), torch.randn(3),
            torch.rand(1, 1), torch.rand(3, 1, 1, requires_grad=True),
            torch.randn(3, 5, 5), torch.tensor([float("inf")]), "x", None,
        ])
    if kind == 6:
        return torch.rand(part.shape, dtype=torch.float64)
    return torch.rand(part.shape) * rnd.choice([1, 255])


def step(rnd, made):
    """One statement; made: the variables."""
    x = rnd.choice(made)
    kind = rnd.randrange(17)
    if kind < 7:
        index = window(rnd)
        shape = torch.empty(x.shape)[index]
        x[index] = value(rnd, shape)
    elif kind == 7:
        made.append(x.clone())
    elif kind == 8:
        made.append(rnd.choice([x.detach(), x, x.contiguous(), x[...]]))
    elif kind == 9:
        x[:] = rnd.choice(made)
    elif kind == 10:
        made.append(x[window(rnd)])
    elif kind == 11:
        made.append(torch.stack([x, rnd.choice(made), x]))
    elif kind == 12:
        made.append(rnd.choice([
            lambda: x.flip(-1), lambda: x.to(torch.float16), lambda: x * 2,
            lambda: NORM(x), lambda: T.RandomErasing(1.0)(x),
            lambda: x.to(x.dtype)])())
    elif kind == 13:
        rnd.choice([x.mul_, x.add_])(2)
    elif kind == 14:
        x[window(rnd)] = rnd.choice(made)[window(rnd)]
    elif kind == 15:
        x[window(rnd)] += 1
    else:
        made.append(torch.as_tensor(float(x.double().sum())))


class Programs(torch.utils.data.Dataset):
    """Each item is a program; what it saw."""

    def __init__(self, seed):
        self.data = datasets.ImageFolder(case.Samples.photos())
        self.seed = seed

    def __len__(self):
        return PROGRAMS

    def __getitem__(self, index):
        rnd = random.Random(self.seed + index)
        torch.manual_seed(index)
        made, seen = [], []
        for _ in range(2):
            image = self.data[rnd.randrange(len(self.data))][0]
            image = T.functional.resize(image, [40, 40])
            to = rnd.choice([T.functional.to_tensor,
                             T.functional.pil_to_tensor])
            made.append(to(image))
        for _ in range(rnd.randrange(1, 9)):
            try:
                step(rnd, made)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                seen.append(f"{type(error).__name__}: {error}")
        return seen, made


def programs(seed):
    def run():
        loader = torch.utils.data.DataLoader(
            Programs(seed), 3, collate_fn=list)
        return [item for batch in loader for item in batch]

    return run


class RandomPrograms(unittest.TestCase):
    def test_as_stock(self):
        seed = random.randrange(1 << 30)
        want = case.stock(programs(seed))
        got, _ = case.ours(programs(seed))
        for index, (theirs, ours) in enumerate(zip(want, got)):
            with self.subTest(seed=seed, index=index):
                self.assertEqual(theirs[0], ours[0])
                self.assertEqual(len(theirs[1]), len(ours[1]))
                for a, b in zip(theirs[1], ours[1]):
                    self.assertTrue(same(a, b), (a.shape, b.shape, a, b))

    def test_not_finite(self):
        """The bits of a NaN depend on how torch converts it."""
        def write(x):
            x[..., 2:7, 3:9] = torch.full((3, 5, 6), float("nan"))
            return x

        run = epoch([T.Resize((40, 40)), T.ToTensor(),
                     lambda x: x.half(), write])
        got, _ = case.ours(run)
        for a, b in zip(case.stock(run), got):
            self.assertTrue(
                torch.equal(a.view(torch.int16), b.view(torch.int16)))


if __name__ == "__main__":
    unittest.main()
