# SPDX-License-Identifier: Apache-2.0
"""headrace.Cache, set_cache() and pack(): the same pixels, from memory."""

import concurrent.futures
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import headrace
from headrace import ops

import core_samples as samples

CACHE = ("entropy", "entropy", "cache")
SETTLED = 0.2  # seconds after which a file may be kept
WIDE = 64  # pixels of every picture here


def settle():
    time.sleep(SETTLED)


def make(source, cache=None, device="cpu"):
    """(pixels, spans) of one picture."""
    job, out = start([source], cache, device)
    job.wait()
    return bytes(memoryview(out)), job.results[0].spans


def start(sources, cache=None, device="cpu", dtype="u8"):
    steps = (ops.decode(), ops.resize(WIDE, WIDE))
    if dtype != "u8":
        steps += (ops.normalize(0.5, 0.25),)
    out = headrace.Batch(len(sources), 3, WIDE, WIDE, dtype, "nhwc")
    job = headrace.submit([(source, steps) for source in sources], out,
                          device=device, on_error="zero", cache=cache)
    return job, out


class Case(unittest.TestCase):
    def tearDown(self):
        headrace.set_cache(None)


class Sizes(Case):
    def test_texts_and_numbers(self):
        for size, bytes_ in ((1, 1), ("1", 1), ("3B", 3), ("2K", 2048),
                             ("2k", 2048), ("1.5M", 3 << 19), ("1GiB", 1 << 30),
                             ("2GB", 2 << 30), ("1T", 1 << 40)):
            self.assertEqual(headrace.Cache(size).bytes, bytes_, size)
            headrace.set_cache(size)
            self.assertEqual(headrace.get_cache().bytes, bytes_, size)

    def test_what_is_no_size(self):
        headrace.set_cache("1M")
        for size in (0, -1, 2 ** 70, "", "0", "-1", "x", "1 M", "M", "1Q",
                     "1MM", "0x10", "inf", "nan", "1\0M"):
            with self.subTest(size):
                for call in (headrace.Cache, headrace.set_cache):
                    self.assertRaises(ValueError, call, size)
        for size in (1.5, b"1M", [], object()):
            self.assertRaises(TypeError, headrace.Cache, size)
        self.assertRaises(TypeError, headrace.Cache, None)
        self.assertRaises(TypeError, headrace.Cache)
        self.assertEqual(headrace.get_cache().bytes, 1 << 20)


class Objects(Case):
    def test_the_cache_of_the_process(self):
        self.assertIsNone(headrace.get_cache())
        cache = headrace.Cache(1 << 20)
        headrace.set_cache(cache)
        found = headrace.get_cache()
        self.assertEqual(found, cache)
        self.assertFalse(found != cache)
        self.assertEqual(len({found, cache, headrace.Cache(1 << 20)}), 2)
        self.assertNotEqual(found, headrace.Cache(1 << 20))
        self.assertNotEqual(found, 1 << 20)
        self.assertIn("1048576", repr(cache))
        headrace.set_cache(None)
        self.assertIsNone(headrace.get_cache())

    def test_stats_are_a_named_tuple(self):
        cache = headrace.Cache("8M")
        self.assertEqual(cache.stats(), (0,) * 6)
        for _ in range(3):
            make(samples.read(samples.small()), cache)
        stats = cache.stats()
        self.assertEqual(stats[:5], (2, 1, 1, 0, 1))
        self.assertEqual((stats.hits, stats.misses, stats.kept,
                          stats.evictions, stats.pictures, stats.bytes),
                         tuple(stats))
        self.assertTrue(0 < stats.bytes < 8 << 20)

    def test_what_is_no_cache(self):
        for call in (lambda: make(samples.small(), cache="1M"),
                     lambda: headrace.Device("cpu", cache=1 << 20)):
            self.assertRaises(TypeError, call)
        self.assertRaises(TypeError, pickle.dumps, headrace.Cache(1))

    def test_a_cache_lives_as_long_as_its_users(self):
        data = samples.read(samples.small())
        plain = make(data)[0]
        cache = headrace.Cache("8M")
        with headrace.Device("cpu", threads=1, cache=cache) as device:
            del cache
            gc.collect()
            self.assertEqual(make(data, device=device), make(data))
            pixels, spans = make(data, device=device)
            self.assertEqual(pixels, plain)
            self.assertEqual(spans[0], CACHE)
            self.assertEqual(device.stats()["cache_hits"], 1)
            self.assertEqual(device.stats()["cache_misses"], 1)

    def test_dropped_in_flight(self):
        data = [samples.read(path) for path in samples.photos()] * 4
        plain = start(data)
        for _ in range(5):
            job, out = start(data, headrace.Cache("16M"))
            gc.collect()
            job.wait()
            plain[0].wait()
            self.assertEqual(bytes(memoryview(out)),
                             bytes(memoryview(plain[1])))

    def test_objects_go(self):
        def memory():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        data = [samples.read(path) for path in samples.photos()]
        before = None
        for turn in range(60):
            cache = headrace.Cache("64M")
            start(data, cache)[0].wait()
            kept = cache.stats().bytes
            self.assertGreater(kept, 0)
            if turn == 20:
                before = memory()
        self.assertLess(memory() - before, 10 * kept)


