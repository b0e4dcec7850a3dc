# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader with torch and torchvision: the stock program's numbers."""

import gc
import io
import multiprocessing
import socket
import unittest

import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

import headrace
from headrace import ops
from headrace.compose import translate

import core_samples as samples

MEAN, STD = list(samples.MEAN), list(samples.STD)
BICUBIC = transforms.InterpolationMode.BICUBIC
NUMBERS = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]


def setUpModule():
    reference = headrace.find_reference(resize)
    if reference is None:
        raise unittest.SkipTest("resizes of this Pillow are of no reference")
    headrace.set_reference(reference)


def tearDownModule():
    headrace.set_reference(None)


def resize(pixels, width, height, filter, w, h):
    from headrace import _core

    theirs = {v: k for k, v in _core.PIL_FILTER.items()}
    picture = Image.frombytes("RGB", (width, height), pixels)
    return picture.resize((w, h), theirs[filter]).tobytes()


def root():
    return str(samples.folder() / "photos")


def picture(path):
    return Image.open(path).convert("RGB")


class Evaluation(unittest.TestCase):
    def check(self, *steps, **options):
        compose = transforms.Compose(list(steps))
        stock = torchvision.datasets.ImageFolder(root(), compose)
        want = list(torch.utils.data.DataLoader(stock, batch_size=5))
        loader = headrace.Loader(root(), compose, batch=5, **options)
        self.assertEqual(list(loader.classes), stock.classes)
        self.assertEqual(len(loader), len(want))
        for (x, y), (stock_x, stock_y) in zip(loader, want, strict=True):
            self.assertIs(type(x), torch.Tensor)
            self.assertEqual((x.dtype, x.shape),
                             (stock_x.dtype, stock_x.shape))
            self.assertTrue(torch.equal(x, stock_x), compose)
            self.assertEqual(y.dtype, torch.int64)
            self.assertTrue(torch.equal(y, stock_y))

    def test_the_usual_one(self):
        self.check(transforms.Resize(80), transforms.CenterCrop(64), *NUMBERS)
        self.check(transforms.Resize(80), transforms.CenterCrop(64), *NUMBERS,
                   threads=1, device="cpu")

    def test_numbers_without_a_mean(self):
        self.check(transforms.Resize((40, 56)), transforms.ToTensor())

    def test_bytes(self):
        self.check(transforms.Resize([72], interpolation=BICUBIC),
                   transforms.Compose([transforms.CenterCrop((48, 64))]),
                   transforms.PILToTensor())

    def test_a_crop_that_is_larger_than_the_picture(self):
        self.check(transforms.Resize(32), transforms.CenterCrop((48, 700)),
                   *NUMBERS)

    def test_filters(self):
        for name in ("NEAREST", "BOX", "HAMMING", "LANCZOS", "BILINEAR"):
            mode = transforms.InterpolationMode[name]
            self.check(transforms.Resize((33, 35), interpolation=mode),
                       *NUMBERS)

    def test_the_data_sets_own_list(self):
        stock = torchvision.datasets.ImageFolder(root())
        loader = headrace.Loader(stock.samples, transforms.Compose(
            [transforms.Resize((32, 32)), transforms.PILToTensor()]))
        y = torch.cat([y for _, y in loader])
        self.assertEqual(y.tolist(), stock.targets)


class Random(unittest.TestCase):
    """Stock functions with the windows that the loader reports."""

    def apply(self, image, drawn):
        flips = 0
        for op in drawn:
            if op[0] == ops.flip()[0]:
                flips += op[1] or op[2]
                image = functional.hflip(image) if op[1] else image
                image = functional.vflip(image) if op[2] else image
            elif op[0] == ops.crop(0, 0, 1, 1)[0]:
                x, y, w, h = op[1:5]
                image = functional.crop(image, y, x, h, w)
            elif op[0] == ops.resize(1, 1)[0]:
                self.assertIsNone(op[4])
                image = functional.resize(image, [op[2], op[1]])
            elif op[0] == ops.resize_short(1)[0]:
                image = functional.resize(image, op[1])
            elif op[0] == ops.normalize()[0]:
                image = functional.to_tensor(image)
                image = functional.normalize(image, MEAN, STD)
            else:
                self.assertEqual(op[0], ops.decode()[0])
        return image, flips

    def check(self, *steps):
        loader = headrace.Loader(
            root(), transforms.Compose([*steps, *NUMBERS]), batch=6,
            shuffle=True, seed=9)
        flips, windows = 0, set()
        for _ in range(2):
            for x, _ in loader:
                for i, index in enumerate(loader.last.indices):
                    drawn = loader.drawn(i)
                    windows.add(drawn)
                    want, flipped = self.apply(picture(loader.path(index)),
                                               drawn)
                    flips += flipped
                    self.assertTrue(torch.equal(x[i], want), drawn)
        return flips, windows

    def test_random_resized_crop_and_flips(self):
        flips, windows = self.check(
            transforms.RandomResizedCrop(48, scale=(0.2, 0.9),
                                         ratio=(0.5, 1.5)),
            transforms.RandomHorizontalFlip(),
            transforms.RandomVerticalFlip(0.25))
        # Of 48 pictures, flipped both ways independently.
        self.assertTrue(0 < flips < 48, flips)
        self.assertGreater(len(windows), 24)
        for drawn in windows:
            w, h = drawn[1][3:5]
            self.assertTrue(0.4 < w / h < 1.6, drawn)

    def test_random_crop(self):
        _, windows = self.check(transforms.Resize(64),
                                transforms.RandomCrop((40, 48), padding=4))
        self.assertGreater(len(windows), 24)


