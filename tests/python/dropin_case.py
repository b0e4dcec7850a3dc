# SPDX-License-Identifier: Apache-2.0
"""What the tests of the drop-in share: pictures, and stock against ours."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import headrace
import torch
from headrace import dropin

torch.set_num_threads(1)

CORPUS = pathlib.Path(__file__).resolve().parents[2].parent / "shared/corpus"
CORPUS = pathlib.Path(os.environ.get("HEADRACE_CORPUS", CORPUS))


class Samples:
    """Pictures that the command makes; one folder for a whole file."""

    _folder = None

    @classmethod
    def folder(cls):
        if cls._folder is None:
            cls._folder = tempfile.TemporaryDirectory()
            build = os.environ.get("HEADRACE_BUILD", "build")
            command = [os.path.join(build, "headrace"), "samples"]
            try:
                subprocess.run(
                    [*command, cls._folder.name, "--count", "24"],
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
            except OSError as error:
                raise unittest.SkipTest("needs the command: %s" % error)
        return pathlib.Path(cls._folder.name)

    @classmethod
    def photos(cls):
        return str(cls.folder() / "photos")

    @classmethod
    def photo(cls):
        """A colour photograph, baseline."""
        return sorted((cls.folder() / "photos").rglob("*.jp*g"))[0]

    @classmethod
    def kinds(cls):
        return sorted((cls.folder() / "kinds").rglob("*.jp*g"))

    @classmethod
    def bad(cls):
        return sorted((cls.folder() / "bad").rglob("*.jp*g"))


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
    """What came out, or type and text of what was raised."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


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
