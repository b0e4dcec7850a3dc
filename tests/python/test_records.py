# SPDX-License-Identifier: Apache-2.0
"""Files of records that the real packages write: the same pictures, labels and
order as of the files they were made from. (Releases: records.txt.)"""

import importlib.util
import subprocess
import unittest

import headrace
import made_samples
import numpy
from headrace import ops

STEPS = [ops.decode(), ops.random_crop(24), ops.random_flip()]


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
    def same(self, source, **more):
        """It gives what pairs of paths and numbers give, however read."""
        pairs = [(str(path), label(i)) for i, path in enumerate(photos())]
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


class TFRecord(Case):
    def write(self, name, image, key):
        import tfrecord

        path = made_samples.scratch() / name
        writer = tfrecord.TFRecordWriter(str(path))
        for i, photo in enumerate(photos()):
            writer.write({image: (photo.read_bytes(), "byte"),
                          key: (label(i), "int"),
                          "image/filename": (photo.name.encode(), "byte"),
                          "box": ([.5, .25], "float")})
        writer.close()
        return str(path)

    def test_usual(self):
        need("tfrecord")
        path = self.write("train-00000-of-00001", "image/encoded",
                          "image/class/label")
        self.same(path)
        self.packs(path)

    def test_fields_and_index(self):
        need("tfrecord")
        from tfrecord.tools import tfrecord2idx

        path = self.write("own.tfrecord", "bytes", "which")
        tfrecord2idx.create_index(path, path + ".idx")
        self.same(path, fields=("bytes", "which"))
        self.packs(path, "--fields", "bytes,which")
        with self.assertRaisesRegex(headrace.ArgumentError,
                                    "record has: .*which"):
            headrace.Loader(path, STEPS)


if __name__ == "__main__":
    unittest.main()
