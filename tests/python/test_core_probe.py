# SPDX-License-Identifier: Apache-2.0
"""headrace._core's reading of headers, and its test for an unchanged file."""

import os
import pathlib
import re
import tempfile
import unittest

import core_samples as samples
import headrace
from headrace import _core


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

    def test_the_end_marker(self):
        for path in samples.good():
            data = samples.read(path)
            for whole in data, data + b"\xff", bytearray(data + data):
                for begin in 0, 2, len(data) // 2, len(data) - 2, 1 << 40:
                    found = whole.find(b"\xff\xd9", begin)
                    self.assertEqual(_core.end_marker(whole, begin),
                                     found + 2 if found >= 0 else 0)
        for data in b"", b"\xff", b"\xd9", b"\xff\xff\xff", b"\xff\0\xd9":
            self.assertEqual(_core.end_marker(data, 0), 0)
        self.assertEqual(_core.end_marker(b"\xff\xff\xd9\xff\xd9", 0), 3)
        self.assertEqual(_core.end_marker(b"\xff\xd9", -1), 0)

    def test_facts(self):
        for path in samples.good():
            line, info = samples.described()[path], _core.probe(path)
            self.assertEqual((info.width, info.height),
                             (line["width"], line["height"]), path)
            self.assertEqual(info.orientation, line.get("orientation", 1))
            self.assertEqual(info.process == "progressive",
                             info.scans != 1 or "progressive" in line["kind"],
                             path) if info.process == "progressive" else None

    def test_formats_are_those_of_the_pages(self):
        stub = pathlib.Path(headrace.__file__).with_name("_core.pyi")
        self.assertIn("Literal[" + ", ".join(f'"{f}"' for f in _core.FORMATS) +
                      "]", stub.read_text())
        suffixes = " ".join(_core.FORMATS.values()).split()
        root = pathlib.Path(__file__).parents[2]
        for page in "hal/include/headrace/source.h", \
                "tools/man/headrace-run.1":
            text = (root / page).read_text()
            self.assertEqual(
                {s for s in suffixes if not re.search(rf"\{s}\b", text)},
                set(), page)

    def test_a_header_longer_than_what_is_read_first(self):
        """Bytes like a header at the end of the file are no header."""
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
            path = samples.scratch() / "header.jpg"
            path.write_bytes(data)
            for source in (data, path):
                info = _core.probe(source)
                self.assertEqual((info.width, info.height, info.ends),
                                 (100, 50, True), first)

    def test_scans_behind_what_is_read_first(self):
        """All scans of large files are looked at, or the result says so."""
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
            big = samples.scratch() / "scans.jpg"
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
                    # By path, only a part of a large file was looked at.
                    partly |= info.format == "jpeg" and not info.all_scans
            if partly:
                continue
            compared += 1
            self.assertEqual(*outcomes, path)
        self.assertGreater(refused, 20)
        self.assertGreater(compared, 40)

    def test_errors(self):
        self.assertRaises(headrace.ReadError, _core.probe, "/no/such/file")
        self.assertRaises(headrace.PictureError, _core.probe, b"no picture")
        with self.assertRaises(headrace.ReadError):
            _core.probe(str(samples.folder()))
        self.assertRaises(ValueError, _core.probe, "a\0b")
        self.assertRaises(TypeError, _core.probe, 7)
        self.assertRaises(TypeError, _core.Info)
        with self.assertRaises(AttributeError):
            _core.probe(samples.small()).width = 3
