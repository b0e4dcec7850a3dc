# SPDX-License-Identifier: Apache-2.0
"""The parts of the drop-in: recorded pictures, lazy tensors, hooks.

Whatever is asked of a recorded picture or tensor must give what stock gives:
values, types, errors. Each call runs on fresh objects of both.
"""

import concurrent.futures
import contextlib
import copy
import gc
import hashlib
import io
import multiprocessing.reduction
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
from unittest import mock

try:
    import numpy as np
    import torch
    import torchvision
    from PIL import (
        Image,
        ImageChops,
        ImageDraw,
        ImageEnhance,
        ImageFile,
        ImageFilter,
        ImageOps,
        ImageStat,
        JpegImagePlugin,
    )
    from torchvision.transforms import functional as F
except ImportError as error:
    raise unittest.SkipTest("needs torch and torchvision: %s" % error)

import dropin_case as case
import headrace
from headrace import dropin
from headrace.dropin import files, hooks, jobs, memory, pillow, tensor

try:
    import torchvision.transforms.v2
except ImportError:
    pass  # before 0.15


@contextlib.contextmanager
def on():
    dropin.install()
    dropin.report(reset=True)
    try:
        yield
    finally:
        dropin.uninstall()


def saved(image, **kwargs):
    file = io.BytesIO()
    image.save(file, "JPEG", **kwargs)
    return file.getvalue()


def noise(mode, size, seed=1):
    draw = np.random.default_rng(seed)
    shape = (size[1], size[0], 3) if mode == "RGB" else size[::-1]
    return Image.fromarray(draw.integers(0, 256, shape, np.uint8), mode)


def digest(data):
    return hashlib.sha1(data).hexdigest()


def facts(result):
    """Everything about a result that a program can see."""
    if isinstance(result, Image.Image):
        info = dict(result.info)
        pixels = digest(result.tobytes())
        kind = type(result)
        return kind, result.mode, result.size, info, pixels, result.format
    if isinstance(result, np.ndarray):
        return result.dtype, result.shape, digest(result.tobytes())
    if isinstance(result, torch.Tensor):
        return (
            result.dtype,
            result.shape,
            result.stride(),
            digest(result.contiguous().numpy().tobytes()),
        )
    if isinstance(result, bytes):
        return digest(result)
    if isinstance(result, (list, tuple)):
        return type(result), [facts(part) for part in result]
    return result


def thumbnail(image, *args, **kwargs):
    image.thumbnail(*args, **kwargs)
    return image


def paste(image):
    image.paste((1, 2, 3) if image.mode == "RGB" else 5, (3, 4, 9, 8))
    return image


def put_pixel(image):
    image.putpixel((2, 3), image.getpixel((4, 5)))
    return image


def draw_line(image):
    ImageDraw.Draw(image).line((0, 0, 20, 30), fill=7)
    return image


def access(image):
    pixels = image.load()
    pixels[1, 2] = pixels[3, 4]
    return image


def exif_in_place(image):
    ImageOps.exif_transpose(image, in_place=True)
    return image


def put_alpha(image):
    image.putalpha(9)
    return image


def enhanced(image):
    image = ImageEnhance.Contrast(image).enhance(1.4)
    return ImageEnhance.Color(image).enhance(0.3)


