# SPDX-License-Identifier: Apache-2.0
"""PackFolder against torchvision's ImageFolder: the same pictures, order,
draws and bits, with the drop-in and without, in any worker."""
# Long: workers start, and mostly wait.

import os
import pathlib
import pickle
import shutil
import tempfile
import unittest

import dropin_case as case
import headrace
import test_core_packs
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BATCH = 6
TRAIN = transforms.Compose([
    transforms.RandomResizedCrop(48),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])
FIVE = transforms.Compose([
    transforms.Resize(60),
    transforms.FiveCrop(48),
    transforms.Lambda(lambda crops: torch.stack(
        [transforms.functional.to_tensor(crop) for crop in crops])),
])
# Needs pixels: in a worker it has no device.
COLOUR = transforms.Compose([
    transforms.Resize((50, 60)),
    transforms.ColorJitter(0.4, 0.4, 0.4),
    transforms.ToTensor(),
])


def epochs(data, times=2, **options):
    torch.manual_seed(11)
    loader = DataLoader(data, BATCH, shuffle=True, **options)
    return [batch for _ in range(times) for batch in loader]


class Folders(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        place = pathlib.Path(cls.temporary.name)
        cls.folder = place / "pictures"
        for number, path in enumerate(
                sorted(pathlib.Path(case.Samples.photos()).rglob("*.jp*g"))):
            # Names whose order by bytes is not that of folders and files.
            name = ("a/x.jpg", "a/x/1.jpg", "a/x-y/1.jpg", "a/b.jpg",
                    "a-b/2.jpg", "B/1.JPEG", "c/z.jpg")[number % 7]
            name = name.replace(".", "%d." % number)
            to = cls.folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        # Kept as they are: not packed.
        case.noise("RGB", (70, 60)).save(cls.folder / "c/noise.png")
        for kind in "cmyk", "grey", "progressive":
            (cls.folder / "c" / (kind + ".jpg")).write_bytes(case.KINDS[kind])
        cls.path = test_core_packs.pack(cls.folder, place / "all.hrp")
        cls.place = place

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def same(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            for part, stock in zip(one, other):
                self.assert_same_tensor(part, stock)

    def both(self, transform):
        return (headrace.PackFolder(self.path, transform),
                datasets.ImageFolder(str(self.folder), transform))


class Order(Folders):
    def test_as_a_folder(self):
        ours, stock = self.both(None)
        self.assertEqual(len(ours), len(stock))
        self.assertEqual(ours.classes, stock.classes)
        self.assertEqual(ours.class_to_idx, stock.class_to_idx)
        self.assertEqual(ours.targets, stock.targets)
        self.assertEqual(ours.imgs, ours.samples)
        names = [(os.path.relpath(path, self.folder), target)
                 for path, target in stock.samples]
        self.assertEqual(ours.samples, names)
        self.assertLess(ours.packs[0].packed, len(ours))
        self.assertIn("%d pictures, 4 classes" % len(ours), repr(ours))

    def test_several_files(self):
        place = self.place / "split"
        place.mkdir()
        test_core_packs.pack(self.folder, place / "p.hrp", "--split", "3")
        paths = sorted(place.glob("*.hrp"))
        self.assertEqual(len(paths), 3)
        ours = headrace.PackFolder(paths, TRAIN)
        _, stock = self.both(TRAIN)
        self.assertEqual(ours.targets, stock.targets)
        self.same(epochs(ours), epochs(stock))

    def test_named_classes(self):
        """The program names the classes; pictures of no class are left out,
        with one warning."""
        named = {"c": 0, "a": 7}
        with self.assertWarnsRegex(UserWarning, "none of the classes"):
            ours = headrace.PackFolder(self.path, classes=named)
        _, stock = self.both(None)
        wanted = [named[stock.classes[target]] for target in stock.targets
                  if stock.classes[target] in named]
        self.assertEqual(ours.targets, wanted)
        self.assertEqual(ours.class_to_idx, named)
        self.assertEqual(ours.classes, ["c", *[""] * 6, "a"])
        self.assertEqual(len(ours) + len(ours.skipped), len(stock))
        self.assertEqual(pickle.loads(pickle.dumps(ours)).targets, wanted)
        same = headrace.PackFolder(self.path, classes=stock.classes)
        self.assertEqual(same.targets, stock.targets)
        with self.assertRaises(headrace.ReadError):
            headrace.PackFolder(self.path, classes=named, strict=True)
        with self.assertRaisesRegex(headrace.ArgumentError, "name them to"):
            headrace.Loader(same, (headrace.ops.decode(),), classes=named)

    def test_as_the_source_of_a_loader(self):
        ours, stock = self.both(None)
        steps = headrace.ops.decode(), headrace.ops.crop(3, 2, 16, 12)
        loader = headrace.Loader(ours, steps, batch=BATCH, layout="nhwc",
                                 to="torch")
        found = [batch for batch in loader]
        self.assertEqual(torch.cat([y for _, y in found]).tolist(),
                         stock.targets)
        self.assertEqual(list(loader.classes), stock.classes)
        for picture, (image, _) in zip(torch.cat([x for x, _ in found]),
                                       stock):
            self.assertEqual(picture.numpy().tobytes(),
                             image.crop((3, 2, 19, 14)).tobytes())

    def test_transforms(self):
        ours = headrace.PackFolder(self.path, lambda image: image.size,
                                   lambda target: target + 100)
        stock = datasets.ImageFolder(str(self.folder), lambda i: i.size,
                                     lambda target: target + 100)
        self.assertEqual(list(map(ours.__getitem__, range(len(ours)))),
                         list(map(stock.__getitem__, range(len(stock)))))
        with self.assertRaises(IndexError):
            ours[len(ours)]


class Bits(Folders):
    def test_pictures(self):
        ours, stock = self.both(None)
        for on in False, True:
            if on:
                headrace.set_image_backend("cpu")
            for index in range(len(ours)):
                with self.subTest(ours.samples[index][0], on=on):
                    one, other = ours[index][0], stock[index][0]
                    self.assertIsInstance(one, Image.Image)
                    self.assertEqual((one.mode, one.size),
                                     (other.mode, other.size))
                    # (A copy, or the pixels would be there already.)
                    small = one.resize((20, 30))
                    self.assertEqual(one.tobytes(), other.tobytes())
                    self.assertEqual(small.tobytes(),
                                     other.resize((20, 30)).tobytes())

    def compare(self, transform, **options):
        ours, stock = self.both(transform)
        wanted = epochs(stock, **options)
        with self.subTest("without the drop-in"):
            self.same(epochs(ours, **options), wanted)
        with headrace.image_backend("cpu"):
            headrace.dropin.report(reset=True)
            self.same(epochs(ours, **options), wanted)
            return headrace.report()

    def test_no_workers(self):
        report = self.compare(TRAIN)
        n = len(datasets.ImageFolder(str(self.folder)))
        # (PNG and CMYK are Pillow's.)
        self.assertEqual(report["totals"]["pictures"], 2 * (n - 2))
        # One a batch, and one more where a stock tensor is in it.
        self.assertLessEqual(report["totals"]["jobs"], 4 * -(-n // BATCH))

    def test_forked(self):
        self.compare(TRAIN, num_workers=2, multiprocessing_context="fork")

    def test_spawned(self):
        self.compare(TRAIN, num_workers=1, persistent_workers=True,
                     multiprocessing_context="spawn")

    def test_forkserver(self):
        self.compare(TRAIN, num_workers=1, persistent_workers=True,
                     multiprocessing_context="forkserver")

    def test_five_crops(self):
        self.compare(FIVE)

    def test_pixels_in_workers(self):
        report = self.compare(COLOUR, num_workers=1,
                              multiprocessing_context="fork")
        self.assertIn("materialised", report)

    def test_a_cache_beside_it(self):
        headrace.set_cache("1G")
        try:
            self.compare(TRAIN)
        finally:
            headrace.set_cache(None)


class Ends(Folders):
    def test_it_pickles_as_its_paths(self):
        ours, _ = self.both(None)
        other = pickle.loads(pickle.dumps(ours))
        self.assertEqual(other.samples, ours.samples)
        self.assertIs(other.packs[0], ours.packs[0])

    def test_a_recorded_picture_outlives_it(self):
        with headrace.image_backend("cpu"):
            picture = headrace.PackFolder(self.path)[0][0]
            copy = pickle.loads(pickle.dumps(picture))  # pixels
            self.assertEqual(picture.tobytes(), copy.tobytes())
            self.assertEqual(picture.info, {})

    def test_too_many_pixels(self):
        before = Image.MAX_IMAGE_PIXELS
        self.addCleanup(setattr, Image, "MAX_IMAGE_PIXELS", before)
        Image.MAX_IMAGE_PIXELS = 100
        with self.assertRaises(Image.DecompressionBombError):
            headrace.PackFolder(self.path)[0]

    def damaged(self, **options):
        """Batches that came, and what next() raised in between."""
        copy = shutil.copy(self.path, self.place / "damaged.hrp")
        wanted = headrace.PackFolder(copy).samples[4][0]
        number = headrace.PackFile(copy)[wanted].index
        test_core_packs.damage(copy, number)
        data = headrace.PackFolder(copy, TRAIN)
        batches = iter(DataLoader(data, BATCH, **options))
        with self.assertRaises(headrace.PictureError) as met:
            next(batches)
        self.assertIn(wanted, str(met.exception))
        return len(list(batches)), len(data)

    def test_a_damaged_picture(self):
        for on in False, True:
            for workers in 0, 1:
                with self.subTest(on=on, workers=workers):
                    if on:
                        headrace.set_image_backend("cpu")
                    found, n = self.damaged(num_workers=workers)
                    self.assertEqual(found, -(-n // BATCH) - 1)

    def test_no_pack_file(self):
        with self.assertRaises(headrace.ReadError):
            headrace.PackFolder(self.place / "nothing.hrp")
        with self.assertRaises(headrace.PictureError):
            headrace.PackFolder(self.folder / "c/noise.png")
