# SPDX-License-Identifier: Apache-2.0
"""Arguments that would work, but not as meant, are refused at every entry;
errors carry all that is known about them."""

import errno
import os
import pickle
import unittest

import core_samples as samples
import headrace
from headrace import _core, ops

try:
    import numpy
except ImportError:
    numpy = None

# Loaders deliver arrays.
needs_numpy = unittest.skipUnless(numpy, "needs NumPy")

NUMBERS = (ops.decode(), ops.resize(8, 6), ops.normalize(0.5, 0.25))
RANDOM = (ops.random_crop(8, 6), ops.random_resized_crop(8, 6),
          ops.random_flip(horizontal=0.5))


class Forms(unittest.TestCase):
    def test_bytes_of_normalize(self):
        path = samples.small()
        source = _core.Source(items=[path])
        ways = {
            "submit": lambda: headrace.submit(
                [(path, NUMBERS)], headrace.Batch(1, 3, 6, 8, "u8")),
            "pixels": lambda: headrace.submit(
                [(path, NUMBERS)], [headrace.Pixels(8, 6, 3)]),
            "core": lambda: _core.Loader(source, NUMBERS, dtype="u8"),
            "Loader": lambda: headrace.Loader([path], NUMBERS, dtype="u8"),
            "Pipeline": lambda: headrace.Pipeline(NUMBERS, dtype="u8"),
            "Image": lambda: headrace.decode(path).normalize(dtype="u8"),
        }
        for name, way in ways.items():
            with self.subTest(way=name), self.assertRaisesRegex(
                    headrace.ArgumentError, "keeps nothing"):
                way()

    def test_bytes_of_a_table(self):
        steps = (ops.decode(), ops.resize(8, 6), ops.table(bytes(3072)))
        out = headrace.Batch(1, 3, 6, 8, "u8")
        samples.run([(samples.small(), steps)], out)
        self.assertEqual(bytes(out), bytes(3 * 6 * 8))
        headrace.Loader([samples.small()], steps, dtype="u8")

    def test_no_such_form(self):
        path = samples.small()
        for wrong in ({"dtype": "float64"}, {"dtype": float},
                      {"layout": "chw"}, {"memory": "disk"}):
            with self.subTest(**wrong), self.assertRaises(
                    headrace.ArgumentError) as caught:
                headrace.Loader([path], NUMBERS, **wrong)  # not at first use
            self.assertIsInstance(caught.exception, ValueError)
        for wrong in ({"dtype": int}, {"layout": "chw"}):
            with self.subTest(**wrong), self.assertRaises(headrace.Error):
                headrace.Pipeline(NUMBERS, **wrong)

    def test_arrays_of_another_shape(self):
        size = 4 * 2 * 3 * 6 * 8
        for shape in ((2, 6, 8, 3), (4, 3, 6, 8), (2, 3, 8, 6), (2, 3, 48)):
            n = size if shape[0] == 2 else 2 * size
            array = memoryview(bytearray(n)).cast("f", shape)
            with self.subTest(shape=shape), self.assertRaises(
                    headrace.ArgumentError):
                headrace.Batch(2, 3, 6, 8, data=array)
        for data in (bytearray(size), bytearray(size + 5),
                     memoryview(bytearray(size)).cast("f"),
                     memoryview(bytearray(size)).cast("f", (2, 3, 6, 8))):
            headrace.Batch(2, 3, 6, 8, data=data)

    def test_dlpack_of_another_device(self):
        batch = headrace.Batch(1, 3, 6, 8)
        for device in ((2, 0), (10, 1)):
            self.assertRaises(BufferError, batch.__dlpack__, dl_device=device)
        for device in (None, (1, 0)):
            batch.__dlpack__(dl_device=device)

    def test_sizes_without_end(self):
        for sizes in ((2**31 - 1, 3, 65535, 65535), (2**30, 1, 65535, 65535)):
            with self.assertRaises(MemoryError):
                headrace.Batch(*sizes, data=bytearray(1000))

    def test_threads_without_end(self):
        before = len(os.listdir("/proc/self/task"))
        with self.assertRaisesRegex(headrace.ArgumentError, "4096"):
            headrace.Device("cpu", threads=10**6)
        self.assertLessEqual(len(os.listdir("/proc/self/task")), before)


