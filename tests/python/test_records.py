# SPDX-License-Identifier: Apache-2.0
"""Files of records that the real packages write: the same pictures, labels and
order as of the files they were made from. (Releases: records.txt.)"""

import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
import time
import unittest
from unittest import mock

import headrace
import made_samples
import numpy
from headrace import _core, arrow, mindrecord, ops

STEPS = [ops.decode(), ops.random_crop(16), ops.random_flip()]


def photos():
    return sorted((made_samples.folder() / "photos").rglob("*.jpg"))


def label(i):
    return i * 7 % 10


def need(*names):
    for name in names:
        if not importlib.util.find_spec(name):
            raise unittest.SkipTest(f"needs {name}, of records.txt")


def batches(source, **more):
    options = {"batch": 5, "shuffle": True, "seed": 3, "epochs": 1,
               "to": "numpy", **more}
    with headrace.Loader(source, STEPS, **options) as loader:
        return [(numpy.array(x), numpy.array(y), loader.last.indices)
                for x, y in loader]


class Case(unittest.TestCase):
    def same(self, source, **more):
        """It gives what pairs of paths and numbers give, however read."""
        pairs = [(str(path), label(i)) for i, path in enumerate(photos())]
        for way in ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4},
                    {"shuffle": False}, {"shard": (1, 2)}):
            want, got = batches(pairs, **way), batches(source, **way, **more)
            self.assertEqual(len(want), len(got))
            for (x, y, at), (u, v, where) in zip(want, got):
                self.assertEqual(list(at), list(where))
                self.assertTrue((x == u).all() and (y == v).all(), way)

    def packs(self, source, *options):
        """The command packs it: the same once more."""
        out = made_samples.scratch() / f"{self.id()}.hrp"
        done = subprocess.run(
            [made_samples.COMMAND, "pack", source, "--out", out, *options],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(str(out))


class TFRecord(Case):
    def write(self, name, image, key):
        import tfrecord

        path = made_samples.scratch() / name
        writer = tfrecord.TFRecordWriter(str(path))
        for i, photo in enumerate(photos()):
            writer.write({image: (photo.read_bytes(), "byte"),
                          key: (label(i), "int"),
                          "image/filename": (photo.name.encode(), "byte"),
                          "box": ([.5, .25], "float")})
        writer.close()
        return str(path)

    def test_usual(self):
        need("tfrecord")
        path = self.write("train-00000-of-00001", "image/encoded",
                          "image/class/label")
        self.same(path)
        self.packs(path)

    def test_fields_and_index(self):
        need("tfrecord")
        from tfrecord.tools import tfrecord2idx

        path = self.write("own.tfrecord", "scan", "which")
        tfrecord2idx.create_index(path, path + ".idx")
        self.same(path, fields=("scan", "which"))
        self.packs(path, "--fields", "scan,which")
        out = str(made_samples.scratch() / "fields.hrp")
        headrace.pack_folder(path, out, fields=("scan", "which"))
        self.same(out)
        with self.assertRaisesRegex(headrace.ArgumentError,
                                    "record has: .*which"):
            headrace.Loader(path, STEPS)


class Lmdb(Case):
    """Keys in their order; the part before a key's first slash is its class."""

    def write(self, name, keys, **options):
        import lmdb

        path = made_samples.scratch() / name
        with lmdb.open(str(path), map_size=1 << 28, **options) as made, \
                made.begin(write=True) as put:
            for key, photo in zip(keys, photos()):
                put.put(key, photo.read_bytes())
            put.put(b"__len__", b"1")
        return str(path)

    def same(self, source, order=None):
        files = [(str(p), label(i)) for i, p in enumerate(photos())]
        files = sorted(files, key=lambda pair: pair[1])
        classes = sorted({number for _, number in files})
        pairs = [(path, classes.index(number)) for path, number in files]
        for way in ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4},
                    {"shuffle": False}, {"shard": (1, 2)}):
            want, got = batches(pairs, **way), batches(source, **way)
            self.assertEqual(len(want), len(got))
            for (x, y, at), (u, v, where) in zip(want, got):
                self.assertEqual(list(at), list(where))
                self.assertTrue((x == u).all() and (y == v).all(), way)

    def test_folder_and_file(self):
        need("lmdb")
        keys = [b"%d/%08d.jpg" % (label(i), i) for i in range(len(photos()))]
        folder = self.write("lmdb", keys)
        self.same(folder)
        self.packs(folder)
        self.same(self.write("one.lmdb", keys, subdir=False))
        named = self.write("unnamed", keys, subdir=False)
        self.same(named)
        source = _core.Source(paths=[folder])
        self.assertEqual(source.entry(0)[:2], ("0/00000000.jpg", "0"))
        self.assertEqual(source.skipped, ((f"{folder}/data.mdb/__len__",
                                           "a sample without a picture"),))

    def test_numbers_as_keys(self):
        need("lmdb")
        n = len(photos())
        path = self.write("numbers", [struct.pack(">I", i) for i in range(n)])
        source = _core.Source(paths=[path])
        self.assertEqual([source.entry(i)[:2] for i in range(n)],
                         [(f"{i:08x}", "") for i in range(n)])

    # Some pictures of a folder, kept: large values have pages of their own.
    KEPT = pathlib.Path(__file__).parents[1] / "corpus" / "lmdb" / "large.mdb"

    def read(self, data):
        """Names the samples that can be read, and tells the faults."""
        path = made_samples.scratch() / "damaged.mdb"
        path.write_bytes(data)
        try:
            source = _core.Source(paths=[path])
        except headrace.Error as error:
            return [], [str(error)]
        good = []
        if len(source):
            with headrace.Loader(
                    str(path), [ops.decode(), ops.crop(0, 0, 8, 8)], batch=1,
                    epochs=1, on_error="zero", to="numpy",
                    shuffle=False) as loader:
                for _ in loader:
                    (i,), (result,) = loader.last.indices, loader.last.results
                    good += [source.entry(i)[0]] if result.ok else []
        return good, list(source.faults)

    def names(self, data):
        path = made_samples.scratch() / "damaged.mdb"
        path.write_bytes(data)
        source = _core.Source(paths=[path])
        return ([source.entry(i)[0] for i in range(len(source))],
                list(source.faults))

    def test_damage(self):
        data = self.KEPT.read_bytes()
        good, faults = self.read(data)
        self.assertEqual(good, ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"])
        self.assertEqual(faults, [])
        draw = random.Random(5)
        for i in range(50):
            bad = bytearray(data)
            if i % 2:
                del bad[draw.randrange(len(bad)):]
            for _ in range(3 * (i % 3)):
                bad[draw.randrange(len(bad) or 1) if i % 4 else
                    draw.randrange(300)] ^= 1 << draw.randrange(8)
            found, told = self.read(bytes(bad))
            if i % 6 == 3 and found != good:
                self.assertTrue(told, len(bad))

    def branch(self):
        """A file, its branch, and the first two of that one's nodes."""
        data = bytearray(self.KEPT.with_name("branch.mdb").read_bytes())
        pages = range(0, len(data), 4096)
        (branch,) = [p for p in pages if data[p + 10] == 1]
        nodes = struct.unpack_from("<HH", data, branch + 16)
        return data, branch, [branch + node for node in nodes]

    def test_a_circle(self):
        """A branch that leads to itself: no sample comes twice."""
        data, branch, nodes = self.branch()
        names = [self.names(data)[0]]
        for node in nodes:
            data = self.branch()[0]
            struct.pack_into("<I", data, node, branch // 4096)
            found, told = self.names(data)
            self.assertIn("circle", " ".join(told))
            names.append(found)
        self.assertEqual(names[0], sorted(names[1] + names[2]))

    def test_a_node_named_again(self):
        """A list as long as its page, of one node."""
        data, branch, _ = self.branch()
        whole = self.names(data)[0]
        leaf = 4096 * struct.unpack_from("<I", data, self.branch()[2][0])[0]
        end, begin = struct.unpack_from("<HH", data, leaf + 12)
        (first,) = struct.unpack_from("<H", data, leaf + 16)
        n = (first - 16) // 2
        struct.pack_into("<H", data, leaf + 12, 16 + 2 * n)
        struct.pack_into(f"<{n}H", data, leaf + 16, *[first] * n)
        found, told = self.names(data)
        self.assertLess(len(found), len(whole))
        self.assertIn("the list of nodes", " ".join(told))


class Tables(Case):
    """Parquet and Arrow, as datasets of Hugging Face writes them."""

    FEATURES = {"picture": {"_type": "Image"},
                "what": {"_type": "ClassLabel",
                         "names": [f"c{i}" for i in range(10)]}}

    def setUp(self):
        need("pyarrow")

    def table(self, image="picture", key="what", label=label, meta=True):
        import pyarrow

        cells = [{"bytes": p.read_bytes(), "path": p.name} for p in photos()]
        table = pyarrow.table({
            "id": list(range(len(cells))),
            image: pyarrow.array(cells, pyarrow.struct(
                [("bytes", pyarrow.binary()), ("path", pyarrow.string())])),
            key: [label(i) for i in range(len(cells))]})
        if meta:
            about = {"info": {"features": self.FEATURES}}
            table = table.replace_schema_metadata(
                {"huggingface": json.dumps(about)})
        return table

    def write(self, table, name):
        import pyarrow
        from pyarrow import feather, parquet

        path = str(made_samples.scratch() / name)
        if name.endswith(".parquet"):
            parquet.write_table(table, path, row_group_size=7)
        elif name.endswith(".feather"):
            feather.write_feather(table, path, compression="uncompressed")
        else:
            with pyarrow.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=5)
        return path

    def test_kinds(self):
        for name in ("a.parquet", "b.feather", "c.arrow"):
            with self.subTest(name):
                path = self.write(self.table(), name)
                self.same(path)
                with headrace.Loader(path, STEPS) as loader:
                    self.assertEqual(loader.classes[3], "c3")

    def command(self, *words, code=0):
        """python3 -m headrace; its messages."""
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *words], capture_output=True,
            text=True, env=dict(os.environ, PYTHONPATH=os.path.dirname(
                os.path.dirname(headrace.__file__))))
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_in_the_command(self):
        """python3 -m headrace packs and runs them: the same once more."""
        tables = {
            "x.parquet": self.table(),
            "x.arrow": self.table(),
            "n.parquet": self.table(meta=False, image="image", key="label"),
            "w.feather": self.table(meta=False, image="image", key="label",
                                    label=lambda i: f"w{label(i)}")}
        for name, table in tables.items():
            with self.subTest(name):
                path = self.write(table, name)
                out = str(made_samples.scratch() / f"{name}.hrp")
                self.command("pack", path, "--out", out)
                self.same(out)
                with headrace.Loader(out, STEPS) as of_pack, \
                        headrace.Loader(path, STEPS) as loader:
                    self.assertEqual(of_pack.classes, loader.classes or
                                     tuple(map(str, range(10))))
                self.assertEqual(
                    headrace.PackFile(out).names[3], f"{name}/00000003")
                other = str(made_samples.scratch() / "again.hrp")
                headrace.pack_folder(path, other)
                self.assertEqual(pathlib.Path(other).read_bytes(),
                                 pathlib.Path(out).read_bytes())
        folders = [made_samples.scratch() / name for name in ("of", "to")]
        for folder, source, program in zip(
                folders, (path, out), ([sys.executable, "-m", "headrace"],
                                       [made_samples.COMMAND])):
            subprocess.run(
                [*program, "run", source, "--out", f"{folder}/", "--ops",
                 "decode,resize=32,center_crop=32"], check=True,
                stdout=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=(
                    os.path.dirname(os.path.dirname(headrace.__file__)))))
        made = [sorted(f.rglob("*.npy")) for f in folders]
        self.assertEqual(len(made[0]), len(photos()))
        for a, b in zip(*made):
            self.assertEqual(a.read_bytes(), b.read_bytes())

    def test_beside_others(self):
        """Files of several kinds, or of no name, are one data set."""
        table = self.table(meta=False, image="scan", key="which")
        parts = [self.write(table[:9], "m.parquet"),
                 self.write(table[9:], "m.arrow")]
        odd = made_samples.scratch() / "odd-00000-of-00001"
        odd.write_bytes(pathlib.Path(parts[0]).read_bytes())
        fields = {"fields": ("scan", "which")}
        out = str(made_samples.scratch() / "m.hrp")
        for paths in parts, [str(odd), parts[1]]:
            headrace.pack_folder(paths, out, **fields)
            self.same(out)
        words = ("--fields", "scan,which")
        self.command("pack", *parts, *words, "--split", "2", "--out", out)
        self.same([out[:-4] + f"-0000{i}-of-00002.hrp" for i in range(2)])
        headrace.pack_folder(parts[1], out, **fields)
        self.same([str(odd), out], **fields)

    def test_what_the_command_says(self):
        path = self.write(self.table(meta=False), "c.parquet")
        out = str(made_samples.scratch() / "c.hrp")
        self.assertIn("no column of pictures: it has",
                      self.command("pack", path, "--out", out, code=2))
        done = subprocess.run(
            [made_samples.COMMAND, "pack", path, "--out", out],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("c.parquet: Python reads this format: use python3 -m "
                      "headrace", done.stderr)
        table = self.table()
        cells = table["picture"].to_pylist()
        cells[3] = {"bytes": None, "path": "/none/cat.jpg"}
        import pyarrow
        table = table.set_column(1, "picture", pyarrow.array(
            cells, table["picture"].type))
        said = self.command("pack", self.write(table, "d.parquet"), "--out",
                            out, code=1)
        self.assertIn("d.parquet: /none/cat.jpg: ", said)
        self.assertEqual(len(headrace.PackFile(out)), len(cells) - 1)
        bad = self.write(self.table(label=lambda i: 99), "l.parquet")
        self.assertIn("l.parquet: labels 99 .. 99, and 10 classes",
                      self.command("pack", bad, "--out", out, code=2))

    def test_shards(self):
        table = self.table(meta=False, image="jpg", key="cls")
        self.same([self.write(table[:9], "s0.parquet"),
                   self.write(table[9:], "s1.parquet")])
        self.same(self.write(table, "t.parquet"), fields=("jpg", "cls"))

    def test_object_store(self):
        """By fsspec, here its memory; passwords are in no message."""
        need("fsspec")
        import fsspec

        urls = []
        for name in ("o.parquet", "o.arrow"):
            path = pathlib.Path(self.write(self.table(), name))
            urls.append(f"memory://bucket/{name}")
            with fsspec.open(urls[-1], "wb") as file:
                file.write(path.read_bytes())
        for url in urls:
            self.same(url)
        with self.assertRaises(headrace.ReadError) as caught:
            arrow.Rows(["memory://key:secret@bucket/none.parquet?secret=1"])
        self.assertIn("memory://bucket/none.parquet", str(caught.exception))
        self.assertNotIn("secret", str(caught.exception))

    def test_words_and_paths(self):
        import pyarrow

        words = self.write(self.table(label=lambda i: f"w{label(i)}",
                                      meta=False, image="image", key="label"),
                           "w.parquet")
        self.same(words)
        paths = pyarrow.table({"image": [str(p) for p in photos()],
                               "label": [label(i)
                                         for i in range(len(photos()))]})
        self.same(self.write(paths, "p.arrow"))

    def test_refused(self):
        path = self.write(self.table(meta=False), "r.parquet")
        with self.assertRaisesRegex(headrace.ArgumentError, "picture"):
            headrace.Loader(path, STEPS)
        with self.assertRaisesRegex(headrace.ArgumentError, "no column 'x'"):
            headrace.Loader(path, STEPS, fields=("picture", "x"))
        cut = made_samples.scratch() / "cut.parquet"
        cut.write_bytes(pathlib.Path(path).read_bytes()[:-20])
        with self.assertRaisesRegex(headrace.ReadError, "cut.parquet"):
            headrace.Loader(str(cut), STEPS)
        with self.assertRaisesRegex(headrace.ReadError, "none.arrow"):
            headrace.Loader("none.arrow", STEPS)

    def test_columns_of_other_kinds(self):
        import pyarrow

        data = photos()[0].read_bytes()
        for image, key, text in (
            ([7], [1], "pictures 'image' are int64"),
            ([[data]], [1], "pictures 'image' are list"),
            ([{"jpeg": data}], [1], "pictures 'image' are struct"),
            ([data], [["cat"]], "labels 'label' are list"),
            ([data], [{"name": "cat"}], "labels 'label' are struct"),
        ):
            table = pyarrow.table({"image": image, "label": key})
            for name in ("k.parquet", "k.arrow"):
                with self.assertRaisesRegex(headrace.ArgumentError, text):
                    arrow.Rows([self.write(table, name)])
        twice = pyarrow.Table.from_arrays([[data], [data]], ["image"] * 2)
        with self.assertRaisesRegex(headrace.ArgumentError, "several"):
            arrow.Rows([self.write(twice, "k.arrow")])
        for features in ([1], "ab", {"label": {"_type": "ClassLabel",
                                               "names": 7}}):
            about = json.dumps({"info": {"features": features}})
            table = pyarrow.table({"image": [data], "label": [1]})
            table = table.replace_schema_metadata({"huggingface": about})
            rows = arrow.Rows([self.write(table, "k.parquet")])
            self.assertEqual((rows[0][1], rows.classes), (1, ()))

    def test_a_group_is_read_once(self):
        """However many threads ask for it, one reads it."""
        rows = arrow.Rows([self.write(self.table(), "g.parquet")])
        file, _ = rows._groups[0]
        read, asked = file.read, []
        begun = threading.Barrier(4, timeout=60)

        def slow(group):
            asked.append(group)
            time.sleep(.05)
            return read(group)

        def ask(_):
            begun.wait()
            return bytes(rows[0][0])

        file.read = slow
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = set(pool.map(ask, range(4)))
        self.assertEqual(found, {photos()[0].read_bytes()})
        self.assertEqual(asked, [0])

    def test_compressed(self):
        """No file is decompressed as a whole: newest batches are kept."""
        import pyarrow

        size, path = 1 << 20, str(made_samples.scratch() / "z.feather")
        table = pyarrow.table({"image": [bytes(size)] * 40,
                               "label": [f"w{i % 2}" for i in range(40)]})
        options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
        with pyarrow.ipc.new_file(path, table.schema,
                                  options=options) as writer:
            writer.write_table(table, max_chunksize=4)
        del table
        before = pyarrow.total_allocated_bytes()
        rows = arrow.Rows([path])
        with mock.patch.object(arrow, "_KEPT", 10 * size):
            for i in range(40):
                data, number = rows[i]
                self.assertEqual((len(data), number), (size, i % 2))
                del data
                self.assertLess(pyarrow.total_allocated_bytes() - before,
                                20 * size)

    def test_what_is_damaged_fails_alone(self):
        """A group of rows that cannot be read, a cell that is null."""
        import pyarrow

        table = self.table()
        cells = table["picture"].to_pylist()
        cells[3] = None
        table = table.set_column(1, "picture", pyarrow.array(
            cells, table["picture"].type))
        path = self.write(table, "n.parquet")
        with headrace.Loader(path, STEPS, batch=len(cells), epochs=1,
                             on_error="zero", to="numpy") as loader:
            for _ in loader:
                bad = [i for i, r in enumerate(loader.last.results)
                       if not r.ok]
        self.assertEqual(bad, [3])


    def test_texts_that_are_damaged(self):
        """Labels that lie outside of the file, a name that is no text."""
        import pyarrow

        table = pyarrow.table({"image": [b"x"] * 8, "label": ["cat"] * 8})
        path = pathlib.Path(self.write(table, "t.arrow"))
        whole = path.read_bytes()
        places = struct.pack("<3i", 0, 3, 6)
        for old, new in ((places, struct.pack("<3i", 0, 3, 0x7f000000)),
                         (b"label", b"lab\xffl")):
            self.assertIn(old, whole)
            path.write_bytes(whole.replace(old, new))
            with self.assertRaisesRegex(headrace.ReadError, path.name):
                arrow.Rows([path])

    def test_rows_that_are_not_there(self):
        """The batch is shorter than it was said to be."""
        path = self.write(self.table(), "r.arrow")
        rows = arrow.Rows([path])
        file = rows._groups[0][0]
        file.rows[0] += 1
        for row in rows.__getitems__([0, 1]):
            self.assertIsInstance(row, headrace.ReadError)

    def test_hostile(self):
        """One byte differs: so does one group of rows, or it is told why."""
        rng = random.Random(7)
        for name in ("h.parquet", "h.arrow"):
            path = pathlib.Path(self.write(self.table(), name))
            whole = path.read_bytes()
            want = [bytes(row[0]) for row in arrow.Rows([path])]
            for _ in range(50):
                data = bytearray(whole)
                at = rng.randrange(len(data))
                data[at] ^= rng.randrange(1, 256)
                path.write_bytes(data)
                self.one_group(path, want, at < len(data) * 3 // 4)

    def one_group(self, path, want, in_pages):
        try:
            rows = arrow.Rows([path])
        except headrace.Error as error:
            self.assertIn(path.name, str(error))
            return
        bad = []
        items = rows.__getitems__(range(len(rows)))
        for i, (item, data) in enumerate(zip(items, want)):
            if isinstance(item, Exception):
                self.assertIn(f"{path.name}: group", str(item))
                bad.append(i)
            elif bytes(item[0]) != data:
                bad.append(i)
        if in_pages and len(rows) == len(want):
            self.assertTrue(not bad or bad[-1] - bad[0] < 7, bad)


class Chunks(Case):
    """Shards that streaming 0.13 (MDS) and litdata 0.2.76 made of three photos
    of `headrace samples`; the packages themselves bring too many others."""

    def test_kept(self):
        kept = pathlib.Path(__file__).parent / "records"
        pairs = [(str(path), i * 7 % 10) for i, path
                 in enumerate(sorted((kept / "photos").glob("*.jpg")))]
        self.assertEqual(len(pairs), 3)
        want = batches(pairs, batch=3)
        for name in ("mds", "mds/index.json", "litdata"):
            for threads in (1, 4):
                (x, y, at), = batches(str(kept / name), batch=3,
                                      threads=threads)
                self.assertTrue((x == want[0][0]).all() and
                                (y == want[0][1]).all(), name)
                self.assertEqual(list(at), list(want[0][2]))


class MindRecord(unittest.TestCase):
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

    def same(self, source, pairs, **more):
        for way in ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4},
                    {"shuffle": False}, {"shard": (1, 2)}):
            want, got = batches(pairs, **way), batches(source, **way, **more)
            self.assertEqual(len(want), len(got))
            for (x, y, at), (u, v, where) in zip(want, got):
                self.assertEqual(list(at), list(where))
                self.assertTrue((x == u).all() and (y == v).all(), way)

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
        with self.assertRaisesRegex(headrace.ArgumentError,
                                    "host/a.mindrecord: MindRecord files are"):
            headrace.Loader("https://host/a.mindrecord?key=secret", STEPS)
        alone = self.folder / "alone.mindrecord"
        alone.write_bytes(two.read_bytes())
        with self.assertRaisesRegex(headrace.ReadError, "alone.mindrecord.db"):
            headrace.Loader(str(alone), STEPS, fields=("scan", None))
        alone.write_bytes(os.urandom(1 << 15))
        with self.assertRaisesRegex(headrace.ReadError, "encrypted"):
            headrace.Loader(str(alone), STEPS)

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
        for text in ("CREATE TABLE INDEXES(ROW_ID INT)",
                     "CREATE TABLE INDEXES(x INT, " + ", ".join(
                         f"{name} INT AS (x)" for name in names) + ")"):
            index = pathlib.Path(f"{path}.db")
            index.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(index)) as made:
                made.execute(text)
                made.commit()
            with self.assertRaisesRegex(headrace.ReadError,
                                        "v.mindrecord.db: it has no index"):
                mindrecord.Rows(str(path))


