# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of files of records: photos, their labels, and a
comparison with pairs of both."""

import importlib.util
import subprocess
import unittest

import headrace
import made_samples
import numpy
from headrace import ops

STEPS = [ops.decode(), ops.random_crop(16), ops.random_flip()]


def photos():
    return sorted((made_samples.folder() / "photos").rglob("*.jpg"))


def label(i):
    return i * 7 % 10


def need(*names):
    for name in names:
        if not importlib.util.find_spec(name):
            raise unittest.SkipTest(f"needs {name}, of records.txt")


def batches(source, **more):
    options = {"batch": 5, "shuffle": True, "seed": 3, "epochs": 1,
               "to": "numpy", **more}
    with headrace.Loader(source, STEPS, **options) as loader:
        return [(numpy.array(x), numpy.array(y), loader.last.indices)
                for x, y in loader]


class Case(unittest.TestCase):
    def same(self, source, pairs=None, **more):
        """It gives what pairs of paths and numbers give, however read; pairs:
        those of photos()."""
        pairs = pairs or [(str(path), label(i))
                          for i, path in enumerate(photos())]
        for way in ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4},
                    {"shuffle": False}, {"shard": (1, 2)}):
            want, got = batches(pairs, **way), batches(source, **way, **more)
            self.assertEqual(len(want), len(got))
            for (x, y, at), (u, v, where) in zip(want, got):
                self.assertEqual(list(at), list(where))
                self.assertTrue((x == u).all() and (y == v).all(), way)

    def packs(self, source, *options):
        """The command packs it: the same once more."""
        out = made_samples.scratch() / f"{self.id()}.hrp"
        done = subprocess.run(
            [made_samples.COMMAND, "pack", source, "--out", out, *options],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(str(out))
