# SPDX-License-Identifier: Apache-2.0
"""The same pictures in every container, from disk and from nginx: pixels,
classes and order, by one thread and by four; and from damaged ones: each
picture that is whole comes, each other one is told. With HEADRACE_TEST_LONG
2,000 pictures, and 50 damaged files of each instead of 10."""

import collections
import contextlib
import ctypes
import functools
import importlib.util
import mmap
import os
import pathlib
import random
import resource
import shutil
import socket
import subprocess
import sys
import time
import unittest
import warnings

import headrace
import made_samples
from headrace import ops
from record_case import STEPS, batches, label

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from record_writers import WRITERS  # noqa: E402

WAYS = ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4})
BY_FSSPEC = ("parquet", "arrow", "mindrecord")
INDEX = {"mds": "index.json", "litdata": "index.json", "lmdb": "data.mdb"}
LONG = "HEADRACE_TEST_LONG" in os.environ


@functools.cache
def items(many=False):
    """(NAME, CLASS, DATA), a class after the other."""
    folder = made_samples.folder()
    if many:
        folder = made_samples.scratch() / "many"
        subprocess.run([made_samples.COMMAND, "samples", folder, "-n", "2000"],
                       check=True, stdout=subprocess.DEVNULL)
    found = [(f"{i:05}.jpg", label(i), path.read_bytes()) for i, path
             in enumerate(sorted((folder / "photos").rglob("*.jpg")))]
    return sorted(found, key=lambda item: item[1])


def cached(path):
    """Bytes of a file that are in memory."""
    size = os.path.getsize(path)
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        begin = ctypes.c_char.from_buffer(pages)
        told = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        libc.mincore(ctypes.c_void_p(ctypes.addressof(begin)),
                     ctypes.c_size_t(size), told)
        del begin
        pages.close()
    return sum(page & 1 for page in told) * mmap.PAGESIZE


