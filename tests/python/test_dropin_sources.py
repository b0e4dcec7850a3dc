# SPDX-License-Identifier: Apache-2.0
"""Where a picture comes from, and what is left to Pillow, with its reason."""

import io
import multiprocessing.reduction
import os
import pickle
import tempfile
import zipfile
from unittest import mock

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import KINDS, facts, noise, on
from headrace import dropin
from headrace.dropin.pillow import files, pictures
from PIL import Image, ImageFile
from torchvision.transforms import functional as F


class Sources(case.Case):
    """Where a picture comes from."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.path = os.path.join(held.name, "a.jpg")
        with open(self.path, "wb") as file:
            file.write(KINDS["colour"])
        self.wanted = Image.open(self.path).tobytes()

    def check(self, image):
        self.assertIs(type(image.copy()), pictures.HeadraceImage)
        self.assertEqual(image.copy().tobytes(), self.wanted)

    def test_kinds(self):
        data = KINDS["colour"]

        class Stream(io.RawIOBase):
            """Cannot seek: Pillow reads it all."""

            at = 0

            def readable(self):
                return True

            def readinto(self, buffer):
                part = data[self.at : self.at + len(buffer)]
                buffer[: len(part)] = part
                self.at += len(part)
                return len(part)

            def seek(self, *args):
                raise io.UnsupportedOperation

        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("a.jpg", data)
        with on():
            self.check(Image.open(self.path))
            self.check(Image.open(os.fsencode(self.path)))
            self.check(Image.open(io.BytesIO(data)))
            self.check(Image.open(Stream()))
            self.check(Image.open(zipfile.ZipFile(packed).open("a.jpg")))
            with open(self.path, "rb") as file:
                self.check(Image.open(file))
            with Image.open(self.path) as image:
                self.check(image)
            with open(self.path, "rb") as file:
                unlinked = Image.open(file)
                os.unlink(self.path)
                self.check(unlinked)

    def test_relative_path(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        with on():
            os.chdir(os.path.dirname(self.path))
            from torchvision.datasets.folder import pil_loader

            images = [Image.open("a.jpg").copy(), pil_loader("a.jpg")]
            os.chdir("/")
            for image in images:
                self.check(image)

    def test_loader_keeps_info(self):
        from torchvision.datasets import folder

        with open(self.path, "wb") as file:
            file.write(KINDS["turned"])
        wanted = facts(folder.pil_loader(self.path))
        with on():
            image = case.in_fetch(lambda: folder.pil_loader(self.path))
            self.assertIs(type(image), pictures.HeadraceImage)
            self.assertEqual(dict(image.getexif()), {0x112: 6})
            self.assertEqual(facts(image.copy()), wanted)
            self.assertEqual(facts(image), wanted)

    def test_between_processes(self):
        """A queue carries recordings, a pickle carries pixels."""
        with on():
            image = Image.open(self.path).crop((1, 2, 30, 40))
            value = F.to_tensor(image)
            dropin.report(reset=True)
            dumps = multiprocessing.reduction.ForkingPickler.dumps
            twins = pickle.loads(dumps([image, value]))
            self.assertIs(type(twins[0]), pictures.HeadraceImage)
            self.assertIs(type(twins[1]), torch.Tensor)
            self.assertNotIn("jobs", dropin.report()["totals"])
            self.assertEqual(twins[0].tobytes(), image.tobytes())
            self.assertTrue(torch.equal(twins[1], value))
            plain = pickle.loads(pickle.dumps(image.copy()))
            self.assertIs(type(plain), Image.Image)


class Refused(case.Case):
    """Pictures that are left to Pillow, with the reason."""

    def reasons(self, run):
        wanted = case.outcome(run)
        with on():
            self.assertEqual(case.outcome(run), wanted)
            return dropin.report().get("pillow", {})

    def test_reasons(self):
        data = KINDS["colour"]

        def opened(data=data):
            return Image.open(io.BytesIO(data))

        def edited():
            image = opened()
            image.tile = [("jpeg", (0, 0, 90, 80), 0, ("RGB", "RGB"))]
            return facts(image.copy())[1:3]

        def drafted():
            image = opened()
            image.draft("L", (30, 30))
            return facts(image.copy())

        def unknown_order():
            with mock.patch.object(pictures, "reference", None):
                return facts(opened().resize((20, 30)))

        def truncated():
            with mock.patch.object(ImageFile, "LOAD_TRUNCATED_IMAGES", True):
                return facts(opened(data[: len(data) // 2]).copy())

        for run, reason in (
            (edited, "edited tile"),
            (drafted, "draft"),
            (unknown_order, "unknown_resize_order"),
            (truncated, "LOAD_TRUNCATED_IMAGES"),
            (lambda: facts(opened(KINDS["cmyk"]).copy()), "mode CMYK"),
            (lambda: facts(opened(data[:-2]).copy()), "no end of image"),
        ):
            with self.subTest(reason):
                self.assertEqual(self.reasons(run), {reason: 1})

    def test_loader_too(self):
        from torchvision.datasets import folder

        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, "a.jpg")
            for data, reason in (
                (KINDS["cmyk"], "mode CMYK"),
                (KINDS["colour"][:-2], "no end of image"),
            ):
                with open(path, "wb") as file:
                    file.write(data)

                def run():
                    return case.in_fetch(
                        lambda: facts(folder.pil_loader(path))
                    )

                self.assertEqual(self.reasons(run), {reason: 1})

    def test_missing_scans(self):
        data = KINDS["progressive"]
        cut = data.rindex(b"\xff\xda")
        partial = data[:cut] + b"\xff\xd9"

        def run():
            return facts(Image.open(io.BytesIO(partial)).copy())

        for agree, wanted in ((True, {}), (False, {"partial progressive": 1})):
            with mock.patch.object(files, "scans_agree", agree):
                if agree and not files.scans_agree:
                    continue
                wanted_bits = case.outcome(run)
                with on():
                    if agree:
                        continue  # bits depend on the two libraries
                    self.assertEqual(case.outcome(run), wanted_bits)
                    self.assertEqual(
                        dropin.report().get("pillow", {}), wanted
                    )
        with mock.patch.object(files, "scans_agree", False), on():
            Image.open(io.BytesIO(data)).copy()
            self.assertNotIn("pillow", dropin.report())

    def test_other_formats(self):
        file = io.BytesIO()
        noise("RGB", (20, 30)).save(file, "PNG")
        with on():
            image = Image.open(file)
            self.assertEqual(image.format, "PNG")
            self.assertNotIsInstance(image, pictures.RECORDERS)
