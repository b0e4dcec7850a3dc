# SPDX-License-Identifier: Apache-2.0
"""Recorded pictures: what is recorded, and made how often. (That each use of
one gives what stock gives: programs/text/picture_uses.txt.)"""

import concurrent.futures
import io
import sys

import dropin_case as case  # first: it may skip this file
import numpy as np
import torch
from dropin_case import KINDS, facts, on
from headrace import dropin
from headrace.dropin.pillow import pictures
from PIL import Image, ImageOps, JpegImagePlugin
from torchvision.transforms import functional as F


class Pictures(case.Case):
    def test_threads_share_a_picture(self):
        """As in stock, where it has its pixels: it is made once."""
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)
        data = KINDS["turned"]
        uses = (
            lambda im: im.crop((1, 2, 30, 40)).tobytes(),
            lambda im: im.convert("L").size,
            lambda im: im.tobytes(),
            lambda im: dict(im.copy().info),
        )

        def run(_):
            picture = Image.open(io.BytesIO(data)).convert("RGB")
            return list(pool.map(lambda use: use(picture), uses * 3))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            wanted = run(0)
            with on():
                for round_ in range(60):
                    self.assertEqual(run(round_), wanted)

    def test_kept_pictures_are_made_once(self):
        """By a data set; in the parent, where it has workers."""

        class Kept(torch.utils.data.Dataset):
            def __init__(self):
                self.pictures = [
                    Image.open(io.BytesIO(KINDS["colour"])).convert("RGB")
                    for _ in range(6)
                ]

            def __len__(self):
                return 6

            def __getitem__(self, index):
                picture = self.pictures[index]
                return F.to_tensor(picture.crop((1, 2, 30, 40)))

        class Late(Kept):
            def __init__(self):
                self.pictures = {}

            def __getitem__(self, index):
                if index not in self.pictures:
                    self.pictures[index] = Image.open(
                        io.BytesIO(KINDS["colour"])
                    ).resize((50, 40))
                return super().__getitem__(index)

        for kind in Kept, Late:
            for workers in 0, 2:
                if kind is Late and workers:
                    continue

                def run():
                    data = kind()
                    loader = torch.utils.data.DataLoader(
                        data, 3, num_workers=workers
                    )
                    return [[facts(x) for x in loader] for _ in range(4)]

                wanted = run()
                with self.subTest(kind.__name__, workers=workers), on():
                    self.assertEqual(run(), wanted)
                    made = dropin.report()["totals"]["pictures"]
                    self.assertLessEqual(made, 12)

    def test_is_recorded(self):
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            self.assertIs(type(image), pictures.HeadraceJpeg)
            self.assertIsInstance(image, JpegImagePlugin.JpegImageFile)
            image = image.convert("L").crop((1, 2, 30, 40)).resize((8, 9))
            self.assertEqual(len(image._hr.ops), 3)
            image = image.resize((8, 9), 2, (0, 0.5, 7, 8)).copy()
            image = ImageOps.expand(image, 2).crop((2, 2, 10, 11))
            image = image.transpose(0).rotate(90, expand=True)
            self.assertIs(type(image), pictures.HeadraceImage)
            self.assertEqual((image.size, image.mode), ((9, 8), "L"))
            report = dropin.report()
            self.assertNotIn("jobs", report["totals"])
            image.tobytes()
            self.assertIs(type(image), Image.Image)
            self.assertEqual(dropin.report()["totals"]["jobs"], 1)

    def test_stays_valid_after_undo(self):
        wanted = F.to_tensor(
            Image.open(io.BytesIO(KINDS["colour"])).crop((1, 2, 30, 40))
        )
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            part = image.crop((1, 2, 30, 40))
            lazy = F.to_tensor(part)
        self.assertTrue(torch.equal(F.to_tensor(part), wanted))
        self.assertTrue(torch.equal(lazy + 0, wanted))

    def test_luma_and_colours_decode_once(self):
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"])).convert("RGB")
            image.convert("L").histogram()
            image.histogram()
            self.assertEqual(dropin.report()["totals"]["jobs"], 1)

    def test_load_lets_go_of_the_file(self):
        with on():
            file = io.BytesIO(KINDS["colour"])
            image = Image.open(file)
            case.in_fetch(image.load)
            file.close()
            self.assertIs(type(image), pictures.HeadraceJpeg)
            image.tobytes()

    def test_size_of_recorded_ops(self):
        """Sizes and pixels of long random lists of ops."""
        draw = np.random.default_rng(3)
        for round_ in range(60):
            plan = []
            w, h = 90, 80
            for _ in range(draw.integers(1, 7)):
                kind = draw.integers(0, 4)
                if kind == 0:
                    x, y = draw.integers(-9, w - 1), draw.integers(-9, h - 1)
                    dw, dh = draw.integers(1, w + 9), draw.integers(1, h + 9)
                    if x + dw <= 0 or y + dh <= 0:
                        continue
                    plan.append(("crop", ((x, y, x + dw, y + dh),)))
                    w, h = dw, dh
                elif kind == 1:
                    w, h = draw.integers(1, 120, 2)
                    filter_ = int(draw.integers(0, 6))
                    plan.append(("resize", ((int(w), int(h)), filter_)))
                elif kind == 2:
                    method = int(draw.integers(0, 7))
                    plan.append(("transpose", (method,)))
                    if method in (2, 4, 5, 6):
                        w, h = h, w
                else:
                    plan.append(("convert", ("L" if round_ % 3 else "RGB",)))

            def run():
                image = Image.open(io.BytesIO(KINDS["colour"]))
                for name, args in plan:
                    image = getattr(image, name)(*args)
                return facts(image)[1:]

            wanted = run()
            with self.subTest(plan), on():
                self.assertEqual(run(), wanted)
