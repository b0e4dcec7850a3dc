# SPDX-License-Identifier: Apache-2.0
"""Formats but JPEG and PNG: the pixels of Pillow, damaged or not."""
import io
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
import unittest.mock

import headrace
import numpy
import PIL
from headrace import _others, ops
from made_samples import COMMAND
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin, features

SIZES = (1, 1), (2, 3), (17, 33), (64, 64), (255, 100), (200, 150)
LIMIT = object()


def picture(w, h, mode="RGB", seed=1):
    """Ramps, waves and noise."""
    draw = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:h, 0:w]
    planes = numpy.stack([x * 3 + y * 2, x * y // 7,
                          127 * numpy.sin(x / 9) * numpy.cos(y / 7) + 128,
                          x * 5 + y], -1)
    planes[..., :3] += draw.integers(-20, 20, (h, w, 3))
    planes[:h // 3, :, 3] = 0
    made = Image.fromarray((planes % 256).astype("u1"), "RGBA")
    return made.convert(mode)


def file(image, kind, **options):
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def theirs(data, mode, kind):
    """Pillow's pixels, or None."""
    try:
        image = Image.open(io.BytesIO(data))
        if image.format != kind:
            return None
        return numpy.asarray(image.convert(mode))
    except Exception:  # noqa: BLE001
        return None


def ours(data, mode):
    try:
        return headrace.decode(data, mode=mode).numpy()
    except headrace.Error as error:
        return LIMIT if error.status == "HR_ELIMIT" else None


class Formats(unittest.TestCase):
    def same(self, data, kind, what=""):
        for mode in "RGB", "L":
            want, got = theirs(data, mode, kind), ours(data, mode)
            if got is LIMIT:
                return False
            if want is None or got is None:
                self.assertIs(want is None, got is None, what)
                return False
            numpy.testing.assert_array_equal(got.reshape(want.shape), want)
        return True

    def good(self, files, kind):
        for i, data in enumerate(files):
            self.assertTrue(self.same(data, kind, i), i)

    def damaged(self, files, kind, most=12, head=60):
        """Cut short, or with bits of the header or of anything turned."""
        draw = random.Random(7)
        made = 0
        for data in files:
            for i in range(most):
                bad = bytearray(data)
                if i % 3 == 0:
                    del bad[draw.randrange(1, len(bad)):]
                for _ in range(i % 3):
                    end = min(len(bad), head) if i % 2 else len(bad)
                    bad[draw.randrange(end)] ^= 1 << draw.randrange(8)
                with self.subTest(kind, data=bytes(bad)[:80], size=len(bad)):
                    made += self.same(bytes(bad), kind)
        self.assertGreater(made, len(files) // 2)


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1)


def u24(*numbers):
    return b"".join(n.to_bytes(3, "little") for n in numbers)


def animation(w, h, x, y, first):
    """A canvas with two frames that are smaller."""
    inner = first[12:]
    if inner[:4] == b"VP8X":
        inner = inner[18:]
    size = Image.open(io.BytesIO(first)).size
    frame = u24(x // 2, y // 2, size[0] - 1, size[1] - 1, 100) + b"\0" + inner
    body = (chunk(b"VP8X", struct.pack("<I", 18) + u24(w - 1, h - 1))
            + chunk(b"ANIM", b"\x10\x20\x30\xff\0\0")
            + chunk(b"ANMF", frame) * 2)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


@unittest.skipUnless(features.check("webp"), "this Pillow has no WebP")
class Webp(Formats):
    @classmethod
    def setUpClass(cls):
        data = file(picture(2, 2), "WEBP")
        try:
            headrace.decode(data).numpy()
        except headrace.Error as error:
            raise unittest.SkipTest(f"built without libwebp: {error}")

    def files(self):
        for i, (w, h) in enumerate(SIZES):
            opaque, clear = picture(w, h), picture(w, h, "RGBA")
            for quality in 1, 60, 100:
                for image in opaque, clear:
                    yield file(image, "WEBP", quality=quality, method=i)
            for image in opaque, clear:
                yield file(image, "WEBP", lossless=True)
            yield file(clear, "WEBP", lossless=True, exact=True)
            yield file(picture(w, h, "L"), "WEBP")
            yield file(opaque, "WEBP", save_all=True, duration=50,
                       append_images=[picture(w, h, seed=9)])
            still = file(picture(w, h, "RGBA" if i % 2 else "RGB"), "WEBP")
            yield animation(w + 31, h + 18, 14, 6, still)

    def test_pixels(self):
        self.good(self.files(), "WEBP")

    def test_damage(self):
        small = [data for data in self.files() if len(data) < 12000]
        self.damaged(small, "WEBP")

    def test_a_chunk_of_odd_size(self):
        bad = bytearray(file(picture(1, 1, "RGBA"), "WEBP", quality=60))
        self.assertEqual(bad[12:17], b"VP8X\n")
        bad[16] += 1
        self.assertIsNone(theirs(bytes(bad), "RGB", "WEBP"))
        self.assertIsNone(ours(bytes(bad), "RGB"))

    def test_orientation(self):
        exif = Image.Exif()
        for turn in range(1, 9):
            exif[0x0112] = turn
            data = file(picture(31, 17), "WEBP", exif=exif.tobytes())
            self.assertEqual(headrace.probe(data).orientation, turn)


# The library makes the pixels of this Pillow; earlier ones refuse some headers,
# masks and runs, and have greys for colours that a palette lacks.
NEW = int(PIL.__version__.split(".")[0]) >= 13
MASKS = ((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0),
         (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
         (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
         (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
         (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0),
         (0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0))


def bmp(draw, w, h, bits, compression=0, colors=0, mask=(), size=40, rows=None,
        palette=b"", data=None):
    """A file with these in its header, whether they fit or not."""
    head = struct.pack("<IiiHHIIiiII", size, w, h, 1, bits, compression, 0, 0,
                       0, colors, 0)
    head = (head + struct.pack(f"<{len(mask)}I", *mask)).ljust(size, b"\0")
    if size == 12:
        head = struct.pack("<IHHHH", size, w, abs(h), 1, bits)
    if data is None:
        data = draw.randbytes((w * bits + 31) // 32 * 4 * abs(h))
    at = 14 + len(head) + len(palette) if rows is None else rows
    return b"BM" + struct.pack("<III", 0, 0, at) + head + palette + data


def runs(draw, compression):
    """Runs, literal pixels, jumps and ends in any order."""
    data = bytearray()
    for _ in range(draw.randrange(60)):
        kind = draw.random()
        if kind < .4:
            data += bytes((draw.randint(1, 12), draw.randrange(256)))
        elif kind < .7:
            n = draw.randint(3, 12)
            size = n if compression == 1 else (n + 1) // 2
            data += bytes((0, n)) + draw.randbytes(size + size % 2)
        elif kind < .85:
            data += b"\0\0"
        elif kind < .95:
            data += bytes((0, 2, draw.randrange(5), draw.randrange(3)))
        elif kind < .97:
            data += b"\0\1"
    return bytes(data)


def indexed(draw, w, h, bits):
    colors = draw.choice((0, 0, 1, 2, 3, 16, 200, 256, 300))
    n = colors or 1 << bits
    palette = draw.choice((
        bytes(draw.randrange(256) for _ in range(4 * n)),
        b"".join(bytes((i & 255,) * 3 + (0,)) for i in range(n)),
        b"\0\0\0\0\xff\xff\xff\0"))
    compression = draw.choice((0, 0, 1, 2))
    return bmp(draw, w, h, bits, compression, colors, palette=palette,
               rows=draw.choice((None, None, 0, 54)),
               data=runs(draw, compression) if compression else None)


def any_bmp(draw):
    w, h = draw.choice((1, 2, 3, 5, 8, 9, 17, 33)), draw.randint(1, 9)
    bits = draw.choice((1, 4, 8, 16, 24, 32))
    h = -h if draw.random() < .3 else h
    if draw.random() < .1:
        n = 3 << bits if bits <= 8 else 0
        return bmp(draw, w, h, bits, size=12, rows=draw.choice((0, 26)),
                   palette=draw.randbytes(n))
    if bits <= 8:
        return indexed(draw, w, h, bits)
    size = draw.choice((40, 52, 56, 64, 108, 124))
    if draw.random() < .5:
        return bmp(draw, w, h, bits, size=size)
    return bmp(draw, w, h, bits, 3, size=size,
               mask=draw.choice(MASKS)[:3 if size < 56 else 4])


def any_pnm(draw):
    kind, most = draw.randint(1, 6), draw.choice(
        (255, 255, 1, 10, 100, 254, 256, 1000, 4095, 65534, 65535))
    w, h = draw.choice((1, 2, 3, 7, 8, 9, 33)), draw.randint(1, 9)
    numbers = (w, h) if kind in (1, 4) else (w, h, most)
    head = f"P{kind}"
    for n in numbers:
        head += draw.choice(" \n") + draw.choice(
            ("", " ", "\t\r\n", "#c 1 2\n", "\n# x\r", "\v")) + str(n)
    n = w * h * (1 if kind % 3 else 3)
    if kind > 3:
        size = h * ((w + 7) // 8) if kind == 4 else n * (1 + (most > 255))
        return head.encode() + b"\n" + draw.randbytes(size)
    top = 1 if kind == 1 else most
    between = draw.choice(("", " ") if kind == 1 else (" ", "\n", " # 9\n"))
    text = between.join(str(draw.randint(0, top)) for _ in range(n))
    return (head + "\n" + text + draw.choice(("", "\n", " x", "5"))).encode()


class Raster(Formats):
    """BMP and PNM, which the library decodes itself."""

    def saved(self):
        """Files that Pillow writes, which each of its releases reads alike."""
        for i, (w, h) in enumerate(SIZES):
            for mode in "1", "L", "P", "RGB", "RGBA":
                yield "BMP", file(picture(w, h, mode, i), "BMP")
            for mode in "1", "L", "RGB":
                yield "PPM", file(picture(w, h, mode, i), "PPM")
            yield "PPM", file(picture(w, h, "L").convert("I"), "PPM")

    def test_saved(self):
        for kind, data in self.saved():
            self.assertTrue(self.same(data, kind, data[:60]), data[:60])

    def any(self, make, kind, n):
        if not NEW:
            self.skipTest(f"Pillow {PIL.__version__} is older than 13")
        draw = random.Random(3)
        files = [make(draw) for _ in range(n)]
        made = sum(self.same(data, kind, data[:80]) for data in files)
        self.assertGreater(made, n // 2)
        self.damaged(files, kind)

    def test_any_bmp(self):
        self.any(any_bmp, "BMP", 500)

    def test_any_pnm(self):
        self.any(any_pnm, "PPM", 500)

    def test_rare_kinds(self):
        """Pillow decodes the kinds that the library leaves out, in Python."""
        headrace.report(reset=True)
        data = b"P0CMYK 1 1 255\n1234"
        self.assertIsNone(ours(data, "RGB"))
        make = headrace.Pipeline((ops.decode(), ops.crop(0, 0, 1, 1)),
                                 layout="nhwc")
        numpy.testing.assert_array_equal(make([data]).numpy()[0],
                                         theirs(data, "RGB", "PPM"))
        self.assertEqual(headrace.report()["decoded"], {"a PPM picture": 1})


class Tiff(unittest.TestCase):
    def test_limits_come_first(self):
        """Size and orientation are had without the pixels."""
        data = file(picture(31, 17), "TIFF")
        with unittest.mock.patch.object(TiffImagePlugin.TiffImageFile, "load",
                                        side_effect=AssertionError):
            self.assertEqual(_others.probe(data), (31, 17, 1))

    def test_orientation(self):
        """Some releases of Pillow turn it, and some say so."""
        for turn in range(1, 9):
            data = file(picture(31, 17), "TIFF", tiffinfo={0x0112: turn})
            for apply in False, True:
                want = Image.open(io.BytesIO(data))
                want = ImageOps.exif_transpose(want) if apply else want
                make = headrace.Pipeline(
                    (ops.decode(apply_orientation=apply),
                     ops.crop(0, 0, 16, 16)), layout="nhwc")
                with self.subTest(turn, apply=apply):
                    numpy.testing.assert_array_equal(
                        make([data]).numpy()[0],
                        numpy.asarray(want.convert("RGB"))[:16, :16])


class Other(unittest.TestCase):
    """The installed Pillow decodes them."""

    def same(self, data, what):
        want = numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        h, w, _ = want.shape
        make = headrace.Pipeline((ops.decode(), ops.crop(0, 0, w, h)),
                                 layout="nhwc")
        out = make([data])
        self.assertEqual(out.errors, {}, what)
        numpy.testing.assert_array_equal(out.numpy()[0], want, str(what))

    def test_tiff(self):
        for turn in range(1, 9):
            for pages in 1, 2:
                for how in None, "tiff_lzw":
                    more = [picture(31, 17, seed=2)] * (pages - 1)
                    self.same(file(
                        picture(31, 17), "TIFF", save_all=True,
                        append_images=more, tiffinfo={0x0112: turn},
                        compression=how), (turn, pages, how))

    def test_no_program_is_run(self):
        """EPS is a program for another one, so it is no picture here."""
        data = file(picture(31, 17), "EPS")
        self.assertIsNone(_others.probe(data))
        out = headrace.Pipeline((ops.decode(), ops.crop(0, 0, 9, 9)))([data])
        self.assertIn("not a picture", out.errors[0])

    def test_limits_come_before_pixels(self):
        data = file(Image.new("L", (11000, 10000)), "TIFF",
                    tiffinfo={0x0112: 6}, compression="tiff_adobe_deflate")
        make = headrace.Pipeline((ops.decode(), ops.crop(0, 0, 9, 9)))
        patch, fail = unittest.mock.patch.object, AssertionError("loaded")
        _others._loaded(6)  # of a picture of its own, once
        with patch(ImageFile.ImageFile, "load", side_effect=fail), \
                patch(TiffImagePlugin.TiffImageFile, "load", side_effect=fail):
            out = make([data])
        self.assertIn("over the limit", out.errors[0])


# Each file's name, format and mode.
KINDS = {
    "jpeg": ("1.jpg", "JPEG", "RGB"),
    "grey": ("2.JPEG", "JPEG", "L"),
    "cmyk": ("3.jpg", "JPEG", "CMYK"),
    "png": ("4.png", "PNG", "RGBA"),
    "palette": ("5.png", "PNG", "P"),
    "ppm": ("6.ppm", "PPM", "RGB"),
    "pgm": ("7.pgm", "PPM", "L"),
    "deep": ("8.pgm", "PPM", "I"),
    "bmp": ("9.bmp", "BMP", "RGB"),
    "bits": ("10.bmp", "BMP", "1"),
    "tiff": ("11.tif", "TIFF", "RGB"),
    "alpha": ("12.tiff", "TIFF", "RGBA"),
    "webp": ("13.webp", "WEBP", "RGB"),
    "gif": ("14.jpg", "GIF", "P"),
    "jp2": ("15.png", "JPEG2000", "RGB"),
    "avif": ("16.jpg", "AVIF", "RGB"),
    "bmp-jpg": ("17.jpg", "BMP", "RGB"),
    "webp-png": ("18.png", "WEBP", "RGBA"),
    "jpeg-bmp": ("19.bmp", "JPEG", "RGB"),
}


def fill(root):
    """A folder of every type in three classes, and what is no sample."""
    Image.init()
    made = {}
    for i, (name, kind, mode) in enumerate(KINDS.values()):
        if kind not in Image.SAVE:
            continue
        image = picture(40 + i, 30, "RGB", i)
        data = file(image.convert(mode), kind)
        path = root / "abc"[i % 3] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        made[str(path)] = kind
    (root / "a" / ".hidden.png").write_bytes(file(picture(44, 31), "PNG"))
    (root / "b" / "notes.txt").write_text("no picture")
    (root / "b" / "x.gif").write_bytes(file(picture(5, 5, "P"), "GIF"))
    (root / "c" / "link.bmp").symlink_to(root / "a" / ".hidden.png")
    return made


def stock(root):
    """ImageFolder's list: (path, class) of each picture."""
    ends = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff",
            ".webp")
    return [(str(path), number) for number, name in enumerate("abc")
            for path in sorted((root / name).iterdir())
            if path.name.lower().endswith(ends)]


def is_decoded(path):
    """Does the library do it without Pillow?"""
    before = _others.counts()
    try:
        headrace.decode(path).numpy()
    except headrace.PictureError:
        return False
    return _others.counts() == before  # else it was built without libwebp


def pixels(path):
    return numpy.asarray(Image.open(path).convert("RGB"))


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        fill(cls.root)
        cls.samples = stock(cls.root)
        cls.decoded = {path for path, _ in cls.samples if is_decoded(path)}

    def by_loader(self, source, **more):
        """Pixels and class of each sample of a Loader."""
        steps = (ops.decode(), ops.crop(0, 0, 40, 30))
        loader = headrace.Loader(source, steps, batch=5, epochs=1, to="numpy",
                                 layout="nhwc", **more)
        with loader:
            found = [(x, int(y)) for batch, labels in loader
                     for x, y in zip(batch.copy(), labels)]
            return found, loader, loader.stats

    def same(self, found):
        self.assertEqual(len(found), len(self.samples))
        for (x, y), (path, number) in zip(found, self.samples):
            with self.subTest(path):
                self.assertEqual(y, number)
                numpy.testing.assert_array_equal(x, pixels(path)[:30, :40])

    def test_imagefolder(self):
        try:
            from torchvision.datasets import ImageFolder
        except ImportError:
            self.skipTest("there is no torchvision")
        self.assertEqual(ImageFolder(self.root).samples, self.samples)

    def test_loader(self):
        headrace.report(reset=True)
        for threads in 1, 3:
            found, loader, stats = self.by_loader(self.root, threads=threads)
            self.same(found)
            self.assertEqual(loader.classes, ("a", "b", "c"))
            self.assertEqual(loader.skipped, ())
            others = len(self.samples) - len(self.decoded)
            self.assertGreater(others, 3)
            self.assertEqual(stats["pillow"], others)
        self.assertEqual(sum(headrace.report()["decoded"].values()),
                         2 * others)

    def test_pack(self):
        out = str(self.root) + ".hrp"
        self.addCleanup(os.remove, out)
        headrace.pack_folder(self.root, out)
        found, *_ = self.by_loader(out)
        self.same(found)
        data = headrace.PackFolder(out)
        self.assertEqual(data.targets, [y for _, y in self.samples])
        for (x, _), (path, _) in zip(data, self.samples):
            numpy.testing.assert_array_equal(numpy.asarray(x), pixels(path))

    def test_pipeline(self):
        make = headrace.Pipeline((ops.decode(), ops.crop(0, 0, 40, 30)),
                                 layout="nhwc")
        for read in str, lambda path: pathlib.Path(path).read_bytes():
            out = make([read(path) for path, _ in self.samples])
            self.assertEqual(out.errors, {})
            self.same([(x, y) for x, (_, y) in zip(out.numpy(), self.samples)])

    def test_command(self):
        """The command has no Pillow: what it cannot decode fails, by name."""
        out = self.root.parent / (self.root.name + ".npy")
        self.addCleanup(out.unlink)
        run = subprocess.run(
            [COMMAND, "run", self.root, "--backend", "cpu", "--on-error",
             "zero", "--ops", "decode,crop=0,0,40,30", "--dtype", "u8",
             "--layout", "nhwc", "--out", out], check=False,
            capture_output=True, text=True)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        made = numpy.load(out)
        self.assertEqual(len(made), len(self.samples))
        for x, (path, _) in zip(made, self.samples):
            if path in self.decoded:
                numpy.testing.assert_array_equal(x, pixels(path)[:30, :40])
            else:
                self.assertFalse(x.any(), path)
                self.assertRegex(run.stderr, f"{path}.*( a .*not decoded here|"
                                             "no engine takes it)")


if __name__ == "__main__":
    unittest.main()
