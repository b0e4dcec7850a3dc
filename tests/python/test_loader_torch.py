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
from torchvision import transforms as T
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
BICUBIC = T.InterpolationMode.BICUBIC
BILINEAR = T.InterpolationMode.BILINEAR
NUMBERS = [T.ToTensor(), T.Normalize(MEAN, STD)]


def why_no_bytes():
    """Why v2 does not resize tensors of bytes as reference torch-2 does."""
    geometry = getattr(getattr(v2, "functional", None), "_geometry", None)
    is_native = getattr(geometry, "_do_native_uint8_resize_on_cpu", None)
    if is_native is None or not is_native(
            T.InterpolationMode.BILINEAR):
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
    compose = T.Compose

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


def rows(text, **names):
    """(transforms, what stands behind them) of each line, which four spaces go
    on with."""
    for line in text.strip().replace("\n    ", " ").splitlines():
        steps, _, more = line.partition(" | ")
        yield eval(f"[{steps}]", {**globals(), **names}), more


class Evaluation(Stock):
    ROWS = """
T.Resize(80), T.CenterCrop(64), *NUMBERS
T.Resize((40, 56)), T.ToTensor()
T.Resize([72], interpolation=BICUBIC), T.Compose([T.CenterCrop((48, 64))]),
    T.PILToTensor()
T.Resize(32), T.CenterCrop((48, 700)), *NUMBERS
T.ToTensor(), T.CenterCrop((48, 700)), T.Normalize(MEAN, STD)
T.Resize(80), T.CenterCrop(64), T.PILToTensor(),
    T.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD)
"""

    def test_rows(self):
        for steps, _ in rows(self.ROWS):
            self.check(*steps)
        self.check(T.Resize(80), T.CenterCrop(64), *NUMBERS, threads=1,
                   device="cpu")

    def test_filters(self):
        for name in ("NEAREST", "BOX", "HAMMING", "LANCZOS", "BILINEAR"):
            mode = T.InterpolationMode[name]
            self.check(T.Resize((33, 35), interpolation=mode), *NUMBERS)

    def test_the_data_sets_own_list(self):
        stock = torchvision.datasets.ImageFolder(root())
        loader = headrace.Loader(stock.samples, T.Compose(
            [T.Resize((32, 32)), T.PILToTensor()]))
        y = torch.cat([y for _, y in loader])
        self.assertEqual(y.tolist(), stock.targets)


@unittest.skipUnless(v2, "needs torchvision.transforms.v2")
class EvaluationV2(Stock):
    # 1 / 255 is no float32: multiplied and divided differ in half of all bytes.
    ROWS = """
v2.Resize(80), v2.CenterCrop(64), *numbers, normalize, v2.ToPureTensor()
v2.Resize((40, 56)), *numbers
v2.Resize((40, 56)), v2.PILToTensor(), v2.ConvertImageDtype(torch.float32)
v2.Resize((40, 56)), v2.PILToTensor(), T.ConvertImageDtype(torch.float32)
v2.Resize((40, 56)), T.ToTensor(), normalize
v2.Resize([72], interpolation=BICUBIC), v2.RGB(),
    v2.Compose([v2.CenterCrop((48, 64))]), v2.PILToTensor()
v2.Identity(), v2.Resize((33, 35)), v2.ToImage(),
    v2.ToDtype(torch.uint8, scale=True)
v2.ToImage(), v2.RandomVerticalFlip(1), v2.CenterCrop((48, 700)), number,
    v2.RandomHorizontalFlip(1), normalize
"""
    # With scale and ratio of which only one window is possible.
    WINDOW = """
v2.ToImage(), v2.CenterCrop(60),
    v2.RandomResizedCrop(48, scale=(1, 1), ratio=(1, 1)), number, normalize
"""
    RESIZES = """
v2.ToImage(), v2.Resize(80, mode), v2.CenterCrop(64), number, normalize
v2.ToImage(), v2.Resize((33, 57), mode), v2.CenterCrop(64), number, normalize
v2.ToImage(), v2.Resize([300], mode), v2.CenterCrop(64), number, normalize
v2.Resize(72), v2.PILToTensor(), v2.Resize(31, mode), v2.CenterCrop(31)
"""

    def setUp(self):
        self.compose = v2.Compose
        self.number = v2.ToDtype(torch.float32, scale=True)

    def check_rows(self, text, **names):
        for steps, _ in rows(
                text, number=self.number, normalize=v2.Normalize(MEAN, STD),
                numbers=[v2.ToImage(), self.number], **names):
            self.check(*steps)

    def test_rows(self):
        self.check_rows(self.ROWS)

    @unittest.skipIf(why_no_bytes(), str(why_no_bytes()))
    def test_resizes_of_a_tensor(self):
        for name in ("BILINEAR", "BICUBIC", "LANCZOS"):
            self.check_rows(self.RESIZES, mode=T.InterpolationMode[name])
        self.check_rows(self.WINDOW)

    def test_filters(self):
        for mode in (*T.InterpolationMode, "hamming", *range(6)):
            self.check_rows("v2.Resize((33, 35), mode), *numbers", mode=mode)


