# SPDX-License-Identifier: Apache-2.0
"""Columns of Arrow as sources of a Pipeline: the same bytes, not copied."""

import mmap
import tracemalloc
import unittest
from unittest import mock

import headrace
import headrace.arrow

import core_samples as samples
import made_samples

try:
    import pyarrow
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None


class Told(mmap.mmap):
    """Keeps what the kernel was told."""

    def madvise(self, advice, *part):
        self.advice = [*getattr(self, "advice", ()), advice]
        super().madvise(advice, *part)


class Columns(unittest.TestCase):
    def setUp(self):
        self.paths = samples.photos()[:4]
        self.data = [samples.read(p) for p in self.paths]
        self.want = samples.of_command(self.paths, samples.EVAL_TEXT)
        self.make = headrace.Pipeline(samples.EVAL)

    def made(self, column):
        out = self.make(column)
        self.assertEqual(out.errors, {})
        return bytes(memoryview(out.batch))

    def test_kinds_of_columns(self):
        kinds = [
            pyarrow.array(self.data, kind)
            for kind in (pyarrow.binary(), pyarrow.large_binary())
        ] + [
            pyarrow.array(self.paths, kind)
            for kind in (pyarrow.string(), pyarrow.large_string())
        ] + [
            pyarrow.chunked_array([self.data[:1], self.data[1:]]),
            pyarrow.array([{"bytes": d, "path": None} for d in self.data]),
            pyarrow.array([{"bytes": None, "path": p} for p in self.paths]),
            pyarrow.table({"image": self.data})["image"],
        ]
        for column in kinds:
            with self.subTest(column.type):
                self.assertEqual(self.made(column), self.want)

    def test_a_slice_is_that_part(self):
        column = pyarrow.array([b"x"] + self.data + [b"y"])[1:-1]
        self.assertEqual(self.made(column), self.want)

    def test_what_is_null_fails_alone(self):
        out = self.make(pyarrow.array([self.data[0], None]))
        self.assertEqual(out.ok, [True, False])

    def test_a_missing_picture_reads_nothing_ahead(self):
        path = made_samples.scratch() / "missing.arrow"
        table = pyarrow.table({"image": [self.data[0], None]})
        with pyarrow.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
        with mock.patch.object(mmap, "mmap", Told):
            rows = headrace.arrow.Rows([path])
        self.assertEqual(bytes(rows[1][0]), b"")
        told = rows._groups[0][0]._map._map
        self.assertEqual(told.advice, [mmap.MADV_RANDOM])
        self.assertEqual(bytes(rows[0][0]), self.data[0])
        self.assertEqual(told.advice, [mmap.MADV_RANDOM, mmap.MADV_WILLNEED])

    def test_nothing_is_copied(self):
        size = 8 << 20
        # (Of a format that the library does not know Pillow gets a copy.)
        column = pyarrow.array([b"\xff\xd8\xff" + bytes(size), self.data[0]])
        before = pyarrow.total_allocated_bytes()
        tracemalloc.start()
        out = self.make(column)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertEqual(pyarrow.total_allocated_bytes(), before)
        self.assertLess(peak, size)
        self.assertEqual(out.ok, [False, True])
