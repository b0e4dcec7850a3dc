# SPDX-License-Identifier: Apache-2.0
"""Headers that the drop-in remembers beside a cache."""

import copy
import io
import os
import pathlib
import shutil
import warnings
from unittest import mock

import dropin_case as case  # first: it may skip this file
import PIL.Image
import headrace
from test_cache_dropin import Case, Other, saved



class Headers(Case):
    """A header that is remembered is that of the file."""

    def look(self, picture):
        facts = {name: value for name, value in vars(picture).items()
                 if not name.startswith("_hr")
                 and type(value).__module__ in ("builtins", "array")}
        exif = facts.pop("_exif", None)
        return (facts, picture.fp.tell(), exif and dict(exif), picture.mode,
                picture.size, picture.format, dict(picture.getexif()))

    def all_files(self):
        files = self.paths + list(map(str, case.Samples.kinds()))
        return files + list(map(str, case.Samples.bad()))

    def test_the_same_picture(self):
        remembered = 0
        for path in self.all_files():
            def look():
                with PIL.Image.open(path) as picture:
                    return self.look(picture)

            wanted = case.outcome(look)
            with headrace.image_backend("cpu"):
                for _ in range(3):
                    with self.subTest(path=os.path.basename(path)):
                        self.assertEqual(case.outcome(look), wanted)
                stock = mock.patch("PIL.JpegImagePlugin.JpegImageFile._open")
                with stock as read:
                    case.outcome(look)
                remembered += not read.called
        self.assertGreater(remembered, len(self.paths))

    def test_nothing_is_shared(self):
        with headrace.image_backend("cpu"):
            for number in range(4):
                picture = PIL.Image.open(self.paths[0])
                self.assertNotIn("mine", picture.info)
                picture.info["mine"] = number
                self.assertNotIn("MINE", picture.app)
                picture.app["MINE"] = b""
                self.assertEqual(len(picture.tile), 1)
                self.assertNotEqual(picture.quantization[0][0], 1000)
                picture.quantization[0][0] = 1000
                picture.layer.append(number)
                picture.tile.append(number)

    def test_uses_of_it(self):
        """Pillow's calls give the same on a picture that was opened again."""
        uses = {
            "pixels": lambda p: p.tobytes(),
            "copy": lambda p: copy.deepcopy(p).tobytes(),
            "draft": lambda p: (p.draft("L", (20, 20)), p.tobytes()),
            "verify": lambda p: p.verify(),
            "quality": lambda p: saved(p, quality="keep"),
            "thumbnail": lambda p: (p.thumbnail((30, 30)), p.tobytes()),
            "closed": lambda p: (p.close(), p.tobytes()),
            "tile": lambda p: (p.tile.clear(), p.tobytes()),
            "seek": lambda p: (p.seek(0), p.tell(), p.tobytes()),
            "show": lambda p: (p.format, p.filename, p.get_format_mimetype()),
        }
        path = self.paths[0]
        for name, use in uses.items():
            def run():
                return case.outcome(lambda: use(PIL.Image.open(path)))

            wanted = run()
            with headrace.image_backend("cpu"):
                with self.subTest(name):
                    self.assertEqual([run() for _ in range(3)], [wanted] * 3)

    def test_files_of_others(self):
        """Opened by the user, wrapped, at another place, under two names."""
        link = os.path.join(self.temporary.name, "link.jpg")
        os.symlink(self.paths[0], link)
        with open(self.paths[0], "rb") as file:
            wanted = PIL.Image.open(file).tobytes()
        with headrace.image_backend("cpu"):
            for _ in range(3):
                with open(self.paths[0], "rb") as file:
                    picture = PIL.Image.open(file)
                    self.assertIs(picture.fp, file)
                    self.assertEqual(picture.filename, "")
                    self.assertEqual(picture.tobytes(), wanted)
                    self.assertFalse(file.closed)
                picture = PIL.Image.open(link)
                self.assertEqual(picture.filename, link)
                fp = picture.fp
                self.assertEqual(picture.convert("RGB").tobytes(), wanted)
                self.assertTrue(fp.closed)
                path = pathlib.Path(self.paths[0])
                self.assertEqual(PIL.Image.open(path).tobytes(), wanted)

    def test_what_only_looks_like_a_file(self):
        """Readers of something else, also with the name of a file."""
        wanted = PIL.Image.open(self.paths[1]).convert("RGB").tobytes()
        with headrace.image_backend("cpu"):
            for _ in range(3):
                PIL.Image.open(self.paths[0]).convert("RGB")
                for raw in (io.BytesIO(
                        pathlib.Path(self.paths[1]).read_bytes()),
                        Other(self.paths[0], self.paths[1])):
                    file = io.BufferedReader(raw)
                    picture = PIL.Image.open(file).convert("RGB")
                    self.assertEqual(picture.tobytes(), wanted)

    def test_warnings_every_time(self):
        path = os.path.join(self.temporary.name, "mpo.jpg")
        data = pathlib.Path(self.paths[0]).read_bytes()
        segment = b"MPF\0II*\0\x08\0\0\0no directory"
        size = (len(segment) + 2).to_bytes(2, "big")
        pathlib.Path(path).write_bytes(
            data[:2] + b"\xff\xe2" + size + segment + data[2:])

        def texts():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                PIL.Image.open(path).convert("RGB")
            return [str(warning.message) for warning in caught]

        wanted = texts()
        self.assertIn("malformed MPO", "".join(wanted))
        with headrace.image_backend("cpu"):
            for _ in range(3):
                self.assertEqual(texts(), wanted)

    def test_a_foreign_factory_is_called(self):
        stock = PIL.Image.OPEN["JPEG"]
        calls = []

        def factory(fp=None, filename=None):
            calls.append(filename)
            return stock[0](fp, filename)

        self.addCleanup(PIL.Image.OPEN.__setitem__, "JPEG", stock)
        PIL.Image.OPEN["JPEG"] = (factory, stock[1])
        with headrace.image_backend("cpu"):
            calls.clear()
            for _ in range(3):
                PIL.Image.open(self.paths[0]).convert("RGB").tobytes()
        self.assertEqual(calls, self.paths[:1] * 3)

    def test_left_to_pillow_every_time(self):
        path = os.path.join(self.temporary.name, "cut.jpg")
        data = pathlib.Path(self.paths[0]).read_bytes()
        pathlib.Path(path).write_bytes(data[:-2])
        with headrace.image_backend("cpu"):
            headrace.dropin.report(reset=True)
            for turn in range(1, 4):
                case.outcome(lambda: PIL.Image.open(path).convert("RGB"))
                self.assertEqual(headrace.report()["pillow"],
                                 {"no end of image": turn})

    def test_old_files_only(self):
        from headrace.dropin.pillow import headers

        with mock.patch.object(headers, "_SETTLED", 2):
            headers.clear()
            path = os.path.join(self.temporary.name, "new.jpg")
            shutil.copy(self.paths[0], path)
            with headrace.image_backend("cpu"):
                PIL.Image.open(path)
            self.assertEqual(len(headers._known), 0)

    def test_not_without_end(self):
        from headrace.dropin.pillow import headers

        headers.clear()
        self.addCleanup(headers.clear)
        with mock.patch.object(headers, "_MOST", 3 * headers._ROUGHLY):
            with headrace.image_backend("cpu"):
                for path in self.paths:
                    PIL.Image.open(path)
                    self.assertLess(len(headers._known), 4)