# Random transforms that leave nothing to chance.
CERTAIN = """
m.ColorJitter(brightness=(1.5, 1.5))
m.ColorJitter(contrast=(0.5, 0.5)), m.Grayscale(3)
m.ColorJitter(saturation=(1.7, 1.7)), m.ColorJitter(hue=(-0.2, -0.2))
m.RandomGrayscale(1), m.RandomPosterize(3, 1)
m.RandomSolarize(99.5, 1), m.RandomEqualize(1)
m.RandomAutocontrast(1), m.RandomInvert(1)
m.RandomAdjustSharpness(2.5, 1), m.RandomInvert(0)
m.RandomRotation((33, 33), interpolation=BILINEAR, fill=9)
m.RandomRotation((90, 90)), m.RandomPerspective(p=0)
m.RandomAffine((-9, -9), scale=(0.8, 0.8), fill=(1, 2, 3), shear=(5, 5, 8, 8))
m.RandomAffine((20, 20), center=(3, 9)), m.RandomRotation((12, 12), center=(30,
    1), fill=5)
m.Pad(3), m.Pad((1, 2), fill=(9, 8, 7))
m.Pad((4, 3, 2, 1), padding_mode="reflect"), m.Pad(-2), m.Pad(5,
    padding_mode="symmetric")
m.RandomCrop(37, padding=3, fill=(200, 1, 9))
m.RandomCrop((33, 35), padding=(2, 1), padding_mode="edge")
m.RandomChoice([m.RandomInvert(1), m.Grayscale(3)], p=[0, 7])
m.RandomApply([m.RandomInvert(1), m.RandomHorizontalFlip(1)], 1)
m.RandomApply([m.RandomInvert(1)], 0)
m.RandomChoice([m.Compose([m.RandomPosterize(2, 1)]), m.RandomPosterize(2, 1)])
m.RandomApply(torch.nn.ModuleList([m.RandomSolarize(7, 1), m.RandomSolarize(70,
    1)]), 1)
"""
CERTAIN_V1 = """
T.CenterCrop(31), T.Grayscale(), T.ToTensor()
T.Grayscale(), T.Resize((31, 40)), T.RandomInvert(1), T.ToTensor(),
    T.Normalize(0.5, 0.25)
T.Resize((31, 40)), T.RandomEqualize(1), T.Grayscale(), T.RandomInvert(1),
    T.ToTensor(), T.Normalize(0.5, 0.25)
T.RandomInvert(1), T.Grayscale(), T.Resize((31, 40)), T.PILToTensor()
"""


class Certain(Stock):
    def test_v1(self):
        for steps, _ in rows(CERTAIN, m=T):
            self.check(T.Resize((31, 31)), *steps, *NUMBERS)
        for steps, _ in rows(CERTAIN_V1):
            self.check(*steps)

    @unittest.skipUnless(v2, "needs torchvision.transforms.v2")
    def test_v2(self):
        for steps, _ in rows(CERTAIN, m=v2):
            self.check(v2.Resize((31, 31)), *steps, v2.ToImage(),
                       v2.ToDtype(torch.float32, scale=True))


class ByChance(unittest.TestCase):
    """Transforms whose draws have no certain case: the ops they become."""

    def check(self, transform, text):
        steps, _ = translate([transform, T.PILToTensor()])
        self.assertEqual(ops.text(steps), f"decode,{text}")

    def test_texts(self):
        policy = T.AutoAugmentPolicy
        for module in T, v2 or T:
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
        for module in T, v2 or T:
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

        filters = T.InterpolationMode
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

    numbers = (T.ToTensor(),)

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
                image = T.Compose(self.numbers)(image)
                image = functional.normalize(image, MEAN, STD)
            else:
                self.assertEqual(op[0], ops.decode()[0])
        return image, flips

    def check(self, *steps):
        loader = headrace.Loader(
            root(), T.Compose(
                [*steps, *self.numbers, T.Normalize(MEAN, STD)]),
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
            T.RandomResizedCrop(48, scale=(0.2, 0.9),
                                         ratio=(0.5, 1.5)),
            T.RandomHorizontalFlip(),
            T.RandomVerticalFlip(0.25))
        # 48 pictures, flipped both ways independently.
        self.assertTrue(0 < flips < 48, flips)
        self.assertGreater(len(windows), 24)
        for drawn in windows:
            w, h = drawn[1][3:5]
            self.assertTrue(0.4 < w / h < 1.6, drawn)

    def test_random_crop(self):
        _, windows = self.check(T.Resize(64),
                                T.RandomCrop((40, 48), padding=4))
        self.check_padding(windows)

    def check_padding(self, windows):
        self.assertGreater(len(windows), 24)
        places = {op[1:3] for drawn in windows for op in drawn
                  if op[0] == ops.crop(0, 0, 1, 1)[0]}
        self.assertTrue(-4 <= min(min(xy) for xy in places) < 0, places)


    def test_random_crop_of_small_pictures(self):
        """Padded by what is missing, on both sides: so says torchvision."""
        _, windows = self.check(
            T.Resize((20, 24)),
            T.RandomCrop((32, 36), padding=2, pad_if_needed=True))
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


