# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader: which batches come, in what order, and whose memory."""

import gc
import json
import os
import pathlib
import pickle
import signal
import subprocess
import tarfile
import threading
import time
import unittest
import weakref

import numpy

import headrace
from headrace import ops

import core_samples as samples

STEPS = (ops.decode(), ops.resize_short(72), ops.center_crop(64, 64),
         ops.normalize(samples.MEAN, samples.STD))
TRAIN = (ops.decode(), ops.random_resized_crop(32, 24),
         ops.random_flip(horizontal=0.5))
BATCH = 5


def loader(source, steps=STEPS, **options):
    return headrace.Loader(source, steps, **{"batch": BATCH, "to": "numpy"}
                           | options)


def all_of(batches):
    """Pictures and classes of an epoch, copied."""
    found = [(x.copy(), y.copy()) for x, y in batches]
    return (numpy.concatenate([x for x, _ in found]),
            numpy.concatenate([y for _, y in found]))


def indices_of(batches):
    return [i for _ in batches for i in batches.last.indices]


def wanted(paths, steps=STEPS, **options):
    return headrace.Pipeline(steps, **options)(paths).numpy()


class Sequence:
    """Asked item by item, on the loader's threads."""

    def __init__(self, paths):
        self.paths, self.threads = paths, set()

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        self.threads.add(threading.get_ident())
        return samples.read(self.paths[i]), 3 * i


