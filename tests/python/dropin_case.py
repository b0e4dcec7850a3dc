# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the drop-in: pictures, and stock against ours."""

import contextlib
import hashlib
import io
import os
import pathlib
import random
import unittest

try:
    import numpy as np
    import torch
    import torchvision  # noqa: F401
    from PIL import Image
except ImportError as error:
    raise unittest.SkipTest("needs torch and torchvision: %s" % error)

try:
    import torchvision.transforms.v2  # noqa: F401
except ImportError:
    pass  # before 0.15

import headrace
import made_samples
from headrace import dropin

torch.set_num_threads(1)

CORPUS = pathlib.Path(__file__).resolve().parents[2].parent / "shared/corpus"
CORPUS = pathlib.Path(os.environ.get("HEADRACE_CORPUS", CORPUS))


class Samples:
    """Pictures that the command makes."""

    @staticmethod
    def photos():
        return str(made_samples.folder() / "photos")

    @staticmethod
    def photo():
        """A colour photograph, baseline."""
        return sorted((made_samples.folder() / "photos").rglob("*.jp*g"))[0]

    @staticmethod
    def kinds():
        return sorted((made_samples.folder() / "kinds").rglob("*.jp*g"))

    @staticmethod
    def bad():
        return sorted((made_samples.folder() / "bad").rglob("*.jp*g"))


def seed():
    random.seed(7)
    torch.manual_seed(7)


def ours(run, device=None):
    """run() with the drop-in, and the report of it."""
    if device is None:
        dropin.install()
    else:
        headrace.set_image_backend(device)
    try:
        dropin.report(reset=True)
        seed()
        return run(), dropin.report()
    finally:
        headrace.reset_image_backend()


def stock(run):
    seed()
    return run()


def outcome(run):
    """The result, or type and text of the exception."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


@contextlib.contextmanager
def on():
    dropin.install()
    dropin.report(reset=True)
    try:
        yield
    finally:
        dropin.uninstall()


def in_fetch(run):
    """run() in the fetch of a DataLoader, as a data set's item."""

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            found.append(run())
            return 0

    found = []
    for _ in torch.utils.data.DataLoader(Data(), batch_size=None):
        pass
    return found[0]


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


class Case(unittest.TestCase):
    """Nothing may stay replaced after a test."""

    def tearDown(self):
        self.assertFalse(dropin.installed())

    def assert_same_tensor(self, found, wanted, text=""):
        """Type, shape, strides, dtype and every bit."""
        self.assertIs(type(found), type(wanted), text)
        self.assertEqual(found.shape, wanted.shape, text)
        self.assertEqual(found.dtype, wanted.dtype, text)
        self.assertEqual(found.stride(), wanted.stride(), text)
        raw = [
            value.as_subclass(torch.Tensor).contiguous().view(torch.uint8)
            if value.dim()
            else value.as_subclass(torch.Tensor)
            for value in (found, wanted)
        ]
        differ = int((raw[0] != raw[1]).sum())
        self.assertEqual(differ, 0, "%s: bytes differ" % text)