CALLS = {
    "tobytes": lambda im: im.tobytes(),
    "copy": lambda im: im.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "convert": lambda im: im.convert(),
    "rgb": lambda im: im.convert("RGB"),
    "l": lambda im: im.convert("L"),
    "l rgb": lambda im: im.convert("L").convert("RGB"),
    "rgb l": lambda im: im.convert("RGB").convert("L"),
    "l after resize": lambda im: im.resize((20, 30)).convert("L"),
    "l after crop": lambda im: im.crop((3, 4, 40, 50)).convert("L"),
    "cmyk": lambda im: im.convert("CMYK"),
    "hsv": lambda im: im.convert("RGB").convert("HSV"),
    "matrix": lambda im: im.convert("RGB").convert("L", (1, 0, 0, 0)),
    "1": lambda im: im.convert("1"),
    "palette": lambda im: im.convert("P", palette=Image.Palette.ADAPTIVE),
    "no mode": lambda im: im.convert("nonsense"),
    "crop": lambda im: im.crop((3, 5, 40, 33)),
    "crop all": lambda im: im.crop((0, 0, *im.size)),
    "crop none": lambda im: im.crop(),
    "crop halves": lambda im: im.crop((0.5, 1.5, 20.5, 21.5)),
    "crop numpy": lambda im: im.crop(np.array([1, 2, 30, 40])),
    "crop list": lambda im: im.crop([1, 2, 30, 40]),
    "crop outside": lambda im: im.crop((-5, -6, 30, 40)),
    "crop beyond": lambda im: im.crop((10, 20, 300, 400)),
    "crop far away": lambda im: im.crop((-50, -60, -20, -30)),
    "crop far away, right": lambda im: im.crop((500, 600, 510, 610)),
    "crop empty": lambda im: im.crop((5, 5, 5, 5)),
    "crop wrong": lambda im: im.crop((9, 5, 5, 5)),
    "crop three": lambda im: im.crop((9, 5, 5)),
    "resize": lambda im: im.resize((33, 44)),
    "resize list": lambda im: im.resize([33, 44], 2),
    "resize numpy": lambda im: im.resize(np.array([33, 44])),
    "resize same": lambda im: im.resize(im.size),
    "resize up": lambda im: im.resize((200, 250), 1),
    "resize box": lambda im: im.resize((20, 30), 2, (1.5, 2.25, 50, 60.5)),
    "resize whole box": lambda im: im.resize((20, 30), 2, (0, 0, *im.size)),
    "resize nearest box": lambda im: im.resize((20, 30), 0, (1, 2, 50, 60)),
    "resize nearest half": lambda im: im.resize((20, 30), 0, (1.5, 2, 50, 60)),
    "resize bad box": lambda im: im.resize((20, 30), 2, (1, 2, 500, 60)),
    "resize empty box": lambda im: im.resize((20, 30), 2, (9, 2, 9, 60)),
    "resize gap": lambda im: im.resize((20, 30), 2, reducing_gap=2.0),
    "resize bad gap": lambda im: im.resize((20, 30), 2, reducing_gap=0.5),
    "resize zero": lambda im: im.resize((0, 30)),
    "resize negative": lambda im: im.resize((-3, 30)),
    "resize floats": lambda im: im.resize((3.5, 30)),
    "resize unknown": lambda im: im.resize((3, 30), 77),
    "resize text": lambda im: im.resize("12"),
    "resize twice": lambda im: im.resize((40, 50)).resize((20, 70), 1),
    "tall": lambda im: im.resize((30, 70)).resize((60, 9), 3),
    "many ops": lambda im: [
        im := im.transpose(index % 7) for index in range(40)
    ][-1],
    "rotate 90": lambda im: im.rotate(90, expand=True),
    "rotate 180": lambda im: im.rotate(180),
    "rotate 30": lambda im: im.rotate(30),
    "reduce": lambda im: im.reduce(2),
    "thumbnail": lambda im: thumbnail(im, (30, 30)),
    "thumbnail no gap": lambda im: thumbnail(im, (30, 30), reducing_gap=None),
    "thumbnail of copy": lambda im: thumbnail(im.convert("RGB"), (30, 30)),
    "draft": lambda im: (im.draft("L", (20, 20)), im),
    "draft after": lambda im: (im.copy(), im.draft("L", (20, 20)), im)[2],
    "split": lambda im: list(im.split()),
    "channel": lambda im: im.getchannel(0),
    "point": lambda im: im.point(lambda value: 255 - value),
    "filter": lambda im: im.filter(ImageFilter.BLUR),
    "histogram": lambda im: im.histogram(),
    "extrema": lambda im: im.getextrema(),
    "bbox": lambda im: im.getbbox(),
    "colors": lambda im: im.convert("L").getcolors(),
    "pixel": lambda im: im.getpixel((3, 4)),
    "access": access,
    "put_pixel": put_pixel,
    "paste": paste,
    "draw": draw_line,
    "alpha": put_alpha,
    "quantize": lambda im: im.quantize(16),
    "transform": lambda im: im.transform((30, 40), 0, (1, 0, 3, 0, 1, 4)),
    "effect": lambda im: im.effect_spread(0),
    "entropy": lambda im: im.entropy(),
    "exif": lambda im: dict(im.getexif()),
    "exif transpose": ImageOps.exif_transpose,
    "exif in place": exif_in_place,
    "bands": lambda im: im.getbands(),
    "palette of": lambda im: im.getpalette(),
    "info": lambda im: dict(im.convert("RGB").crop((1, 1, 9, 9)).info),
    "verify": lambda im: im.verify(),
    "seek": lambda im: im.seek(0),
    "seek 1": lambda im: im.seek(1),
    "tell": lambda im: im.tell(),
    "closed": lambda im: (im.close(), im.tobytes()),
    "closed copy": lambda im: ((c := im.copy()).close(), c.tobytes()),
    "loaded": lambda im: (im.load(), im.tile, im.fp, im.readonly)[1:],
    "save": lambda im: saved(im),
    "save keep": lambda im: saved(im, quality="keep"),
    "png": lambda im: im._repr_png_() and im.tobytes(),
    "array": np.asarray,
    "np.array": lambda im: np.array(im.convert("RGB")),
    "fromarray": lambda im: Image.fromarray(np.asarray(im)),
    "equal": lambda im: (im == im.copy(), im.copy() == im.copy()),
    "not equal": lambda im: im == im.transpose(0),
    "invert": ImageOps.invert,
    "autocontrast": ImageOps.autocontrast,
    "expand": lambda im: ImageOps.expand(im, 5),
    "expand four": lambda im: ImageOps.expand(im, (1, 2, 3, 4)),
    "expand black": lambda im: ImageOps.expand(im, (1, 2), fill="black"),
    "expand 9": lambda im: ImageOps.expand(im, 3, fill=9),
    "expand minus": lambda im: ImageOps.expand(im, -3),
    "fit": lambda im: ImageOps.fit(im, (30, 40)),
    "contain": lambda im: ImageOps.contain(im, (30, 40)),
    "grayscale": ImageOps.grayscale,
    "mirror": ImageOps.mirror,
    "chops": lambda im: ImageChops.difference(im, im.transpose(0)),
    "blend": lambda im: Image.blend(im, im.transpose(1), 0.3),
    "merge": lambda im: Image.merge("RGB", [im.convert("L")] * 3),
    "stat": lambda im: ImageStat.Stat(im).mean,
    "enhance": enhanced,
    "pickle": lambda im: pickle.loads(pickle.dumps(im)),
    "pickle copy": lambda im: pickle.loads(pickle.dumps(im.copy())),
    "attribute": lambda im: im.nonsense,
    "filename": lambda im: im.format,
    "unbound": lambda im: Image.Image.crop(im, (1, 2, 30, 40)),
    "layers": lambda im: (im.layers, im.bits, im.layer, im.quantization),
    "to_tensor": F.to_tensor,
    "pil_to_tensor": F.pil_to_tensor,
    "five_crop": lambda im: list(F.five_crop(im, [20, 20])),
    "ten_crop": lambda im: list(F.ten_crop(im, [20, 20])),
    "pad": lambda im: F.pad(im, [3, 4]),
    "pad reflect": lambda im: F.pad(im, [3, 4], padding_mode="reflect"),
    "rotate": lambda im: F.rotate(im, 20),
    "affine": lambda im: F.affine(im, 10, [1, 2], 1.2, [3, 4]),
    "hue": lambda im: F.adjust_hue(im, 0.2),
    "gamma": lambda im: F.adjust_gamma(im, 0.7),
    "posterize": lambda im: F.posterize(im, 3),
    "equalize": F.equalize,
    "to_grayscale": lambda im: F.to_grayscale(im, 3),
    "perspective": lambda im: F.perspective(
        im,
        [[0, 0], [50, 0], [50, 50], [0, 50]],
        [[2, 3], [48, 1], [50, 50], [1, 47]],
    ),
}
for _method in range(8):
    CALLS["transpose %d" % _method] = lambda im, m=_method: im.transpose(m)
