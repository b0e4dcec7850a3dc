# SPDX-License-Identifier: Apache-2.0
"""Pixels of headrace._core: as the command, by each rule of resizing. (That
they are Pillow's: tests/compare/compare_ops.py.)"""

import array
import pathlib
import random
import unittest

import core_samples as samples
import headrace
from core_samples import EVAL, EVAL_TEXT, TRAIN, TRAIN_TEXT, pixels_of, run
from headrace import _core, ops


class SameAsTheCommand(unittest.TestCase):
    """Bytes are those of `headrace run`."""

    def check(self, steps, text, w, h, *options, seed=None, **form):
        paths = samples.photos()
        out = headrace.Batch(len(paths), 3, h, w, **form)
        key = [((seed, i, 0),) if seed is not None else ()
               for i in range(len(paths))]
        run([(p, steps, *k) for p, k in zip(paths, key)], out)
        self.assertEqual(bytes(memoryview(out)),
                         samples.of_command(paths, text, *options))

    def test_float32(self):
        self.check(EVAL, EVAL_TEXT, 224, 224)

    def test_float16_interleaved(self):
        self.check(EVAL, EVAL_TEXT, 224, 224, "--dtype=f16", "--layout=nhwc",
                   dtype="f16", layout="nhwc")

    def test_bytes(self):
        self.check(EVAL[:3], "decode,resize=256,center_crop=224", 224, 224,
                   "--dtype=u8", dtype="u8")

    def test_random_ops_of_a_seed(self):
        self.check(TRAIN, TRAIN_TEXT, 96, 64, "--seed=11", seed=11)
        with self.assertRaises(AssertionError):
            self.check(TRAIN, TRAIN_TEXT, 96, 64, "--seed=12", seed=11)

    def test_each_op(self):
        cases = {
            "crop=3,5,70,40": (ops.crop(3, 5, 70, 40),),
            "resize=70x40:bicubic:vertical": (
                ops.resize(70, 40, filter="bicubic", order="vertical"),),
            "resize=70x40:lanczos": (ops.resize(70, 40, filter="lanczos"),),
            "resize=70x40:nearest,hflip": (
                ops.resize(70, 40, filter="nearest"),
                ops.flip(horizontal=True)),
            "resize=70x40:box,vflip": (
                ops.resize(70, 40, filter="box"), ops.flip(vertical=True)),
            "resize=40x70:hamming,transpose": (
                ops.resize(40, 70, filter="hamming"),
                ops.flip(transpose=True)),
            "random_crop=70x40:4": (ops.random_crop(70, 40, pad=4),),
        }
        for text, steps in cases.items():
            with self.subTest(text):
                self.check((ops.decode(), *steps), "decode," + text, 70, 40,
                           "--dtype=u8", "--layout=nhwc", dtype="u8",
                           layout="nhwc", seed=0)

    def test_each_sample_has_its_own_ops(self):
        lists = []
        for i in range(12):
            flips = (ops.flip(horizontal=True),) * (i % 3)
            lists.append((ops.decode(), ops.crop(i, 2 * i, 40 + i, 30),
                          *flips, ops.resize(20, 10)))
        lists[5:7] = [lists[4]] * 2
        out = headrace.Batch(12, 3, 10, 20, dtype="u8", layout="nhwc")
        run([(samples.small(), steps) for steps in lists], out)
        for i, steps in enumerate(lists):
            self.assertEqual(bytes(out)[600 * i:600 * i + 600],
                             bytes(pixels_of(samples.small(), steps, 20, 10)),
                             i)

    def test_every_kind_of_file(self):
        steps = (ops.decode(), ops.resize(50, 40))
        paths = samples.good()
        out = headrace.Batch(len(paths), 3, 40, 50, dtype="u8")
        run([(p, steps) for p in paths], out)
        self.assertEqual(
            bytes(memoryview(out)),
            samples.of_command(paths, "decode,resize=50x40", "--dtype=u8"))

    def test_every_kind_of_source(self):
        path = samples.small()
        data = samples.read(path)
        steps = (ops.decode(), ops.resize(20, 10))
        want = bytes(pixels_of(path, steps, 20, 10))
        self.assertGreater(len(set(want)), 20)
        for source in (data, bytearray(data), memoryview(data),
                       array.array("B", data), pathlib.Path(path),
                       memoryview(b"xx" + data + b"y")[2:-1]):
            with self.subTest(type(source)):
                self.assertEqual(bytes(pixels_of(source, steps, 20, 10)),
                                 want)
        w, h = _core.probe(path).width, _core.probe(path).height
        whole = pixels_of(path, (ops.decode(),), w, h)
        self.assertEqual(bytes(pixels_of(whole, steps[1:], 20, 10)), want)


class References(unittest.TestCase):
    def resize_as(self, reference):
        def resize(data, width, height, filter, w, h):
            self.asked += 1
            order = _core.resize_order(reference, width, height, w, h)
            source = headrace.Pixels(width, height, data=data)
            step = (_core.RESIZE, w, h, filter, None, order)
            return memoryview(pixels_of(source, (step,), w, h)).tobytes()
        self.asked = 0
        return resize

    def test_each_is_found(self):
        for name in ("pillow-12", "pillow-12.2", "pillow-13"):
            self.assertEqual(_core.find_reference(self.resize_as(name)), name)
            self.assertGreater(self.asked, 3)

    def test_none_is_found(self):
        self.assertIsNone(
            _core.find_reference(lambda d, W, H, f, w, h: bytes(3 * w * h)))

    def test_what_resize_raises(self):
        with self.assertRaises(ZeroDivisionError):
            _core.find_reference(lambda *args: 1 / 0)
        with self.assertRaisesRegex(ValueError, "returned 3 bytes"):
            _core.find_reference(lambda *args: b"123")

    def test_it_counts_for_jobs(self):
        noise = random.Random(1).randbytes(3 * 60 * 200)
        source = headrace.Pixels(60, 200, data=noise)
        step = (ops.resize(40, 30, filter="bicubic"),)
        before = _core.reference()
        try:
            made = {}
            for name in ("pillow-12", "pillow-13", "torch-2"):
                _core.set_reference(name)
                self.assertEqual(_core.reference(), name)
                out = headrace.Pixels(40, 30)
                job = run([(source, step)], [out])
                self.assertEqual(job.reference, name)
                made[name] = bytes(out)
            self.assertEqual(len(set(made.values())), 3)
        finally:
            _core.set_reference(before)
        with self.assertRaises(headrace.ArgumentError):
            _core.set_reference("pillow-1")
