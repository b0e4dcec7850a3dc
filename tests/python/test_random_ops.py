# SPDX-License-Identifier: Apache-2.0
"""Random ops: what was drawn, done by Pillow and torchvision, has our bytes."""

import io
import random
import unittest

import core_samples as samples
import headrace
import numpy as np
from headrace import _core, _oracle, ops
from PIL import Image, __version__

try:
    from torchvision.transforms import functional
except ImportError:
    functional = None

REFERENCE = "pillow-13" if int(__version__.split(".")[0]) > 12 else "pillow-12"
SIMCLR = (
    ops.decode(),
    ops.random_resized_crop(64, 48, scale=(0.2, 1.0)),
    ops.random_flip(),
    *ops.random_apply([ops.color_jitter(0.8, 0.8, 0.8, 0.2)], 0.8),
    ops.random_grayscale(0.2),
)
LISTS = {
    "simclr": SIMCLR,
    "moco": (*SIMCLR, ops.random_gaussian_blur(), ops.random_solarize(99.5)),
    "jitter": (ops.decode(), ops.color_jitter((0, 3), 1.5, (0.5, 2), 0.5)),
    "grey": (ops.decode("L"), ops.color_jitter(0.4, 0.4, 0.4, 0.1),
             ops.random_grayscale(0.5)),
    "between": (ops.decode(), ops.random_grayscale(0.3), ops.resize(40, 30),
                ops.color_jitter(contrast=0.5),
                ops.random_crop(30, 30, pad=4)),
    "groups": (
        ops.decode(),
        *ops.random_choice(
            ops.equalize(),
            [ops.posterize(3), ops.invert()],
            ops.random_apply([ops.solarize(100.0), ops.autocontrast()]),
            ops.random_choice(ops.color_jitter(hue=0.5), ops.flip()),
        ),
        ops.random_flip(vertical=0.5),
    ),
}


def picture(rnd):
    shape = (rnd.randrange(1, 90), rnd.randrange(1, 90), 3)
    noise = np.random.default_rng(rnd.randrange(1 << 30))
    pixels = noise.normal(rnd.randrange(256), rnd.uniform(1, 90), shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def by_torchvision(image, steps):
    """The same by torchvision's functions, where they have a name of ours."""
    names = {_core.OPS[name][0]: name for name in _core.OPS}
    for number, *fields in steps:
        name = names[number]
        if name.startswith("adjust_"):
            image = getattr(functional, name)(image, *fields)
        elif name == "grayscale":
            image = functional.rgb_to_grayscale(
                image, len(image.getbands()))
        else:
            image = _oracle.apply(image, [(number, *fields)])
    return image


class Drawn(unittest.TestCase):
    def compare(self, steps, seed):
        rnd = random.Random(seed)
        for index in range(40):
            image = picture(rnd)
            file = io.BytesIO()
            image.save(file, "PNG")
            key = (seed, index, 3)
            drawn = _core.draw_ops(steps, key, *image.size)
            want = _oracle.apply(image, drawn)
            got = headrace.Pipeline(
                steps, size=want.size, dtype="u8", layout="nhwc",
                device="cpu", threads=1, seed=seed, reference=REFERENCE)(
                    [file.getvalue()], indices=[index], epoch=3).numpy()[0]
            np.testing.assert_array_equal(
                got.reshape(np.asarray(want).shape), want, repr(drawn))
            if functional:
                np.testing.assert_array_equal(
                    by_torchvision(image, drawn), want, repr(drawn))

    def test_lists(self):
        for name, steps in LISTS.items():
            with self.subTest(name):
                self.compare(steps, random.randrange(1 << 30))

    def test_texts(self):
        for steps in LISTS.values():
            text = ops.text(steps)
            for key in (1, 2, 3), (4, 5, 6):
                self.assertEqual(
                    _core.draw_ops(ops.parse(text), key, 40, 50),
                    _core.draw_ops(steps, key, 40, 50))
            self.assertEqual(ops.text(ops.parse(text)), text)
        self.assertEqual(
            ops.text(ops.parse("image,color_jitter=0.4:0.3:0:0.1")),
            "image,color_jitter=0.4:0.3:0:0.1")

    def test_loader(self):
        """In its order, with its threads: what drawn() says."""
        root = str(samples.folder() / "photos")
        made = {}
        for threads in 1, 3:
            batches = headrace.Loader(
                root, SIMCLR, batch=5, to="numpy", shuffle=True, seed=9,
                threads=threads)
            for x, _ in batches:
                for i, index in enumerate(batches.last.indices):
                    want = headrace.Pipeline(batches.drawn(i), size=(64, 48))(
                        [batches.path(index)]).numpy()[0]
                    np.testing.assert_array_equal(x[i], want)
                    made.setdefault(threads, {})[index] = x[i].copy()
        for index, x in made[1].items():
            np.testing.assert_array_equal(x, made[3][index])


class Functions(unittest.TestCase):
    def test_color_jitter(self):
        """Numbers and pairs, as torchvision's ColorJitter reads them."""
        op = ops.color_jitter(0.4, 2, (0.5, 0.7), 0.1)
        self.assertEqual(
            op[1:], ((0.6, 1.4), (0.0, 3.0), (0.5, 0.7), (-0.1, 0.1)))
        self.assertEqual(ops.color_jitter()[1:], (None,) * 4)
        for call in (
            lambda: ops.color_jitter(-1),
            lambda: ops.color_jitter((0, 0)),
        ):
            self.assertRaises(headrace.ArgumentError, call)
        with self.assertRaisesRegex(headrace.ArgumentError, "hue -0.6"):
            _core.output_size((ops.color_jitter(hue=0.6),), 5, 5)

    def test_groups(self):
        """They count items; those of an inner group are not their own."""
        inner = ops.random_apply([ops.invert(), ops.equalize()], 0.3)
        for steps in [inner, ops.grayscale()], [*inner, ops.grayscale()]:
            made = ops.random_apply(steps, 0.25)
            self.assertEqual(made[0][1:], (0.25, 2))
            self.assertEqual(made[1:], (*inner, ops.grayscale()))
        made = ops.random_choice(inner, ops.invert(), [*inner, ops.invert()])
        self.assertEqual(made[0][1:], (3,))
        self.assertEqual(made[5][1:], (1.0, 2))
        self.assertEqual(len(made), 1 + 3 + 1 + 1 + 4)
        for call in (
            lambda: ops.random_apply([]),
            lambda: ops.random_choice(ops.invert(), []),
        ):
            self.assertRaisesRegex(headrace.ArgumentError, "no steps", call)
        # A text may leave out a count of 1.
        short = ops.parse("image,random_apply=0.3,invert")
        self.assertEqual(ops.random_apply(short)[0][1:], (0.5, 1))

    def test_refused(self):
        for steps, words in (
            (ops.random_apply([ops.resize(5, 5)]), "not in a group"),
            (ops.random_apply([ops.grayscale()], 1.5), "p must be 0 .. 1"),
            (ops.random_choice(), "count must be 1"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, words):
                _core.output_size((ops.decode(), *steps), 5, 5)


if __name__ == "__main__":
    unittest.main()