for _filter in range(8):
    CALLS["filter %d" % _filter] = lambda im, f=_filter: im.resize((31, 17), f)

# Prepared with the stock class of what it is called on.
KINDS = {
    "colour": saved(noise("RGB", (90, 80)), quality=90),
    "grey": saved(noise("L", (80, 90)), quality=80),
    "turned": saved(
        noise("RGB", (70, 90)), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12"
        b"\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", dpi=(72, 90)
    ),
    "progressive": saved(noise("RGB", (75, 85)), progressive=True),
    "cmyk": saved(noise("RGB", (70, 80)).convert("CMYK")),
}


class Pictures(case.Case):
    """Calls on pictures."""

    def results(self, data):
        found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, call in CALLS.items():
                image = Image.open(io.BytesIO(data))
                found[name] = case.outcome(lambda: facts(call(image)))
        return found

    def test_calls(self):
        for kind, data in KINDS.items():
            wanted = self.results(data)
            with on():
                found = self.results(data)
            for name in CALLS:
                with self.subTest("%s, %s" % (kind, name)):
                    self.assertEqual(
                        self.neutral(found[name]), self.neutral(wanted[name])
                    )

    @staticmethod
    def neutral(result):
        """Class names in the texts of AttributeErrors are ours."""
        if isinstance(result, tuple) and result[0] is AttributeError:
            return AttributeError
        return result

    def test_mixed_calls_leave_the_picture_alone(self):
        """One object, many calls: what came before must not matter."""
        data = KINDS["colour"]

        def run():
            image = Image.open(io.BytesIO(data))
            small = image.resize((30, 40))
            grey = image.convert("L")
            image.paste(0, (0, 0, 20, 20))
            part = image.crop((5, 5, 40, 40))
            image.putpixel((6, 6), (1, 2, 3))
            return [facts(x) for x in (small, grey, part, image)]

        wanted = run()
        with on():
            self.assertEqual(run(), wanted)

    def test_info_is_of_one_picture(self):
        with on():
            first = Image.open(io.BytesIO(KINDS["turned"]))
            chain = [first, first.copy()]
            chain.append(chain[1].crop((1, 2, 30, 40)))
            for number, image in enumerate(chain):
                image.info["number"] = number
            chain.append(chain[2].copy())
            found = [image.info.get("number") for image in chain]
            self.assertEqual(found, [0, 1, 2, 2])

    def test_is_recorded(self):
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            self.assertIs(type(image), pillow.HeadraceJpeg)
            self.assertIsInstance(image, JpegImagePlugin.JpegImageFile)
            image = image.convert("L").crop((1, 2, 30, 40)).resize((8, 9))
            self.assertEqual(len(image.__dict__["_hr"][0][1]), 3)
            image = image.resize((8, 9), 2, (0, 0.5, 7, 8)).copy()
            image = ImageOps.expand(image, 2).crop((2, 2, 10, 11))
            image = image.transpose(0).rotate(90, expand=True)
            self.assertIs(type(image), pillow.HeadraceImage)
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
            enhanced(image)
            self.assertEqual(dropin.report()["totals"]["jobs"], 1)

    def test_load_lets_go_of_the_file(self):
        with on():
            file = io.BytesIO(KINDS["colour"])
            image = Image.open(file)
            image.load()
            file.close()
            self.assertIs(type(image), pillow.HeadraceJpeg)
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
        self.assertIs(type(image.copy()), pillow.HeadraceImage)
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

    def test_file_that_was_opened_and_closed(self):
        """Nothing was asked of it while it was open: stock cannot either."""

        def run():
            with open(self.path, "rb") as file:
                image = Image.open(file)
            return image.convert("RGB")

        wanted = case.outcome(run)
        with on():
            self.assertEqual(case.outcome(run), wanted)

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

    def test_file_that_changed(self):
        """An error, and not another picture."""
        with on():
            image = Image.open(self.path).copy()
            lazy = F.to_tensor(image)
            with open(self.path, "wb") as file:
                file.write(saved(noise("RGB", (90, 80), 2)))
            with self.assertRaisesRegex(headrace.PictureError, "changed"):
                image.tobytes()
            with self.assertRaisesRegex(headrace.PictureError, "a.jpg"):
                (lazy + 1).sum()
            os.unlink(self.path)
            with self.assertRaises(FileNotFoundError):
                image.tobytes()

    def test_loader_reads_a_header_once(self):
        from torchvision.datasets import folder

        os.utime(self.path, (1e9, 1e9))
        with on(), mock.patch.object(
            files, "probe", wraps=files.probe
        ) as probe:
            for _ in range(3):
                self.check(folder.pil_loader(self.path))
            self.assertEqual(probe.call_count, 1)
            with open(self.path, "wb") as file:
                file.write(KINDS["grey"])
            os.utime(self.path, (1e9, 1e9))
            self.assertEqual(folder.pil_loader(self.path).size, (80, 90))
            self.assertEqual(probe.call_count, 2)

    def test_loader_keeps_info(self):
        from torchvision.datasets import folder

        with open(self.path, "wb") as file:
            file.write(KINDS["turned"])
        wanted = facts(folder.pil_loader(self.path))
        with on():
            image = folder.pil_loader(self.path)
            self.assertIs(type(image), pillow.HeadraceImage)
            self.assertEqual(dict(image.getexif()), {0x112: 6})
            self.assertEqual(facts(image.copy()), wanted)
            self.assertEqual(facts(image), wanted)

    def test_between_processes(self):
        """A queue carries recordings, a pickle carries pixels."""
        with on():
            image = Image.open(self.path).crop((1, 2, 30, 40))
            lazy = F.to_tensor(image)
            dumps = multiprocessing.reduction.ForkingPickler.dumps
            twins = pickle.loads(dumps([image, lazy]))
            self.assertIs(type(twins[0]), pillow.HeadraceImage)
            self.assertIs(type(twins[1]), tensor.LazyTensor)
            self.assertNotIn("jobs", dropin.report()["totals"])
            self.assertEqual(twins[0].tobytes(), image.tobytes())
            self.assertTrue(torch.equal(twins[1] + 0, lazy + 0))
            plain = pickle.loads(pickle.dumps(image.copy()))
            self.assertIs(type(plain), Image.Image)