class Refused(unittest.TestCase):
    def test_the_transform_is_named(self):
        class Resize(transforms.Resize):
            pass

        tensor = transforms.ToTensor()
        for steps, name in (
            ([transforms.ColorJitter(0.5), tensor], "ColorJitter"),
            ([transforms.Resize(4, max_size=9), tensor], "max_size"),
            ([Resize(4), tensor], "Resize"),
            ([tensor, transforms.CenterCrop(4)], "CenterCrop"),
            ([tensor, tensor], "ToTensor"),
            ([transforms.PILToTensor(), transforms.Normalize([0], [1])],
             "Normalize"),
            ([transforms.RandomCrop(4, padding=(1, 2)), tensor], "RandomCrop"),
            ([transforms.RandomCrop(4, padding=1, fill=7), tensor],
             "RandomCrop"),
            ([transforms.RandomCrop(4, padding=1, padding_mode="edge"),
              tensor], "RandomCrop"),
            ([transforms.RandomApply([tensor])], "RandomApply"),
            ([lambda x: x, tensor], "lambda"),
            ([transforms.Resize(4)], "ToTensor"),
        ):
            with self.subTest(name=name), self.assertRaises(
                headrace.ArgumentError
            ) as caught:
                headrace.Loader(root(), transforms.Compose(steps))
            self.assertIn(name, str(caught.exception))

    def test_one_transform(self):
        self.assertEqual(translate(transforms.ToTensor()),
                         ((ops.decode(), ops.normalize(0.0, 1.0)), "f32"))


STEPS = (ops.decode(), ops.resize(32, 24), ops.normalize(MEAN, STD))


class Memory(unittest.TestCase):
    def test_tensors_keep_their_memory(self):
        loader = headrace.Loader(root(), STEPS, batch=2, to="torch")
        kept = [x for x, _ in loader]
        want = headrace.Pipeline(STEPS)(samples.photos()).torch()
        for _ in loader:
            pass
        self.assertTrue(torch.equal(torch.cat(kept), want))
        view = kept[0][1, 0]
        kept.clear()
        loader.close()
        del loader
        gc.collect()
        self.assertTrue(torch.equal(view, want[1, 0]))

    def test_no_copy(self):
        loader = headrace.Loader(root(), STEPS, batch=2, to="torch")
        for x, y in loader:
            self.assertEqual(x.data_ptr(), loader.last.data_ptr)
            x += 1  # the memory is the consumer's
            y += 1
        self.assertGreater(len(loader), 1)

    def test_state_is_what_torch_saves(self):
        loader = headrace.Loader(root(), STEPS, batch=5)
        next(iter(loader))
        file = io.BytesIO()
        torch.save(loader.state_dict(), file)
        file.seek(0)
        other = headrace.Loader(root(), STEPS, batch=5, threads=1)
        other.load_state_dict(torch.load(file))
        self.assertEqual(next(iter(other)) is not None, True)
        self.assertEqual(other.last.indices, (5, 6, 7, 8, 9))


def rank(number, world, port, out):
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=number, world_size=world)
    headrace.set_image_backend("cpu")
    loader = headrace.Loader(root(), STEPS, batch=4, shuffle=True, threads=1)
    out.put([i for _ in loader for i in loader.last.indices])
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@unittest.skipUnless(torch.distributed.is_available()
                     and torch.distributed.is_gloo_available(), "needs gloo")
class Distributed(unittest.TestCase):
    def test_each_rank_takes_its_shard(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("fork")
        out = context.Queue()
        ranks = [context.Process(target=rank, args=(n, 2, port, out))
                 for n in range(2)]
        for each in ranks:
            each.start()
        seen = [out.get(timeout=120) for _ in ranks]
        for each in ranks:
            each.join()
        self.assertEqual([len(part) for part in seen], [12, 12])
        self.assertEqual(sorted(sum(seen, [])), list(range(24)))


if __name__ == "__main__":
    unittest.main()
