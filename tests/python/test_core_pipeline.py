# SPDX-License-Identifier: Apache-2.0
"""headrace.Pipeline: the command's bytes, in any process, of any source."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import pathlib
import pickle
import unittest

import headrace
import headrace.ray
from headrace import ops

import core_samples as samples

THREADS = 8


def pipeline(**options):
    return headrace.Pipeline(samples.EVAL, **options)


def bytes_of(output):
    output.job.wait()
    return bytes(memoryview(output.batch))


def in_child(packed, sources):
    """Run in another process: the bytes, and whose device that was."""
    make = pickle.loads(packed)
    out = make(sources)
    return bytes_of(out), make.device is not None


class Scalar:
    """As pyarrow.BinaryScalar; the real one is in test_arrow.py."""

    def __init__(self, value):
        self.value, self.is_valid = value, value is not None

    def as_buffer(self):
        return None if self.value is None else memoryview(self.value)


class Bytes(unittest.TestCase):
    def setUp(self):
        self.paths = samples.photos()[:6]
        self.want = samples.of_command(self.paths, samples.EVAL_TEXT)

    def test_paths_and_bytes_mixed(self):
        mixed = [
            p if i % 2 else samples.read(p) for i, p in enumerate(self.paths)
        ]
        mixed[1] = pathlib.Path(mixed[1])
        mixed[2] = memoryview(mixed[2])
        out = pipeline()(mixed)
        self.assertEqual(bytes_of(out), self.want)
        self.assertEqual(out.ok, [True] * len(self.paths))
        self.assertEqual(out.errors, {})
        self.assertEqual(len(out), len(self.paths))
        self.assertEqual(out.batch.shape, (len(self.paths), 3, 224, 224))

    def test_mappings_and_scalars(self):
        data = [samples.read(p) for p in self.paths]
        found = pipeline()([
            {"bytes": data[0], "path": "elsewhere.jpg"},
            {"bytes": None, "path": self.paths[1]},
            Scalar(data[2]),
            {"bytes": Scalar(data[3]), "path": None},
            {"bytes": Scalar(None), "path": self.paths[4]},
            {"path": self.paths[5]},
        ])
        self.assertEqual(bytes_of(found), self.want)

    def test_pictures_that_fail_are_zero_and_named(self):
        out = pipeline()([self.paths[0], None, "missing.jpg", Scalar(None),
                          b"no picture", {"bytes": None, "path": None}])
        self.assertEqual(out.ok, [True] + 5 * [False])
        self.assertEqual(sorted(out.errors), [1, 2, 3, 4, 5])
        self.assertIn("missing.jpg", out.errors[2])
        self.assertEqual([r.status_name for r in out.results],
                         ["HR_OK", "HR_EFORMAT", "HR_EIO", "HR_EFORMAT",
                          "HR_EFORMAT", "HR_EFORMAT"])
        size = len(self.want) // len(self.paths)
        self.assertEqual(bytes_of(out)[:size], self.want[:size])
        self.assertEqual(bytes_of(out)[size:], bytes(5 * size))

    def test_random_ops_follow_seed_index_and_epoch(self):
        make = headrace.Pipeline(samples.TRAIN, seed=7)
        want = samples.of_command(self.paths, samples.TRAIN_TEXT,
                                  "--seed", "7")
        out = make(self.paths, indices=range(len(self.paths)))
        self.assertEqual(bytes_of(out), want)
        back = make(self.paths[::-1],
                    indices=reversed(range(len(self.paths))))
        size = len(want) // len(self.paths)
        self.assertEqual(
            bytes_of(back),
            b"".join(want[i:i + size]
                     for i in range(len(want) - size, -1, -size)))
        again = make(self.paths, indices=range(len(self.paths)), epoch=1)
        self.assertNotEqual(bytes_of(again), want)
        other = headrace.Pipeline(samples.TRAIN, seed=8)
        self.assertNotEqual(
            bytes_of(other(self.paths, indices=range(len(self.paths)))), want)

    def test_memory_of_the_callers(self):
        out = bytearray(len(self.want))
        self.assertEqual(bytes_of(pipeline()(self.paths, out=out)), self.want)
        self.assertEqual(bytes(out), self.want)

    def test_several_threads(self):
        make = pipeline(device="cpu", threads=2)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for out in pool.map(make, [self.paths] * THREADS * 2):
                self.assertEqual(bytes_of(out), self.want)

    def test_without_waiting(self):
        async def both():
            make = pipeline()
            return await asyncio.gather(*(
                awaited(make.submit(self.paths)) for _ in range(2)))

        async def awaited(output):
            return await output

        for out in asyncio.run(both()):
            self.assertEqual(bytes_of(out), self.want)

    def test_a_cache_of_its_own(self):
        make = pipeline(cache="64M", device="cpu")
        data = [samples.read(p) for p in self.paths]
        for _ in range(2):
            out = make(data)
            self.assertEqual(bytes_of(out), self.want)
        self.assertEqual({r.spans[0][2] for r in out.results}, {"cache"})


class Processes(unittest.TestCase):
    def setUp(self):
        self.paths = samples.photos()[:2]
        self.want = samples.of_command(self.paths, samples.EVAL_TEXT)

    def test_pickled_after_use(self):
        for options in {}, {"device": "cpu", "threads": 2, "cache": "8M"}:
            make = pipeline(**options)
            self.assertEqual(bytes_of(make(self.paths)), self.want)
            packed = pickle.dumps(make)
            for method in multiprocessing.get_all_start_methods():
                with self.subTest(method, options=options):
                    context = multiprocessing.get_context(method)
                    with context.Pool(1) as pool:
                        found = pool.apply(in_child, (packed, self.paths))
                    self.assertEqual(found, (self.want, bool(options)))

    def test_after_fork_the_same_object_works(self):
        make = pipeline(device="cpu", threads=1)
        self.assertEqual(bytes_of(make(self.paths)), self.want)
        pid = os.fork()
        if not pid:
            code = 2
            try:
                code = int(bytes_of(make(self.paths)) != self.want)
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(bytes_of(make(self.paths)), self.want)


class Arguments(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(pipeline().shape, (3, 224, 224))
        self.assertEqual(pipeline(layout="nhwc").shape, (224, 224, 3))
        self.assertEqual(pipeline().dtype, "f32")
        gray = headrace.Pipeline((ops.decode("L"), ops.resize(20, 10)))
        self.assertEqual((gray.shape, gray.dtype), ((1, 10, 20), "u8"))
        free = (ops.decode(), ops.resize_short(20))
        self.assertRaisesRegex(headrace.ArgumentError, "different sizes",
                               headrace.Pipeline, free)
        self.assertEqual(headrace.Pipeline(free, size=(30, 20)).shape,
                         (3, 20, 30))

    def test_what_cannot_be(self):
        path = samples.small()
        for steps in (), (ops.resize(2, 2),):
            self.assertRaises(headrace.ArgumentError, headrace.Pipeline, steps)
        self.assertRaisesRegex(headrace.ArgumentError, "decode",
                               headrace.Pipeline, ())
        self.assertRaisesRegex(TypeError, "steps", headrace.Pipeline,
                               ops.decode())
        for one in path, pathlib.Path(path), samples.read(path):
            self.assertRaisesRegex(TypeError, "a list of pictures",
                                   pipeline(), one)
        make = headrace.Pipeline(samples.TRAIN)
        self.assertRaisesRegex(headrace.ArgumentError, "indices", make, [path])
        self.assertRaisesRegex(headrace.ArgumentError, "2 indices for 1",
                               make, [path], indices=[1, 2])
        self.assertRaisesRegex(headrace.ArgumentError, "no pictures", make, [],
                               indices=[])
        self.assertRaises(headrace.DeviceError, pipeline(device="nothing"),
                          [path])

    def test_a_column_that_is_not_there(self):
        rows = {"picture": [], "label": []}
        for options in {}, {"source": "picture", "index": "number"}:
            make = headrace.ray.Preprocess(samples.EVAL, **options)
            self.assertRaisesRegex(headrace.ArgumentError,
                                   "no column '(bytes|number)': picture, label",
                                   make, rows)

    def test_what_it_says_of_itself(self):
        make = pipeline()
        self.assertEqual(repr(make),
                         "<headrace.Pipeline 4 ops, 224x224x3 f32 nchw>")
        self.assertEqual(repr(make([samples.small()])),
                         "<headrace.Output (1, 3, 224, 224) f32>")
