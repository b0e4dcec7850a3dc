# SPDX-License-Identifier: Apache-2.0
"""headrace.report() of DataLoaders: what made the pictures, workers included,
and reasons that a user understands."""

import os
import random
import tempfile
import unittest

import dropin_case as case  # first: it may skip this file
import headrace
import numpy as np
import torch
from PIL import Image, ImageFilter, features
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

N = 12
RESIZE = [transforms.Resize((16, 16)), transforms.ToTensor()]


def median(image):
    """A transform that no op is."""
    return image.filter(ImageFilter.MedianFilter(3))


MEDIAN = [transforms.Resize((16, 16)), median, transforms.ToTensor()]


def setUpModule():
    global folder
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    folder = holder.name


def fill(name, formats):
    """A folder of N pictures, the formats in turn."""
    where = os.path.join(folder, name, "class")
    os.makedirs(where, exist_ok=True)
    draw = random.Random(2)
    for i in range(N):
        small = Image.frombytes("RGB", (9, 7), draw.randbytes(189))
        end = formats[i % len(formats)]
        small.resize((40, 30)).save(os.path.join(where, "%02d.%s" % (i, end)))
    return os.path.join(folder, name)


class Pixels(Dataset):
    def __init__(self, where):
        self.paths = [path for path, _ in datasets.ImageFolder(where).imgs]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = Image.open(self.paths[index]).convert("RGB")
        return torch.from_numpy(np.asarray(picture).copy())


class Reports(case.Case):
    def epoch(self, data, workers):
        headrace.set_image_backend("cpu")
        try:
            headrace.report(reset=True)
            for _ in DataLoader(data, 4, num_workers=workers):
                pass
            found = headrace.report(reset=True)
            self.assertEqual(headrace.report(), {"totals": {}})
        finally:
            headrace.reset_image_backend()
        for word in ("__main__", "<module>", "BaseProcess", "Process.run"):
            self.assertNotIn(word, str(found))
        # All that was recorded was made, and it is known by what.
        self.assertEqual(sum(found.get("devices", {}).values()),
                         found["totals"].get("recorded", 0))
        return found

    def both(self, data):
        for workers in (0, 2):
            maker = "cpu, in workers" if workers else "cpu"
            yield self.epoch(data, workers), maker

    def images(self, where, steps):
        return datasets.ImageFolder(where, transforms.Compose(steps))

    def test_jpegs(self):
        where = fill("jpegs", ["jpg"])
        for found, _ in self.both(self.images(where, RESIZE)):
            self.assertEqual(found["devices"], {"cpu": N})
            self.assertNotIn("materialised", found)
            self.assertNotIn("pillow", found)

    def test_pixels_that_a_transform_needs(self):
        where = fill("median", ["jpg"])
        for found, maker in self.both(self.images(where, MEDIAN)):
            self.assertEqual(found["devices"], {maker: N})
            (reason,) = found["materialised"]
            self.assertIn("median", reason)

    def test_pixels_that_the_program_needs(self):
        where = fill("pixels", ["jpg"])
        for found, maker in self.both(Pixels(where)):
            self.assertEqual(found["devices"], {maker: N})
            name = Pixels.__module__ + ".Pixels.__getitem__"
            self.assertEqual(found["materialised"], {name: N})

    def test_mixed_formats(self):
        where = fill("mixed", ["png", "jpg", "jpg", "jpg"])
        for found, maker in self.both(self.images(where, RESIZE)):
            self.assertEqual(found["devices"], {maker: N * 3 // 4})
            (reason,) = found["materialised"]
            self.assertIn("mixed formats", reason)
            self.assertEqual(found["pillow"], {"a PNG picture": N // 4})

    def test_other_formats(self):
        kinds = {"png": "a PNG picture", "bmp": "a BMP picture",
                 "tif": "a TIFF picture", "ppm": "a PNM picture"}
        if features.check("webp"):
            kinds["webp"] = "a WEBP picture"
        for end, reason in kinds.items():
            where = fill(end, [end])
            for found, _ in self.both(self.images(where, RESIZE)):
                self.assertEqual(found["pillow"], {reason: N})
                self.assertNotIn("devices", found)

    def test_top_of_a_program(self):
        path = os.path.join(fill("one", ["jpg"]), "class", "00.jpg")
        code = ("picture = Image.open(path).convert('RGB')\n"
                "picture.getpixel((0, 0))\n")
        code = compile(code, "/somewhere/train.py", "exec")
        headrace.set_image_backend("cpu")
        try:
            headrace.report(reset=True)
            exec(code, {"__name__": "__main__", "Image": Image, "path": path})
            self.assertEqual(headrace.report(reset=True)["materialised"],
                             {"line 2 of train.py": 1})
        finally:
            headrace.reset_image_backend()
