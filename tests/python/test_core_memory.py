# SPDX-License-Identifier: Apache-2.0
"""Memory of batches and pixels: its owner, its readers, its device."""

import array
import ctypes
import gc
import io
import sys
import unittest

import core_samples as samples
import headrace
from core_samples import pixels_of, run
from headrace import ops

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


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
            self.assertRaises((BufferError, ValueError), memory.append, 0)
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
                self.assertRaises(ValueError, self.fill, data=wrong)
        gaps = numpy.zeros((2, 6, 8, 4), numpy.float32)[..., :3]
        self.assertRaises(ValueError, self.fill, data=gaps, layout="nhwc")

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

    def test_an_unused_capsule(self):
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
        self.assertRaises(BufferError, out.__dlpack__, copy=True)

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
            self.assertRaises(headrace.ArgumentError, out.read, *wrong)

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
            self.assertRaisesRegex(BufferError, "read", touch, out)
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