class Pictures(Case):
    def test_every_kind_with_and_without(self):
        """Bytes and paths of all kinds, three times: pixels and messages."""
        paths = sorted(samples.described())
        settle()
        for sources in (paths, [samples.read(path) for path in paths]):
            for dtype in ("u8", "f32", "f16"):
                wanted, array = start(sources, None, dtype=dtype)
                wanted.wait()
                wanted = [(r.status, r.message) for r in wanted.results]
                cache = headrace.Cache("256M")
                for turn in range(3):
                    job, out = start(sources, cache, dtype=dtype)
                    job.wait()
                    self.assertEqual(
                        [(r.status, r.message) for r in job.results], wanted)
                    self.assertEqual(bytes(memoryview(out)),
                                     bytes(memoryview(array)), turn)
                hits = [r.spans and r.spans[0] == CACHE for r in job.results]
                self.assertGreater(sum(map(bool, hits)), len(paths) // 2)
                self.assertEqual(cache.stats().hits, 2 * sum(map(bool, hits)))

    def test_the_process_has_one(self):
        path = samples.small()
        settle()
        plain = make(path)
        self.assertNotEqual(plain[1][0], CACHE)
        headrace.set_cache("8M")
        first, second = make(path), make(path)
        self.assertEqual((first, second[0]), (plain, plain[0]))
        self.assertEqual(second[1][0], CACHE)
        self.assertEqual(headrace.get_cache().stats()[:3], (1, 1, 1))
        headrace.set_cache(None)
        self.assertEqual(make(path), plain)
        self.assertIsNone(headrace.get_cache())

    def test_image(self):
        cache = headrace.Cache("8M")
        for turn in range(2):
            image = headrace.decode(samples.small()).resize(8, 8)
            settle()
            image.start(device="cpu", cache=cache).wait()
            self.assertEqual(image.result.spans[0] == CACHE, turn == 1)

    def test_threads(self):
        data = [samples.read(path) for path in samples.photos()]
        plain = start(data)
        plain[0].wait()
        wanted = bytes(memoryview(plain[1]))
        cache = headrace.Cache("1M")

        def work(number):
            headrace.set_cache(cache if number % 2 else None)
            cache.stats()
            headrace.get_cache()
            job, out = start(data, cache if number % 3 else None)
            job.wait()
            return bytes(memoryview(out)) == wanted

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(set(pool.map(work, range(24))), {True})


class Packing(Case):
    def test_sources(self):
        """Buffers at any address, and files."""
        data = samples.read(samples.small())
        wanted = make(data)[0]
        pack = headrace.pack(memoryview(bytearray(b"x" + data))[1:])
        self.assertEqual(pack, headrace.pack(data))
        for offset in range(9):
            room = bytearray(len(pack) + 64)
            room[offset:offset + len(pack)] = pack
            self.assertEqual(
                make(memoryview(room)[offset:offset + len(pack)])[0], wanted)
        with tempfile.NamedTemporaryFile() as file:
            file.write(pack)
            file.flush()
            self.assertEqual(make(file.name)[0], wanted)
            self.assertEqual(headrace.probe(file.name).format, "packed")
        image = headrace.decode(pack)
        self.assertEqual(image.size, headrace.decode(data).size)
        self.assertEqual(bytes(memoryview(image.pixels())),
                         bytes(memoryview(headrace.decode(data).pixels())))

    def test_what_is_not_packed(self):
        data = samples.read(samples.small())
        for bad, status in ((b"", "HR_EFORMAT"), (b"no picture", "HR_EFORMAT"),
                            (data[:400], None), (data[:-2], "HR_ETRUNCATED"),
                            (headrace.pack(data), "HR_EUNSUPPORTED")):
            with self.assertRaises(headrace.PictureError) as caught:
                headrace.pack(bad)
            if status:
                self.assertEqual(caught.exception.status, status)
            self.assertTrue(caught.exception.reason)
        for bad in ("a.jpg", None, 3):
            self.assertRaises(TypeError, headrace.pack, bad)

    def test_other_threads_run_meanwhile(self):
        """The GIL is not held while a picture is packed."""
        data = samples.read(max(samples.photos(), key=os.path.getsize))
        times, turns = 50, 0
        before = sys.getswitchinterval()
        sys.setswitchinterval(100)  # no thread takes the GIL by force
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                packed = [pool.submit(headrace.pack, data)
                          for _ in range(times)]
                while not packed[-1].done():
                    turns += 1
                    time.sleep(0)
        finally:
            sys.setswitchinterval(before)
        # One that is given away for a moment, between two, gives one turn.
        self.assertGreater(turns, 10 * times)
        self.assertEqual(len({done.result() for done in packed}), 1)


class Forking(Case):
    CHILD = textwrap.dedent("""
        import os
        import headrace
        from headrace import ops

        def make(cache=None):
            image = headrace.decode(%r).resize(8, 8)
            image.start(device="cpu", cache=cache).wait()
            return bytes(memoryview(image.pixels())), image.result.spans[0][2]

        own = headrace.Cache("8M")
        headrace.set_cache("4M")
        first = make(), make(), make(own), make(own)
        assert [name for _, name in first] == ["cpu", "cache"] * 2, first
        before = headrace.get_cache()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                cache = headrace.get_cache()
                assert cache.bytes == 4 << 20 and cache.stats() == (0,) * 6
                assert cache != before and before.stats() == (0,) * 6
                again = make(), make(), make(own), make(own)
                assert [name for _, name in again] == [
                    "cpu", "cache", "cpu", "cpu"], again
                assert {pixels for pixels, _ in first + again} == {first[0][0]}
                try:
                    headrace.set_cache(own)
                except headrace.ArgumentError:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert make()[1] == "cache" == make(own)[1]
    """)

    def test_a_child_begins_anew(self):
        settle()
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c",
             self.CHILD % samples.small()],
            capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exit_with_a_cache_in_use(self):
        code = textwrap.dedent("""
            import headrace
            from headrace import ops
            headrace.set_cache("64M")
            out = headrace.Batch(64, 3, 32, 32)
            steps = (ops.decode(), ops.resize(32, 32), ops.normalize())
            job = headrace.submit([(%r, steps)] * 64, out)
        """) % samples.small()
        for _ in range(5):
            done = subprocess.run([sys.executable, "-c", code],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
