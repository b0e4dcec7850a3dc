# SPDX-License-Identifier: Apache-2.0
"""Ops that change pixels, recorded: by which calls, in how many jobs. (That
each use gives what stock gives: programs/text/picture_uses.txt.)"""

import io
import itertools
import os
import pickle
import random
import tempfile
import unittest
import unittest.mock
import warnings

import dropin_case as case  # first: it may skip this file
import numpy as np
import torch
from dropin_case import KINDS, facts, on
from headrace import _oracle, dropin
from headrace.dropin.pillow import jobs, pictures, pixels
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision import transforms as T
from torchvision.transforms import functional as F


def _enhance(kind):
    def draw(rnd):
        factor = rnd.choice([rnd.uniform(-1, 3), 0.0, 1.0])
        return lambda image: getattr(ImageEnhance, kind)(image).enhance(factor)

    return draw


def _with(function, draw):
    def drawn(rnd):
        value = draw(rnd)
        return lambda image: function(image, value)

    return drawn


CHANGES = {
    **{kind: _enhance(kind) for kind in (
        "Brightness", "Contrast", "Color", "Sharpness")},
    "posterize": _with(ImageOps.posterize, lambda rnd: rnd.randint(1, 8)),
    "solarize": _with(ImageOps.solarize, lambda rnd: rnd.uniform(0, 256)),
    "invert": lambda rnd: ImageOps.invert,
    "equalize": lambda rnd: ImageOps.equalize,
    "autocontrast": lambda rnd: ImageOps.autocontrast,
    "contrast of most": _with(
        lambda image, cutoff: ImageOps.autocontrast(image, cutoff=cutoff),
        lambda rnd: rnd.choice([2, 0.7, (0, 3), (1.5, 0), 55, 100])),
    "blur": _with(
        lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
        lambda rnd: rnd.uniform(0, 4)),
    "box": _with(
        lambda image, radius: image.filter(ImageFilter.BoxBlur(radius)),
        lambda rnd: rnd.uniform(0, 4)),
    "kernel": _with(
        lambda image, kernel: image.filter(kernel),
        lambda rnd: rnd.choice([
            ImageFilter.SMOOTH, ImageFilter.DETAIL,
            ImageFilter.Kernel((3, 3), [rnd.uniform(-2, 9) for _ in range(9)],
                               rnd.uniform(5, 20), rnd.uniform(-9, 9))])),
    "hue": _with(F.adjust_hue, lambda rnd: rnd.uniform(-0.5, 0.5)),
    "grey": lambda rnd: lambda image: F.to_grayscale(image, 3),
    "luma": lambda rnd: lambda image: F.to_grayscale(image, 1),
    "colours": lambda rnd: lambda image: image.convert("RGB"),
    "gamma": _with(F.adjust_gamma, lambda rnd: rnd.uniform(0.3, 3)),
    "point": lambda rnd: lambda image: image.point(
        [value * 7 & 255 for value in range(256 * len(image.getbands()))]),
    "rotate": _with(
        lambda image, how: image.rotate(*how, fillcolor=9),
        lambda rnd: (rnd.uniform(0, 360), rnd.choice([0, 2, 3]),
                     rnd.random() < 0.5, rnd.choice([None, (3, 70.5)]),
                     rnd.choice([None, (2, -1)]))),
    "perspective": _with(
        lambda image, how: image.transform((50, 60), 2, *how),
        lambda rnd: ((0.9, 0.1, 2, rnd.uniform(-0.2, 0.2), 1.1, 3,
                      rnd.uniform(-0.01, 0.01), 0.001),
                     rnd.choice([0, 2, 3]))),
    "mirror": _with(
        lambda image, how: F.pad(image, *how),
        lambda rnd: ([rnd.randint(-3, 20) for _ in range(4)], 0,
                     rnd.choice(["edge", "reflect", "symmetric"]))),
}
if hasattr(T, "v2"):
    CHANGES["permute"] = _with(
        T.v2.functional.permute_channels,
        lambda rnd: rnd.choice([[2, 0, 1], torch.tensor([1, 2, 0])]))
