# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader with torch and torchvision: the stock program's numbers."""

import gc
import io
import math
import multiprocessing
import socket
import unittest

import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

try:
    from torchvision.transforms import v2
except ImportError:  # torchvision 0.14
    v2 = None

import headrace
from headrace import ops
from headrace.compose import translate

import core_samples as samples
import torch_draws

MEAN, STD = list(samples.MEAN), list(samples.STD)
BICUBIC = transforms.InterpolationMode.BICUBIC
NUMBERS = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]


def why_no_bytes():
    """Why v2 does not resize tensors of bytes as reference torch-2 does."""
    geometry = getattr(getattr(v2, "functional", None), "_geometry", None)
    is_native = getattr(geometry, "_do_native_uint8_resize_on_cpu", None)
    if is_native is None or not is_native(
            transforms.InterpolationMode.BILINEAR):
        return "torchvision resizes tensors by float32"
    return torch_draws.why_not()


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


class Stock(unittest.TestCase):
    compose = transforms.Compose

    def check(self, *steps, **options):
        """The loader's batches are those of ImageFolder and DataLoader."""
        compose = self.compose(list(steps))
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


class Evaluation(Stock):
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

    def test_crops_of_a_tensor(self):
        self.check(transforms.ToTensor(), transforms.CenterCrop((48, 700)),
                   transforms.Normalize(MEAN, STD))

    def test_numbers_of_a_tensor_of_bytes(self):
        self.check(transforms.Resize(80), transforms.CenterCrop(64),
                   transforms.PILToTensor(),
                   transforms.ConvertImageDtype(torch.float32),
                   transforms.Normalize(MEAN, STD))

    def test_the_data_sets_own_list(self):
        stock = torchvision.datasets.ImageFolder(root())
        loader = headrace.Loader(stock.samples, transforms.Compose(
            [transforms.Resize((32, 32)), transforms.PILToTensor()]))
        y = torch.cat([y for _, y in loader])
        self.assertEqual(y.tolist(), stock.targets)


@unittest.skipUnless(v2, "needs torchvision.transforms.v2")
class EvaluationV2(Stock):
    def setUp(self):
        self.compose = v2.Compose
        self.numbers = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        self.normalize = v2.Normalize(MEAN, STD)

    def test_the_usual_one(self):
        self.check(v2.Resize(80), v2.CenterCrop(64), *self.numbers,
                   self.normalize, v2.ToPureTensor())

    def test_multiplied_and_divided(self):
        """1 / 255 is no float32: the two differ in half of all bytes."""
        self.check(v2.Resize((40, 56)), *self.numbers)
        self.check(v2.Resize((40, 56)), v2.PILToTensor(),
                   v2.ConvertImageDtype(torch.float32))
        self.check(v2.Resize((40, 56)), v2.PILToTensor(),
                   transforms.ConvertImageDtype(torch.float32))
        self.check(v2.Resize((40, 56)), transforms.ToTensor(), self.normalize)

    def test_bytes(self):
        self.check(v2.Resize([72], interpolation=BICUBIC), v2.RGB(),
                   v2.Compose([v2.CenterCrop((48, 64))]), v2.PILToTensor())
        self.check(v2.Identity(), v2.Resize((33, 35)), v2.ToImage(),
                   v2.ToDtype(torch.uint8, scale=True))

    def test_crops_and_flips_of_a_tensor(self):
        self.check(v2.ToImage(), v2.RandomVerticalFlip(1),
                   v2.CenterCrop((48, 700)),
                   v2.ToDtype(torch.float32, scale=True),
                   v2.RandomHorizontalFlip(1), self.normalize)

    @unittest.skipIf(why_no_bytes(), str(why_no_bytes()))
    def test_resizes_of_a_tensor(self):
        for name in ("BILINEAR", "BICUBIC", "LANCZOS"):
            mode = transforms.InterpolationMode[name]
            for size in (80, (33, 57), [300]):
                self.check(
                    v2.ToImage(), v2.Resize(size, interpolation=mode),
                    v2.CenterCrop(64), v2.ToDtype(torch.float32, scale=True),
                    self.normalize)
            self.check(v2.Resize(72), v2.PILToTensor(),
                       v2.Resize(31, interpolation=mode), v2.CenterCrop(31))

    @unittest.skipIf(why_no_bytes(), str(why_no_bytes()))
    def test_a_window_of_a_tensor(self):
        """With scale and ratio of which only one window is possible."""
        self.check(v2.ToImage(), v2.CenterCrop(60),
                   v2.RandomResizedCrop(48, scale=(1, 1), ratio=(1, 1)),
                   v2.ToDtype(torch.float32, scale=True), self.normalize)

    def test_filters(self):
        for mode in (*transforms.InterpolationMode, "hamming", *range(6)):
            self.check(v2.Resize((33, 35), interpolation=mode), *self.numbers)


