# SPDX-License-Identifier: Apache-2.0
"""A file that is another one by the time its picture is made, although its
size says nothing: an error, and not another picture."""

import io
import os
import pathlib
import struct
import tempfile
import time
import unittest
import unittest.mock

import dropin_case as case
import headrace
from headrace import dropin
from PIL import Image


def padded(data, size):
    """The same picture in so many bytes: a comment behind its first marker."""
    more = size - len(data)
    comment = struct.pack(">HH", 0xFFFE, more - 2) + bytes(more - 4)
    return data[:2] + comment + data[2:]


def jpeg(colour, size=(40, 30)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG")
    return file.getvalue()


class Replaced(case.Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "a.jpg"
        a, b = jpeg("red"), jpeg("blue")
        size = max(len(a), len(b)) + 1000
        self.first, self.second = padded(a, size), padded(b, size)
        self.path.write_bytes(self.first)
        os.utime(self.path, (1e9, 1e9))

    def recorded(self):
        dropin.install()
        self.addCleanup(dropin.uninstall)
        image = Image.open(self.path)
        size = image.size
        return image.crop((0, 0, *size))

    def tearDown(self):
        dropin.uninstall()
        super().tearDown()

    def test_nothing_has_changed(self):
        wanted = Image.open(self.path).convert("RGB").tobytes()
        self.assertEqual(self.recorded().tobytes(), wanted)

    def test_written_again(self):
        image = self.recorded()
        with open(self.path, "r+b") as file:
            file.write(self.second)
        with self.assertRaisesRegex(headrace.PictureError, "changed"):
            image.tobytes()

    def test_another_file_of_the_same_time(self):
        image = self.recorded()
        other = self.path.with_suffix(".new")
        other.write_bytes(self.second)
        os.utime(other, (1e9, 1e9))
        os.rename(other, self.path)
        with self.assertRaisesRegex(headrace.PictureError, "changed"):
            image.tobytes()

    def test_another_file_in_the_next_epoch(self):
        """The loader remembers headers; it must see that it is another."""
        try:
            from torchvision.datasets import folder
        except ImportError:
            self.skipTest("no torchvision")
        other = self.path.with_suffix(".new")
        other.write_bytes(padded(jpeg("blue", (50, 20)), len(self.second)))
        os.utime(other, (1e9, 1e9))
        self.remember(folder)
        os.rename(other, self.path)
        image = folder.pil_loader(str(self.path))
        self.assertEqual(image.size, (50, 20))
        self.assertEqual(image.getpixel((1, 1))[0], 0)
        self.path.unlink()
        with self.assertRaises(FileNotFoundError):
            folder.pil_loader(str(self.path))

    def remember(self, folder):
        """The loader reads the header, and keeps what it said."""
        from headrace.dropin import folder as ours
        from headrace.dropin import headers

        dropin.install()
        self.addCleanup(dropin.uninstall)
        # (As if the file had been there for long.)
        with unittest.mock.patch.object(headers, "_SETTLED", -1):
            self.assertEqual(folder.pil_loader(str(self.path)).size, (40, 30))
        self.assertIn(str(self.path), ours._known)

    def test_written_again_with_its_old_time(self):
        """Size and time of change are the same, the ctime is not."""
        try:
            from torchvision.datasets import folder
        except ImportError:
            folder = None
        other = padded(jpeg("blue", (50, 20)), len(self.second))
        image = self.recorded()
        if folder:
            self.remember(folder)
        time.sleep(0.02)  # a tick of the file system's clock, or several
        with open(self.path, "r+b") as file:
            file.write(other)
        os.utime(self.path, (1e9, 1e9))
        with self.assertRaisesRegex(headrace.PictureError, "changed"):
            image.tobytes()
        if folder:
            again = folder.pil_loader(str(self.path))
            self.assertEqual(again.size, (50, 20))


if __name__ == "__main__":
    unittest.main()
