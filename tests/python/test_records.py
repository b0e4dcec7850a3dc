# SPDX-License-Identifier: Apache-2.0
"""Files of records that the real packages write: the same pictures, labels and
order as of the files they were made from. (Releases: records.txt.)"""

import concurrent.futures
import http.server
import json
import os
import pathlib
import random
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
from headrace import arrow, ops
from http_case import Ranges
from record_case import Case, STEPS, batches, label, need, photos


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
        with fsspec.open(urls[-1], "wb") as file:
            file.write(path.read_bytes()[:-4])  # the end is cut
        rows = arrow.Rows([urls[-1]])
        self.assertEqual([*rows.labels()][-1:], [None])
        last, = rows.__getitems__([len(rows) - 1])
        self.assertIsInstance(last, headrace.ReadError)
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
        self.assertIn(places, whole)
        at = whole.index(places)
        path.write_bytes(whole[:at] + struct.pack("<3i", 0, 3, 0x7f000000) +
                         whole[at + 12:])
        rows = arrow.Rows([path])
        self.assertEqual([*rows.labels()], [None] * 5 + [0] * 3)
        self.told(path, rows, 5)
        path.write_bytes(whole.replace(b"label", b"lab\xffl"))
        with self.assertRaisesRegex(headrace.ReadError, path.name):
            arrow.Rows([path])

    def told(self, path, rows, num, skip=0):
        """num rows fail behind the first ones, and say what they are of."""
        for i, row in enumerate(rows.__getitems__(range(len(rows)))):
            if skip <= i < skip + num:
                self.assertIsInstance(row, headrace.ReadError)
                self.assertIn(f"{path.name}: group {skip and 1} of rows",
                              str(row))
            else:
                self.assertNotIsInstance(row, Exception)

    def test_batches_that_are_damaged(self):
        """A file has the others, a stream those before it. One row stands for
        the damaged batch, as nothing says how many it had."""
        import pyarrow

        table = pyarrow.table({"image": [b"x"] * 20, "label": [1] * 20})
        path = made_samples.scratch() / "batches.arrow"
        for new, num in ((pyarrow.ipc.new_file, 16),
                         (pyarrow.ipc.new_stream, 6)):
            with new(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=5)
            whole = path.read_bytes()
            marks = [at for at in range(0, len(whole), 8)
                     if whole[at:at + 4] == b"\xff" * 4 and
                     whole[at + 4:at + 8] != bytes(4)]
            batch = marks[2]  # behind the schema and the first one
            path.write_bytes(whole[:batch] + b"\x11" * 100 +
                             whole[batch + 100:])
            with self.subTest(new.__name__):
                rows = arrow.Rows([path])
                self.assertEqual(len(rows), num)
                self.assertEqual([*rows.labels()],
                                 [1] * 5 + [None] + [1] * (num - 6))
                self.told(path, rows, 1, 5)
        with pyarrow.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
        path.write_bytes(path.read_bytes()[:-20])  # its footer
        rows = arrow.Rows([path])
        self.assertEqual([*rows.labels()], [1] * 20 + [None])

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


class Signed(Case):
    """URLs that fsspec signs, of stores that the library does not know: here of
    a server of this process."""

    class Server(Ranges, http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(self.server.files[self.path])

    def test_tar(self):
        need("fsspec")
        import fsspec

        name = made_samples.scratch() / "signed.tar"
        with tarfile.open(name, "w") as tar:
            for i, path in enumerate(photos()):
                tar.add(path, f"{i:03}.jpg")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        server.files = {"/b/signed.tar?key=secret": name.read_bytes()}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_address[1]}"

        class Store(fsspec.AbstractFileSystem):
            protocol = "store"

            def sign(self, path, expiration=100, **more):
                if path.startswith("none"):
                    raise PermissionError(f"{at}/{path}?key=secret")
                return f"{at}/{path}?key=secret"

        class Unsigned(fsspec.AbstractFileSystem):
            protocol = "unsigned"

        for kind in (Store, Unsigned):
            fsspec.register_implementation(kind.protocol, kind, clobber=True)
        with mock.patch.dict(os.environ, no_proxy="127.0.0.1"):
            self.same("store://b/signed.tar", [
                (str(path), None) for path in photos()])
            for url, text in (("store://none/x.tar", "it cannot be signed"),
                              ("unsigned://b/x.tar", "sign the URL"),
                              ("other://b/x.tar", "sign the URL")):
                with self.assertRaisesRegex(headrace.Error, text) as caught:
                    headrace.Loader(url, STEPS)
                self.assertNotIn("secret", str(caught.exception))


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
