# SPDX-License-Identifier: Apache-2.0
"""headrace._core and the package over it: pixels, memory, facts, errors."""

import array
import copy
import ctypes
import gc
import io
import os
import pathlib
import pickle
import random
import re
import sys
import tempfile
import unittest

import core_samples as samples
import headrace
from headrace import _core, ops

try:
    import numpy
except ImportError:
    numpy = None
try:
    import PIL.Image
except ImportError:
    PIL = None
try:
    import torch
except ImportError:
    torch = None

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
EVAL = (ops.decode(), ops.resize_short(256), ops.center_crop(224, 224),
        ops.normalize(MEAN, STD))
EVAL_TEXT = "decode,resize=256,center_crop=224,normalize=imagenet"
TRAIN = (ops.decode(), ops.random_resized_crop(96, 64),
         ops.random_flip(horizontal=0.5), ops.normalize(MEAN, STD))
TRAIN_TEXT = ("decode,random_resized_crop=96x64,random_hflip,"
              "normalize=imagenet")

headrace._core.set_image_backend("cpu")


def run(samples, out, **options):
    job = headrace.submit(samples, out, **options)
    job.wait()
    return job


def pixels_of(source, steps, w, h, c=3, **form):
    out = headrace.Pixels(w, h, c, **form)
    run([(source, steps)], [out])
    return out


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