def certain(module):
    """Random transforms that leave nothing to chance."""
    bilinear = transforms.InterpolationMode.BILINEAR
    return [
        [module.ColorJitter(brightness=(1.5, 1.5))],
        [module.ColorJitter(contrast=(0.5, 0.5)), module.Grayscale(3)],
        [module.ColorJitter(saturation=(1.7, 1.7)),
         module.ColorJitter(hue=(-0.2, -0.2))],
        [module.RandomGrayscale(1), module.RandomPosterize(3, 1)],
        [module.RandomSolarize(99.5, 1), module.RandomEqualize(1)],
        [module.RandomAutocontrast(1), module.RandomInvert(1)],
        [module.RandomAdjustSharpness(2.5, 1), module.RandomInvert(0)],
        [module.RandomRotation((33, 33), interpolation=bilinear, fill=9)],
        [module.RandomRotation((90, 90)), module.RandomPerspective(p=0)],
        [module.RandomAffine((-9, -9), scale=(0.8, 0.8), fill=(1, 2, 3),
                             shear=(5, 5, 8, 8))],
        [module.RandomAffine((20, 20), center=(3, 9)),
         module.RandomRotation((12, 12), center=(30, 1), fill=5)],
        [module.Pad(3), module.Pad((1, 2), fill=(9, 8, 7))],
        [module.Pad((4, 3, 2, 1), padding_mode="reflect"),
         module.Pad(-2), module.Pad(5, padding_mode="symmetric")],
        [module.RandomCrop(37, padding=3, fill=(200, 1, 9))],
        [module.RandomCrop((33, 35), padding=(2, 1), padding_mode="edge")],
        [module.RandomChoice([module.RandomInvert(1), module.Grayscale(3)],
                             p=[0, 7])],
        [module.RandomApply([module.RandomInvert(1),
                             module.RandomHorizontalFlip(1)], 1)],
        [module.RandomApply([module.RandomInvert(1)], 0)],
        [module.RandomChoice([module.Compose([module.RandomPosterize(2, 1)]),
                              module.RandomPosterize(2, 1)])],
        [module.RandomApply(torch.nn.ModuleList(
            [module.RandomSolarize(7, 1), module.RandomSolarize(70, 1)]), 1)],
    ]


class Certain(Stock):
    def test_v1(self):
        for steps in certain(transforms):
            self.check(transforms.Resize((31, 31)), *steps, *NUMBERS)
        self.check(transforms.CenterCrop(31), transforms.Grayscale(),
                   transforms.ToTensor())
        self.check(transforms.Grayscale(), transforms.Resize((31, 40)),
                   transforms.RandomInvert(1), transforms.ToTensor(),
                   transforms.Normalize(0.5, 0.25))
        self.check(transforms.Resize((31, 40)), transforms.RandomEqualize(1),
                   transforms.Grayscale(), transforms.RandomInvert(1),
                   transforms.ToTensor(), transforms.Normalize(0.5, 0.25))
        self.check(transforms.RandomInvert(1), transforms.Grayscale(),
                   transforms.Resize((31, 40)), transforms.PILToTensor())

    @unittest.skipUnless(v2, "needs torchvision.transforms.v2")
    def test_v2(self):
        for steps in certain(v2):
            self.check(v2.Resize((31, 31)), *steps, v2.ToImage(),
                       v2.ToDtype(torch.float32, scale=True))