class Keys(unittest.TestCase):
    def test_random_ops_need_one(self):
        path = samples.small()
        for op in RANDOM:
            steps = (ops.decode(), ops.resize(20, 20), op, ops.resize(8, 6))
            with self.subTest(op=op):
                for sample in ((path, steps), (path, steps, None),
                               headrace.decode(path).apply(*steps[1:])):
                    with self.assertRaisesRegex(headrace.ArgumentError,
                                                "sample 1: random ops need"):
                        headrace.submit([(path, steps, (1, 2, 3)), sample],
                                        headrace.Batch(2, 3, 6, 8))
                samples.run([(path, steps, (1, 2, 3))],
                            headrace.Batch(1, 3, 6, 8))
                with self.assertRaises(headrace.ArgumentError):
                    headrace.decode(path).apply(*steps[1:]).pixels()


@needs_numpy
class Facts(unittest.TestCase):
    def failed(self, source, **options):
        steps = (ops.decode(), ops.resize(8, 6))
        loader = headrace.Loader(source, steps, to="numpy", **options)
        with self.assertRaises(headrace.Error) as caught:
            next(iter(loader))
        zero = headrace.Loader(source, steps, to="numpy", on_error="zero",
                               **options)
        next(iter(zero))
        result, = (r for r in zero.last.results if not r.ok)
        error = caught.exception
        for name in ("file", "offset", "stage", "reason"):
            self.assertEqual(getattr(result, name), getattr(error, name))
        return error

    def test_of_a_loader(self):
        cut = samples.read(samples.small())[:700]
        path = str(samples.scratch() / "refused-cut.jpg")
        with open(path, "wb") as file:
            file.write(cut)

        sequence = type("Sequence", (), {
            "__len__": lambda self: 1, "__getitem__": lambda self, i: path})()
        for source in ([path], [(path, 3)], sequence):
            error = self.failed(source)
            self.assertIsInstance(error, headrace.PictureError)
            self.assertEqual(error.file, path)
            self.assertIsNotNone(error.offset)
            self.assertIn(error.stage, ("header", "entropy"))
            self.assertTrue(str(error).startswith(path), error)
            self.assertNotIn(path, error.reason)
        error = self.failed([(cut, 3)])
        self.assertIsNone(error.file)
        self.assertIsNotNone(error.offset)

    def test_of_what_is_not_there(self):
        missing = "/nowhere/a.jpg"
        out = headrace.Batch(1, 3, 6, 8)
        steps = (ops.decode(), ops.resize(8, 6))
        ways = (
            lambda: headrace.decode(missing),
            lambda: headrace.submit([(missing, steps)], out).wait(),
            lambda: headrace.Loader("/nowhere", steps),
            lambda: headrace.PackFile("/nowhere.hrp"),
            lambda: next(iter(headrace.Loader([(missing, 1)], steps))),
        )
        for way in ways:
            with self.assertRaises(FileNotFoundError) as caught:
                way()
            error = caught.exception
            self.assertIsInstance(error, headrace.ReadError)
            self.assertEqual(error.errno, errno.ENOENT)
            self.assertEqual(error.strerror, os.strerror(errno.ENOENT))
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.errno, str(again)),
                             (type(error), error.errno, str(error)))
        with self.assertRaises(headrace.ReadError) as caught:
            headrace.decode("/tmp")
        self.assertNotIsInstance(caught.exception, FileNotFoundError)

    def test_names_that_would_hide_others(self):
        import builtins
        self.assertEqual(
            [n for n in headrace.__all__ if hasattr(builtins, n)], [])

    def test_no_recording(self):
        """Also before the drop-in has said what its classes are."""
        class Picture:
            pass

        for hr in 5, (), (1, ()):
            with self.subTest(hr=hr), self.assertRaises(
                    (SystemError, IndexError)):
                _core.derive(Picture(), hr, (), (1, 1))

    def test_a_job_says_what_it_is(self):
        out = headrace.Batch(1, 3, 6, 8)
        job = samples.run([(samples.small(), NUMBERS)], out)
        self.assertEqual(repr(job), "<headrace.Job of 1, HR_OK>")