class Refused(case.Case):
    """What is left to Pillow, with its reason."""

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
            with mock.patch.object(pillow, "reference", None):
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
                (KINDS["cmyk"], "4 components"),
                (KINDS["colour"][:-2], "no end of image"),
            ):
                with open(path, "wb") as file:
                    file.write(data)
                found = self.reasons(lambda: facts(folder.pil_loader(path)))
                self.assertIn(reason, found)

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

    def test_bomb(self):
        with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 5000):
            with tempfile.TemporaryDirectory() as where:
                path = os.path.join(where, "a.jpg")
                with open(path, "wb") as file:
                    file.write(KINDS["colour"])
                from torchvision.datasets import folder

                for load in Image.open, folder.pil_loader:

                    def run():
                        with warnings.catch_warnings():
                            warnings.simplefilter("error")
                            load(path)

                    wanted = case.outcome(run)
                    self.assertTrue(issubclass(wanted[0], Warning), wanted)
                    with on():
                        self.assertEqual(case.outcome(run), wanted)

    def test_other_formats(self):
        file = io.BytesIO()
        noise("RGB", (20, 30)).save(file, "PNG")
        with on():
            image = Image.open(file)
            self.assertEqual(image.format, "PNG")
            self.assertNotIsInstance(image, pillow.RECORDERS)