def forget(path):
    """Drop what the page cache has of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Nginx:
    def __init__(self, root):
        self.place = made_samples.scratch() / "nginx"
        self.place.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        temps = "".join(f"{kind}_temp_path {self.place}/{kind};\n" for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "" if os.geteuid() else "user root;"
        (self.place / "conf").write_text(
            f"daemon off; master_process off; pid {self.place}/pid; {user}\n"
            f"error_log {self.place}/error.log;\nevents {{}}\n"
            f"http {{ access_log off; {temps} server {{\n"
            f"listen 127.0.0.1:{port}; root {root}; }} }}\n")
        self.process = subprocess.Popen(
            ["nginx", "-p", self.place, "-c", self.place / "conf"],
            stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        while not (self.place / "pid").exists():
            if self.process.poll() is not None:
                raise unittest.SkipTest("nginx does not run here")
            time.sleep(.01)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def write_all(root, pictures, group):
    root.mkdir()
    sources = {}
    for name, write in WRITERS.items():
        (root / name).mkdir()
        with contextlib.suppress(ImportError):  # of the package that writes it
            sources[name] = pathlib.Path(write(str(root / name), pictures,
                                               group))
    sources["pack"] = root / "a.hrp"
    subprocess.run([made_samples.COMMAND, "pack", root / "files", "--out",
                    root / "a.hrp"], check=True, stdout=subprocess.DEVNULL)
    return sources


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["no_proxy"] = "127.0.0.1"
        cls.root = made_samples.scratch() / "containers"
        pictures = items(many=LONG)
        cls.sources = write_all(cls.root, pictures, 64)
        cls.files = [str(cls.root / "files" / f"c{number}" / name)
                     for name, number, _ in pictures]
        pairs = [(path, number) for path, (_, number, _)
                 in zip(cls.files, pictures)]
        cls.want = [batches(pairs, **way) for way in WAYS]

    def same(self, source, **more):
        for want, way in zip(self.want, WAYS):
            got = batches(source, **way, **more)
            self.assertEqual(len(want), len(got))
            for (x, y, at), (u, v, where) in zip(want, got):
                self.assertEqual(list(at), list(where))
                self.assertTrue((y == v).all(), way)
                self.assertEqual((x != u).sum(), 0, way)

    def missing(self, name):
        print(f"not run: {name}: a package is missing")

    def test_disk(self):
        for name in (*WRITERS, "pack"):
            with self.subTest(name):
                if name in self.sources:
                    self.same(str(self.sources[name]))
                else:
                    self.missing(name)

    def test_pages_of_an_index(self):
        """Opening reads the pages where large pictures begin, and the kernel
        then reads nothing ahead of the first random ones."""
        root, size = made_samples.scratch() / "pages", 100 << 10
        pictures = [(f"{i:05}.jpg", i // 20, bytes([i]) * (size + i))
                    for i in range(120)]
        for name, source in write_all(root, pictures, 120).items():
            if name not in ("tar", "tfrecord", "lmdb", "mds", "litdata"):
                continue
            path = max(root.joinpath(name).iterdir(), key=os.path.getsize)
            forget(path)
            if cached(path):
                self.skipTest("this file system keeps all in memory")
            with self.subTest(name), headrace.Loader(
                    str(source), STEPS, batch=8, shuffle=True, epochs=1,
                    budget=1, reads=1, to="numpy", on_error="zero") as loader:
                opened = cached(path)
                self.assertLess(opened, 120 * 2 * 4096)
                next(iter(loader))
                if name == "tar":
                    self.assertLess(cached(path) - opened, 20 * size)

    def test_no_more_is_read(self):
        """Two pictures of a file that is mapped, and its index."""
        for name in ("pack", "arrow"):
            if name not in self.sources:
                continue
            path = self.sources[name]
            forget(path)
            if cached(path):
                self.skipTest("this file system keeps all in memory")
            with self.subTest(name), headrace.Loader(
                    str(path), STEPS, batch=2, shuffle=True, epochs=1,
                    budget=1, reads=1, to="numpy") as loader:
                next(iter(loader))
                self.assertLess(cached(path), os.path.getsize(path) * .7)

    def test_nginx(self):
        if not shutil.which("nginx"):
            self.skipTest("needs nginx")
        server = Nginx(self.root)
        self.addCleanup(server.stop)

        def url(path):
            return f"{server.url}/{pathlib.Path(path).relative_to(self.root)}"

        try:
            headrace.Loader(url(self.root / "a.hrp"), [headrace.ops.decode()])
        except headrace.Error as error:
            self.skipTest(str(error))
        http = all(map(importlib.util.find_spec, ("aiohttp", "fsspec")))
        for name in (*WRITERS, "pack"):
            with self.subTest(name):
                if name not in self.sources or (name in BY_FSSPEC and
                                                not http):
                    self.missing(name)
                elif name == "files":
                    self.same([url(path) for path in self.files])
                else:
                    self.same(url(self.sources[name] / INDEX.get(name, "")))

    def test_damaged(self):
        draw = random.Random(7)
        for name, source in write_all(made_samples.scratch() / "damaged",
                                      items(), 6).items():
            if name != "files":
                with self.subTest(name):
                    self.damage(name, source, draw)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        self.assertLess(peak, 2000, "MiB")

    def damage(self, name, source, draw):
        files = [source]
        if source.is_dir():
            files = [path for path in sorted(source.iterdir())
                     if not path.name.startswith("lock")]
        elif name == "mindrecord":
            files.append(source.with_name(source.name + ".db"))
        whole = {path: path.read_bytes() for path in files}
        want = read(source)[0]
        self.assertEqual(len(want), len(items()))
        for turn in range(50 if LONG else 10):
            # An index is damaged now and then.
            path = draw.choice(files) if turn % 4 else max(
                files, key=lambda path: len(whole[path]))
            kind = KINDS[turn % len(KINDS)]
            at = draw.randrange(len(whole[path]) - 8)
            starts = [whole[path].find(picture) for *_, picture in items()]
            if turn % 2 and max(starts) > 0:  # what stands before a picture
                at = max(0, draw.choice(starts) - draw.randrange(8, 600))
            data, places = kind(bytearray(whole[path]), at, draw)
            path.write_bytes(data)
            try:
                self.check(name, source, want, path, whole, places,
                           f"{kind.__name__} {path.name} {places}")
            finally:
                path.write_bytes(whole[path])

    def check(self, name, source, want, path, whole, places, about):
        try:
            got, told = read(source)
        except headrace.Error as error:
            got, told = [], [str(error)]
            self.assertIn(str(source.parent), str(error), about)
        lost = collections.Counter(want) - collections.Counter(got)
        self.assertTrue(told or not lost or name in UNCHECKED, about)
        inside, before = 0, []
        for i, (_, _, data) in enumerate(items()):
            at = whole[path].find(data)
            if name == "pack" or at < 0:
                continue
            inside += sum(at <= a and b <= at + len(data) for a, b in places)
            before += [want[i]] * (at + len(data) <= places[0][0])
        if inside == len(places):  # bytes of pictures: the others are there
            self.assertLessEqual(lost.total(), inside, about)
        if places[0][1] == len(whole[path]) and name in GROW:  # it was cut
            self.assertFalse(collections.Counter(before) -
                             collections.Counter(got), about)
        if name in SEARCHED and places[0][1] - places[0][0] < 9:
            self.assertLessEqual(lost.total(), 2, about)


# GROW: a file is read without its end. SEARCHED: behind a damaged sample, the
# next one is searched. UNCHECKED: without checksums, a picture may have other
# pixels.
GROW = ("tar", "tfrecord", "mds", "litdata", "mindrecord")
SEARCHED = ("tar", "tfrecord")
UNCHECKED = ("tar", "lmdb", "mds", "litdata", "mindrecord", "parquet", "arrow")


def read(source):
    """Returns (PIXELS, CLASS) of each good sample, and texts of the others."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = headrace.Loader(
            str(source), [ops.decode(), ops.crop(0, 0, 16, 16)],
            batch=len(items()), epochs=1, on_error="zero", to="numpy",
            shuffle=False)
    with loader:
        told = [*loader.faults, *map(str, loader.skipped)]
        for x, y in loader:
            for pixels, number, result in zip(x, y, loader.last.results):
                if result.ok:
                    found.append((pixels.tobytes(), int(number)))
                else:
                    told.append(result.message)
    return found, told


# ---- Damage: the new bytes, and the places that differ ----------------------

def cut(data, at, draw):
    return data[:at], [(at, len(data))]


def flip(data, at, draw):
    data[at] ^= 1 << draw.randrange(8)
    return data, [(at, at + 1)]


def swap(data, at, draw):
    size = min(4096, len(data) // 4)
    a, b = at // size * size, draw.randrange(len(data) // size) * size
    a, b = min(a, b, len(data) - 2 * size), max(a, b)
    data[a:a + size], data[b:b + size] = data[b:b + size], data[a:a + size]
    return data, [(a, a + size), (b, b + size)]


def zeros(data, at, draw):
    end = min(at + draw.choice((8, 512, 5000)), len(data))
    data[at:end] = bytes(end - at)
    return data, [(at, end)]


def huge(data, at, draw):
    size = draw.choice((4, 8))
    data[at:at + size] = b"\xff" * size
    return data, [(at, at + size)]


KINDS = (cut, flip, swap, zeros, huge)


if __name__ == "__main__":
    unittest.main()