class ByChance(unittest.TestCase):
    """Transforms whose draws have no certain case: the ops they become."""

    def check(self, transform, text):
        steps, _ = translate([transform, transforms.PILToTensor()])
        self.assertEqual(ops.text(steps), f"decode,{text}")

    def test_texts(self):
        policy = transforms.AutoAugmentPolicy
        for module in transforms, v2 or transforms:
            for transform, text in (
                (module.ColorJitter(0.4, (0.5, 2), 0, 0.1),
                 "color_jitter:brightness=0.6,1.4:contrast=0.5,2:hue=-0.1,0.1"),
                (module.RandomGrayscale(0.2), "random_grayscale=0.2"),
                (module.RandomRotation(30), "random_rotation=30"),
                (module.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5),
                 "random_affine:degrees=-10,10:translate=0.1,0.2:"
                 "scale=0.8,1.2:shear=-5,5,0,0:filter=nearest"),
                (module.RandomPerspective(0.4, 0.7, fill=7),
                 "random_perspective=0.4:0.7:bilinear:7"),
                (module.TrivialAugmentWide(11),
                 "trivial_augment_wide:bins=11:filter=nearest"),
                (module.RandAugment(3, 5, fill=[128.7, 2, 3]),
                 "rand_augment:num_ops=3:magnitude=5:bins=31:"
                 "filter=nearest:fill=128,2,3"),
                (module.AutoAugment(policy.SVHN), "auto_augment=svhn"),
                (module.RandomApply([module.ColorJitter(0.4)], 0.8),
                 "random_apply=0.8:1,color_jitter=0.4"),
                (module.RandomChoice([
                    module.RandomInvert(),
                    module.Compose([module.Grayscale(3),
                                    module.RandomHorizontalFlip()])]),
                 "random_choice=2,random_apply=0.5:1,invert,"
                 "random_apply=1:2,grayscale,random_hflip"),
            ):
                self.check(transform, text)

    def test_erasing(self):
        for module in transforms, v2 or transforms:
            for value in 0.5, "random", [1.0, 2.0, 3.0]:
                steps, _ = translate([
                    *NUMBERS, module.RandomErasing(0.3, value=value)])
                self.assertEqual(steps[2], ops.random_erasing(
                    0.3, value=(value,) if value == 0.5 else value))
            steps, _ = translate([NUMBERS[0], module.RandomErasing()])
            self.assertEqual(len(steps), 3)

    def test_timm(self):
        """Its classes by their names, as timm need not be there."""
        def of_timm(name, module="transforms", **fields):
            return type(name, (), {
                "__module__": "timm.data." + module, "__call__": None,
                **fields})()

        area = {"probability": 0.3, "min_area": 0.02, "max_area": 0.25,
                "log_aspect_ratio": (math.log(0.3), math.log(3.0)),
                "min_count": 1, "max_count": 1, "rand_color": False}
        for pixels in False, True:
            (*_, erasing), _ = translate([*NUMBERS, of_timm(
                "RandomErasing", "random_erasing", per_pixel=pixels, **area)])
            self.assertEqual(erasing[1:3], (0.3, (0.02, 0.25)))
            self.assertEqual(erasing[-1], pixels)
        for steps, name in (
            ([of_timm("RandAugment", "auto_augment"), NUMBERS[0]], "RandAug"),
            ([of_timm("RandomErasing", "random_erasing", per_pixel=False,
                      **area | {"max_count": 3})], "max_count"),
            ([of_timm("ResizeKeepRatio"), NUMBERS[0]], "ResizeKeepRatio"),
        ):
            steps = steps if len(steps) == 2 else [*NUMBERS, *steps]
            with self.assertRaisesRegex(headrace.ArgumentError, name):
                translate(steps)

        filters = transforms.InterpolationMode
        crop = {"size": (20, 30), "scale": (0.1, 1.0), "ratio": (0.5, 2.0)}
        steps, dtype = translate([
            of_timm("RandomResizedCropAndInterpolation", **crop,
                    interpolation=(filters.BILINEAR, filters.BICUBIC)),
            of_timm("MaybeToTensor")])
        windows = [ops.random_resized_crop(
            30, 20, scale=(0.1, 1.0), ratio=(0.5, 2.0), filter=name)
            for name in ("bilinear", "bicubic")]
        self.assertEqual((steps[1:4], dtype),
                         (ops.random_choice(*windows), "f32"))
        steps, dtype = translate([
            of_timm("RandomResizedCropAndInterpolation", **crop,
                    interpolation=filters.BICUBIC), of_timm("ToNumpy")])
        self.assertEqual((steps[1:], dtype), ((windows[1],), "u8"))