class Threads(case.Case):
    """Pictures and tensors of one thread each, all at once."""

    def test_threads(self):
        datas = [KINDS["colour"], KINDS["progressive"], KINDS["turned"]]

        def run(number):
            draw = np.random.default_rng(number)
            batches = []
            for _ in range(6):
                lazies = []
                for _ in range(5):
                    image = Image.open(io.BytesIO(datas[draw.integers(3)]))
                    image = image.convert("RGB")
                    x, y = draw.integers(0, 30, 2)
                    image = image.crop((x, y, x + 31, y + 37))
                    lazy = F.to_tensor(image.resize((20, 30)))
                    lazies.append(F.normalize(lazy, [0.1] * 3, [0.3] * 3))
                if draw.integers(2):
                    batches.append(torch.utils.data.default_collate(lazies))
                else:
                    batches += [lazy.flip(-1) + 0 for lazy in lazies]
            return [tensor.plain(batch) for batch in batches]

        numbers = range(6)
        wanted = [run(number) for number in numbers]
        with on(), concurrent.futures.ThreadPoolExecutor(6) as pool:
            for found, right in zip(pool.map(run, numbers), wanted):
                for one, other in zip(found, right):
                    self.assert_same_tensor(one, other)

    def test_a_peer_that_is_changed_meanwhile(self):
        """One thread forces its tensors; one of them belongs to another
        thread by now, which works on it in place."""
        def make():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            return F.to_tensor(image.resize((20, 30)))

        wanted = [make() + 0, make().sub_(0.5) + 0]
        with on():
            mine, theirs = make(), make()
            real = jobs.failures

            def failures(job, recordings):
                if theirs is not None:
                    theirs.sub_(0.5)  # the job runs with the table before
                with mock.patch.object(jobs, "failures", real):
                    return real(job, recordings)

            with mock.patch.object(jobs, "failures", failures):
                mine.sum()
            self.assert_same_tensor(tensor.plain(mine), wanted[0])
            self.assert_same_tensor(tensor.plain(theirs), wanted[1])

    def test_import_while_another_thread_installs(self):
        """Neither may wait for the other for ever."""
        text = (
            "import importlib, sys, threading, time\n"
            "from headrace import dropin\n"
            "from headrace.dropin import hooks\n"
            "dropin.install()\n"
            "hooks._turn.acquire()\n"
            "def imports():\n"
            "    importlib.import_module('PIL.JpegImagePlugin')\n"
            "thread = threading.Thread(target=imports)\n"
            "thread.start()\n"
            "time.sleep(0.5)\n"
            "import PIL.JpegImagePlugin\n"
            "hooks._turn.release()\n"
            "thread.join()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", text],
            timeout=60,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class Errors(case.Case):
    """Damaged files: type and text of stock, at the same place or collate."""

    def test_files_of_all_kinds(self):
        for path in case.Samples.kinds() + case.Samples.bad():

            def run():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with Image.open(path) as image:
                        image = image.convert("RGB").resize((40, 30))
                        return facts(F.to_tensor(image) + 0)

            with self.subTest(path.name):
                wanted = case.outcome(run)
                with on():
                    self.assertEqual(case.outcome(run), wanted)

    def test_one_bad_sample(self):
        """It raises what stock raises; its neighbours are fine."""
        good = saved(noise("RGB", (400, 300)), quality=95, progressive=True)
        # A second start of image, before the last scan.
        last = good.rindex(b"\xff\xda")
        bad = good[:last] + b"\xff\xd8" + good[last:]
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        paths = [os.path.join(held.name, name) for name in "abc"]
        for path, data in zip(paths, (good, bad, good)):
            with open(path, "wb") as file:
                file.write(data)

        def tensor_of(path):
            image = Image.open(path).convert("RGB")
            return F.to_tensor(image.resize((30, 30)))

        def run():
            lazies = [tensor_of(path) for path in paths]
            return torch.utils.data.default_collate(lazies)

        wanted, wanted_good = case.outcome(run), tensor_of(paths[0])
        self.assertEqual(wanted[0], OSError)
        # With libraries that differ, the whole file is looked at first.
        agree = mock.patch.object(files, "scans_agree", True)
        with on(), agree:
            lazies = [tensor_of(path) for path in paths]
            self.assertEqual(
                case.outcome(lambda: torch.utils.data.default_collate(lazies)),
                wanted,
            )
            self.assertTrue(torch.equal(lazies[2] + 0, wanted_good))
            with self.assertRaises(OSError):
                lazies[1].sum()
            self.assertTrue(torch.equal(lazies[0] + 0, wanted_good))
            self.assertTrue(dropin.report()["failed"])

    def test_job_that_fails_where_pillow_does_not(self):
        """Pillow's pixels, and it is counted."""
        real = jobs.failures

        def failures(job, recordings):
            real(job, recordings)
            return [(0, "HR_ECORRUPT")]

        def run():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            return torch.utils.data.default_collate(
                [F.normalize(F.to_tensor(image), [0.5] * 3, [0.2] * 3)]
            )

        wanted = run()
        with on(), mock.patch.object(jobs, "failures", failures):
            self.assert_same_tensor(run(), wanted)


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
        wanted = self.results(make)
        with on():
            found = self.results(make)
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
            x = F.to_tensor(self.image())
            for index in range(1000):
                x * (index + 0.5)
            self.assertLess(len(x._hr.table.results), 100)

    def test_dead_tables_are_not_mistaken(self):
        """What is remembered belongs to a table, not to its address."""
        wanted = []
        for index in range(50):
            x = F.to_tensor(self.image()) * (index + 0.5)
            wanted.append((x + 1).sum().item())
        with on():
            for index in range(50):
                x = F.to_tensor(self.image()) * (index + 0.5)
                self.assertEqual((x + 1).sum().item(), wanted[index])
                del x
                gc.collect()


