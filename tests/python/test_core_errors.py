# SPDX-License-Identifier: Apache-2.0
"""Failures, and the engines that results name."""

import os
import pickle
import unittest

import core_samples as samples
import headrace
from core_samples import EVAL, pixels_of, run
from headrace import _core, ops


class Failing(unittest.TestCase):
    STEPS = (ops.decode(), ops.resize(8, 6))

    def damaged(self):
        data = bytearray(samples.read(samples.small()))
        return bytes(data[:len(data) // 2])

    def submit(self, **options):
        """200 pictures, and number 77 is bad."""
        data = samples.read(samples.small())
        bad = samples.scratch() / "bad one.jpg"
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

    def test_names_in_no_encoding(self):
        name = os.fsdecode(os.fsencode(samples.scratch()) + b"/b\xe4d.jpg")
        with open(name, "wb") as file:
            file.write(b"junk")
        missing = name + ".not"
        for error, path, call in (
            (headrace.ReadError, missing, headrace.probe),
            (headrace.ReadError, missing, headrace.PackFile),
            (headrace.PictureError, name, headrace.probe),
            (headrace.PictureError, name, headrace.PackFile),
            (headrace.PictureError, name,
             lambda path: pixels_of(path, self.STEPS, 8, 6)),
        ):
            with self.assertRaises(error) as caught:
                call(path)
            self.assertIn(path, str(caught.exception))

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
        path = samples.scratch() / "a: entropy at byte 3: b.jpg"
        path.write_bytes(self.damaged())
        with self.assertRaises(headrace.PictureError) as caught:
            run([(path, self.STEPS)], headrace.Batch(1, 3, 6, 8))
        self.assertEqual(caught.exception.file, str(path))
        with self.assertRaises(headrace.PictureError) as plain:
            run([(self.damaged(), self.STEPS)], headrace.Batch(1, 3, 6, 8))
        self.assertEqual(caught.exception.reason, plain.exception.reason)

    def test_a_name_that_is_no_text(self):
        path = bytes(samples.scratch()) + b"/\xff\xfe.jpg"
        with open(path, "wb") as file:
            file.write(samples.read(samples.small()))
        want = bytes(pixels_of(samples.small(), self.STEPS, 8, 6))
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
            (([good], [7]), TypeError), (([good], []), ValueError),
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
        self.assertRaises(headrace.ArgumentError, device.stats)
        self.assertRaises(headrace.DeviceError, headrace.Device, "toaster")
        with self.assertRaisesRegex(headrace.ArgumentError, "-4 threads"):
            headrace.Device("cpu", threads=-4)
        self.assertRaises(ValueError, headrace.Device, "cpu", reference="x")
        self.assertRaises(ValueError, headrace.Device, "cpu", entropy="x")
        with self.assertRaisesRegex(headrace.ArgumentError, "a cap of 101"):
            headrace.Device("cpu", cpu_cap=101)
        with headrace.Device("cpu", balance=True, cpu_cap=50) as device:
            # There is no other engine to share with.
            self.assertEqual(device.stats()["shares"], (0, 0, 0, 0))
            self.assertEqual(device.stats()["engines"], ("cpu",))
        with headrace.Device("cpu", balance=True, latency=.5):
            pass
        self.assertRaises(ValueError, headrace.Device, "cpu", latency=-1)

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
        # Where entropy coding is decoded.
        for where, first in (("host", "cpu"), ("device", "opencl")):
            with headrace.Device("opencl", entropy=where) as device:
                job = run([(samples.small(), (ops.decode(),
                                              ops.resize(8, 6)))],
                          headrace.Batch(1, 3, 6, 8), device=device)
                self.assertTrue(job.results[0].spans[0][2].startswith(first))
