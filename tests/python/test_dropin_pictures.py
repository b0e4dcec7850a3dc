# SPDX-License-Identifier: Apache-2.0
"""Recorded pictures: whatever is asked of one gives what stock gives, values,
types, errors. Each call runs on fresh objects of both."""

import concurrent.futures
import copy
import io
import pickle
import sys
import unittest
import warnings
from unittest import mock

import dropin_case as case  # first: it may skip this file
import numpy as np
import torch
from dropin_case import KINDS, facts, on, saved
from headrace import dropin
from headrace.dropin.pillow import pictures
from PIL import (
    Image,
    ImageChops,
    ImageDraw,
    ImageEnhance,
    ImageFilter,
    ImageOps,
    ImageStat,
    JpegImagePlugin,
)
from torchvision.transforms import functional as F


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


class Mine(Image.Image):
    """As fastai's PILImage: a picture gets another class."""


class Taken(Image.Image):
    def __init__(self, image):
        self.__dict__ = image.__dict__


class Updated(Image.Image):
    def __init__(self, image):
        super().__init__()
        self.__dict__.update(vars(image))


def given(kind):
    def give(image):
        image.__class__ = kind
        return image, image.resize((9, 8))

    return give


def kept_access(leave):
    def run(image):
        pixels = image.load()
        leave(image)
        return pixels[3, 4], image.size

    return run


def patched(name):
    def run(image):
        called = []
        stock = getattr(Image.Image, name)

        def count(self, *args, **kwargs):
            called.append(name)
            return stock(self, *args, **kwargs)

        args = {"crop": ((1, 2, 9, 9),), "resize": ((9, 8),),
                "transpose": (0,), "convert": ("L",)}.get(name, ())
        with mock.patch.object(Image.Image, name, count):
            getattr(image.copy(), name)(*args)
        return called

    return run


def bombs(image):
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 500):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            image.crop((0, 0, 30, 30))
            image.crop((-1, 0, 30, 30))
        return [str(each.message) for each in found]


CALLS |= {
    "class": given(Mine),
    "class of a copy": lambda im: given(Mine)(im.copy()),
    "class of a crop": lambda im: given(Mine)(im.crop((1, 2, 30, 40))),
    "dict": lambda im: Taken(im).tobytes(),
    "dict of a copy": lambda im: Taken(im.copy()).tobytes(),
    "dict of both": lambda im: (Taken(im).tobytes(), im.tobytes()),
    "dict updated": lambda im: Updated(im.copy()).tobytes(),
    "vars": lambda im: sorted(vars(im.copy())),
    "vars of a loaded one": lambda im: (im.load(), sorted(vars(im)))[1],
    "not read": lambda im: (Image.Image.load(im), im),
    "not read, im": lambda im: im.im,
    "not read, a crop": lambda im: im._crop(im.im, (1, 2, 9, 9)).size,
    "read": lambda im: (im.load(), Image.Image.load(im)[1, 1])[1],
    "read copy": lambda im: Image.Image.load(im.copy())[1, 1],
    "thumbnail behind access": kept_access(
        lambda im: im.thumbnail((20, 20))
    ),
    "close behind access": kept_access(lambda im: im.close()),
    "access": lambda im: type(im.load()),
    "repr": lambda im: repr(im.copy())[:30],
    "class name": lambda im: [type(x).__name__ for x in (im, im.copy())],
    "resize float": lambda im: im.resize((30, 20), 2.0),
    "transpose float": lambda im: im.transpose(2.0),
    "resize numpy filter": lambda im: im.resize((30, 20), np.int64(2)),
    "bombs": bombs,
    **{
        "patched " + name: patched(name)
        for name in ("copy", "convert", "crop", "resize", "transpose")
    },
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
                    self.assertEqual(found[name], wanted[name])

    def test_calls_in_a_fetch(self):
        for kind, data in KINDS.items():
            wanted = self.results(data)
            with on():
                found = case.in_fetch(lambda: self.results(data))
            for name in set(CALLS) - {"access", "repr"}:
                with self.subTest("%s, %s" % (kind, name)):
                    self.assertEqual(found[name], wanted[name])

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
            self.assertIs(type(image), pictures.HeadraceJpeg)
            self.assertIsInstance(image, JpegImagePlugin.JpegImageFile)
            image = image.convert("L").crop((1, 2, 30, 40)).resize((8, 9))
            self.assertEqual(len(image._hr[0][1]), 3)
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
            enhanced(image)
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

if __name__ == "__main__":
    unittest.main()