class Jobs(case.Case):
    """What is submitted."""

    def five(self, data):
        image = Image.open(io.BytesIO(data)).resize((60, 50))
        return torch.stack([F.to_tensor(x) for x in F.five_crop(image, 30)])

    def test_ops_that_all_begin_with_run_once(self):
        datas = [KINDS["colour"], KINDS["grey"], KINDS["progressive"]]

        def run():
            for data in datas[::2], datas[1:2]:
                yield torch.utils.data.default_collate(
                    [self.five(each) for each in data]
                )

        wanted = list(run())
        real = jobs._core.submit
        sizes = []

        def submit(samples, *args, **kwargs):
            sizes.append(len(samples))
            return real(samples, *args, **kwargs)

        with on():
            core = mock.Mock(wraps=jobs._core)
            core.submit, core.TABLE = submit, jobs._core.TABLE
            with mock.patch.object(jobs, "_core", core):
                for one, other in zip(run(), wanted):
                    self.assert_same_tensor(one, other)
        self.assertEqual(sizes, [2, 10, 1, 5])

    def test_a_bad_picture_that_is_shared(self):
        good = KINDS["progressive"]
        last = good.rindex(b"\xff\xda")
        bad = good[:last] + b"\xff\xd8" + good[last:]

        def run():
            return self.five(bad).sum()

        wanted = case.outcome(run)
        self.assertIs(wanted[0], OSError)
        # The header is looked at as if the file were fine.
        info = files.probe(good)
        with on(), mock.patch.object(files, "probe", lambda data: info):
            self.assertEqual(case.outcome(run), wanted)

    def test_exact_unless_asked_otherwise(self):
        for name, tier in (
            (None, "exact"),
            ("auto", "exact"),
            ("opencl:0", "exact"),
            ("vaapi", "close"),
        ):
            with mock.patch.object(headrace.backend, "_name", name):
                self.assertEqual(jobs._tier(), tier)

    def test_cancel_twice(self):
        with on():
            cell = F.to_tensor(self.image())._hr
            (handle,) = tensor.submit_batch([tensor.record_of_cell(cell)])
            handle.cancel()
            handle.cancel()
            result = case.outcome(handle.result)  # the job may be quicker
            if isinstance(result, tuple):
                self.assertTrue(issubclass(result[0], headrace.Error))
            else:
                self.assertEqual(result.shape, (3, 80, 90))

    @staticmethod
    def image():
        return Image.open(io.BytesIO(KINDS["colour"]))

    def test_records_of_many_sizes(self):
        """One job for each size and type; results in their order."""
        with on():
            lazies = [
                F.to_tensor(self.image().resize((20 + i % 2, 30)))
                for i in range(4)
            ] + [F.pil_to_tensor(self.image().resize((20, 30)))]
            records = [tensor.record_of(lazy) for lazy in lazies]
            wanted = [tensor.plain(lazy) for lazy in lazies]
            records = pickle.loads(pickle.dumps(records, 5))
            dropin.report(reset=True)
            handles = tensor.submit_batch(records)
            for handle, lazy in zip(handles, wanted):
                self.assert_same_tensor(handle.result(), lazy)
            self.assertEqual(dropin.report()["totals"]["jobs"], 3)