@unittest.skipUnless(PIL, "needs Pillow")
class SameAsPillow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def resize(data, width, height, filter, w, h):
            image = PIL.Image.frombytes("RGB", (width, height), data)
            return image.resize((w, h), by_ours[filter]).tobytes()

        by_ours = {ours: pil for pil, ours in _core.PIL_FILTER.items()
                   if ours is not None}
        cls.reference = _core.find_reference(resize)
        if cls.reference is None:
            raise unittest.SkipTest("this Pillow resizes by no known rule")
        cls.before = _core.reference()
        _core.set_reference(cls.reference)

    @classmethod
    def tearDownClass(cls):
        _core.set_reference(cls.before)

    def test_crop_resize_flip(self):
        draw = random.Random(3)
        for path in samples.photos():
            with PIL.Image.open(path) as opened:
                stock = opened.convert("RGB")
            W, H = stock.size
            w, h = draw.randint(1, 200), draw.randint(1, 200)
            x, y = draw.randint(0, W // 2), draw.randint(0, H // 2)
            number = draw.choice([n for n, f in _core.PIL_FILTER.items()
                                  if f is not None])
            stock = stock.crop((x, y, x + W // 2, y + H // 2))
            stock = stock.resize((w, h), number)
            stock = stock.transpose(PIL.Image.Transpose.FLIP_TOP_BOTTOM)
            steps = (ops.decode(), (_core.CROP, x, y, W // 2, H // 2),
                     (_core.RESIZE, w, h, _core.PIL_FILTER[number]),
                     ops.flip(vertical=True))
            self.assertEqual(bytes(pixels_of(path, steps, w, h)),
                             stock.tobytes(), (path, number, w, h))

    def test_a_filter_that_is_not_ours(self):
        self.assertIsNone(_core.PIL_FILTER[6])


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
        noise = random.Random(1).randbytes(3 * 12 * 40)
        source = headrace.Pixels(12, 40, data=noise)
        step = (ops.resize(8, 6, filter="bicubic"),)
        before = _core.reference()
        try:
            made = {}
            for name in ("pillow-12", "pillow-13"):
                _core.set_reference(name)
                self.assertEqual(_core.reference(), name)
                out = headrace.Pixels(8, 6)
                job = run([(source, step)], [out])
                self.assertEqual(job.reference, name)
                made[name] = bytes(out)
            self.assertNotEqual(made["pillow-12"], made["pillow-13"])
        finally:
            _core.set_reference(before)
        with self.assertRaises(headrace.ArgumentError):
            _core.set_reference("pillow-1")


class Probing(unittest.TestCase):
    NAMES = ("format", "width", "height", "components", "precision",
             "orientation", "ends", "process", "color", "header_size")

    def test_path_and_bytes_agree(self):
        known = unknown = 0
        for path in samples.good():
            by_path, by_bytes = _core.probe(path), _core.probe(
                samples.read(path))
            for name in self.NAMES:
                self.assertEqual(getattr(by_path, name),
                                 getattr(by_bytes, name), (path, name))
            if by_path.all_scans is None:
                unknown += by_path.format == "jpeg"
            else:
                known += 1
                self.assertEqual(by_path.all_scans, by_bytes.all_scans, path)
        self.assertGreater(known, 5 * unknown)

    def test_facts(self):
        for path in samples.good():
            line, info = samples.described()[path], _core.probe(path)
            self.assertEqual((info.width, info.height),
                             (line["width"], line["height"]), path)
            self.assertEqual(info.orientation, line.get("orientation", 1))
            self.assertEqual(info.process == "progressive",
                             info.scans != 1 or "progressive" in line["kind"],
                             path) if info.process == "progressive" else None

    def test_a_header_longer_than_what_is_read_first(self):
        """What looks like a header at the end of the file is none."""
        def picture(w, h):
            return (b"\xff\xc0\0\x0b\x08%c%c%c%c\1\1\x11\0" % (
                h >> 8, h & 255, w >> 8, w & 255)
                + b"\xff\xda\0\x08\1\1\0\0\x3f\0" + b"\x55" * 100)

        tables = (b"\xff\xd8\xff\xdb\0\x43\0" + bytes([1] * 64)
                  + b"\xff\xc4\0\x14\0\1" + bytes(16)
                  + b"\xff\xc4\0\x14\x10\1" + bytes(16))
        for first in (8192, 8190, 4000):
            fill = first - len(tables) - 4
            data = (tables + b"\xff\xe5" + (fill + 2).to_bytes(2, "big")
                    + bytes(fill) + picture(100, 50))
            data += bytes(9000) + picture(7, 9)[:62] + b"\xff\xd9"
            path = samples.folder() / "header.jpg"
            path.write_bytes(data)
            for source in (data, path):
                info = _core.probe(source)
                self.assertEqual((info.width, info.height, info.ends),
                                 (100, 50, True), first)

    def test_scans_behind_what_is_read_first(self):
        """Of large files of several scans all are looked at, or it says so."""
        known = 0
        for path in samples.good():
            data = samples.read(path)
            if "scans" not in path and "progressive" not in path or \
                    "png" in path or len(data) > 20000:
                continue
            info = _core.probe(data)
            # A segment of 9000 bytes behind the first scan.
            at = re.compile(rb"\xff[^\0\xd0-\xd7\xff]").search(
                data, info.header_size).start()
            big = samples.folder() / "scans.jpg"
            big.write_bytes(data[:at] + b"\xff\xe5\x23\x28" + bytes(8998)
                            + data[at:])
            found = _core.probe(big)
            self.assertEqual((found.all_scans, found.scans, found.process),
                             (info.all_scans, info.scans, info.process), path)
            known += found.all_scans is not None
        self.assertGreater(known, 3)

    def test_cut_short(self):
        data = samples.read(samples.small())
        self.assertTrue(_core.probe(data).ends)
        self.assertFalse(_core.probe(data[:-1]).ends)

    def test_damage(self):
        damaged = [p for p, line in samples.described().items()
                   if line["expect"] != "ok"]
        refused = compared = 0
        for path in damaged:
            outcomes, partly = [], False
            for source in (path, samples.read(path)):
                try:
                    info = _core.probe(source)
                    outcomes.append((info.width, info.height, info.ends))
                except headrace.Error as error:
                    refused += 1
                    outcomes.append((error.status, error.offset))
                else:
                    # Of a path not all of a large file was looked at.
                    partly |= info.format == "jpeg" and not info.all_scans
            if partly:
                continue
            compared += 1
            self.assertEqual(*outcomes, path)
        self.assertGreater(refused, 20)
        self.assertGreater(compared, 40)

    def test_errors(self):
        with self.assertRaises(headrace.ReadError):
            _core.probe("/no/such/file")
        with self.assertRaises(headrace.PictureError):
            _core.probe(b"no picture")
        with self.assertRaises(headrace.ReadError):
            _core.probe(str(samples.folder()))
        with self.assertRaises(ValueError):
            _core.probe("a\0b")
        with self.assertRaises(TypeError):
            _core.probe(7)
        with self.assertRaises(TypeError):
            _core.Info()
        with self.assertRaises(AttributeError):
            _core.probe(samples.small()).width = 3

    def test_same_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "a.jpg", b"\xff.jpg":
                path = os.path.join(folder, os.fsdecode(name))
                pathlib.Path(path).write_bytes(b"1234")
                os.utime(path, ns=(0, 1234567890123456789))
                st = os.stat(path)
                file = (path, st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns)
                self.assertIs(_core.same_file(path, file), True)
                for index in range(1, 5):
                    other = list(file)
                    other[index] += 1
                    self.assertIs(_core.same_file(path, tuple(other)), False)
            self.assertIs(_core.same_file(path + "x", file), False)
            self.assertIs(_core.same_file(folder, file), False)
        self.assertIs(_core.same_file(path, file), False)
        with self.assertRaises(ValueError):
            _core.same_file("a\0b", file)
        for wrong in (path,), (7, file), (path, file[:4]), (path, list(file)):
            with self.assertRaises(TypeError):
                _core.same_file(*wrong)


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

    def test_wrong_ones(self):
        cases = [
            ("not a tuple", [ops.decode()], TypeError, "tuple"),
            ("op is a list", ([1, 0],), TypeError, "op 0"),
            ("empty op", ((),), TypeError, "op 0"),
            ("no such op", ((99,),), ValueError, "99"),
            ("float field", ((_core.CROP, 1.5, 0, 2, 2),), TypeError,
             r"op 0 \(CROP\): field 1 must be an int"),
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
             "short side"),
            ("huge", (ops.decode(), ops.crop(0, 0, 1 << 40, 1)), ValueError,
             "crop of 2147483647x1"),
        ]
        data = bytearray(samples.read(samples.small()))
        out = headrace.Batch(1, 3, 10, 10)
        for name, steps, kind, text in cases:
            with self.subTest(name):
                with self.assertRaisesRegex(kind, text):
                    headrace.submit([(data, steps)], out)
                data.append(0)  # BufferError if somebody still holds it

    def test_names(self):
        with self.assertRaisesRegex(ValueError, "must be one of nearest"):
            ops.resize(1, 1, filter="cubic")
        with self.assertRaisesRegex(ValueError, "mode"):
            ops.decode("CMYK")

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
        # step's, and the job's until somebody sees its end.
        self.assertEqual(sys.getrefcount(table), before + 2)
        job.wait()
        del step
        self.assertEqual(set(memoryview(out).cast("B").cast("f")), {0.5})
        gc.collect()
        self.assertEqual(sys.getrefcount(table), before)
        table.append(1)


class Memory(unittest.TestCase):
    STEPS = (ops.decode(), ops.resize(8, 6))

    def fill(self, n=2, **form):
        out = headrace.Batch(n, 3, 6, 8, **form)
        run([(samples.small(), self.STEPS)] * n, out)
        return out

    def test_buffers(self):
        for dtype, code, size in (("f32", "f", 4), ("f16", "e", 2),
                                  ("u8", "B", 1)):
            out = self.fill(dtype=dtype)
            view = memoryview(out)
            self.assertEqual((view.format, view.itemsize), (code, size))
            self.assertEqual(view.shape, (2, 3, 6, 8))
            self.assertEqual(view.strides, out.strides)
            self.assertEqual(view.nbytes, out.nbytes)
            self.assertTrue(view.c_contiguous)
            self.assertFalse(view.readonly)
            self.assertEqual(out.dtype, dtype)
        self.assertEqual(len(out), 2)
        out = self.fill(layout="nhwc")
        self.assertEqual(out.shape, (2, 6, 8, 3))
        self.assertEqual(ctypes.string_at(out.data_ptr, out.nbytes),
                         bytes(out))

    def test_a_buffer_keeps_it(self):
        view = memoryview(self.fill())
        gc.collect()
        self.assertEqual(bytes(view), bytes(self.fill()))

    def test_bytes_of_the_caller(self):
        want = bytes(self.fill())
        for memory in (bytearray(len(want)), array.array("f", [0] * 288),
                       bytearray(len(want) + 9)):
            out = self.fill(data=memory)
            self.assertEqual(bytes(memory)[:len(want)], want)
            with self.assertRaises((BufferError, ValueError)):
                memory.append(0)
            del out
            gc.collect()
            memory.append(0)

    def test_an_address(self):
        class Owner:
            memory = (ctypes.c_float * 288)()
        owner = Owner()
        before = sys.getrefcount(owner)
        out = self.fill(data=ctypes.addressof(owner.memory), keep=owner)
        self.assertEqual(sys.getrefcount(owner), before + 1)
        self.assertEqual(bytes(owner.memory), bytes(self.fill()))
        del out
        self.assertEqual(sys.getrefcount(owner), before)

    def test_wrong_memory(self):
        for memory, kind in ((bytes(1152), BufferError),
                             (bytearray(1151), ValueError),
                             ("text", TypeError), (0, ValueError),
                             (memoryview(bytearray(2304))[::2], ValueError)):
            with self.subTest(type(memory)), self.assertRaises(kind):
                headrace.Batch(2, 3, 6, 8, data=memory)
        for wrong in ({"dtype": "f64"}, {"layout": "chw"}, {"memory": "x"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                headrace.Batch(2, 3, 6, 8, **wrong)
        for sizes in ((0, 3, 6, 8), (2, 2, 6, 8), (2, 3, 0, 8),
                      (2, 3, 6, 70000)):
            with self.subTest(sizes), self.assertRaises(ValueError):
                headrace.Batch(*sizes)

    @unittest.skipUnless(numpy, "needs NumPy")
    def test_arrays_of_numpy(self):
        want = numpy.asarray(self.fill())
        for dtype, name in ((numpy.float32, "f32"), ("float16", "f16"),
                            (numpy.dtype("uint8"), "u8")):
            made = numpy.asarray(self.fill(dtype=name))
            mine = numpy.zeros((2, 3, 6, 8), dtype)
            out = self.fill(data=mine, dtype=mine.dtype)
            self.assertTrue((mine == made).all() and mine.any())
            self.assertEqual(numpy.asarray(out).ctypes.data, mine.ctypes.data)
        # Any part of an array whose rows have no gaps.
        large = numpy.zeros((5, 4, 9, 8), numpy.float32)
        part = large[1:5:2, 1:, 2:8]
        self.fill(data=part)
        self.assertTrue((part == want).all())
        part[:] = 0
        self.assertFalse(large.any())
        # Planes that lie interleaved row by row.
        rows = numpy.zeros((2, 6, 3, 8), numpy.float32)
        self.fill(data=rows.transpose(0, 2, 1, 3))
        self.assertTrue((rows.transpose(0, 2, 1, 3) == want).all())
        nhwc = numpy.zeros((2, 6, 8, 3), numpy.float32)
        self.fill(data=nhwc, layout="nhwc")
        self.assertTrue((nhwc.transpose(0, 3, 1, 2) == want).all())
        for wrong in (large[:2, :3, :6, ::-1], large[:2, :3, 5::-1],
                      numpy.zeros((2, 3, 6, 8), numpy.int32),
                      numpy.zeros((2, 3, 6, 8)), nhwc[:, :, :, :2],
                      numpy.zeros((2, 3, 6, 16), numpy.float32)[..., ::2],
                      numpy.zeros((2, 3, 6, 9), numpy.float32)[..., :8]):
            with self.subTest(wrong.strides):
                if wrong.flags.c_contiguous or wrong.shape[-1] == 8 and \
                        wrong.strides[-1] == 4 and wrong.strides[-2] > 0:
                    # Gaps between rows are no harm.
                    if wrong.dtype == numpy.float32:
                        self.fill(data=wrong)
                        self.assertTrue((wrong == want).all())
                        continue
                with self.assertRaises(ValueError):
                    self.fill(data=wrong)
        gaps = numpy.zeros((2, 6, 8, 4), numpy.float32)[..., :3]
        with self.assertRaises(ValueError):
            self.fill(data=gaps, layout="nhwc")

    @unittest.skipUnless(numpy, "needs NumPy")
    def test_handed_to_numpy(self):
        out = self.fill()
        want = memoryview(out).cast("B").cast("f").tolist()
        for made in (numpy.asarray(out), numpy.from_dlpack(out),
                     numpy.asarray(type("A", (), {
                         "__array_interface__": out.__array_interface__})())):
            self.assertEqual(made.ctypes.data, out.data_ptr)
            self.assertEqual(made.shape, out.shape)
            self.assertEqual(made.ravel().tolist(), want)
        kept = numpy.from_dlpack(out)
        del out, made
        gc.collect()
        self.assertEqual(kept.ravel().tolist(), want)

    def test_a_capsule_nobody_takes(self):
        out = self.fill()
        before = sys.getrefcount(out)
        for version in (None, (1, 0), (0, 8)):
            capsule = out.__dlpack__(max_version=version)
            self.assertEqual(sys.getrefcount(out), before + 1)
            self.assertIn("versioned" if version == (1, 0) else '"dltensor"',
                          repr(capsule))
            del capsule
            self.assertEqual(sys.getrefcount(out), before)
        self.assertEqual(out.__dlpack_device__(), (1, 0))
        with self.assertRaises(BufferError):
            out.__dlpack__(copy=True)

    @unittest.skipUnless(torch, "needs torch")
    def test_tensors_of_torch(self):
        want = bytes(self.fill())
        tensor = torch.zeros(2, 3, 6, 8)
        out = self.fill(data=tensor, dtype=tensor.dtype)
        self.assertEqual(tensor.numpy().tobytes(), want)
        self.assertEqual(out.data_ptr, tensor.data_ptr())
        self.fill(data=tensor.zero_().data_ptr(), keep=tensor)
        self.assertEqual(tensor.numpy().tobytes(), want)
        last = torch.zeros(2, 3, 6, 8).contiguous(
            memory_format=torch.channels_last)
        self.fill(data=last.permute(0, 2, 3, 1), layout="nhwc")
        self.assertEqual(last.contiguous().numpy().tobytes(), want)
        with self.assertRaises(ValueError):
            self.fill(data=torch.zeros(2, 3, 6, 8, dtype=torch.float64))
        back = torch.from_dlpack(self.fill())
        gc.collect()
        self.assertEqual(back.numpy().tobytes(), want)
        half = torch.from_dlpack(self.fill(dtype="f16"))
        self.assertEqual(half.dtype, torch.float16)

    @unittest.skipUnless(torch, "needs torch")
    def test_pinned_tensors(self):
        if not torch.cuda.is_available():
            self.skipTest("needs CUDA")
        tensor = torch.zeros(2, 3, 6, 8).pin_memory()
        self.fill(data=tensor)
        self.assertEqual(tensor.numpy().tobytes(), bytes(self.fill()))

    def test_read(self):
        out = headrace.Batch(4, 3, 6, 8)
        run([(p, self.STEPS) for p in samples.photos()[:4]], out)
        self.assertEqual(bytes(out.read()), bytes(out))
        part = out.read(1, 2)
        self.assertEqual(part.shape, (2, 3, 6, 8))
        self.assertEqual(bytes(part), bytes(out)[576:576 * 3])
        self.assertNotEqual(bytes(part), bytes(out)[:576 * 2])
        for wrong in ((4,), (0, 5), (-1, 2), (0, 0)):
            with self.assertRaises(headrace.ArgumentError):
                out.read(*wrong)

    def test_read_only_pixels(self):
        source = headrace.Pixels(2, 1, data=b"abcdef")
        self.assertTrue(memoryview(source).readonly)
        self.assertTrue(source.__array_interface__["data"][1])
        self.assertEqual(bytes(source.read()), b"abcdef")
        with self.assertRaises((BufferError, TypeError)):
            io.BytesIO(b"123456").readinto(source)
        out = headrace.Pixels(2, 1)
        run([(source, (ops.flip(horizontal=True),))], [out])
        self.assertEqual(bytes(out), b"defabc")
        with self.assertRaisesRegex(ValueError, "read-only"):
            headrace.submit([(out, ())], [source])

    def test_garbage(self):
        class Keep:
            pass
        keep = Keep()
        keep.batch = headrace.Batch(1, 1, 1, 1, keep=keep)
        seen = []
        keep.seen = type("Seen", (), {
            "__del__": lambda self: seen.append(1)})()
        del keep
        gc.collect()
        self.assertEqual(seen, [1])


class Failing(unittest.TestCase):
    STEPS = (ops.decode(), ops.resize(8, 6))

    def damaged(self):
        data = bytearray(samples.read(samples.small()))
        return bytes(data[:len(data) // 2])

    def submit(self, **options):
        """200 pictures, and number 77 is bad."""
        data = samples.read(samples.small())
        bad = samples.folder() / "bad one.jpg"
        bad.write_bytes(self.damaged())
        sources = [data] * 77 + [str(bad)] + [data] * 122
        out = headrace.Batch(200, 3, 6, 8, dtype="u8",
                             data=bytearray(b"\7" * 200 * 144))
        return str(bad), out, headrace.submit(
            [(s, self.STEPS) for s in sources], out, **options)

    def check_others(self, out, job, slot):
        good = bytes(pixels_of(samples.small(), self.STEPS, 8, 6,
                               layout="nchw"))
        view = bytes(out)
        for i in range(200):
            if i != 77:
                self.assertEqual(view[144 * i:144 * i + 144], good, i)
        if slot:
            self.assertEqual(view[144 * 77:144 * 78], slot)
        self.assertEqual([i for i, r in enumerate(job.results) if not r.ok],
                         [77])

    def test_fail(self):
        path, out, job = self.submit()
        with self.assertRaises(headrace.PictureError) as caught:
            job.wait()
        error = caught.exception
        self.assertEqual(error.file, path)
        self.assertEqual(error.status, "HR_ETRUNCATED")
        self.assertEqual(error.stage, "entropy")
        self.assertGreater(error.offset, 100)
        self.assertTrue(error.reason)
        self.assertIn(path, str(error))
        self.assertNotIn(path, error.reason)
        self.assertIsInstance(error, ValueError)
        self.check_others(out, job, bytes(144))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.offset, again.file),
                         (str(error), error.offset, error.file))

    def test_zero_and_skip(self):
        for mode, slot in (("zero", bytes(144)), ("skip", None)):
            path, out, job = self.submit(on_error=mode)
            job.wait()
            self.check_others(out, job, slot)
            bad = job.results[77]
            self.assertEqual((bad.status_name, bad.file, bad.stage),
                             ("HR_ETRUNCATED", path, "entropy"))
            self.assertEqual(bad.message, str(bad.message))
            self.assertTrue(bad.message.startswith(path))
        out = headrace.Batch(1, 3, 6, 8, data=bytearray(b"\7" * 576))
        run([("/no/such/file", self.STEPS)], out, on_error="skip")
        self.assertEqual(bytes(out), b"\7" * 576)

    def test_kinds(self):
        out = headrace.Batch(1, 3, 6, 8)
        cases = (("/no/such/file", headrace.ReadError, OSError, "HR_EIO"),
                 (b"nothing", headrace.PictureError, ValueError,
                  "HR_EFORMAT"),
                 (b"", headrace.PictureError, ValueError, None))
        for source, kind, builtin, status in cases:
            with self.assertRaises(kind) as caught:
                run([(source, self.STEPS)], out)
            self.assertIsInstance(caught.exception, builtin)
            self.assertIsInstance(caught.exception, headrace.Error)
            if status:
                self.assertEqual(caught.exception.status, status)
        with self.assertRaises(headrace.DeviceError) as caught:
            headrace.submit([("x", self.STEPS)], out, device="toaster")
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertEqual(caught.exception.status, "HR_ENODEVICE")

    def test_reason_of_an_odd_name(self):
        path = samples.folder() / "a: entropy at byte 3: b.jpg"
        path.write_bytes(self.damaged())
        with self.assertRaises(headrace.PictureError) as caught:
            run([(path, self.STEPS)], headrace.Batch(1, 3, 6, 8))
        self.assertEqual(caught.exception.file, str(path))
        with self.assertRaises(headrace.PictureError) as plain:
            run([(self.damaged(), self.STEPS)], headrace.Batch(1, 3, 6, 8))
        self.assertEqual(caught.exception.reason, plain.exception.reason)

    def test_a_name_that_is_no_text(self):
        path = bytes(samples.folder()) + b"/\xff\xfe.jpg"
        with open(path, "wb") as file:
            file.write(samples.read(samples.small()))
        want = bytes(pixels_of(samples.small(), self.STEPS, 8, 6))
        import os
        self.assertEqual(
            bytes(pixels_of(os.fsdecode(path), self.STEPS, 8, 6)), want)
        self.assertEqual(_core.probe(os.fsdecode(path)).format, "jpeg")

    def test_calls(self):
        out = headrace.Batch(2, 3, 6, 8)
        good = (samples.small(), self.STEPS)
        cases = (
            (([], out), ValueError), (([good] * 3, out), ValueError),
            (([good[:1]], out), TypeError), (([list(good)], out), TypeError),
            (([(7, self.STEPS)], out), TypeError),
            (([(None, self.STEPS)], out), TypeError),
            (([good + ((1, 2),)], out), TypeError),
            (([good + ((1, 2, "x"),)], out), TypeError),
            ((7, out), TypeError), (([good], None), TypeError),
            (([good], [out]), TypeError), (([good], []), ValueError),
            (([("a\0b", self.STEPS)], out), ValueError),
        )
        for args, kind in cases:
            with self.subTest(args[0]), self.assertRaises(kind):
                headrace.submit(*args)
        for wrong in ({"on_error": "x"}, {"tier": "x"}, {"timeout": -1},
                      {"first_slot": 2}, {"first_slot": -1}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                headrace.submit([good], out, **wrong)
        for wrong in ({"device": 7}, {"on_done": 7}, {"timeout": "x"}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                headrace.submit([good], out, **wrong)

    def test_first_slot(self):
        out = headrace.Batch(3, 3, 6, 8, dtype="u8")
        run([(samples.small(), self.STEPS)], out, first_slot=2)
        self.assertEqual(bytes(out)[:288], bytes(288))
        self.assertTrue(any(bytes(out)[288:]))


class Provenance(unittest.TestCase):
    def test_results(self):
        job = run([(samples.small(), EVAL)] * 2,
                  headrace.Batch(2, 3, 224, 224))
        info = _core.probe(samples.small())
        self.assertEqual(len(job), 2)
        self.assertEqual(job.device, "cpu")
        for r in job.results:
            self.assertEqual((r.status, r.status_name, r.ok, r.message),
                             (0, "HR_OK", True, ""))
            self.assertEqual((r.width, r.height, r.orientation),
                             (info.width, info.height, 1))
            self.assertEqual(r.spans[0][0], "entropy")
            self.assertEqual(r.spans[-1][1:], ("store", "cpu"))
            self.assertEqual((r.why, r.fallbacks, r.warnings), ([], 0, 0))
            self.assertIsNone(r.stage)
            self.assertIsNone(r.offset)
            self.assertIsNone(r.file)

    def test_devices(self):
        devices = headrace.devices()
        self.assertEqual(devices[-1]["name"], "cpu")
        self.assertTrue(devices[-1]["available"])
        for device in devices:
            self.assertEqual(device["available"], device["reason"] == "")

    def test_a_device_of_its_own(self):
        with headrace.Device("cpu", threads=1,
                             reference="pillow-12") as device:
            self.assertEqual((device.name, device.backend), ("cpu", "cpu"))
            job = run([(samples.small(), EVAL)],
                      headrace.Batch(1, 3, 224, 224), device=device)
            self.assertEqual(job.reference, "pillow-12")
            self.assertEqual(device.stats()["samples"], 1)
        with self.assertRaises(headrace.ArgumentError):
            device.stats()
        with self.assertRaises(headrace.DeviceError):
            headrace.Device("toaster")
        with self.assertRaises(ValueError):
            headrace.Device("cpu", reference="x")

    def test_why_an_engine_was_left(self):
        if not any(d["backend"] == "opencl" and d["available"]
                   for d in headrace.devices()):
            self.skipTest("needs an OpenCL device")
        path = next(p for p in samples.good() if "progressive-420" in p)
        out = headrace.Batch(1, 3, 6, 8, device="opencl")
        job = run([(path, (ops.decode(), ops.resize(8, 6)))], out,
                  device="opencl")
        result = job.results[0]
        self.assertIn("progressive JPEG", result.why)
        self.assertEqual(result.spans[0][2], "cpu")


class DeviceMemory(unittest.TestCase):
    STEPS = (ops.decode(), ops.resize(8, 6))

    @classmethod
    def setUpClass(cls):
        try:
            cls.device = headrace.Device("opencl")
        except headrace.DeviceError as error:
            raise unittest.SkipTest(f"needs an OpenCL device: {error}")

    @classmethod
    def tearDownClass(cls):
        cls.device.close()

    def fill(self, **form):
        out = headrace.Batch(2, 3, 6, 8, **form)
        device = form.get("device")
        job = run([(samples.small(), self.STEPS)] * 2, out, device=device)
        if device:
            self.assertEqual(job.results[1].spans[-1],
                             ("reconstruct", "store", self.device.name))
        return out

    def test_batch(self):
        want = bytes(self.fill())
        pinned = self.fill(device=self.device, memory="pinned")
        self.assertEqual((pinned.memory, bytes(pinned)), ("pinned", want))
        out = self.fill(device=self.device, memory="device")
        self.assertEqual((out.memory, out.data_ptr), ("device", None))
        self.assertEqual(bytes(out.read()), want)
        self.assertEqual(bytes(out.read(1)), want[len(want) // 2:])
        self.assertEqual(out.read().memory, "host")
        for touch in (memoryview, lambda b: b.__dlpack__()):
            with self.assertRaisesRegex(BufferError, "read"):
                touch(out)
        self.assertFalse(hasattr(out, "__array_interface__"))
        self.assertNotEqual(out.__dlpack_device__(), (1, 0))
        with self.assertRaises(ValueError):
            headrace.Batch(1, 3, 6, 8, data=bytearray(576), memory="device",
                           device=self.device)

    def test_pixels(self):
        want = bytes(pixels_of(samples.small(), self.STEPS, 8, 6))
        out = headrace.Pixels(8, 6, memory="device", device=self.device)
        run([(samples.small(), self.STEPS)], [out], device=self.device)
        self.assertEqual(bytes(out.read()), want)
        again = headrace.Pixels(8, 6, memory="device", device=self.device)
        flip = ops.flip(horizontal=True)
        run([(out, (flip,))], [again], device=self.device)
        self.assertEqual(
            bytes(again.read()),
            bytes(pixels_of(samples.small(), (*self.STEPS, flip), 8, 6)))

    def test_of_another_device(self):
        out = self.fill(device=self.device, memory="device")
        with self.assertRaises(headrace.ArgumentError):
            headrace.submit([(samples.small(), self.STEPS)], out,
                            device="cpu")


class Backend(unittest.TestCase):
    def test_the_call_and_back(self):
        before = headrace.get_image_backend()
        with headrace.image_backend("cpu") as name:
            self.assertEqual(name, "cpu")
            with headrace.image_backend("auto") as inner:
                self.assertEqual(headrace.get_image_backend(), inner)
            self.assertEqual(headrace.get_image_backend(), "cpu")
        with self.assertRaises(headrace.DeviceError):
            headrace.set_image_backend("toaster")
        self.assertEqual(headrace.get_image_backend(), before)
        with self.assertRaises(ZeroDivisionError):
            with headrace.image_backend("cpu"):
                1 / 0

    def test_the_drop_in_follows(self):
        from headrace import dropin
        self.assertFalse(dropin.installed())
        with headrace.image_backend("cpu"):
            self.assertTrue(dropin.installed())
            with headrace.image_backend("cpu"):
                pass
            self.assertTrue(dropin.installed())
        self.assertFalse(dropin.installed())
        headrace.set_image_backend("cpu")
        self.assertTrue(dropin.installed())
        headrace.set_image_backend(None)
        self.assertFalse(dropin.installed())
        headrace.set_image_backend("cpu")
        headrace.reset_image_backend()
        self.assertFalse(dropin.installed())


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
        with self.assertRaises(headrace.ArgumentError):
            image.resize(0, 5)
        with self.assertRaises(headrace.ArgumentError):
            image.normalize().flip(horizontal=True)
        with self.assertRaises(headrace.PictureError):
            headrace.decode(b"nothing")
        with self.assertRaises(headrace.ReadError):
            headrace.decode("/no/such/file")
        with self.assertRaises(TypeError):
            headrace.Image()
        data = samples.read(samples.small())
        cut = headrace.decode(data[:len(data) // 2])
        for _ in range(2):
            with self.assertRaises(headrace.PictureError):
                cut.pixels()
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


class Importing(unittest.TestCase):
    def test_nothing_heavy(self):
        import subprocess
        text = ("import sys, headrace; print([m for m in ('numpy', 'PIL', "
                "'torch', 'torchvision', 'asyncio') if m in sys.modules])")
        done = subprocess.run([sys.executable, "-c", text], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "[]")


if __name__ == "__main__":
    unittest.main()
