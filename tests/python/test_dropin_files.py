# SPDX-License-Identifier: Apache-2.0
"""Headers that the drop-in reads without Pillow. (A picture whose file the
program writes, moves or removes: programs/files.py.)"""

import io
import os
import random
import tempfile
import unittest
import warnings

import dropin_case as case  # first: it may skip this file
from dropin_case import KINDS, on
from headrace.dropin.pillow import files
from PIL import Image, JpegImagePlugin
from torchvision import datasets


# Segments of which Pillow makes something: marker, content.
ODD = (
    (0xE0, b"JFIF"),
    (0xE0, b"JFXX" + bytes(20)),
    (0xE1, b"Exif\0\0II*\0\x08\0\0\0\xff\xff"),
    (0xE1, b"http://ns.adobe.com/xap/1.0/\0x"),
    (0xE2, b"MPF\0II*\0\x08\0\0\0\xff\xff"),
    (0xE2, b"ICC_PROFILE\0"),
    (0xE2, b"FPXR\0" + bytes(20)),
    (0xED, b"Photoshop 3.0\0" + b"8BIM\x03\xed\0\0\0\0\0\1"),
    (0xEE, b"Adobe"),
    (0xDB, b"\0" + bytes(30)),
    (0xDB, b"\x10" + bytes(64)),
)


def random_headers(seed, number):
    """Headers of JPEGs, with bytes changed, cut out, or put in."""
    draw = random.Random(seed)
    seeds = [KINDS["colour"], KINDS["grey"]]
    picture = Image.open(io.BytesIO(seeds[0]))
    for how in {"icc_profile": bytes(90000)}, {"comment": b"x" * 9}, {
            "progressive": True}, {"dpi": (72, 72)}, {"exif": b"Exif\0\0II*\0"}:
        seeds.append(case.saved(picture, **how))
    for _ in range(number):
        data = bytearray(draw.choice(seeds))
        if draw.random() < 0.3:
            marker, body = draw.choice(ODD)
            size = (len(body) + 2).to_bytes(2, "big")
            data[2:2] = bytes((0xFF, marker)) + size + body
        scan = data.index(b"\xff\xda")
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(2, scan + 12)
            kind = draw.randrange(4)
            if kind == 0:
                data[at] = draw.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del data[at : at + draw.randrange(1, 20)]
            else:
                data[at:at] = data[2 : 2 + draw.randrange(1, 80)]
        yield bytes(data)


class Headers(unittest.TestCase):
    """Pillow is not asked about plain ones: it must say nothing of them."""

    def test_plain(self):
        plain = 0
        for data in random_headers(
                int(os.environ.get("HEADRACE_SEED", 1)), 4000):
            try:
                info = files.probe(data)
            except Exception:
                continue
            if not info.plain or files.objection(info):
                continue
            plain += 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                stock = JpegImagePlugin.jpeg_factory(io.BytesIO(data))
            self.assertIs(type(stock), JpegImagePlugin.JpegImageFile)
            self.assertEqual(stock.size, (info.width, info.height))
            self.assertEqual(stock.mode,
                             "L" if info.components == 1 else "RGB")
        self.assertGreater(plain, 200)

    def test_info(self):
        """`info` of the loader's picture, and of pictures derived from it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.jpg")
            picture = Image.open(io.BytesIO(KINDS["colour"]))
            for how in {}, {"comment": b"x", "dpi": (99, 99)}, {
                    "icc_profile": b"profile"}:
                with open(path, "wb") as file:
                    file.write(case.saved(picture, **how))

                def run():
                    found = []
                    for mode in "RGB", "L":
                        picture = datasets.folder.pil_loader(path)
                        other = picture.convert(mode).crop((1, 2, 30, 40))
                        found.append(dict(other.info))
                        found.append(dict(picture.info))
                        picture.info["mine"] = 1
                        found.append(dict(picture.crop((0, 0, 9, 9)).info))
                        found.append(dict(other.resize((9, 8)).info))
                        picture.load()
                        found.append(dict(picture.info))
                    return found

                wanted = run()
                with on():
                    self.assertEqual(case.in_fetch(run), wanted)
