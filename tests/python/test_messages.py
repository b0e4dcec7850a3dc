# SPDX-License-Identifier: Apache-2.0
"""Beginners' mistakes: the message names the argument, its value, and the
allowed ones. Another library's spelling is accepted, or its message names
ours."""

import importlib.util
import unittest

import core_samples as samples
import headrace
from headrace import ops

STEPS = [ops.decode(), ops.resize(8, 8), ops.normalize(0.5, 0.5)]


def there(*modules):
    return all(map(importlib.util.find_spec, modules))


class Messages(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")
        self.cat = samples.photos()[0]

    def refused(self, kind, call, *words):
        with self.assertRaises(kind) as raised:
            call()
        for word in words:
            self.assertIn(word, str(raised.exception))

    def submit(self, *sample):
        headrace.submit([sample], headrace.Batch(1, 3, 8, 8)).wait()

    def test_ops(self):
        for op, kind, words in (
            (ops.resize(8, None), ValueError, ("resize to 8x0", "1 .. 65535")),
            (ops.resize(100000, 5), ValueError, ("100000x5", "1 .. 65535")),
            (ops.crop(0, 0, 0, 5), ValueError, ("0x5", "1 .. 65535")),
            (ops.crop("a", 0, 5, 5), TypeError, ("crop: x", "'a'")),
            (ops.random_crop(5, 5, pad=-1), ValueError, ("pad must", "-1")),
            (ops.random_flip(horizontal=2), ValueError, ("2", "0 .. 1")),
            (ops.random_resized_crop(8, scale=(0.5, 0.1)), ValueError,
             ("scale 0.5 .. 0.1",)),
        ):
            with self.subTest(op):
                self.refused(
                    kind,
                    lambda: headrace.draw_ops((op,), (0, 0, 0), 99, 99),
                    *words)

    def test_steps(self):
        for steps in (None, 7, [None], [ops.decode(), "resize"]):
            for call in (lambda: headrace.Loader(self.root, steps),
                         lambda: headrace.Pipeline(steps),
                         lambda: self.submit(self.cat, steps)):
                self.refused(TypeError, call, "steps must be ops",
                             "transforms of torchvision")
        # Lists go where tuples do.
        self.submit(self.cat, STEPS)

    def test_loader(self):
        for options, kind, words in (
            ({"seed": "7"}, TypeError, ("seed", "an int", "'7'")),
            ({"batch": 2.5}, TypeError, ("batch", "an int", "2.5")),
            ({"epochs": "all"}, TypeError, ("epochs", "an int", "'all'")),
            ({"weights": [1, 2, 3]}, ValueError,
             ("weights: 3", f"{len(samples.photos())} samples")),
            ({"batch_size": 3}, TypeError, ("'batch_size'", "batch")),
            ({"num_workers": 3}, TypeError, ("'num_workers'", "threads")),
            ({"collate_fn": 3}, TypeError, ("'collate_fn'",)),
            ({"no_such": 3}, TypeError, ("'no_such'",)),
        ):
            with self.subTest(options):
                self.refused(
                    kind,
                    lambda: headrace.Loader(self.root, STEPS, **options),
                    *words)

    def test_names(self):
        for wrong in (0, b"cpu", ["cpu"]):
            self.refused(TypeError, lambda: headrace.set_image_backend(wrong),
                         "name must be a str", repr(wrong))
        self.refused(headrace.ArgumentError,
                     lambda: headrace.set_reference("pillow-11"),
                     "'pillow-11'", "pillow-12, pillow-12.2, pillow-13")

    @unittest.skipUnless(there("numpy", "PIL"), "needs numpy and Pillow")
    def test_pixels(self):
        import numpy
        from PIL import Image

        array = numpy.zeros((9, 8, 3), numpy.uint8)
        self.refused(ValueError, lambda: headrace.decode(array), "(9, 8, 3)",
                     "from_pixels()")
        self.refused(TypeError, lambda: headrace.decode(Image.new("L", (2, 2))),
                     "from_pixels(")
        self.refused(TypeError, lambda: headrace.from_pixels([1, 2]), "list",
                     "asarray")
        self.refused(ValueError, lambda: headrace.from_pixels(array[..., ::2]),
                     "gaps", "ascontiguousarray")
        self.refused(ValueError,
                     lambda: headrace.from_pixels(array.astype("f")), "uint8",
                     "(9, 8, 3)")
        part = headrace.from_pixels(array[2:6, 1:4])
        self.assertEqual(part.numpy().shape, (4, 3, 3))

    @unittest.skipUnless(there("numpy"), "needs numpy")
    def test_dtypes(self):
        import numpy

        for name, short in ("float32", "f32"), ("float16", "f16"), \
                ("uint8", "u8"):
            for dtype in (name, short, getattr(numpy, name),
                          numpy.dtype(name)):
                batch = headrace.Batch(1, 3, 4, 4, dtype=dtype)
                self.assertIn(f" {short} ", repr(batch))
                steps = STEPS[:2] if short == "u8" else STEPS
                self.assertEqual(
                    headrace.Pipeline(steps, dtype=dtype).dtype, short)
                loader = headrace.Loader(
                    [(self.cat, 0)], steps, batch=1, epochs=1, to="numpy",
                    dtype=dtype)
                self.assertEqual([x.dtype.name for x, _ in loader], [name])
        for wrong in float, numpy.float64, "f64", 7:
            self.refused(headrace.ArgumentError,
                         lambda: headrace.Batch(1, 3, 4, 4, dtype=wrong),
                         "dtype", "float32")

    @unittest.skipUnless(there("torchvision"), "needs torchvision")
    def test_transforms(self):
        from torchvision import transforms as T

        steps = [T.Resize((8, 8)), T.ToTensor(), T.Normalize(0.5, 0.25)]
        made = []
        for transform in (steps, tuple(steps), T.Compose(steps),
                          T.Compose([T.Compose(steps[:1]), *steps[1:]])):
            loader = headrace.Loader([(self.cat, 0)], transform, batch=1,
                                     epochs=1, to="numpy")
            made += [bytes(x) for x, _ in loader]
            made.append(bytes(headrace.Pipeline(transform)([self.cat])
                              .numpy()))
            out = headrace.Batch(1, 3, 8, 8)
            headrace.submit([(self.cat, transform)], out).wait()
            made.append(bytes(out))
        self.assertEqual((len(made), len(set(made))), (12, 1))
        three = (0.5,) * 3, (0.25,) * 3
        out = headrace.Batch(1, 3, 8, 8)
        self.submit(self.cat, STEPS)
        headrace.submit([(self.cat, (*STEPS[:2], ops.normalize(*three)))],
                        out).wait()
        self.assertEqual(bytes(out), made[0])
        self.refused(headrace.ArgumentError,
                     lambda: headrace.Loader(self.root, [T.GaussianBlur(3)]),
                     "GaussianBlur", "set_image_backend")
        self.refused(headrace.ArgumentError, lambda: headrace.Loader(
            self.root, [T.ToTensor(), T.Normalize("a", 1)]), "Normalize")