GEOMETRY = {
    "crop": lambda rnd: lambda image: image.crop((-2, 3, 40, 50)),
    "resize": lambda rnd: lambda image: image.resize((50, 40), 2),
    "flip": lambda rnd: lambda image: image.transpose(0),
    "turn": lambda rnd: lambda image: image.transpose(2),
    "pad": lambda rnd: lambda image: ImageOps.expand(image, 3),
    "border": lambda rnd: lambda image: ImageOps.expand(image, 3, "red"),
}


def opened(kind="colour", mode="RGB"):
    return Image.open(io.BytesIO(KINDS[kind])).convert(mode)


class Data(torch.utils.data.Dataset):
    def __init__(self, transform, paths):
        self.transform = transform
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert("RGB"))


class Pixels(case.Case):
    def test_is_recorded(self):
        for name, draw in CHANGES.items():
            with self.subTest(name):
                change = draw(random.Random(3))
                wanted = facts(change(opened()))
                with on():
                    image = change(opened())
                    self.assertIs(type(image), pictures.HeadraceImage)
                    self.assertNotIn("materialised", dropin.report())
                    self.assertEqual(facts(image.copy())[1:], wanted[1:])
                    self.assertEqual(dropin.report()["totals"]["jobs"], 1)

    def test_lists(self):
        """Random lists of all of them, and of geometry between."""
        seed = random.randrange(1 << 30)
        rnd = random.Random(seed)
        kinds = [*CHANGES.items(), *GEOMETRY.items()]
        for round_ in range(120):
            kind = rnd.choice(list(KINDS))
            mode = rnd.choice(["RGB", "RGB", "L"])
            names, changes = [], []
            for _ in range(rnd.randint(1, 6)):
                name, draw = rnd.choice(kinds)
                if name == "permute" and (mode == "L" or "luma" in names):
                    continue
                names.append(name)
                changes.append(draw(rnd))

            def run():
                image = opened(kind, mode)
                for change in changes:
                    image = change(image)
                return facts(image)[1:]

            wanted = run()
            with self.subTest(f"seed {seed}", kind=kind, mode=mode, ops=names):
                with on():
                    self.assertEqual(run(), wanted)

    def test_jitter_is_one_job(self):
        """A batch of ColorJitter, grey and blur, with stock's draws."""
        transform = T.Compose([
            T.RandomResizedCrop(32), T.ColorJitter(0.4, 0.4, 0.4, 0.1),
            T.RandomGrayscale(0.3), T.RandomHorizontalFlip(),
            T.RandomApply([lambda image: image.filter(
                ImageFilter.GaussianBlur(random.uniform(0.1, 2)))]),
            T.ToTensor()])
        batches, report = self.check_batches(transform)
        self.assertNotIn("materialised", report)
        self.assertEqual(report["totals"]["jobs"], batches)

    def check_batches(self, transform, **options):
        """How many; their tensors are stock's, and its draws."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, data in enumerate(list(KINDS.values()) * 3):
                if data is KINDS["cmyk"]:
                    continue
                paths.append(os.path.join(folder, "%d.jpg" % number))
                with open(paths[-1], "wb") as file:
                    file.write(data)

            def run():
                data = Data(transform, paths)
                loader = torch.utils.data.DataLoader(data, 4, **options)
                return list(loader), torch.rand(3), random.random()

            wanted = case.stock(run)
            found, report = case.ours(run)
        self.assertEqual(facts(found), facts(wanted))
        return len(wanted[0]), report

    def test_recorded_again(self):
        """Behind torchvision's blur, of which each picture is made alone."""
        modules = [T, T.v2] if hasattr(T, "v2") else [T]
        for module, workers in itertools.product(modules, (0, 1)):
            transform = T.Compose([
                T.RandomResizedCrop(32),
                module.RandomApply([module.GaussianBlur(5)], 0.6),
                module.RandomSolarize(128, 0.5), T.RandomHorizontalFlip(),
                module.RandomApply([module.GaussianBlur(3)], 0.2),
                module.Grayscale(), T.RandomRotation(20), T.ToTensor()])
            with self.subTest(module.__name__, workers=workers):
                batches, report = self.check_batches(
                    transform, num_workers=workers)
                totals = report["totals"]
                again = totals["recorded again"]
                self.assertGreater(again, 3)
                self.assertEqual(totals["jobs"], batches + again)
                self.assertEqual(
                    totals["pictures"], totals["recorded"] + again)

    def test_recorded_again_and_looked_at(self):
        """A picture that is recorded again is one for all calls."""
        def looked(image):
            image = F.gaussian_blur(image, 3)
            pixels = np.asarray(image.copy())[3, 4].tolist()
            image = image.convert("L").convert("RGB").resize((20, 9))
            again = pickle.loads(pickle.dumps(image))
            return facts((image, again))[1:], pixels, F.to_tensor(again)

        self.check_batches(lambda image: repr(looked(image)))

    def test_what_differs_stays_stock(self):
        """An op whose pixels are not this Pillow's is not recorded."""
        number = pixels.op("adjust_hue")[0]
        rows = {number: lambda image, *_: image.transpose(0)}
        with unittest.mock.patch.dict(_oracle.STEPS, rows), on():
            self.assertEqual(pixels.refused, {"adjust_hue"})
            image = F.adjust_hue(opened(), 0.2)
            self.assertIs(type(image), Image.Image)
            self.assertEqual(
                dropin.report()["pillow"],
                {"adjust_hue: its pixels are not the library's": 1})
            image = ImageOps.equalize(opened())
            self.assertIs(type(image), pictures.HeadraceImage)
        with on():
            self.assertEqual(pixels.refused, set())

    def test_autocontrast_of_a_part_stays_stock(self):
        """It is made at once, and the report says so; so are odd cutoffs."""
        ways = [{"preserve_tone": True}, {"ignore": 3}, {"cutoff": -1},
                {"cutoff": (1, 2, 3)}, {"mask": opened().convert("L")}]
        wanted = [facts(ImageOps.autocontrast(opened(), **how)) for how in ways]
        with on():
            for how, facts_wanted in zip(ways, wanted):
                image = ImageOps.autocontrast(opened(), **how)
                self.assertIs(type(image), Image.Image, how)
                self.assertEqual(facts(image), facts_wanted, how)
            text = "autocontrast of a mask, a tone, or an odd cutoff"
            self.assertEqual(dropin.report()["pillow"], {text: len(ways)})

    def test_a_long_list(self):
        """Stock goes on where no more ops are recorded."""
        def run():
            images = [opened()]
            for step in [ImageOps.invert, ImageOps.equalize] * 20:
                images.append(step(images[-1]))
            return images

        wanted = facts(run()[-1])
        with on():
            images = run()
            kinds = [type(image) is pictures.HeadraceImage for image in images]
            # (Stock has had the last one made.)
            most = jobs.MAX_OPS - len(pictures.recording(images[0]).ops)
            self.assertEqual(kinds, [i < most for i in range(len(kinds))])
            self.assertEqual(facts(images[-1]), wanted)

    def test_enhancers_share_a_picture(self):
        """Each records; the picture itself is not made."""
        def run():
            image = opened()
            parts = [ImageEnhance.Contrast(image), ImageEnhance.Color(image)]
            return [
                part.enhance(factor) for part in parts for factor in (0.3, 2)
            ], image

        wanted = facts(run()[0])
        with on():
            made, image = run()
            self.assertIs(type(image), pictures.HeadraceImage)
            for picture, want in zip(made, wanted[1]):
                self.assertIs(type(picture), pictures.HeadraceImage)
                self.assertEqual(facts(picture)[1:], want[1:])

    def test_factors_of_torchvision(self):
        """One op is recorded, without an enhancer, or stock says what is
        wrong."""
        names = "brightness", "contrast", "saturation", "sharpness"
        factors = 0, 0.5, 1, 1.7, -0.3, True, 1e9, float("nan"), "1", None
        for name in names:
            function = getattr(F.F_pil, "adjust_" + name)
            self.check_factors(function, name + "_factor", factors)

    def check_factors(self, function, key, factors):
        calls = [((factor,), {}) for factor in factors]
        calls += [((), {key: 0.4}), ((), {"factor": 0.4}), ((), {}),
                  ((1, 2), {})]
        calls = list(itertools.product(calls, ("RGB", "L")))

        def run(call, mode):
            image = opened("colour", mode)
            image.info["more"] = 1
            return facts(function(image, *call[0], **call[1]))[1:]

        wanted = [case.outcome(lambda: run(*call)) for call in calls]
        with on():
            for call, want in zip(calls, wanted):
                with self.subTest(key, call=call):
                    self.assertEqual(case.outcome(lambda: run(*call)), want)
        no_enhancer = unittest.mock.patch.object(
            ImageEnhance._Enhance, "enhance")
        with on(), no_enhancer as enhance:
            made = function(opened(), 0.4)
            self.assertEqual(len(made._hr.ops), len(opened()._hr.ops) + 1)
            enhance.assert_not_called()

    def assert_as_stock(self, run):
        wanted = facts(run())
        with on():
            self.assertEqual(facts(run())[1:], wanted[1:])

    def test_degenerate_of_another_picture(self):
        """An enhancer whose picture is another one since."""
        def run():
            enhancer = ImageEnhance.Color(opened())
            enhancer.image = opened("turned").resize((90, 80))
            return enhancer.enhance(0.3)

        self.assert_as_stock(run)

    def test_grey_that_changes(self):
        """A grey picture may be its own degenerate."""
        def run():
            image = opened("grey", "L")
            enhancer = ImageEnhance.Color(image)
            image.paste(0, (0, 0, 20, 20))
            return enhancer.enhance(0.5)

        self.assert_as_stock(run)

    def test_tables_that_stock_refuses(self):
        for value in (10**30, 2.5, 1e30, float("nan"), None, torch.tensor(3)):
            def outcome(value=value):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        image = opened("grey", "L").point([value] * 256)
                        return facts(image)[1:]
                except Exception as error:
                    return type(error), str(error)

            with self.subTest(value=value):
                want = outcome()
                with on():
                    self.assertEqual(outcome(), want)

    def test_border_of_a_large_picture(self):
        """Stock looks for decompression bombs in files, not there."""
        def run():
            image = opened()
            w, h = image.size
            with unittest.mock.patch.object(
                    Image, "MAX_IMAGE_PIXELS", w * h):
                return ImageOps.expand(image, 60)

        self.assert_as_stock(run)

    def test_colors_in_a_grey_picture(self):
        """Its channels are no longer one."""
        for change in (
            lambda image: image.rotate(20, fillcolor=(1, 200, 3)),
            lambda image: image.point([x // 3 for x in range(768)]),
        ):
            self.assert_as_stock(
                lambda: change(opened("grey")).convert("L"))

    def test_stays_valid_after_undo(self):
        wanted = ImageEnhance.Contrast(opened()).enhance(0.7)
        with on():
            before = ImageEnhance.Contrast(opened())
            recorded = before.enhance(0.7)
        for image in (recorded, before.enhance(0.7)):
            self.assertEqual(image.tobytes(), wanted.tobytes())

    def test_replayed(self):
        """Stock Pillow makes of a recording the pixels that the job makes."""
        rnd = random.Random(5)
        with on():
            for name, draw in CHANGES.items():
                image = draw(rnd)(opened())
                recording = pictures.recording(image)
                replayed = pictures.jobs.replay(recording)
                self.assertEqual(
                    np.asarray(replayed).tolist(), np.asarray(image).tolist(),
                    name)


if __name__ == "__main__":
    unittest.main()
