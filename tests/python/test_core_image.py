# SPDX-License-Identifier: Apache-2.0
"""Images with recorded ops."""

import copy
import gc
import pickle
import pickletools
import unittest

import core_samples as samples
import headrace
from core_samples import MEAN, STD, run
from headrace import ops

try:
    import numpy
except ImportError:
    numpy = None


class Images(unittest.TestCase):
    def test_recorded_ops_are_one_job(self):
        path = samples.photos()[0]
        image = (headrace.decode(path).resize_short(256)
                 .center_crop(224, 224).flip(horizontal=True))
        self.assertEqual((image.size, image.shape, image.dtype),
                         ((224, 224), (224, 224, 3), "u8"))
        self.assertEqual(len(image.ops), 4)
        job = image.start()
        self.assertIs(image.start(), job)
        self.assertEqual(len(job), 1)
        want = samples.of_command(
            [path], "decode,resize=256,center_crop=224,hflip", "--dtype=u8",
            "--layout=nhwc")
        self.assertEqual(bytes(image.pixels()), want)
        self.assertEqual(image.result.spans[-1][2], "cpu")
        numbers = image.normalize(MEAN, STD, dtype="f16")
        self.assertEqual(numbers.shape, (3, 224, 224))
        want = samples.of_command(
            [path], "decode,resize=256,center_crop=224,hflip,"
            "normalize=imagenet", "--dtype=f16")
        self.assertEqual(bytes(numbers.pixels()), want)

    def test_grey_and_orientation(self):
        path = next(p for p in samples.good() if "exif-6" in p)
        plain, turned = headrace.decode(path), headrace.decode(
            path, "L", apply_orientation=True)
        self.assertEqual(turned.size, plain.size[::-1])
        self.assertEqual(turned.channels, 1)
        self.assertEqual(memoryview(turned.pixels()).shape,
                         (*plain.size, 1))

    def test_random_ops(self):
        image = headrace.decode(samples.read(samples.small()))
        step = ops.random_resized_crop(30, 20)
        a, b, c = (image.apply(step, key=(1, 2, k)) for k in (3, 3, 4))
        self.assertEqual(bytes(a.pixels()), bytes(b.pixels()))
        self.assertNotEqual(bytes(a.pixels()), bytes(c.pixels()))

    def test_pickle_and_copy(self):
        image = headrace.decode(samples.small()).crop(1, 2, 30, 20)
        for again in (pickle.loads(pickle.dumps(image)), copy.copy(image)):
            self.assertEqual(again.ops, image.ops)
            self.assertEqual(bytes(again.pixels()), bytes(image.pixels()))
        names = [x for kind, x, _ in pickletools.genops(pickle.dumps(image, 2))
                 if kind.name == "GLOBAL"]
        self.assertEqual(names, ["headrace.image _restore"])

    def test_as_source(self):
        image = headrace.decode(samples.small()).crop(1, 2, 30, 20)
        out = headrace.Batch(3, 3, 20, 30)
        run([image, (image, ()), (image, (), (1, 2, 3))], out)
        size = out.nbytes // 3
        want = headrace.Batch(1, 3, 20, 30)
        run([(samples.small(), image.ops)], want)
        self.assertEqual(bytes(out), bytes(want) * 3)
        self.assertEqual(size, want.nbytes)

    def test_errors(self):
        image = headrace.decode(samples.small())
        with self.assertRaises(headrace.ArgumentError):
            image.crop(0, 0, image.width + 1, 1)
        self.assertRaises(headrace.ArgumentError, image.resize, 0, 5)
        with self.assertRaises(headrace.ArgumentError):
            image.normalize().flip(horizontal=True)
        self.assertRaises(headrace.PictureError, headrace.decode, b"nothing")
        self.assertRaises(headrace.ReadError, headrace.decode, "/no/such/file")
        self.assertRaises(TypeError, headrace.Image)
        data = samples.read(samples.small())
        cut = headrace.decode(data[:len(data) // 2])
        for _ in range(2):
            self.assertRaises(headrace.PictureError, cut.pixels)
        with self.assertRaises(headrace.PictureError):
            memoryview(cut._pixels)

    @unittest.skipUnless(numpy, "needs NumPy")
    def test_arrays(self):
        image = headrace.decode(samples.small()).resize(30, 20)
        made = image.numpy()
        self.assertEqual((made.shape, made.dtype), ((20, 30, 3), numpy.uint8))
        self.assertEqual(made.tobytes(), bytes(image.pixels()))
        for other in (numpy.asarray(image), numpy.from_dlpack(image)):
            self.assertEqual(other.ctypes.data, made.ctypes.data)
        kept = numpy.asarray(headrace.decode(samples.small()).resize(30, 20))
        gc.collect()
        self.assertTrue((kept == made).all())
        back = headrace.from_pixels(made).flip(horizontal=True).numpy()
        self.assertTrue((back == made[:, ::-1]).all())
        with self.assertRaises(headrace.ArgumentError):
            headrace.from_pixels(made[0])
