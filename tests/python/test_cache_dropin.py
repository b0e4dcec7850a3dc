# SPDX-License-Identifier: Apache-2.0
"""The drop-in with headrace.set_cache(): later epochs, the same tensors."""

import concurrent.futures
import gc
import io
import os
import pathlib
import shutil
import tempfile
import time
import unittest
from unittest import mock

try:
    import PIL.Image
    import torch
    from torch.utils.data import DataLoader, Dataset
    from torchvision import datasets
    from torchvision import transforms as T
except ImportError as error:
    raise unittest.SkipTest("needs torch and torchvision: %s" % error)

import dropin_case as case
import headrace
import test_dropin_pipelines as pipelines

SETTLED = 0.2  # seconds after which a file may be kept
OLD = 60  # seconds
PICTURES = 12
EPOCHS = 2
BATCH = 4
TRAIN = T.Compose(pipelines.v1_pipelines()["train"][1])


def read_bytes():
    """Bytes of files that this process has read so far."""
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def hits():
    return headrace.get_cache().stats().hits


class Opened(Dataset):
    """Pictures opened with Pillow itself, by name or from memory."""

    def __init__(self, paths, transform=TRAIN, memory=False):
        self.paths, self.transform = paths, transform
        self.memory = memory

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        if self.memory:
            path = io.BytesIO(pathlib.Path(path).read_bytes())
        return self.transform(PIL.Image.open(path).convert("RGB")), index


def epochs(data, times=EPOCHS, **options):
    """All batches of all epochs; an error in place of what it spoils."""
    options = {"batch_size": BATCH, "shuffle": True, **options}
    loader = DataLoader(data, **options)
    found = []
    for _ in range(times):
        iterator = iter(loader)
        while True:
            batch = case.outcome(lambda: next(iterator))
            if batch == (StopIteration, ""):
                break
            found.append(batch)
            if isinstance(batch[0], type):
                break
    return found


class Case(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name, "photos")
        photos = pathlib.Path(case.Samples.photos())
        cls.paths = []
        for path in sorted(photos.rglob("*.jp*g"))[:PICTURES]:
            place = cls.folder / path.relative_to(photos)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            os.utime(place, (0, time.time() - OLD))
            cls.paths.append(str(place))
        time.sleep(SETTLED)

    def setUp(self):
        headrace.set_cache(None)
        # A file's ctime cannot be set: as if these were old.
        patch = mock.patch("headrace.dropin.pillow.headers._SETTLED", -1)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(headrace.set_cache, None)

    def same(self, found, wanted, text=""):
        self.assertEqual(len(found), len(wanted), text)
        for ours, stock in zip(found, wanted):
            if isinstance(stock[0], type):
                self.assertEqual(ours, stock, text)
                continue
            self.assert_same_tensor(ours[0], stock[0], text)
            self.assertTrue(torch.equal(ours[1], stock[1]), text)

    def compare(self, data, device="cpu", cache="1G", text="", **options):
        """Stock, and the drop-in with a cache; returns its counters."""
        wanted = case.stock(lambda: epochs(data, **options))
        headrace.set_cache(cache)
        try:
            found, self.report = case.ours(
                lambda: epochs(data, **options), device)
            self.same(found, wanted, text)
            return headrace.get_cache().stats()
        finally:
            headrace.set_cache(None)