class Sources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = str(samples.folder() / "photos")
        cls.paths = samples.photos()
        cls.pixels = wanted(cls.paths)

    def check(self, source, labels=None, **options):
        batches = loader(source, **options)
        self.assertEqual(len(batches), -(-len(self.paths) // BATCH))
        for _ in range(2):
            x, y = all_of(batches)
            numpy.testing.assert_array_equal(x, self.pixels)
            self.assertEqual(y.dtype, numpy.int64)
            if labels is not None:
                self.assertEqual(y.tolist(), labels)
        return batches

    def folder_labels(self):
        names = [pathlib.Path(p).parent.name for p in self.paths]
        return [sorted(set(names)).index(name) for name in names]

    def test_a_folder(self):
        batches = self.check(self.root, self.folder_labels())
        self.assertEqual(
            batches.classes,
            tuple(sorted({pathlib.Path(p).parent.name for p in self.paths})))
        self.assertEqual([batches.path(i) for i in range(len(self.paths))],
                         self.paths)
        self.assertEqual(batches.faults, ())
        with self.assertRaises(IndexError):
            batches.path(len(self.paths))

    def test_a_list_of_paths(self):
        self.check(self.paths)
        self.check([pathlib.Path(p) for p in self.paths])

    def test_pairs_of_paths_and_numbers(self):
        labels = [7 * i - 3 for i in range(len(self.paths))]
        batches = self.check(list(zip(self.paths, labels)), labels)
        self.assertEqual(batches.path(3), self.paths[3])
        self.assertEqual(batches.classes, ())

    def test_pairs_with_words(self):
        words = [pathlib.Path(p).parent.name for p in self.paths]
        batches = self.check(list(zip(self.paths, words)),
                             self.folder_labels())
        self.assertEqual(batches.classes, tuple(sorted(set(words))))

    def test_bytes_and_paths_mixed(self):
        labels = list(range(len(self.paths)))
        mixed = [(p if i % 3 else samples.read(p), i)
                 for i, p in enumerate(self.paths)]
        mixed[2] = [memoryview(samples.read(self.paths[2])), 2]
        batches = self.check(mixed, labels)
        self.assertEqual(batches.path(1), self.paths[1])
        self.check([samples.read(p) for p in self.paths],
                   [-1] * len(self.paths))

    def test_a_sequence_is_asked_by_the_loaders_threads(self):
        source = Sequence(self.paths)
        self.check(source, [3 * i for i in range(len(self.paths))], reads=3)
        self.assertNotIn(threading.get_ident(), source.threads)

    def test_a_pack_file(self):
        path = samples.scratch() / "loader.hrp"
        subprocess.run([samples.COMMAND, "pack", self.root, "--out", path],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.check(path, self.folder_labels())
        self.check(headrace.PackFile(path), self.folder_labels())
        self.check([headrace.PackFile(path)], self.folder_labels())

    def test_tar_files(self):
        half = len(self.paths) // 2
        places = []
        for n, part in enumerate((self.paths[:half], self.paths[half:])):
            places.append(samples.scratch() / f"loader-{n}.tar")
            with tarfile.open(places[-1], "w") as tar:
                for i, path in enumerate(part):
                    tar.add(path, f"{n}{i:04}.jpg")
        try:
            self.check(places)
        except headrace.PictureError as error:
            if error.status != "HR_EUNSUPPORTED":
                raise
            self.skipTest(str(error))

    def cifar(self, count=23, labels=1):
        """A file of CIFAR: its path, records, and pictures as H x W x C."""
        random = numpy.random.default_rng(5)
        size = labels + 3072
        records = random.integers(0, 256, (count, size), numpy.uint8)
        records[:, 0] = numpy.arange(count) % 10
        records[:, -3073] = numpy.arange(count) % (10 if labels == 1 else 23)
        path = samples.scratch() / f"data_batch_{labels}.bin"
        records.tofile(path)
        planes = records[:, labels:].reshape(count, 3, 32, 32)
        return path, records, planes.transpose(0, 2, 3, 1)

    def test_cifar_files(self):
        path, records, pictures = self.cifar()
        steps = ops.decode(), ops.resize(40, 36)
        want = [headrace.from_pixels(numpy.ascontiguousarray(p)).resize(40, 36)
                .numpy() for p in pictures]
        batches = loader(headrace.Cifar(path), steps, dtype="u8",
                         layout="nhwc")
        x, y = all_of(batches)
        numpy.testing.assert_array_equal(x, numpy.stack(want))
        numpy.testing.assert_array_equal(y, records[:, 0])
        self.assertEqual(batches.classes, tuple("0123456789"))

    def test_cifar_100(self):
        path, records, _ = self.cifar(labels=2)
        crop = ops.decode(), ops.center_crop(32, 32)
        for kind, at in ("100", 1), ("100-coarse", 0):
            _, y = all_of(loader(headrace.Cifar(path, kind), crop))
            numpy.testing.assert_array_equal(y, records[:, at])
        with self.assertRaisesRegex(headrace.PictureError, "has 3073 bytes"):
            loader(headrace.Cifar(path), crop)
        self.assertRaises(headrace.ArgumentError, headrace.Cifar, path, "11")

class Order(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")
        self.num = len(samples.photos())

    def test_seed_and_epoch_make_the_order(self):
        a = loader(self.root, shuffle=True, seed=5)
        b = loader(self.root, shuffle=True, seed=5, batch=7, threads=1)
        first, second = indices_of(a), indices_of(a)
        self.assertEqual(sorted(first), list(range(self.num)))
        self.assertEqual(sorted(second), sorted(first))
        self.assertNotEqual(first, second)
        self.assertEqual(indices_of(b), first)
        self.assertEqual(indices_of(b), second)
        self.assertNotEqual(
            indices_of(loader(self.root, shuffle=True, seed=6)), first)

    def test_a_loop_that_is_left_begins_the_next_epoch(self):
        a = loader(self.root, shuffle=True)
        epochs = [indices_of(a) for _ in range(3)]
        a.set_epoch(0)
        for _ in a:
            break
        self.assertEqual(indices_of(a), epochs[1])

        def broken():
            for _ in a:
                raise KeyError("of the consumer")

        self.assertRaises(KeyError, broken)
        a.set_epoch(2)
        self.assertEqual(indices_of(a), epochs[2])

    def test_one_loop_at_a_time(self):
        a = loader(self.root)
        first, second = iter(a), iter(a)
        next(second)
        self.assertRaisesRegex(headrace.Error, "another loop", next, first)
        next(second)
        a.close()
        self.assertRaisesRegex(headrace.Error, "close", next, second)

    def test_a_number_of_epochs(self):
        a = loader(self.root, epochs=2)
        self.assertEqual(len(list(a)), len(a))
        self.assertEqual(len(list(a)), len(a))
        self.assertRaises(headrace.Error, iter, a)

    def test_drop_last(self):
        a = loader(self.root, drop_last=True)
        self.assertEqual(len(a), self.num // BATCH)
        self.assertEqual([len(x) for x, _ in a], [BATCH] * len(a))

    def test_shards_that_do_not_go_evenly(self):
        for drop in (False, True):
            parts = [indices_of(loader(self.root, shard=(rank, 5),
                                       shard_drop=drop))
                     for rank in range(5)]
            sizes = {len(part) for part in parts}
            self.assertEqual(
                sizes, {self.num // 5 if drop else -(-self.num // 5)})
            seen = sum(parts, [])
            if drop:
                self.assertEqual(len(set(seen)), len(seen))
            else:
                self.assertEqual(set(seen), set(range(self.num)))

    def test_weights(self):
        weights = [0.0] * self.num
        weights[4] = weights[9] = 1
        a = loader(self.root, weights=weights, samples=40)
        found = indices_of(a)
        self.assertEqual((len(found), set(found)), (40, {4, 9}))

    def test_random_ops_are_those_of_the_reported_ones(self):
        a = loader(self.root, TRAIN, shuffle=True, seed=11)
        for _ in range(2):
            for x, _ in a:
                for i, index in enumerate(a.last.indices):
                    drawn = a.drawn(i)
                    want = headrace.Pipeline(drawn, size=(32, 24))(
                        [a.path(index)]).numpy()[0]
                    numpy.testing.assert_array_equal(x[i], want)
        self.assertEqual(x.dtype, numpy.uint8)


class Resume(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")

    def test_with_the_next_sample_and_other_threads(self):
        a = loader(self.root, TRAIN, shuffle=True, seed=2, threads=1)
        epochs = [all_of(a) for _ in range(2)]
        for taken in range(1, len(a) + 1):
            a.set_epoch(0)
            for n, _ in enumerate(a, 1):
                if n == taken:
                    break
            state = pickle.loads(pickle.dumps(a.state_dict()))
            b = loader(self.root, TRAIN, shuffle=True, seed=2, threads=2,
                       batch=3, reads=2)
            b.load_state_dict(state)
            self.assertEqual(b.state_dict(), state)
            rest = min(taken * BATCH, len(epochs[0][0]))
            if rest == len(epochs[0][0]):
                rest, want = 0, epochs[1]
            else:
                want = epochs[0]
            x, y = all_of(b)
            numpy.testing.assert_array_equal(x, want[0][rest:])
            numpy.testing.assert_array_equal(y, want[1][rest:])
            if want is epochs[0]:
                numpy.testing.assert_array_equal(all_of(b)[0], epochs[1][0])

    def test_before_anything(self):
        a, b = loader(self.root, shuffle=True), loader(self.root, shuffle=True)
        a.set_epoch(3)
        b.load_state_dict(a.state_dict())
        self.assertEqual(indices_of(b), indices_of(a))


class Failing(unittest.TestCase):
    def setUp(self):
        good = samples.photos()[:9]
        self.bad = samples.scratch() / "loader-bad.jpg"
        self.bad.write_bytes(samples.read(good[0])[:300])
        self.source = [(p, i) for i, p in enumerate(good)]
        self.source[6] = str(self.bad), 6

    def test_fail_names_the_file_and_goes_on_behind_the_batch(self):
        a = loader(self.source, batch=3)
        seen = []
        with self.assertRaises(headrace.PictureError) as caught:
            for _, y in a:
                seen += y.tolist()
        self.assertIn(str(self.bad), str(caught.exception))
        self.assertEqual(seen, [0, 1, 2, 3, 4, 5])
        self.source[6], self.source[1] = self.source[1], self.source[6]
        b = loader(self.source, batch=3)
        with self.assertRaises(headrace.PictureError):
            next(iter(b))
        self.assertEqual([y.tolist() for _, y in b], [[3, 4, 5], [1, 7, 8]])
        self.assertEqual(b.epoch, 1)

    def test_zero(self):
        a = loader(self.source, on_error="zero", batch=9)
        (x, _), = a
        self.assertEqual((a.last.failed, a.last.replaced), (1, 0))
        self.assertEqual([i for i, r in enumerate(a.last.results)
                          if not r.ok], [6])
        result = a.last.results[6]
        self.assertEqual(result.status_name, "HR_ETRUNCATED")
        self.assertIn(str(self.bad), result.message)
        self.assertEqual(result.file, str(self.bad))
        self.assertFalse(x[6].any())
        self.assertTrue(x[5].any())
        self.assertRaises(headrace.ArgumentError, a.drawn, 6)

    def test_skip(self):
        a = loader(self.source, on_error="skip", batch=9)
        (_, y), = a
        self.assertEqual((a.last.failed, a.last.replaced), (0, 1))
        self.assertEqual(y.tolist(), [0, 1, 2, 3, 4, 5, 7, 7, 8])

    def test_a_sequence_that_raises(self):
        class Raises(Sequence):
            def __getitem__(self, i):
                if i == 4:
                    raise KeyError("no such picture")
                return super().__getitem__(i)

        source = Raises(samples.photos()[:9])
        a = loader(source, on_error="zero", batch=9)
        (_, y), = a
        self.assertEqual(y.tolist()[3:6], [9, -1, 15])
        self.assertIn("no such picture", a.last.results[4].message)
        with self.assertRaises(headrace.ReadError):
            list(loader(source))

    def test_what_a_sequence_raises_is_named(self):
        class Raises(Sequence):
            def __getitem__(self, i):
                raise error

        for error, text in (
            (KeyError(7), "sample 0: read: KeyError: 7"),
            (AssertionError(), "sample 0: read: AssertionError"),
            (ValueError("\u00e4" * 300), "ValueError: \u00e4\u00e4\u00e4"),
            (ValueError("x" + "\u00e4" * 300), "ValueError: x\u00e4\u00e4"),
        ):
            with self.assertRaises(headrace.ReadError) as caught:
                next(iter(loader(Raises(samples.photos()))))
            self.assertIn(text, str(caught.exception))
            self.assertFalse(str(caught.exception).endswith(": "))

        class Lacks(Sequence):
            def __getitem__(self, i):
                return {}[i]

        with self.assertRaisesRegex(headrace.ReadError, "KeyError: 0$"):
            next(iter(loader(Lacks(samples.photos()))))

    def test_an_empty_picture(self):
        empty = samples.scratch() / "loader-empty.jpg"
        empty.write_bytes(b"")
        a = loader([(str(empty), 0), (b"", 1)], on_error="zero")
        next(iter(a))
        for result in a.last.results:
            self.assertIn("empty", result.message)


class Memory(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")

    def test_batches_stay_as_they_are_while_referenced(self):
        a = loader(self.root, batch=2, budget=1)
        kept = [x for x, _ in a]
        want = wanted(samples.photos())
        list(a)  # what was given back is written again
        numpy.testing.assert_array_equal(numpy.concatenate(kept), want)
        self.assertEqual(a._core.depth, 2)
        self.assertEqual(a.stats["lent"], 1)
        kept.clear()
        gc.collect()
        self.assertEqual(a.stats["lent"], 0)

    def test_a_copy_knows_as_much(self):
        a = loader(self.root, batch=4, budget=1, shuffle=True)
        facts = []
        for _ in a:
            last = a.last
            facts.append((last, last.indices, [r.width for r in last.results]))
        self.assertEqual([last.copied for last, *_ in facts][:3],
                         [False, True, True])
        list(a)
        for last, indices, widths in facts:
            self.assertEqual(last.indices, indices)
            self.assertEqual([r.width for r in last.results], widths)

    def test_memory_is_lent_and_used_again(self):
        a = loader(self.root, batch=2)
        places = set()
        for _ in range(3):
            for x, _ in a:
                places.add(x.__array_interface__["data"][0])
                self.assertFalse(a.last.copied)
                del x
        self.assertLessEqual(len(places), a._core.depth)

    def test_views_and_results_keep_the_batch(self):
        a = loader(self.root, batch=2)
        for x, y in a:
            view, results, last = x[1, 0], a.last.results, weakref.ref(a.last)
            break
        want = view.copy()
        del x
        a.close()
        del a
        gc.collect()
        self.assertIsNotNone(last())
        numpy.testing.assert_array_equal(view, want)
        self.assertTrue(results[0].ok)
        del view, results
        gc.collect()
        self.assertIsNone(last())

    def test_a_sequences_bytes_are_freed(self):
        class Bytes(bytearray):
            alive = 0

            def __init__(self, data):
                super().__init__(data)
                Bytes.alive += 1

            def __del__(self):
                Bytes.alive -= 1

        paths = samples.photos()

        class Counted(Sequence):
            def __getitem__(self, i):
                return Bytes(samples.read(self.paths[i]))

        a = loader(Counted(paths))
        for _ in range(2):
            list(a)
        a.close()
        del a
        gc.collect()
        self.assertEqual(Bytes.alive, 0)

    def test_a_sequence_that_has_its_loader(self):
        source = Sequence(samples.photos())
        source.loader = loader(source)
        next(iter(source.loader))
        gone = weakref.ref(source)
        del source
        # A thread that reads has it in its hands while it asks it.
        end = time.monotonic() + 30
        while gone() is not None and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
        self.assertIsNone(gone())

    def test_collected_on_a_thread_of_its_own(self):
        class Drops(Sequence):
            loaders = []

            def __getitem__(self, i):
                self.loaders.clear()
                return super().__getitem__(i)

        a = loader(Drops(samples.photos()))
        core = a._open()
        Drops.loaders.append(core)
        a._core = None
        del core
        b = loader(Drops(samples.photos()))
        self.assertEqual(len(all_of(b)[0]), len(samples.photos()))

    def test_closed(self):
        a = loader(self.root)
        batches = iter(a)
        next(batches)
        core = a._core
        a.close()
        for call in (core.next, core.save, core.stats):
            self.assertRaises(headrace.CanceledError, call)
        self.assertRaises(headrace.Error, next, batches)
        with a:
            self.assertEqual(len(list(a)), len(a))


class Waiting(unittest.TestCase):
    """A sequence that gives nothing until it is told to."""

    def setUp(self):
        paths = samples.photos()
        self.go = threading.Event()
        go = self.go

        class Waits(Sequence):
            def __getitem__(self, i):
                go.wait()
                return super().__getitem__(i)

        self.loader = loader(Waits(paths))

    def test_with_a_timeout(self):
        core = self.loader._open()
        self.assertRaises(headrace.TimeoutError, core.next, timeout=0)
        self.go.set()
        self.assertEqual(len(core.next()), BATCH)

    def test_interrupted(self):
        core = self.loader._open()

        def interrupt():
            os.kill(os.getpid(), signal.SIGINT)

        # (What runs in the background inherits that it is ignored.)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.1, interrupt)
        timer.start()
        self.assertRaises(KeyboardInterrupt, core.next, timeout=60)
        self.go.set()
        self.assertEqual(core.next().indices, tuple(range(BATCH)))

    def test_closed_by_another_thread(self):
        core = self.loader._open()
        errors = []

        def take():
            try:
                core.next()
            except headrace.CanceledError as error:
                errors.append(error)

        thread = threading.Thread(target=take)
        thread.start()
        threading.Timer(0.1, self.go.set).start()
        core.close()
        thread.join()
        self.assertEqual(len(errors), 1)


class Tuning(unittest.TestCase):
    """Tests in C say which settings tuning finds."""

    @classmethod
    def setUpClass(cls):
        cls.root = str(samples.folder() / "photos")

    def test_settings_that_stay(self):
        want = {"threads": 1, "reads": 2, "depth": 3, "bytes": 1 << 20}
        with loader(self.root, settings=want, threads=2) as a:
            self.assertEqual(a.settings, want)
            for _ in a:
                pass
            self.assertEqual(a.settings, want)
            self.assertEqual(a.stats["settings"], want)
            self.assertEqual(a.stats["tune_steps"], 0)

    def test_the_same_pictures_and_where_it_got_to(self):
        one = {"threads": 1, "reads": 1, "depth": 1, "bytes": 1}
        plain = loader(self.root, TRAIN, shuffle=True, seed=3, batch=1)
        tuned = loader(self.root, TRAIN, shuffle=True, seed=3, batch=1,
                       autotune=True, settings=one, reserve=0, cpu_share=1.0)
        for _ in range(4):
            x, y = all_of(plain)
            again, classes = all_of(tuned)
            numpy.testing.assert_array_equal(x, again)
            numpy.testing.assert_array_equal(y, classes)
        stats = tuned.stats
        self.assertGreater(stats["tune_steps"], 0)
        self.assertGreaterEqual(stats["tune_steps"], stats["tune_backs"])
        for share in "starved", "waited":
            self.assertTrue(0 <= stats[share] <= 1.001, stats)
        found = tuned.settings
        tuned.close()
        self.assertEqual(tuned.settings, found)
        with loader(self.root, autotune=True,
                    settings=json.loads(json.dumps(found))) as b:
            next(iter(b))
            self.assertEqual(b.settings, found)

    def test_no_settings(self):
        for wrong in ({}, {"threads": 1}, {"threads": 1, "reads": 1, "depth": 1,
                                          "bytes": 1, "more": 1}):
            with self.assertRaises(headrace.ArgumentError):
                loader(self.root, settings=wrong)
        for wrong in ({"settings": {"threads": -1, "reads": 0, "depth": 0,
                                    "bytes": 0}},
                      {"settings": {"threads": 0, "reads": 0, "depth": 0,
                                    "bytes": -1}},
                      {"reserve": -1}, {"cpu_share": 1.5}):
            with self.assertRaises(headrace.ArgumentError):
                next(iter(loader(self.root, **wrong)))
