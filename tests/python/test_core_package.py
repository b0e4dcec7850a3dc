# SPDX-License-Identifier: Apache-2.0
"""The package itself: what it imports, and the choice of a backend."""

import subprocess
import sys
import unittest

import core_samples  # noqa: F401  takes the CPU
import headrace


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


class Importing(unittest.TestCase):
    def test_nothing_heavy(self):
        text = ("import sys, headrace; print([m for m in ('numpy', 'PIL', "
                "'torch', 'torchvision', 'asyncio') if m in sys.modules])")
        done = subprocess.run([sys.executable, "-c", text], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "[]")

    def test_a_free_threaded_build_is_refused(self):
        # (Its flags; the module itself could not be loaded there.)
        text = ("import sys\nsys.abiflags = 't'\n"
                "try:\n    import headrace\n"
                "except ImportError as error:\n    print(error)\n"
                "assert 'headrace._core' not in sys.modules")
        done = subprocess.run([sys.executable, "-c", text], check=True,
                              capture_output=True, text=True)
        self.assertIn("free-threaded", done.stdout)
