# SPDX-License-Identifier: Apache-2.0
"""The same pictures in every container, from disk and from nginx: pixels,
classes and order, by one thread and by four. With HEADRACE_TEST_LONG 2,000."""

import ctypes
import functools
import importlib.util
import mmap
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import unittest

import headrace
import made_samples
from record_case import STEPS, batches, label

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from record_writers import WRITERS  # noqa: E402

WAYS = ({"threads": 1, "reads": 1}, {"threads": 4, "reads": 4})
NEEDS = {"tfrecord": ["tfrecord"], "lmdb": ["lmdb"],
         "parquet": ["pyarrow"], "arrow": ["pyarrow"]}
BY_FSSPEC = ("parquet", "arrow", "mindrecord")
INDEX = {"mds": "index.json", "litdata": "index.json", "lmdb": "data.mdb"}


@functools.cache
def items():
    """(NAME, CLASS, DATA), a class after the other."""
    long = "HEADRACE_TEST_LONG" in os.environ
    folder = made_samples.folder()
    if long:
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


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["no_proxy"] = "127.0.0.1"
        cls.root = made_samples.scratch() / "containers"
        cls.root.mkdir()
        cls.sources = {}
        for name, write in WRITERS.items():
            if all(map(importlib.util.find_spec, NEEDS.get(name, ()))):
                place = cls.root / name
                place.mkdir()
                cls.sources[name] = pathlib.Path(write(str(place), items()))
        cls.sources["pack"] = cls.root / "a.hrp"
        subprocess.run([made_samples.COMMAND, "pack", cls.root / "files",
                        "--out", cls.root / "a.hrp"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.files = [str(cls.root / "files" / f"c{number}" / name)
                     for name, number, _ in items()]
        pairs = [(path, number) for path, (_, number, _)
                 in zip(cls.files, items())]
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
        print(f"not run: {name}: {NEEDS.get(name, ['aiohttp'])[0]} is missing")

    def test_disk(self):
        for name in (*WRITERS, "pack"):
            with self.subTest(name):
                if name in self.sources:
                    self.same(str(self.sources[name]))
                else:
                    self.missing(name)

    def test_no_more_is_read(self):
        """Two pictures of a file that is mapped, and its index."""
        for name in ("pack", "arrow"):
            if name not in self.sources:
                continue
            path = self.sources[name]
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
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


if __name__ == "__main__":
    unittest.main()