class Pipelines(Case):
    def test_v1(self):
        for name, (jobs, steps) in pipelines.v1_pipelines().items():
            data = datasets.ImageFolder(self.folder, T.Compose(steps))
            with self.subTest(name):
                stats = self.compare(data, text=name)
                if jobs is not None:
                    n = len(data)
                    self.assertEqual(stats[:3], ((EPOCHS - 1) * n, n, n))

    @unittest.skipUnless(pipelines.v2, "this torchvision has no transforms v2")
    def test_v2(self):
        for name, (jobs, steps) in pipelines.v2_pipelines().items():
            data = datasets.ImageFolder(
                self.folder, pipelines.v2.Compose(steps))
            with self.subTest(name):
                stats = self.compare(data, text=name)
                if jobs is not None:
                    n = len(data)
                    self.assertEqual(stats[:3], ((EPOCHS - 1) * n, n, n))

    def test_other_devices(self):
        data = datasets.ImageFolder(self.folder, TRAIN)
        for backend in ("opencl",):
            names = [device["name"] for device in headrace.devices()
                     if device["backend"] == backend and device["available"]]
            with self.subTest(backend):
                if not names:
                    self.skipTest("no device of " + backend)
                stats = self.compare(data, names[0])
                self.assertEqual(stats.hits, (EPOCHS - 1) * len(data))
                self.assertTrue(any(
                    name.startswith("cache + ") and backend in name
                    for name in self.report["devices"]), self.report)

    def test_the_report_says_it(self):
        data = datasets.ImageFolder(self.folder, TRAIN)
        found = case.ours(lambda: epochs(data), "cpu")
        self.same(found[0], case.stock(lambda: epochs(data)))
        self.assertEqual(found[1]["devices"], {"cpu": EPOCHS * len(data)})
        self.compare(data)
        n = len(data)
        self.assertEqual(self.report["devices"],
                         {"cpu": n, "cache + cpu": (EPOCHS - 1) * n})

    def test_opened_with_pillow(self):
        n = len(self.paths)
        for memory in (False, True):
            stats = self.compare(Opened(self.paths, memory=memory))
            self.assertEqual(stats[:3], ((EPOCHS - 1) * n, n, n))

    def test_no_cache_any_more(self):
        data = datasets.ImageFolder(self.folder, TRAIN)

        def run():
            epochs(data, 2)
            headrace.set_cache(None)
            headrace.dropin.report(reset=True)
            epochs(data, 1)

        headrace.set_cache("1G")
        _, report = case.ours(run, "cpu")
        self.assertEqual(report["devices"], {"cpu": len(data)})

    def test_the_budget(self):
        data = datasets.ImageFolder(self.folder, TRAIN)
        whole = self.compare(data).bytes
        stats = self.compare(data, cache=whole // 2)
        self.assertLessEqual(stats.bytes, whole // 2)
        self.assertGreater(stats.evictions, 0)
        # One that holds no picture at all.
        stats = self.compare(data, cache=1024)
        self.assertEqual((stats.hits, stats.kept, stats.bytes), (0, 0, 0))

    def test_threads(self):
        data = Opened(self.paths, T.Compose([T.Resize((40, 50)),
                                             T.ToTensor()]))
        wanted = epochs(data, 1, shuffle=False)
        headrace.set_cache("1G")
        with headrace.image_backend("cpu"):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for found in pool.map(
                        lambda _: epochs(data, 3, shuffle=False), range(8)):
                    self.same(found, wanted * 3)
        stats = headrace.get_cache().stats()
        self.assertEqual(stats.pictures, len(data))
        self.assertGreaterEqual(stats.hits, 8 * 2 * len(data))


class Reading(Case):
    def later(self, data):
        """Bytes read in a first and in a later epoch."""
        headrace.set_cache("1G")
        with headrace.image_backend("cpu"):
            read = []
            for _ in range(3):
                before = read_bytes()
                epochs(data, 1)
                read.append(read_bytes() - before)
        self.assertEqual(hits(), 2 * len(data))
        return read[0], read[2]

    def test_open_reads_each_file_once(self):
        """And what Python's open() and Pillow look at."""
        first, later = self.later(Opened(self.paths))
        before = read_bytes()
        for path in self.paths:
            with open(path, "rb") as file:
                file.read(16)
                os.pread(file.fileno(), os.path.getsize(path), 0)
        self.assertLess(later, read_bytes() - before + 1024)


class Held(Case):
    """A file that the cache knows is not read: its picture is held."""

    CHANGES = {
        "unlink": os.unlink,
        "overwrite": lambda path: pathlib.Path(path).write_bytes(b"other"),
        "truncate": lambda path: os.truncate(path, 100),
        "no cache": lambda path: headrace.set_cache(None),
        "another cache": lambda path: headrace.set_cache("1M"),
    }
    WAYS = {
        "open": lambda path: PIL.Image.open(path).convert("RGB"),
        "loader": datasets.folder.default_loader,
    }

    def sources(self):
        copies = []
        for number, path in enumerate(
                self.paths[:2] + list(map(str, case.Samples.kinds()))):
            place = os.path.join(self.temporary.name, "held%d.jpg" % number)
            shutil.copy(path, place)
            os.utime(place, (0, time.time() - OLD))
            copies.append(place)
        time.sleep(SETTLED)
        return copies

    def look(self, way, path, change=lambda path: None):
        from headrace.dropin.base import fetch
        from headrace.dropin.pillow import pictures

        with fetch.at(fetch.MAP):
            picture = way(path)
            own = pictures._own(picture)
            change(path)
            packed = "_hr" in own and getattr(
                own["_hr"].source, "packed", False)
            return (picture.size, picture.mode, picture.info,
                    picture.tobytes()), packed

    def test_nothing_takes_it_away(self):
        held = 0
        for name, change in self.CHANGES.items():
            for how, way in self.WAYS.items():
                paths = self.sources()
                wanted = [case.outcome(lambda: self.look(way, path)[0])
                          for path in paths]
                headrace.set_cache("1G")
                with headrace.image_backend("cpu"):
                    for path in paths:
                        case.outcome(lambda: self.look(way, path))
                    for path, stock in zip(paths, wanted):
                        headrace.set_cache(headrace.get_cache() or "1G")
                        found = case.outcome(
                            lambda: self.look(way, path, change))
                        with self.subTest(name, way=how, path=path):
                            if isinstance(stock[0], type):
                                self.assertEqual(found, stock)
                            else:
                                self.assertEqual(found[0], stock)
                                held += found[1]
        self.assertGreater(held, 2 * len(self.CHANGES))


class Other(io.FileIO):
    """A file that reads as other bytes than it has."""

    def __init__(self, path, other):
        super().__init__(path)
        self.other = io.BytesIO(pathlib.Path(other).read_bytes())

    def readinto(self, buffer):
        return self.other.readinto(buffer)

    def readall(self):
        return self.other.read()

    def seek(self, *args):
        return self.other.seek(*args)

    def tell(self):
        return self.other.tell()


def saved(picture, **options):
    file = io.BytesIO()
    picture.save(file, "JPEG", **options)
    return file.getvalue()


class Files(Case):
    """Files that change, go, or are damaged."""

    def setUp(self):
        super().setUp()
        self.own = tempfile.TemporaryDirectory()
        self.addCleanup(self.own.cleanup)
        os.mkdir(os.path.join(self.own.name, "a"))
        self.copies = []
        for number, path in enumerate(self.paths[:6]):
            name = os.path.join(self.own.name, "a", "%d.jpg" % number)
            shutil.copy2(path, name)
            self.copies.append(name)
        time.sleep(SETTLED)
        # Opened by torchvision's loader, and by Pillow.
        self.sets = {
            "folder": datasets.ImageFolder(self.own.name, TRAIN),
            "opened": Opened(self.copies),
        }

    def change(self, change, name):
        """Two epochs before and after; stock the same way."""
        data = self.sets[name]

        def run(cached):
            found = epochs(data, 2)
            if cached:
                self.assertEqual(hits(), len(data))
            before = [(path, pathlib.Path(path).read_bytes(), os.stat(path))
                      for path in self.copies]
            change()
            found += epochs(data, 2)
            for path, old, status in before:
                pathlib.Path(path).write_bytes(old)
                times = status.st_atime_ns, status.st_mtime_ns
                os.utime(path, ns=times)
            return found

        wanted = case.stock(lambda: run(False))
        time.sleep(SETTLED)
        headrace.set_cache("1G")
        found, _ = case.ours(lambda: run(True), "cpu")
        self.same(found, wanted, name)
        return found

    def both(self, change):
        for name in self.sets:
            with self.subTest(name):
                headrace.set_cache(None)
                self.change(change, name)
                time.sleep(SETTLED)

    def test_replaced(self):
        def change():
            shutil.copy2(self.paths[-1], self.copies[2] + ".new")
            os.replace(self.copies[2] + ".new", self.copies[2])

        self.both(change)

    def test_written_in_place(self):
        def change():
            # The same size, and the time of change set back.
            status = os.stat(self.copies[3])
            data = bytearray(pathlib.Path(self.copies[3]).read_bytes())
            picture = io.BytesIO()
            PIL.Image.new("RGB", (200, 160), "green").save(picture, "JPEG")
            data[:len(picture.getvalue())] = picture.getvalue()
            with open(self.copies[3], "r+b") as file:
                file.write(data)
            times = status.st_atime_ns, status.st_mtime_ns
            os.utime(self.copies[3], ns=times)

        self.both(change)

    def test_damaged_meanwhile(self):
        def change():
            data = pathlib.Path(self.copies[1]).read_bytes()
            pathlib.Path(self.copies[1]).write_bytes(data[:len(data) // 2])

        self.both(change)

    def test_gone(self):
        def change():
            os.unlink(self.copies[4])

        self.both(change)

    def test_gone_or_replaced_before_the_batch(self):
        """Between recording and the job: as without a cache."""
        path = self.copies[4]
        old = pathlib.Path(path).read_bytes()
        other = self.paths[-1]
        changes = {
            "gone": lambda: os.unlink(path),
            "replaced": lambda: shutil.copy2(other, path),
        }

        def make(data, change):
            case.seed()
            samples = [data[index][0] for index in range(len(data))]
            change()
            return torch.utils.data.default_collate(samples)

        for kind, change in changes.items():
            for name, data in self.sets.items():
                pathlib.Path(path).write_bytes(old)
                wanted = make(data, lambda: None)
                for size in (None, "1G"):
                    pathlib.Path(path).write_bytes(old)
                    time.sleep(SETTLED)
                    headrace.set_cache(size)
                    with headrace.image_backend("cpu"):
                        epochs(data, 2)
                        found = case.in_fetch(lambda: make(data, change))
                    with self.subTest(kind, name=name, size=size):
                        self.assertTrue(torch.equal(found, wanted))
        pathlib.Path(path).write_bytes(old)

    def test_damaged_files_every_epoch(self):
        """The same exception, or the same picture, in every epoch."""
        to_tensor = T.Compose([T.Resize((30, 40)), T.ToTensor()])
        files = list(map(str, case.Samples.bad()))

        def run():
            return [epochs(Opened([path], to_tensor), 1) for path in files]

        wanted = run()
        headrace.set_cache("1G")
        with headrace.image_backend("cpu"):
            for epoch in range(3):
                for path, found, stock in zip(files, run(), wanted):
                    with self.subTest(path=os.path.basename(path)):
                        self.same(found, stock, epoch)


class Workers(Case):
    def test_start_methods(self):
        data = Opened(self.paths)
        for method, persistent in (("fork", False), ("spawn", True)):
            with self.subTest(method, persistent=persistent):
                stats = self.compare(
                    data, num_workers=2, persistent_workers=persistent,
                    multiprocessing_context=method)
                n = len(data)
                self.assertEqual(stats[:3], ((EPOCHS - 1) * n, n, n))

    def test_workers_keep_nothing(self):
        """A forked worker's cache is empty."""
        headrace.set_cache("1G")
        with headrace.image_backend("cpu"):
            epochs(Opened(self.paths), 1)
            self.assertGreater(headrace.get_cache().stats().pictures, 0)
            loader = DataLoader(Asks(), num_workers=1, batch_size=None,
                                multiprocessing_context="fork")
            self.assertEqual([tuple(answer) for answer in loader],
                             [(1 << 30, 0, 0)])


class Asks(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        cache = headrace.get_cache()
        return cache.bytes, cache.stats().pictures, cache.stats().bytes


class Collecting(Case):
    def test_batches_of_a_cache_that_went(self):
        wanted = case.stock(lambda: epochs(Opened(self.paths), 2))

        def run():
            found = []
            loader = DataLoader(Opened(self.paths), BATCH, shuffle=True)
            for _ in range(2):
                found += list(loader)
            headrace.set_cache(None)
            gc.collect()
            return found

        headrace.set_cache("1G")
        found, _ = case.ours(run, "cpu")
        self.same(found, wanted)

    def test_replaced_while_jobs_run(self):
        data = datasets.ImageFolder(self.folder, TRAIN)
        wanted = case.stock(lambda: epochs(data, 4))
        stop = []

        def replace():
            while not stop:
                headrace.set_cache("1G")
                headrace.set_cache("1M")
                headrace.set_cache(None)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(replace)
            try:
                found, _ = case.ours(lambda: epochs(data, 4), "cpu")
            finally:
                stop.append(1)
            other.result()
        self.same(found, wanted)