class Memory(case.Case):
    """Blocks that are used again."""

    shape = (8, 3, 224, 224)

    def setUp(self):
        memory.clear()

    def new(self):
        return memory.empty(self.shape, torch.float32)

    def test_used_again_when_nobody_looks(self):
        first = self.new()
        address = first.data_ptr()
        for hold in (
            lambda x: x[3:5, 0],
            lambda x: x.numpy(),
            lambda x: x.detach(),
            lambda x: torch.from_dlpack(x) if hasattr(x, "__dlpack__") else x,
            lambda x: x.view(-1).as_subclass(torch.nn.Parameter),
        ):
            held = hold(first)
            del first
            other = self.new()
            self.assertNotEqual(other.data_ptr(), address)
            del other, held
            first = self.new()
            self.assertEqual(first.data_ptr(), address)

    def test_little_is_kept(self):
        many = [self.new() for _ in range(9)]
        del many
        self.new()
        self.assertLessEqual(len(memory._blocks), 3)
        for _ in range(2 * memory._OLD):
            memory.empty((2, 3, 300, 300), torch.float32)
        self.assertEqual(len(memory._blocks), 1)

    def test_small_ones_are_torchs(self):
        memory.empty((3, 4), torch.uint8).resize_(1000, 1000)
        self.assertEqual(memory._blocks, [])


