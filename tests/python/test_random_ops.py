# SPDX-License-Identifier: Apache-2.0
"""Random ops: what was drawn, done by Pillow and torchvision, has our bytes."""

import collections
import io
import random
import unittest

import core_samples as samples
import headrace
import numpy as np
from headrace import _core, _oracle, ops
from PIL import Image, __version__

try:
    from torchvision.transforms import autoaugment, functional
except ImportError:
    functional = None
try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None

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
    "ta": (ops.decode(), ops.trivial_augment_wide()),
    "ta bilinear": (ops.decode("L"),
                    ops.trivial_augment_wide(filter="bilinear", fill=77)),
    "ra": (ops.decode(), ops.rand_augment()),
    "ra 3": (ops.decode(), ops.resize(64, 50),
             ops.rand_augment(3, 14, filter="bicubic", fill=(1, 128, 255))),
    **{policy: (ops.decode(), ops.auto_augment(policy, filter="bilinear"))
       for policy in ("imagenet", "cifar10", "svhn")},
    "rotation": (ops.decode(), ops.random_rotation((-400, 400), fill=9)),
    "quarters": (ops.decode(), ops.resize(31, 31),
                 *ops.random_choice(*(ops.random_rotation((d, d))
                                      for d in range(-180, 360, 90)))),
    "affine": (ops.decode(),
               ops.random_affine(30, translate=(0.2, 0.1), scale=(0.7, 1.4),
                                 shear=(-9, 9, -20, 5), filter="bilinear")),
    "affine L": (ops.decode("L"),
                 ops.random_affine((10, 20), shear=10, fill=200)),
    "perspective": (ops.decode(), ops.random_perspective(0.6, 0.8)),
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
        """drawn() is right in the loader's order, with any threads."""
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


