# SPDX-License-Identifier: Apache-2.0
"""Formats that other libraries decode: the pixels of Pillow, damaged or not."""
import io
import random
import struct
import unittest

import headrace
import numpy
from PIL import Image, features

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


if __name__ == "__main__":
    unittest.main()