class Hooks(case.Case):
    """install() and uninstall()."""

    def everything(self):
        """All that could be replaced: (owner, name) -> value."""
        with on():
            found = [(hook.owner, hook.name) for hook in hooks.hooks()]
        return found

    def values(self, places):
        return [hooks.look(owner, name) for owner, name in places]

    def test_undo_leaves_everything_identical(self):
        places = self.everything()
        self.assertGreater(len(places), 8)
        before = self.values(places)
        path = list(sys.meta_path)
        for _ in range(3):
            with on():
                for old, (owner, name) in zip(before, places):
                    self.assertIsNot(hooks.look(owner, name), old)
            for old, new in zip(before, self.values(places)):
                self.assertIs(new, old)
            self.assertEqual(sys.meta_path, path)

    def test_twice_is_harmless(self):
        with on():
            first = hooks.hooks()
            dropin.install()
            self.assertEqual(hooks.hooks(), first)
        dropin.uninstall()

    def test_exception_in_with(self):
        places = self.everything()
        before = self.values(places)
        with self.assertRaises(KeyError):
            with headrace.image_backend("cpu"):
                self.assertTrue(dropin.installed())
                raise KeyError
        self.assertFalse(dropin.installed())
        for old, new in zip(before, self.values(places)):
            self.assertIs(new, old)

    def test_missing_hooks_are_named(self):
        places = self.everything()
        before = self.values(places)
        from torch.utils.data._utils import collate

        for owner, name, value in (
            (F, "to_tensor", None),
            (F, "pil_to_tensor", print),
            (torchvision.datasets.folder, "pil_loader", None),
            (collate, "default_collate_fn_map", {}),
            (Image, "OPEN", {**Image.OPEN, "JPEG": None}),
        ):
            with mock.patch.object(owner, name, value):
                with self.assertRaises(headrace.Error) as caught:
                    dropin.install()
                self.assertIn(name, str(caught.exception))
                self.assertFalse(dropin.installed())
            for old, new in zip(before, self.values(places)):
                self.assertIs(new, old)

    def test_self_test_refuses_what_differs(self):
        """Stock code that does something else than the recording."""
        stock = Image.Image.transpose

        def transpose(self, method):
            return stock(self, method + 1)

        places = self.everything()
        before = self.values(places)
        with mock.patch.object(Image.Image, "transpose", transpose):
            with self.assertRaisesRegex(headrace.Error, "16 x 24"):
                dropin.install()
        self.assertFalse(dropin.installed())
        for old, new in zip(before, self.values(places)):
            self.assertIs(new, old)

    def test_resize_of_unknown_order(self):
        """A Pillow that nobody knows: resizes are its own."""
        stock = Image.Image.resize

        def resize(self, size, resample=None, box=None, reducing_gap=None):
            image = stock(self, size, resample, box, reducing_gap)
            return image.point(lambda value: value ^ 1)

        with mock.patch.object(Image.Image, "resize", resize):
            wanted = Image.open(io.BytesIO(KINDS["colour"])).resize((20, 30))
            with on():
                self.assertIsNone(pillow.reference)
                image = Image.open(io.BytesIO(KINDS["colour"]))
                image = image.resize((20, 30))
                self.assertEqual(image.tobytes(), wanted.tobytes())
                self.assertEqual(
                    dropin.report()["pillow"]["unknown_resize_order"], 1
                )

    def test_wrapped_by_somebody(self):
        """What wraps ours stays, passes on, and a warning says so."""
        calls = []
        dropin.install()
        ours = F.to_tensor

        def tracer(pic):
            calls.append(pic)
            return ours(pic)

        F.to_tensor = tracer
        try:
            with self.assertWarnsRegex(RuntimeWarning, "to_tensor"):
                dropin.uninstall()
            self.assertIs(F.to_tensor, tracer)
            image = Image.open(io.BytesIO(KINDS["colour"]))
            self.assertIs(type(F.to_tensor(image)), torch.Tensor)
            self.assertEqual(len(calls), 1)
        finally:
            stock = ours.__closure__[0].cell_contents
            F.to_tensor = stock
        self.assertEqual(stock.__module__, F.__name__)

    def script(self, text):
        """Runs it in an interpreter that has imported nothing yet."""
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            input=self.photo(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def photo():
        return str(case.Samples.photo())

    def test_plain_import(self):
        self.script(
            "import sys, headrace\n"
            "headrace.report\n"
            "import headrace.dropin\n"
            "bad = {'PIL', 'torch', 'torchvision', 'numpy'} & {*sys.modules}\n"
            "assert not bad, bad\n"
            "headrace.dropin.install()\n"
            "bad = {'PIL', 'torch', 'torchvision', 'numpy'} & {*sys.modules}\n"
            "assert not bad, bad\n"
            "path = list(sys.meta_path)\n"
            "headrace.dropin.uninstall()\n"
            "assert len(sys.meta_path) == len(path) - 1\n"
        )

    def test_modules_that_come_later(self):
        """Each is hooked when it is imported."""
        self.script(
            "import sys\n"
            "from headrace import dropin\n"
            "dropin.install()\n"
            "from PIL import Image\n"
            "path = sys.stdin.read()\n"
            "assert type(Image.open(path)).__name__ == 'HeadraceJpeg'\n"
            "assert 'torch' not in sys.modules\n"
            "loader = Image.__spec__.loader\n"
            "assert type(loader).__module__ != 'headrace.dropin.hooks'\n"
            "from torchvision import datasets, transforms\n"
            "import torch.utils.data\n"
            "image = datasets.folder.pil_loader(path)\n"
            "assert type(image).__name__ == 'HeadraceImage'\n"
            "lazy = transforms.ToTensor()(image)\n"
            "assert type(lazy).__name__ == 'LazyTensor'\n"
            "batch = torch.utils.data.default_collate([lazy, lazy])\n"
            "assert type(batch) is torch.Tensor\n"
            "assert torch.equal(batch[0], lazy + 0)\n"
            "try:\n"
            "    from torchvision.transforms import v2\n"
            "except ImportError:\n"
            "    pass\n"
            "else:\n"
            "    lazy = v2.ToImage()(image)\n"
            "    assert type(lazy).__name__ == 'LazyTVImage', type(lazy)\n"
            "dropin.uninstall()\n"
            "assert type(Image.open(path)).__name__ == 'JpegImageFile'\n"
        )

    def test_report(self):
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            image.resize((20, 30)).getpixel((0, 0))
            Image.open(io.BytesIO(KINDS["cmyk"])).load()
            report = headrace.report()
        self.assertEqual(report["totals"]["jobs"], 1)
        self.assertEqual(report["pillow"], {"mode CMYK": 1})
        (name,) = report["materialised"]
        self.assertIn("test_report", name)
        text = str(report)
        for part in ("1 pictures in 1 jobs", "mode CMYK", "test_report"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
