# SPDX-License-Identifier: Apache-2.0
"""Ops of stage augment: their parameters, texts and sizes. (That their
pixels are Pillow's: tests/compare/compare_ops.py.)"""

import random
import unittest

import headrace
import op_draws
from headrace import _core, ops
from PIL import __version__

class Augment(unittest.TestCase):
    def test_refused(self):
        """A parameter out of its range: the op, the value and the range."""
        for op, words in (
            (ops.adjust_hue(0.6), "adjust_hue: factor must be -0.5"),
            (ops.posterize(0), "posterize: bits must be 1 .. 8, not 0"),
            (ops.solarize(257.0), "solarize: threshold"),
            (ops.gaussian_blur(-1.0), "gaussian_blur: sigma"),
            (ops.adjust_contrast(float("nan")), "adjust_contrast: factor"),
            (ops.affine((float("inf"), 0, 0, 0, 1, 0)), "affine: matrix is"),
            (ops.affine(w=5), "affine to 5x0: a side must be 1"),
            (ops.affine(fill=(0, 1, 256)), "affine: fill must be an int or 3"),
            (ops.kernel3([1, -1] + [0] * 7), "kernel3: 1 divided by"),
            (ops.box_blur((1.0, -1.0)), "box_blur: radius must be 0 .. 10000"),
            (ops.autocontrast((0, 101.0)), "autocontrast: cutoff must be 0 .."),
            (ops.permute_channels((0, 1, 3)), "permute_channels: from"),
            (ops.adjust_gamma(-1.0), "adjust_gamma: gamma must be 0 .."),
            (ops.solarize_add(256), "solarize_add: add must be -255 .. 255"),
            (ops.pad(-3), "pad of -3,-3,-3,-3 leaves nothing of 5x5"),
            (ops.rotate(float("nan")), "rotate: angle must be"),
            (ops.lut(bytes(255)), "lut: table must be a buffer of 256 or 768"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, words):
                _core.output_size((ops.decode(), op), 5, 5)

    def test_matrices(self):
        """They are torchvision's, those of LAPACK to one float32."""
        try:
            from torchvision.transforms import functional as F
        except ImportError:
            self.skipTest("no torchvision")
        rnd = random.Random(5)
        for _ in range(300):
            angle, scale = rnd.uniform(-200, 200), rnd.uniform(0.1, 3)
            shear = rnd.uniform(-80, 80), rnd.uniform(-80, 80)
            move = rnd.uniform(-9, 9), rnd.uniform(-9, 9)
            center = rnd.uniform(0, 99), rnd.uniform(0, 99)
            op = ops.affine(angle=angle, scale=scale, shear=shear,
                            translate=move, center=center)
            want = F._get_inverse_affine_matrix(
                center, angle, move, scale, shear)
            self.assertEqual(list(op[1]), want)
            start = [(0, 0), (99, 0), (99, 79), (0, 79)]
            end = [(x + rnd.randrange(-30, 30), y + rnd.randrange(-30, 30))
                   for x, y in start]
            op = ops.perspective(start=start, end=end)
            want = F._get_perspective_coeffs(start, end)
            off = 2e-7 if int(__version__.split(".")[0]) > 9 else 1e-4
            for got, number in zip(op[1], want):
                self.assertLessEqual(
                    abs(got - number), off * max(1, abs(number)))
        with self.assertRaisesRegex(headrace.ArgumentError, "nothing moves"):
            ops.perspective(start=start, end=[(0, 0)] * 4)

    def test_lut_is_drawn(self):
        """A table is borrowed, and comes back as bytes."""
        table = bytes(reversed(range(256)))
        steps = ops.decode(), ops.lut(bytearray(table)), ops.equalize()
        drawn = _core.draw_ops(steps, None, 5, 5)
        self.assertEqual(drawn[1], (steps[1][0], table))
        with self.assertRaisesRegex(headrace.Error, "no text says it"):
            ops.text(steps)

    def test_text_without_a_number(self):
        for name in op_draws.DRAWS:
            if name.startswith("adjust") or name in ("affine", "posterize"):
                with self.assertRaisesRegex(
                        headrace.ArgumentError, "'=[A-Z,]+' is missing"):
                    ops.parse(name)

    def test_arguments(self):
        """None is left out, or given twice."""
        for call in (
            lambda: ops.adjust_contrast(),
            lambda: ops.adjust_contrast(1.0, factor=2.0),
            lambda: ops.adjust_contrast(1.0, 2.0),
            lambda: ops.grayscale(1, 2),
        ):
            self.assertRaises(TypeError, call)

    def test_size(self):
        """A code has a whole picture, also where a crop follows."""
        steps = ops.parse("resize=256,adjust_contrast=2,center_crop=224")
        with self.assertRaisesRegex(headrace.ArgumentError, "at most"):
            _core.output_size(steps, 3, 65535)

    def test_fixed_size_of_larger(self):
        """Ops that make the largest picture larger may be in a list."""
        for text in "pad=2,2,2,2", "rotate:angle=9:expand":
            steps = ops.parse(text + ",resize=9x7")
            self.assertEqual(_core.fixed_size(steps), (9, 7))
        with self.assertRaisesRegex(headrace.ArgumentError, "at most 65535"):
            _core.fixed_size(ops.parse("pad=60000,0,0,0"))

    def test_text(self):
        for text in (
            "adjust_contrast=1.5,hflip,gaussian_blur=0.5,grayscale",
            "adjust_hue=0.25,grayscale=1,equalize",
            "affine=1,0.5,-3,0,1,2:nearest:255,0,7,hflip",
            "perspective=1,0,0,0,1,0,0.001,0",
            "kernel3=smooth,kernel3=1,0,0,0,2,0,0,0,0:3:-1,box_blur=2,0.5",
            "rotate=30.5:bicubic:255,rotate:angle=9.5:expand,pad=4,0,-1,2",
            "rotate:angle=1:around:center=3,0.5,pad=1,1,1,1:reflect",
            "autocontrast,autocontrast=2,autocontrast=0,7.5",
            "adjust_gamma=2.2,solarize_add=40,permute_channels=2,1,0",
            "affine:matrix=1,0,0,0,1,4:w=40:h=30:filter=bicubic:centered",
        ):
            self.assertIn(text, ops.text(ops.parse(text)))


if __name__ == "__main__":
    unittest.main()
