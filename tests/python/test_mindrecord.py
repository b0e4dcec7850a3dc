# SPDX-License-Identifier: Apache-2.0
"""MindRecord files, kept beside this test: rows, shards, labels, and damage."""

import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import tarfile
import time
import unittest
from unittest import mock

import headrace
import made_samples
from headrace import arrow, mindrecord
from record_case import Case, STEPS, label, need, photos


class Secret(Exception):
    """Stands for an error of a store's package."""

    def __init__(self, *_, **__):
        super().__init__("https://store/x?key=secret")


class MindRecord(Case):
    """mindspore 2.10.0 wrote the three photos into two shards of 24 rows, ten
    at a time, with labels in the index, and into a file of several blobs
    whose labels are not there. (test_mindspore.py writes such files.)"""

    ORDER = [[*range(5), *range(10, 15), 20, 21],
             [*range(5, 10), *range(15, 20), 22, 23]]

    @classmethod
    def setUpClass(cls):
        kept = pathlib.Path(__file__).parent / "records"
        cls.folder = made_samples.scratch() / "mindrecord"
        cls.folder.mkdir()
        with tarfile.open(kept / "mindrecord.tar.xz") as archive:
            for member in filter(tarfile.TarInfo.isfile, archive):
                name = cls.folder / pathlib.Path(member.name).name
                name.write_bytes(archive.extractfile(member).read())
        cls.photos = sorted((kept / "photos").glob("*.jpg"))
        cls.data = [path.read_bytes() for path in cls.photos]
        cls.shards = [str(cls.folder / f"train.mindrecord{i}")
                      for i in (0, 1)]

    def pairs(self, numbers, label=label):
        return [(str(self.photos[i % 3]), label(i)) for i in numbers]

    def test_shards(self):
        for shard, numbers in zip(self.shards, self.ORDER):
            self.same(shard, self.pairs(numbers))
        numbers = sum(self.ORDER, [])
        self.same(self.shards, self.pairs(numbers))
        words = sorted({f"w{label(i)}" for i in numbers})
        self.same(self.shards, self.pairs(
            numbers, lambda i: words.index(f"w{label(i)}")),
            fields=(None, "name"))

    def test_several_blobs(self):
        self.same(str(self.folder / "two.mindrecord"), self.pairs(
            range(3), lambda i: label(i) - 70000 * i),
            fields=("scan", "which"))
        self.same(str(self.folder / "two.mindrecord"), self.pairs(
            range(3), lambda i: i), fields=("scan", "name"))

    def test_packed(self):
        out = str(self.folder / "train.hrp")
        headrace.pack_folder(self.shards, out)
        self.same(out, self.pairs(sum(self.ORDER, [])))
        self.assertEqual(headrace.PackFile(out).names[3],
                         "train.mindrecord0/00000003")

    def test_refused(self):
        two = self.folder / "two.mindrecord"
        for fields, text in (
                (None, "no picture, the fields are: .*scan .bytes."),
                (("box", None), "no picture"), (("which", None), "no picture"),
                (("scan", "score"), "no label 'score' of whole numbers"),
                (("scan", "mask"), "no label 'mask'")):
            with self.assertRaisesRegex(headrace.ArgumentError, text):
                headrace.Loader(str(two), STEPS, fields=fields)
        alone = self.folder / "alone.mindrecord"
        alone.write_bytes(two.read_bytes())
        with self.assertRaisesRegex(headrace.ReadError, "alone.mindrecord.db"):
            headrace.Loader(str(alone), STEPS, fields=("scan", None))
        alone.write_bytes(os.urandom(1 << 15))
        with self.assertRaisesRegex(headrace.ReadError, "encrypted"):
            headrace.Loader(str(alone), STEPS)

    def test_object_store(self):
        """By fsspec, here its memory: an index fetched, rows by ranges."""
        need("fsspec")
        import fsspec

        urls = []
        for path in self.shards:
            urls.append(f"memory://bucket/{os.path.basename(path)}")
            for end in ("", ".db"):
                with fsspec.open(urls[-1] + end, "wb") as file:
                    file.write(pathlib.Path(path + end).read_bytes())
        store = fsspec.filesystem("memory")
        with mock.patch.object(store, "cat_file",
                               wraps=store.cat_file) as ranges:
            self.same(urls, self.pairs(sum(self.ORDER, [])))
            self.assertTrue(all(ask[1]["end"] - ask[1]["start"] < 1 << 15
                                for ask in ranges.call_args_list))
            # An index is not fetched without end, whatever the store says.
            with mock.patch.object(store, "size", side_effect=lambda path:
                                   None if path.endswith(".db") else 1 << 20), \
                    mock.patch.object(mindrecord, "_INDEX", 4096):
                with self.assertRaisesRegex(headrace.ReadError, "4096 bytes"):
                    mindrecord.Rows(urls[0])
            ranges.side_effect = Secret
            with self.assertRaisesRegex(headrace.ReadError,
                                        "bucket/.*0: row 3: Secret$"):
                mindrecord.Rows(urls[0])[3]
        store.rm("/bucket/train.mindrecord1.db")
        for url in (urls[1], "memory://key:secret@bucket/none.mindrecord?x=secret"):
            with self.assertRaises(headrace.ReadError) as caught:
                headrace.Loader(url, STEPS)
            self.assertIn(arrow.shown(url), str(caught.exception))
            self.assertNotIn("secret", str(caught.exception))

    def test_changed_meanwhile(self):
        path = self.copied("changed.mindrecord")
        rows = mindrecord.Rows(str(path))
        self.assertEqual(rows[2], self.data[2])
        path.write_bytes(path.read_bytes() + b"x")
        with self.assertRaisesRegex(headrace.ReadError, "was changed"):
            rows[2]

    def test_hostile(self):
        """One byte differs: so does one row, or it is told why."""
        path = self.folder / "h.mindrecord"
        ends = "", ".db"
        whole = {end: pathlib.Path(self.shards[0] + end).read_bytes()
                 for end in ends}
        numbers = self.ORDER[0]
        rng, met = random.Random(5), set()
        for turn in range(100):
            end = ends[turn % 2]
            for other in ends:
                pathlib.Path(f"{path}{other}").write_bytes(whole[other])
            data = bytearray(whole[end])
            at = rng.choice([k for k, byte in enumerate(data) if byte])
            data[at] ^= rng.randrange(1, 256)
            if turn % 10 > 7:
                del data[at:]
            pathlib.Path(f"{path}{end}").write_bytes(data)
            told, differ = self.bad_rows(path, numbers)
            met.add((told, differ))
            self.assertLessEqual(told + differ, 1 if told < len(numbers)
                                 and turn % 10 <= 7 else len(numbers),
                                 (end, at))
            self.assertLessEqual(differ, 1, (end, at))
        self.assertTrue({(-1, 0), (0, 0), (0, 1)} <= met, met)

    def bad_rows(self, path, numbers):
        """How many rows fail, by their numbers, and how many differ; -1: the
        file is refused, by its name."""
        try:
            rows = mindrecord.Rows(str(path))
        except headrace.Error as error:
            self.assertIn(path.name, str(error))
            return -1, 0
        self.assertEqual(len(rows), len(numbers))
        told = differ = 0
        for i, (k, found) in enumerate(zip(numbers, rows.labels())):
            try:
                differ += (rows[i], found) != (self.data[k % 3], label(k))
            except headrace.ReadError as error:
                self.assertIn(f"{path.name}", str(error))
                self.assertIn(f"row {i}", str(error))
                told += 1
        return told, differ

    def copied(self, name):
        path = self.folder / name
        for end in "", ".db":
            shutil.copy(self.shards[0] + end, f"{path}{end}")
        return path

    def changed_index(self, path, *statements):
        with contextlib.closing(sqlite3.connect(f"{path}.db")) as index:
            for statement in statements:
                index.execute(statement)
            index.commit()
        return mindrecord.Rows(str(path))

    def test_places_that_do_not_fit(self):
        """One row each: it fails by its number, and the others come."""
        path, numbers = self.copied("p.mindrecord"), self.ORDER[0]
        rows = self.changed_index(
            path,
            "UPDATE INDEXES SET PAGE_OFFSET_BLOB_END = PAGE_OFFSET_BLOB_END - "
            "1 WHERE ROW_ID = 1",
            "UPDATE INDEXES SET PAGE_ID_BLOB = 10000 WHERE ROW_ID = 2",
            "UPDATE INDEXES SET PAGE_OFFSET_BLOB = -8 WHERE ROW_ID = 3",
            "UPDATE INDEXES SET PAGE_OFFSET_BLOB = 'x' WHERE ROW_ID = 4",
            "UPDATE INDEXES SET LABEL_0 = 'x' WHERE ROW_ID = 5",
            "UPDATE INDEXES SET ROW_ID = 7000 WHERE ROW_ID = 6")
        labels = list(rows.labels())
        for i, k in enumerate(numbers):
            if 1 <= i <= 6:
                with self.assertRaisesRegex(headrace.ReadError,
                                            f"p.mindrecord.*: row {i}"):
                    rows[i]
            else:
                self.assertEqual((rows[i], labels[i]),
                                 (self.data[k % 3], label(k)))
        with self.assertRaisesRegex(headrace.ReadError,
                                    "p.mindrecord.db: 11 rows, and 12 in"):
            self.changed_index(path, "DELETE FROM INDEXES WHERE ROW_ID = 0")

    def test_headers(self):
        """Other fields or impossible sizes: the file is refused."""
        path = self.copied("x.mindrecord")
        whole = path.read_bytes()
        for was, now, text in (
                (b'"label":{', b'"lagel":{', "fields are not those of"),
                (b'"int32"', b'"inu32"', "not that of one"),
                (b'"blob_fields":["image"]', b'"blob_fields":["imaxe"]',
                 "not that of one"),
                (b'"end_row_id":12', b'"end_row_id":99', "12 rows, and 99"),
                (b'"page_size":32768', b'"page_size":"2768', "not that|Exp"),
                (b'"header_size":16384', b'"header_size":-6384', "not that"),
                (b'"version":"3.0"}', b'"version":"3.0"]', "delimiter")):
            self.assertEqual(whole.count(was), 1)
            path.write_bytes(whole.replace(was, now))
            with self.assertRaisesRegex(headrace.ReadError, text):
                mindrecord.Rows(str(path))

    def test_index_of_another_kind(self):
        """Views and columns that are computed are no index."""
        path = self.folder / "v.mindrecord"
        shutil.copy(self.shards[0], path)
        names = ("ROW_ID", *mindrecord._PLACES)
        columns = ", ".join(f"x AS {name}" for name in (*names, "LABEL_0"))
        endless = ("WITH RECURSIVE r(x) AS (SELECT 0 UNION ALL SELECT x + 1 "
                   "FROM r)")
        for text in ("CREATE TABLE INDEXES(ROW_ID INT)",
                     f"CREATE VIEW INDEXES AS SELECT {columns} FROM "
                     "(SELECT 0 AS x)",
                     f"CREATE VIEW INDEXES AS {endless} SELECT {columns} "
                     "FROM r",
                     f"CREATE VIEW INDEXES AS {endless} SELECT {columns} "
                     "FROM r WHERE x < 0",
                     "CREATE TABLE INDEXES(x INT, " + ", ".join(
                         f"{name} INT AS (x)" for name in names) + ")"):
            index = pathlib.Path(f"{path}.db")
            index.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(index)) as made:
                made.execute(text)
                made.commit()
            with self.assertRaisesRegex(headrace.ReadError,
                                        "v.mindrecord.db: (it has no index|"
                                        "not authorized|access to .* is "
                                        "prohibited)"):
                mindrecord.Rows(str(path))


if __name__ == "__main__":
    unittest.main()
