# SPDX-License-Identifier: Apache-2.0
"""Lists with ops of stage augment, drawn by chance: 0 bytes off Pillow's."""

import io
import os
import random
import subprocess
import sys
import unittest

import headrace
import numpy as np
from headrace import _core, _oracle, ops
from PIL import Image, __version__

LISTS = 250
REFERENCE = "pillow-13" if int(__version__.split(".")[0]) > 12 else "pillow-12"


def _factor(rnd):
    return rnd.choice(
        [rnd.uniform(0, 2), rnd.uniform(-1, 3), 0.0, 1.0, 0.01, 1.99])


def _picture(rnd):
    small = rnd.random() < 0.3
    side = (1, 40) if small else (60, 300)
    shape = (rnd.randrange(*side), rnd.randrange(*side), 3)
    noise = np.random.default_rng(rnd.randrange(1 << 30))
    kind = rnd.randrange(4)
    if kind == 0:
        pixels = noise.integers(0, 256, shape)
    elif kind == 1:
        pixels = noise.choice([0, 255], shape)
    elif kind == 2:
        pixels = np.full(shape, rnd.randrange(256))
    else:
        pixels = noise.normal(rnd.randrange(256), rnd.uniform(1, 60), shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


# Each draws an op for a picture of w x h: the op, and the size it makes.
def _crop(rnd, w, h):
    new_w, new_h = rnd.randrange(1, w + 1), rnd.randrange(1, h + 1)
    x, y = rnd.randrange(w - new_w + 1), rnd.randrange(h - new_h + 1)
    return ops.crop(x, y, new_w, new_h), new_w, new_h


def _pad(rnd, w, h):
    w, h = w + rnd.randrange(1, 9), h + rnd.randrange(1, 9)
    x, y = -rnd.randrange(9), -rnd.randrange(9)
    return ops.crop(x, y, w, h, pad=True), w, h


def _resize(rnd, w, h):
    w, h = rnd.randrange(1, 200), rnd.randrange(1, 200)
    filters = ["nearest", "bilinear", "bicubic"]
    return ops.resize(w, h, filter=rnd.choice(filters)), w, h


def _flip(rnd, w, h):
    x, y, turn = (rnd.random() < 0.5 for _ in range(3))
    op = ops.flip(horizontal=x, vertical=y, transpose=turn)
    return (op, h, w) if turn else (op, w, h)


GEOMETRY = [_crop, _pad, _resize, _flip]
PIXELS = {
    "adjust_brightness": _factor,
    "adjust_contrast": _factor,
    "adjust_saturation": _factor,
    "adjust_hue": lambda rnd: rnd.choice([rnd.uniform(-0.5, 0.5), 0.0, -0.5]),
    "adjust_sharpness": _factor,
    "posterize": lambda rnd: rnd.randrange(1, 9),
    "solarize": lambda rnd: rnd.choice([rnd.uniform(0, 256), 0, 128, 256]),
    "gaussian_blur": lambda rnd: rnd.choice(
        [rnd.uniform(0.1, 2), rnd.uniform(0, 9), 0.0]),
    "grayscale": None,
    "equalize": None,
    "autocontrast": None,
    "invert": None,
}


def _list(rnd, size):
    """A list of ops, and the size of what it makes."""
    w, h = size
    made = [ops.decode("L" if rnd.random() < 0.25 else "RGB")]
    for _ in range(rnd.randrange(1, 6)):
        if rnd.random() < 0.3:
            op, w, h = rnd.choice(GEOMETRY)(rnd, w, h)
        else:
            name, draw = rnd.choice(list(PIXELS.items()))
            op = getattr(ops, name)(*([draw(rnd)] if draw else []))
        made.append(op)
    return tuple(made), (w, h)


def compare(seed, lists):
    """Returns the lists whose pictures differ from Pillow's."""
    rnd = random.Random(seed)
    differ = []
    for _ in range(lists):
        picture = _picture(rnd)
        steps, size = _list(rnd, picture.size)
        file = io.BytesIO()
        picture.save(file, "PNG")
        want = np.asarray(_oracle.apply(picture, steps))
        pipeline = headrace.Pipeline(
            steps, size=size, dtype="u8", layout="nhwc", device="cpu",
            threads=1, reference=REFERENCE)
        got = pipeline([file.getvalue()]).numpy()[0]
        if not np.array_equal(got.reshape(want.shape), want):
            differ.append(steps)
    return differ


class Augment(unittest.TestCase):
    def test_lists(self):
        seed = random.randrange(1 << 30)
        self.assertEqual(compare(seed, LISTS), [], f"seed {seed}")

    def test_instruction_sets(self):
        """The readable C and AVX2; a process has one set."""
        for level in "c", "avx2":
            seed = random.randrange(1 << 30)
            script = f"import test_augment as t; print(t.compare({seed}, 60))"
            made = subprocess.run(
                [sys.executable, "-c", script],
                cwd=os.path.dirname(__file__),
                env={**os.environ, "HEADRACE_CPU": level,
                     "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True, text=True, check=False)
            self.assertEqual(made.stdout, "[]\n", (level, seed, made.stderr))

    def test_refused(self):
        """A parameter out of its range: the op, the value and the range."""
        for op, words in (
            (ops.adjust_hue(0.6), "adjust_hue: factor must be -0.5"),
            (ops.posterize(0), "posterize: bits must be 1 .. 8, not 0"),
            (ops.solarize(257.0), "solarize: threshold"),
            (ops.gaussian_blur(-1.0), "gaussian_blur: sigma"),
            (ops.adjust_contrast(float("nan")), "adjust_contrast: factor"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, words):
                _core.output_size((ops.decode(), op), 5, 5)

    def test_text_without_a_number(self):
        for name, draw in PIXELS.items():
            if draw:
                with self.assertRaisesRegex(
                        headrace.ArgumentError, "'=[A-Z]+' is missing"):
                    ops.parse(name)

    def test_arguments(self):
        """None is left out, or given twice."""
        for call in (
            lambda: ops.adjust_contrast(),
            lambda: ops.adjust_contrast(1.0, factor=2.0),
            lambda: ops.adjust_contrast(1.0, 2.0),
            lambda: ops.grayscale(1),
        ):
            self.assertRaises(TypeError, call)

    def test_size(self):
        """A code has a whole picture, also where a crop follows."""
        steps = ops.parse("resize=256,adjust_contrast=2,center_crop=224")
        with self.assertRaisesRegex(headrace.ArgumentError, "at most"):
            _core.output_size(steps, 3, 65535)

    def test_text(self):
        text = "adjust_contrast=1.5,hflip,gaussian_blur=0.5,grayscale"
        self.assertIn(text, ops.text(ops.parse(text)))


if __name__ == "__main__":
    unittest.main()