REFUSED_V2 = """
image, v2.RandomResizedCrop(8, antialias=False) | antialias
image, v2.Resize(8, interpolation=0) | no such filter
image, number, v2.Resize(8) | arithmetic
image, T.Resize(8), number | float32
v2.GaussianBlur(3), image | GaussianBlur
image, v2.RandomInvert() | arithmetic
v2.Grayscale(1), v2.RGB(), image | three channels
v2.Grayscale(1), v2.Resize((9, 9)), v2.Grayscale(3), image | three channels
v2.Grayscale(1), v2.RandomApply([v2.Grayscale(3)]), image | three channels
v2.RandomInvert(), v2.Grayscale(1), image, number, v2.Normalize([0] * 3, [1] *
    3) | one channel
v2.Grayscale(1), v2.Pad(4, fill=(3, 4, 5)), image | one channel
v2.RandomRotation(9, expand=True), image | expand
v2.RandomRotation(9, fill={"others": 7}), image | fill
v2.RandomChoice([v2.RandomInvert(), v2.Identity()] * 5, p=range(10)), image | 8
    choices
image, v2.Pad(4, fill=9) | arithmetic
v2.RandomCrop(4, padding=2, pad_if_needed=True, padding_mode="reflect"), image
    | padding_mode
v2.RandomIoUCrop(), image | RandomIoUCrop
v2.ScaleJitter((8, 8)), image | ScaleJitter
v2.Resize(4, max_size=9), image | max_size
v2.Resize(None, max_size=9), image | max_size
Resize(4), image | Resize
image, v2.ToDtype(torch.float32) | scale
image, v2.ToDtype(torch.float16, scale=True) | float32
image, number, v2.ToDtype(torch.uint8, scale=True) | float32
image, v2.ToDtype({"others": torch.float32}, scale=True) | ToDtype
number | no tensor yet
image, v2.Normalize([0], [1]) | Normalize
image, number, v2.Normalize([0], [1]), v2.CenterCrop(4) | CenterCrop
v2.RandomCrop(4, fill={"others": 7}), image | RandomCrop
v2.RandomApply([image]) | RandomApply
v2.Lambda(lambda x: x), image | Lambda
v2.Resize(4) | end in a tensor
"""
REFUSED = """
T.GaussianBlur(3), tensor | GaussianBlur
T.RandomApply([T.GaussianBlur(3)]), tensor | GaussianBlur
T.RandomApply([T.RandomCrop(4)]), tensor | keep the size
T.RandomChoice([lambda x: x]), tensor | lambda
T.RandomChoice([T.RandomInvert()] * 2, p=[0, 0]), tensor | no weight
T.RandomOrder([]), tensor | RandomOrder
T.RandomRotation(9, fill=256), tensor | fill
T.ColorJitter((0, 0)), tensor | 0 .. 0
T.RandAugment(2, 31), tensor | 0 .. 30
T.PILToTensor(), T.RandomErasing() | RandomErasing
T.Resize(4, max_size=9), tensor | max_size
Resize(4), tensor | Resize
tensor, T.Resize(4) | Resize
tensor, tensor | ToTensor
T.PILToTensor(), T.Normalize([0], [1]) | Normalize
T.RandomCrop(4, padding=1, fill=700), tensor | RandomCrop
tensor, T.RandomCrop(4, padding=1, padding_mode="edge") | arithmetic
T.RandomApply([tensor]) | RandomApply
lambda x: x, tensor | lambda
T.Resize(4) | ToTensor
"""


class Refused(unittest.TestCase):
    def check(self, compose, text, **names):
        for steps, name in rows(text, **names):
            with self.subTest(name=name), self.assertRaises(
                headrace.ArgumentError
            ) as caught:
                headrace.Loader(root(), compose(steps))
            self.assertIn(name, str(caught.exception))

    @unittest.skipUnless(v2, "needs torchvision.transforms.v2")
    def test_transforms_of_v2(self):
        class Resize(v2.Resize):
            pass

        self.check(v2.Compose, REFUSED_V2, Resize=Resize, image=v2.ToImage(),
                   number=v2.ToDtype(torch.float32, scale=True))

    def test_the_transform_is_named(self):
        class Resize(T.Resize):
            pass

        self.check(T.Compose, REFUSED, Resize=Resize, tensor=T.ToTensor())

    def test_one_transform(self):
        self.assertEqual(translate(T.ToTensor()),
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
