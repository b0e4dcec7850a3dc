# SPDX-License-Identifier: Apache-2.0
"""A recorded picture whose file the program writes, moves or removes."""

import os
import tempfile
import unittest

import dropin_case as case  # first: it may skip this file
from dropin_case import KINDS, facts, on
from PIL import Image, ImageOps


def loaded(path):
    image = Image.open(path)
    image.load()
    return image


def with_block(path):
    with Image.open(path) as image:
        image.load()
    return image


# Ways to come by a picture of a file.
MADE = {
    "open": Image.open,
    "load": loaded,
    "with": with_block,
    "resize": lambda path: Image.open(path).resize((45, 40)),
    "convert": lambda path: Image.open(path).convert("L"),
    "crop": lambda path: Image.open(path).crop((1, 2, 30, 40)),
    "crop outside": lambda path: Image.open(path).crop((-9, 2, 30, 40)),
    "copy": lambda path: Image.open(path).copy(),
    "transpose": lambda path: Image.open(path).transpose(0),
    "rotate": lambda path: Image.open(path).rotate(90),
    "fit": lambda path: ImageOps.fit(Image.open(path), (30, 40)),
    "exif": lambda path: ImageOps.exif_transpose(Image.open(path)),
    "expand": lambda path: ImageOps.expand(Image.open(path), 3),
}


def save_into(image, path):
    with open(path, "r+b") as file:
        image.save(file, "JPEG")
        file.truncate()


def save_by_link(link):
    def save(image, path):
        other = path + ".other.jpg"
        link(path, other)
        image.save(other, quality=60)

    return save


# Ways to write it over that file.
SAVED = {
    "save": lambda image, path: image.save(path, quality=60),
    "bytes": lambda image, path: image.save(os.fsencode(path)),
    "format": lambda image, path: image.save(path, "PNG"),
    "another name of it": lambda image, path: image.save(
        os.path.join(os.path.dirname(path), ".", os.path.basename(path))
    ),
    "symbolic link": save_by_link(os.symlink),
    "file": save_into,
}


class Files(case.Case):
    """What is left of the file, and of the picture."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.where = held.name

    def fresh(self, data):
        path = os.path.join(tempfile.mkdtemp(dir=self.where), "a.jpg")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def compare(self, run):
        wanted = case.outcome(run)
        with on():
            self.assertEqual(case.outcome(run), wanted)

    def test_saved_over_its_file(self):
        for kind in "colour", "turned":
            for way, make in MADE.items():
                for how, save in SAVED.items():

                    def run():
                        path = self.fresh(KINDS[kind])
                        image = make(path)
                        save(image, path)
                        with open(path, "rb") as file:
                            return facts(image)[1:], facts(file.read())

                    with self.subTest("%s, %s, %s" % (kind, way, how)):
                        self.compare(run)


if __name__ == "__main__":
    unittest.main()