class Random(unittest.TestCase):
    """Stock functions with the windows that the loader reports."""

    numbers = (transforms.ToTensor(),)

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
                image = transforms.Compose(self.numbers)(image)
                image = functional.normalize(image, MEAN, STD)
            else:
                self.assertEqual(op[0], ops.decode()[0])
        return image, flips

    def check(self, *steps):
        loader = headrace.Loader(
            root(), transforms.Compose(
                [*steps, *self.numbers, transforms.Normalize(MEAN, STD)]),
            batch=6, shuffle=True, seed=9)
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
        # 48 pictures, flipped both ways independently.
        self.assertTrue(0 < flips < 48, flips)
        self.assertGreater(len(windows), 24)
        for drawn in windows:
            w, h = drawn[1][3:5]
            self.assertTrue(0.4 < w / h < 1.6, drawn)

    def test_random_crop(self):
        _, windows = self.check(transforms.Resize(64),
                                transforms.RandomCrop((40, 48), padding=4))
        self.check_padding(windows)

    def check_padding(self, windows):
        self.assertGreater(len(windows), 24)
        places = {op[1:3] for drawn in windows for op in drawn
                  if op[0] == ops.crop(0, 0, 1, 1)[0]}
        self.assertTrue(-4 <= min(min(xy) for xy in places) < 0, places)


    def test_random_crop_of_small_pictures(self):
        """Padded by what is missing, on both sides: so says torchvision."""
        _, windows = self.check(
            transforms.Resize((20, 24)),
            transforms.RandomCrop((32, 36), padding=2, pad_if_needed=True))
        places = {(op[1], op[2]) for drawn in windows for op in drawn
                  if op[0] == ops.crop(0, 0, 1, 1)[0]}
        self.assertGreater(len(places), 12)
        self.assertTrue(places <= {(x, y) for x in range(-10, -1)
                                   for y in range(-10, -1)}, places)


@unittest.skipUnless(v2, "needs torchvision.transforms.v2")
class RandomV2(Random):
    def setUp(self):
        self.numbers = v2.ToImage(), v2.ToDtype(torch.float32, scale=True)

    def test_random_resized_crop_and_flips(self):
        flips, windows = self.check(
            v2.RandomResizedCrop(48, scale=(0.2, 0.9), ratio=(0.5, 1.5)),
            v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(0.25))
        self.assertTrue(0 < flips < 48, flips)
        self.assertGreater(len(windows), 24)

    def test_random_crop(self):
        _, windows = self.check(v2.Resize(64),
                                v2.RandomCrop((40, 48), padding=[4]))
        self.check_padding(windows)

    def test_random_crop_of_small_pictures(self):
        _, windows = self.check(v2.Resize((20, 24)), v2.RandomCrop(
            (32, 36), padding=2, pad_if_needed=True))
        self.assertGreater(len(windows), 12)


