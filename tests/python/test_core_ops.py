# SPDX-License-Identifier: Apache-2.0
"""Lists of ops: their sizes, what is drawn, tables, what is refused."""

import array
import gc
import sys
import unittest

import core_samples as samples
import headrace
from core_samples import EVAL, MEAN, STD, TRAIN, run
from headrace import _core, ops


class OpLists(unittest.TestCase):
    def test_output_size(self):
        self.assertEqual(_core.output_size(EVAL, 500, 300), (224, 224))
        self.assertEqual(
            _core.output_size((ops.decode(apply_orientation=True),), 50, 30,
                              orientation=6), (30, 50))
        self.assertEqual(_core.output_size((), 5, 3), (5, 3))
        with self.assertRaises(headrace.ArgumentError):
            _core.output_size((ops.decode(), ops.crop(0, 0, 9, 9)), 5, 5)

    def test_drawn_ops_make_the_same(self):
        path = samples.photos()[0]
        info = _core.probe(path)
        for index in range(10):
            key = (5, index, 2)
            drawn = _core.draw_ops(TRAIN, key, info.width, info.height)
            self.assertEqual(drawn, _core.draw_ops(TRAIN, key, info.width,
                                                   info.height))
            self.assertNotIn(_core.RANDOM_FLIP, [op[0] for op in drawn])
            a, b = (headrace.Batch(1, 3, 64, 96) for _ in range(2))
            run([(path, TRAIN, key)], a)
            run([(path, drawn)], b)
            self.assertEqual(bytes(a), bytes(b))
        self.assertEqual(_core.draw_ops((), None, 5, 5), ())

    def test_every_op_comes_back(self):
        table = array.array("f", range(768))
        steps = (ops.decode("L", apply_orientation=True),
                 ops.crop(1, 2, 300, 200, pad=True),
                 ops.center_crop(250, 150),
                 ops.resize(90, 80, filter="box", box=(1, 2, 30.5, 40)),
                 ops.resize(90, 81, filter="lanczos", order="vertical"),
                 ops.resize_short(70, filter="hamming"),
                 ops.fit(60, 60, filter="bicubic", enlarge=True),
                 ops.flip(transpose=True))
        for last in (ops.normalize(MEAN, STD, arithmetic="mul"),
                     ops.table(table)):
            drawn = _core.draw_ops((*steps, last), (1, 2, 3), 400, 300)
            again = _core.draw_ops(drawn, None, 400, 300)
            self.assertEqual(drawn, again)
            self.assertEqual(drawn[:-1], steps)
            self.assertEqual(drawn[-1][0], last[0])
            self.assertEqual(_core.output_size(drawn, 400, 300),
                             _core.output_size((*steps, last), 400, 300))
        self.assertIs(drawn[-1][1], table)

    def test_text(self):
        text = ("decode=gray:exif,fit=320x240:bicubic:vertical,crop=-3,4,50,60,"
                "center_crop=10x20,resize=30:box,random_hflip=0.3,"
                "random_crop=9x7:2,normalize=0.5/0.25:v2")
        steps = ops.parse(text)
        self.assertEqual(
            steps,
            (ops.decode("L", apply_orientation=True),
             ops.fit(320, 240, filter="bicubic", order="vertical"),
             ops.crop(-3, 4, 50, 60, pad=True),
             ops.center_crop(10, 20, pad=True),
             ops.resize_short(30, filter="box"),
             ops.random_flip(horizontal=0.3),
             ops.random_crop(9, 7, pad=2, pad_if_needed=True),
             ops.normalize((0.5,) * 3, (0.25,) * 3, arithmetic="mul")))
        self.assertEqual(ops.text(steps), text)
        self.assertEqual(ops.text(ops.parse("to_tensor:v2")),
                         "decode,to_tensor:v2")
        with self.assertRaisesRegex(headrace.ArgumentError, "^character 8: "):
            ops.parse("decode,resise=5")
        self.assertEqual(ops.text(()), "image")
        self.assertEqual(ops.text((ops.crop(0, 0, 5, 5),)),
                         "image,crop:w=5:h=5")
        with self.assertRaisesRegex(headrace.Error, "op 0: no text says it"):
            ops.text((ops.table(array.array("f", range(768))),))
        with self.assertRaisesRegex(headrace.ArgumentError, "character 9: NUL"):
            ops.parse("resize=5\0junk")

    def test_every_op_has_a_function(self):
        for name, (number, random, fields) in _core.OPS.items():
            function = getattr(ops, name)
            self.assertEqual(function.__name__, name)
            self.assertIsInstance(random, bool)
            if not fields:
                self.assertEqual(function(), (number,))
        with self.assertRaises(AttributeError):
            ops.resise  # noqa: B018

    def test_fixed_size(self):
        for steps, size in (
            (EVAL, (224, 224)),
            ((ops.decode(), ops.random_crop(4500, 4500)), (4500, 4500)),
            ((ops.decode(), ops.resize(40, 30), ops.flip(transpose=True)),
             (30, 40)),
            ((ops.decode(), ops.resize_short(9)), None),
            ((ops.decode(), ops.fit(9, 9)), None),
        ):
            self.assertEqual(_core.fixed_size(steps), size)
        with self.assertRaises(headrace.ArgumentError):
            _core.fixed_size((ops.crop(0, 0, 0, 1), ops.resize(5, 5)))

    def test_wrong_ones(self):
        cases = [
            ("not a list", 7, TypeError, "steps must be ops"),
            ("op is a list", ([1, 0],), TypeError, "op 0"),
            ("empty op", ((),), TypeError, "op 0"),
            ("no such op", ((99,),), ValueError, "99"),
            ("a name in its place", (("resize", 4, 4),), TypeError,
             "op 0: .*its number must be an int, not 'resize'"),
            ("float field", ((_core.CROP, 0, 1.5, 2, 2),), TypeError,
             "op 0: crop: y must be an int, not 1.5"),
            ("a string", (ops.decode(), ops.resize("224", 224)), TypeError,
             "op 1: resize: w must be an int, not '224'"),
            ("no deviation", (ops.decode(), (_core.NORMALIZE, 0.5, 0)),
             TypeError, "op 1: normalize: mean must be 1 or 3 floats"),
            ("a deviation of 0",
             (ops.decode(), (_core.NORMALIZE, (0.5,), (0,))), ValueError,
             r"op 1: normalize: std must be other than 0, not \(0,\)"),
            ("one of them",
             (ops.decode(), (_core.NORMALIZE, (0.5,), (1, 0, 0))), ValueError,
             "other than 0"),
            ("too many fields", ((_core.FLIP, 1, 0, 0, 0),), TypeError,
             "3 fields, not 4"),
            ("two means", ((_core.NORMALIZE, (1, 2), 1),), TypeError,
             "1 or 3 floats"),
            ("short box", ((_core.RESIZE, 1, 1, 0, (1, 2)),), TypeError,
             "4 floats"),
            ("double table",
             (ops.decode(), ops.table(array.array("d", [0] * 768))),
             TypeError, "float32"),
            ("short table",
             (ops.decode(), ops.table(array.array("f", [0] * 512))),
             ValueError, "2048 bytes"),
            ("33 ops", (ops.decode(),) + (ops.flip(),) * 32, ValueError, "33"),
            ("size of 0", (ops.decode(), ops.resize_short(0)), ValueError,
             "op 1: resize_short: side must be 1 or more, not 0"),
            ("negative", (ops.decode(), ops.resize(-1, 5)), ValueError,
             "resize to -1x5: a side must be 1 .. 65535"),
            ("huge", (ops.decode(), ops.crop(0, 0, 1 << 40, 1)), ValueError,
             "crop to 2147483647x1"),
        ]
        data = bytearray(samples.read(samples.small()))
        out = headrace.Batch(1, 3, 10, 10)
        for name, steps, kind, text in cases:
            with self.subTest(name):
                with self.assertRaisesRegex(kind, text) as raised:
                    headrace.submit([(data, steps)], out)
                if kind is ValueError:
                    self.assertIsInstance(raised.exception, headrace.Error)
                data.append(0)  # BufferError if it is still held

    def test_what_torch_has_not(self):
        for op in (ops.resize(4, 4, filter="box", order="torch"),
                   ops.fit(4, 4, filter="hamming", order="torch"),
                   ops.resize(4, 4, box=(0, 0, 3, 3), order="torch")):
            with self.assertRaisesRegex(headrace.Error, "torch's resize has"):
                run([(samples.small(), (ops.decode(), op))],
                    headrace.Batch(1, 3, 4, 4))

    def test_names(self):
        with self.assertRaisesRegex(ValueError, "must be one of nearest"):
            ops.resize(1, 1, filter="cubic")
        self.assertRaisesRegex(ValueError, "mode", ops.decode, "CMYK")

    def test_defaults_do_what_they_say(self):
        def flips(op, places):
            drawn = [_core.draw_ops((op,), (7, i, 0), 8, 8)
                     for i in range(1000)]
            return sum(any(op[place] for op in flip if op[0] == _core.FLIP)
                       for flip in drawn for place in places)

        self.assertAlmostEqual(flips(ops.random_flip(), [1]), 500, delta=100)
        self.assertEqual(flips(ops.random_flip(), [2, 3]), 0)
        # Only the named flip is done.
        self.assertEqual(flips(ops.random_flip(vertical=1), [1]), 0)
        self.assertEqual(flips(ops.random_flip(vertical=1), [2]), 1000)
        for never in ({"horizontal": 0}, {"horizontal": 0, "vertical": 0.0}):
            self.assertEqual(flips(ops.random_flip(**never), [1, 2, 3]), 0)
        with self.assertRaisesRegex(ValueError, "no probability is above 0"):
            _core.draw_ops(((_core.RANDOM_FLIP,),), (7, 0, 0), 8, 8)

    def test_one_number_is_a_square(self):
        for op in (ops.center_crop, ops.random_crop, ops.random_resized_crop):
            self.assertEqual(op(224), op(224, 224))
            self.assertNotEqual(op(224), op(224, 223))

    def test_no_deviation(self):
        for std in (0, 0.0, (0.2, 0, 0.2), [0, 0, 0], -0.0):
            with self.assertRaisesRegex(headrace.ArgumentError, "std must be"):
                ops.normalize(0.5, std)

    def test_a_table_is_a_normalize(self):
        table = array.array("f")
        for c in range(3):
            out = headrace.Batch(1, 3, 16, 16)
            ramp = headrace.Pixels(
                16, 16, data=bytes(i for i in range(256) for _ in range(3)))
            run([(ramp, (ops.normalize(MEAN, STD),))], out)
        table.frombytes(bytes(out))
        a, b = (headrace.Batch(1, 3, 224, 224) for _ in range(2))
        run([(samples.small(), EVAL)], a)
        run([(samples.small(), (*EVAL[:-1], ops.table(table)))], b)
        self.assertEqual(bytes(a), bytes(b))

    def test_equal_tables_are_held_once(self):
        table = array.array("f", [0.5] * 768)
        before = sys.getrefcount(table)
        step = (ops.decode(), ops.resize(4, 4), ops.table(table))
        out = headrace.Batch(40, 3, 4, 4)
        job = headrace.submit([(samples.small(), (*step,))
                               for _ in range(40)], out)
        # step's, and the job's until its end is seen.
        self.assertEqual(sys.getrefcount(table), before + 2)
        job.wait()
        del step
        self.assertEqual(set(memoryview(out).cast("B").cast("f")), {0.5})
        gc.collect()
        self.assertEqual(sys.getrefcount(table), before)
        table.append(1)