def noise():
    pixels = np.random.default_rng(5).integers(9, 240, (29, 38, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def changed(image, name, magnitude):
    """An image changed by one op of torchvision's policies."""
    return autoaugment._apply_op(
        image, name, magnitude, functional.InterpolationMode.NEAREST, None)


@unittest.skipUnless(functional, "needs torchvision")
class Torchvision(unittest.TestCase):
    """Parameters mean what they mean there, and each outcome is as likely."""

    def made(self, op, index=0, image=None):
        image = image or noise()
        drawn = _core.draw_ops((op,), (7, index, 0), *image.size)
        return _oracle.apply(image, drawn)

    def check(self, op, want):
        np.testing.assert_array_equal(self.made(op), want, repr(op))

    def test_rotation(self):
        bilinear = functional.InterpolationMode.BILINEAR
        square = noise().resize((30, 30))
        for angle in (*range(-360, 721, 45), 1.5, 359.9, -0.1):
            op = ops.random_rotation((angle, angle), filter="bilinear", fill=7)
            self.check(op, functional.rotate(
                noise(), angle, interpolation=bilinear, fill=7))
            np.testing.assert_array_equal(
                self.made(op, image=square), functional.rotate(
                    square, angle, interpolation=bilinear, fill=7))

    def test_crop(self):
        """RandomCrop: its pads, one after the other, then the window."""
        for index, (w, h, pad, mode, fill) in enumerate((
            (30, 20, 0, "constant", (9, 0, 200)), (36, 41, 3, "constant", 80),
            (50, 25, 4, "edge", 0), (44, 31, 5, "reflect", 0),
            (41, 40, 6, "symmetric", 0), (20, 10, 0, "reflect", 0),
        )):
            op = ops.random_crop(
                w, h, pad=pad, pad_if_needed=True, mode=mode, fill=fill)
            want = functional.pad(noise(), pad, fill, mode)
            more = max(w - want.width, 0), max(h - want.height, 0)
            want = functional.pad(want, list(more), fill, mode)
            (*_, (_, x, y, *_)) = _core.draw_ops((op,), (7, index, 0), 38, 29)
            if mode == "constant":  # one window: it goes outside
                x, y = x + pad + more[0], y + pad + more[1]
            np.testing.assert_array_equal(
                self.made(op, index), functional.crop(want, y, x, h, w))

    def test_weights(self):
        """Choices come as often as their weights say."""
        steps = ops.random_choice(
            ops.invert(), ops.equalize(), ops.flip(horizontal=True),
            weights=(1, 0, 3))
        came = [_core.draw_ops(steps, (7, index, 0), 38, 29)[0]
                for index in range(2000)]
        self.assertNotIn(ops.equalize(), came)
        self.assertAlmostEqual(
            came.count(ops.invert()) / len(came), 0.25, delta=0.04)
        self.assertEqual(ops.parse(ops.text(steps)), steps)
        for bad in (0, -1, 2), (1, 2), (0, 0, float("nan")):
            with self.assertRaisesRegex(headrace.ArgumentError, "weights"):
                _core.output_size(ops.random_choice(
                    ops.invert(), ops.equalize(), ops.flip(), weights=bad),
                    8, 8)

    def test_affine(self):
        for angle, scale, shear in (
            (0, 1, (0, 0)), (30.0, 1.25, (0, 0)), (-77.5, 0.6, (12, -30)),
            (0, 2, (45, 0)),
        ):
            self.check(
                ops.random_affine(
                    (angle, angle), scale=(scale, scale),
                    shear=(shear[0], shear[0], shear[1], shear[1])),
                functional.affine(noise(), float(angle), [0, 0], float(scale),
                                  [float(x) for x in shear]))
        # Whole pixels on both sides, and all of them.
        op = ops.random_affine(translate=(0.1, 0.2))
        moves = [set(), set()]
        for index in range(600):
            (drawn,) = _core.draw_ops((op,), (7, index, 0), 40, 30)
            moves[0].add(drawn[1][2])
            moves[1].add(drawn[1][5])
        self.assertEqual(moves[0], set(range(-4, 5)))
        self.assertEqual(moves[1], set(range(-6, 7)))

    def test_perspective(self):
        """Without distortion corners stay; with it they move inwards."""
        self.check(ops.random_perspective(0.0, 1.0, filter="nearest"), noise())
        op = ops.random_perspective(0.3, 1.0)
        want = set()
        for index in range(100):
            (drawn,) = _core.draw_ops((op,), (7, index, 0), 40, 30)
            a, b, c, d, e, f, *_ = drawn[1]
            want.add(drawn)
            # The first corner of the source, by the inverse of the map.
            x, y = np.linalg.solve([[a, b], [d, e]], [-c, -f])
            self.assertTrue(-0.01 < x < 6.01 and -0.01 < y < 4.51, (x, y))
        self.assertGreater(len(want), 90)

    def check_chances(self, op, expected):
        """expected: {bytes of a picture: its probability}."""
        made, counts, draws = {}, collections.Counter(), 20000
        for index in range(draws):
            drawn = _core.draw_ops((op,), (7, index, 0), *noise().size)
            if drawn not in made:
                made[drawn] = _oracle.apply(noise(), drawn).tobytes()
            counts[made[drawn]] += 1
        self.assertAlmostEqual(sum(expected.values()), 1)
        self.assertLessEqual(set(counts), set(expected))
        # Chi-square, within four of its deviations; rare ones are one outcome.
        often = [x for x in expected if draws * expected[x] >= 5]
        pairs = [(counts[x], draws * expected[x]) for x in often]
        rest = [draws - sum(column) for column in zip(*pairs, strict=True)]
        pairs += [rest] if rest[1] > 1 else []
        square = sum((n - mean) ** 2 / mean for n, mean in pairs)
        free = len(pairs) - 1
        self.assertLess(square, free + 4 * (2 * free) ** 0.5)

    def one_of(self, space, bins):
        """The chances of one op of a space, of one of these bins."""
        expected = collections.Counter()
        for name, (magnitudes, signed) in space.items():
            those = [float(magnitudes[k]) for k in bins] if (
                magnitudes.ndim) else [0.0]
            for size in those:
                for sign in (1, -1) if signed else (1,):
                    made = changed(noise(), name, sign * size)
                    expected[made.tobytes()] += (
                        1 / len(space) / len(those) / (1 + signed))
        return expected

    @unittest.skipUnless(v2, "older linspace() is another one")
    def test_policies(self):
        space = autoaugment.TrivialAugmentWide()._augmentation_space(31)
        self.check_chances(ops.trivial_augment_wide(),
                           self.one_of(space, range(31)))
        for bins, k in (31, 9), (7, 6):
            space = autoaugment.RandAugment()._augmentation_space(
                bins, noise().size[::-1])
            self.check_chances(ops.rand_augment(1, k, bins=bins),
                               self.one_of(space, [k]))
        for policy in autoaugment.AutoAugmentPolicy:
            self.check_chances(ops.auto_augment(policy.value),
                               self.rules_of(policy))

    def rules_of(self, policy):
        stock = autoaugment.AutoAugment(policy)
        space = stock._augmentation_space(10, noise().size[::-1])
        expected = collections.Counter()
        for rule in stock.policies:
            made = [(noise(), 1 / len(stock.policies))]
            for name, p, k in rule:
                magnitudes, signed = space[name]
                size = float(magnitudes[k]) if k is not None else 0.0
                signs = (1, -1) if signed else (1,)
                made = [(image, chance * (1 - p)) for image, chance in made] + [
                    (changed(image, name, sign * size), chance * p / len(signs))
                    for image, chance in made for sign in signs]
            for image, chance in made:
                expected[image.tobytes()] += chance
        return expected


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
        self.assertEqual(made[0][1], 3)
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