class Refused(unittest.TestCase):
    def check(self, compose, lists):
        for steps, name in lists:
            with self.subTest(name=name), self.assertRaises(
                headrace.ArgumentError
            ) as caught:
                headrace.Loader(root(), compose(steps))
            self.assertIn(name, str(caught.exception))

    @unittest.skipUnless(v2, "needs torchvision.transforms.v2")
    def test_transforms_of_v2(self):
        class Resize(v2.Resize):
            pass

        image = v2.ToImage()
        number = v2.ToDtype(torch.float32, scale=True)
        self.check(v2.Compose, (
            ([image, v2.RandomResizedCrop(8, antialias=False)], "antialias"),
            ([image, v2.Resize(8, interpolation=0)], "no such filter"),
            ([image, number, v2.Resize(8)], "arithmetic"),
            ([image, transforms.Resize(8), number], "float32"),
            ([v2.GaussianBlur(3), image], "GaussianBlur"),
            ([image, v2.RandomInvert()], "arithmetic"),
            ([v2.Grayscale(1), v2.RGB(), image], "three channels"),
            ([v2.Grayscale(1), v2.Resize((9, 9)), v2.Grayscale(3), image],
             "three channels"),
            ([v2.Grayscale(1), v2.RandomApply([v2.Grayscale(3)]), image],
             "three channels"),
            ([v2.RandomInvert(), v2.Grayscale(1), image, number,
              v2.Normalize([0] * 3, [1] * 3)], "one channel"),
            ([v2.Grayscale(1), v2.Pad(4, fill=(3, 4, 5)), image],
             "one channel"),
            ([v2.RandomRotation(9, expand=True), image], "expand"),
            ([v2.RandomRotation(9, fill={"others": 7}), image], "fill"),
            ([v2.RandomChoice([v2.RandomInvert(), v2.Identity()] * 5,
                              p=range(10)), image], "8 choices"),
            ([image, v2.Pad(4, fill=9)], "arithmetic"),
            ([v2.RandomCrop(4, padding=2, pad_if_needed=True,
                            padding_mode="reflect"), image], "padding_mode"),
            ([v2.RandomIoUCrop(), image], "RandomIoUCrop"),
            ([v2.ScaleJitter((8, 8)), image], "ScaleJitter"),
            ([v2.Resize(4, max_size=9), image], "max_size"),
            ([v2.Resize(None, max_size=9), image], "max_size"),
            ([Resize(4), image], "Resize"),
            ([image, v2.ToDtype(torch.float32)], "scale"),
            ([image, v2.ToDtype(torch.float16, scale=True)], "float32"),
            ([image, number, v2.ToDtype(torch.uint8, scale=True)], "float32"),
            ([image, v2.ToDtype({"others": torch.float32}, scale=True)],
             "ToDtype"),
            ([number], "no tensor yet"),
            ([image, v2.Normalize([0], [1])], "Normalize"),
            ([image, number, v2.Normalize([0], [1]), v2.CenterCrop(4)],
             "CenterCrop"),
            ([v2.RandomCrop(4, fill={"others": 7}), image], "RandomCrop"),
            ([v2.RandomApply([image])], "RandomApply"),
            ([v2.Lambda(lambda x: x), image], "Lambda"),
            ([v2.Resize(4)], "end in a tensor"),
        ))

    def test_the_transform_is_named(self):
        class Resize(transforms.Resize):
            pass

        tensor = transforms.ToTensor()
        self.check(transforms.Compose, (
            ([transforms.GaussianBlur(3), tensor], "GaussianBlur"),
            ([transforms.RandomApply([transforms.GaussianBlur(3)]), tensor],
             "GaussianBlur"),
            ([transforms.RandomApply([transforms.RandomCrop(4)]), tensor],
             "keep the size"),
            ([transforms.RandomChoice([lambda x: x]), tensor], "lambda"),
            ([transforms.RandomChoice([transforms.RandomInvert()] * 2,
                                      p=[0, 0]), tensor], "no weight"),
            ([transforms.RandomOrder([]), tensor], "RandomOrder"),
            ([transforms.RandomRotation(9, fill=256), tensor], "fill"),
            ([transforms.ColorJitter((0, 0)), tensor], "0 .. 0"),
            ([transforms.RandAugment(2, 31), tensor], "0 .. 30"),
            ([transforms.PILToTensor(), transforms.RandomErasing()],
             "RandomErasing"),
            ([transforms.Resize(4, max_size=9), tensor], "max_size"),
            ([Resize(4), tensor], "Resize"),
            ([tensor, transforms.Resize(4)], "Resize"),
            ([tensor, tensor], "ToTensor"),
            ([transforms.PILToTensor(), transforms.Normalize([0], [1])],
             "Normalize"),
            ([transforms.RandomCrop(4, padding=1, fill=700), tensor],
             "RandomCrop"),
            ([tensor, transforms.RandomCrop(4, padding=1,
                                            padding_mode="edge")],
             "arithmetic"),
            ([transforms.RandomApply([tensor])], "RandomApply"),
            ([lambda x: x, tensor], "lambda"),
            ([transforms.Resize(4)], "ToTensor"),
        ))

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
