# SPDX-License-Identifier: Apache-2.0
"""LMDB files that the real package writes: the same pictures and classes as of
the files they were made from, and damaged ones. (Release: records.txt.)"""

import pathlib
import random
import struct
import unittest

import headrace
import made_samples
import numpy
from headrace import _core, ops
from record_case import Case, batches, label, need, photos


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

    def test_long_keys(self):
        """As long as LMDB allows: 511 bytes; those of numbers are digits."""
        need("lmdb")
        keys = [b"\0" * 127, b"\0" * 128, b"\0" * 511, b"cat/" + b"a" * 251,
                b"cat/" + b"b" * 252, b"dog/" + b"c" * 507]
        names = [*(key.hex() for key in keys[:3]),
                 *(key.decode() for key in keys[3:])]
        path = self.write("long", keys)
        source = _core.Source(paths=[path])
        self.assertEqual([source.entry(i)[:2] for i in range(len(source))],
                         [(name, name[:3] if "/" in name else "")
                          for name in names])
        self.assertEqual(source.faults, ())

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


if __name__ == "__main__":
    unittest.main()