class Many(Case):
    """A data set with __getitems__() is asked for several at a time."""

    def test_once_a_batch(self):
        class Pairs:
            def __init__(self):
                self.asked = []

            def __len__(self):
                return len(photos())

            def __getitem__(self, i):
                raise AssertionError("one")

            def __getitems__(self, numbers):
                self.asked.append(len(numbers))
                return [(photos()[i].read_bytes(), label(i)) for i in numbers]

        pairs = Pairs()
        self.same(pairs)
        self.assertLess(len(pairs.asked), sum(pairs.asked) / 3)

    def test_failures(self):
        class Pairs:
            def __init__(self, give):
                self.give = give

            def __len__(self):
                return len(photos())

            def __getitem__(self, i):
                raise AssertionError("one")

            def __getitems__(self, numbers):
                return self.give(numbers)

        def few(numbers):
            return []

        def more(numbers):
            return [(photos()[i], label(i)) for i in (*numbers, 0)]

        def bad(numbers):
            raise OSError("the disk is gone")

        def one_bad(numbers):
            return [(photos()[i], label(i)) if i != 2 else 7 for i in numbers]

        for give, text, num in ((few, "0 items for", len(photos())),
                                (more, " items for", len(photos())),
                                (bad, "OSError: the disk", len(photos())),
                                (one_bad, "sample 2: read: TypeError", 1)):
            with headrace.Loader(Pairs(give), STEPS, batch=len(photos()),
                                 epochs=1, on_error="zero",
                                 to="numpy") as loader:
                for _ in loader:
                    said = [r.message for r in loader.last.results if not r.ok]
            self.assertEqual(len(said), num)
            self.assertIn(text, said[0])


if __name__ == "__main__":
    unittest.main()
