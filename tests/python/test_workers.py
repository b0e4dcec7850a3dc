# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers of the drop-in, against stock torchvision.

Each case runs twice with the same seed, without and with the drop-in, and
every tensor must be equal to the bit, with one job per batch.
"""

import collections
import gc
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

try:
    import PIL.Image
    import torch
    import torchvision
    from torch.utils.data import DataLoader, Dataset, IterableDataset
    from torchvision import transforms
except ImportError as error:
    raise unittest.SkipTest("needs torch and torchvision: %s" % error)

import headrace
from headrace.dropin import workers

PICTURES = 24
BATCH = 8
WORKERS = 2
ROUNDS = 20
torch.set_num_threads(1)
warnings.filterwarnings("ignore", message=".*num_workers.*")
warnings.filterwarnings("ignore", message=".*will create.*worker processes.*")


def make_pictures(folder):
    """Small photographs of noise, all sizes, colour and grey."""
    draw = random.Random(5)
    for index in range(PICTURES):
        size = draw.randrange(70, 150), draw.randrange(70, 150)
        mode = "L" if index % 7 == 3 else "RGB"
        coarse = PIL.Image.frombytes(
            mode, (9, 7), draw.randbytes(63 * len(mode))
        )
        name = os.path.join(folder, "%02d.jpg" % index)
        coarse.resize(size, PIL.Image.BICUBIC).save(
            name, quality=60 + index, subsampling=index % 3
        )


def names_in(folder):
    return sorted(
        os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.endswith(".jpg")
    )


def train():
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(48),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )


class Pictures(Dataset):
    """(tensor, number) of each picture; opened by name."""

    def __init__(self, folder):
        self.names = names_in(folder)
        self.transform = train()

    def __len__(self):
        return len(self.names)

    def picture(self, index):
        with open(self.names[index], "rb") as file:
            return self.transform(PIL.Image.open(file).convert("RGB"))

    def __getitem__(self, index):
        return self.picture(index), index


class Plain(Pictures):
    """Without chance."""

    def __init__(self, folder):
        super().__init__(folder)
        self.transform = transforms.Compose(
            [
                transforms.Resize(50),
                transforms.CenterCrop(48),
                transforms.ToTensor(),
            ]
        )


class Bytes(Pictures):
    """Opened from memory: the bytes must reach the device's process."""

    def picture(self, index):
        with open(self.names[index], "rb") as file:
            data = io.BytesIO(file.read())
        return self.transform(PIL.Image.open(data).convert("RGB"))


Point = collections.namedtuple("Point", "left right")


class Nested(Pictures):
    """A dictionary with two pictures, one of them two levels down."""

    def __getitem__(self, index):
        a, b = self.picture(index), self.picture(index)
        return {"point": Point(a, [b, index]), "name": str(index)}


class Fetched(Pictures):
    """A batch at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(IterableDataset):
    """Every other picture per worker; the first worker stops early."""

    def __init__(self, folder):
        self.pictures = Pictures(folder)

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        end = len(self.pictures) - (7 if first == 0 else 0)
        for index in range(first, end, step):
            yield self.pictures[index]


class Inner(Pictures):
    """A loader within the worker."""

    def __getitem__(self, index):
        inner = DataLoader(Tail(self, index), batch_size=3)
        (batch,) = inner
        return batch.sum(0), batch, index


class Tail(Dataset):
    def __init__(self, pictures, index):
        self.pictures, self.index = pictures, index

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.pictures.picture((self.index + index) % PICTURES)


class Killed(Pictures):
    """The worker ends without a word at one picture."""

    fatal = 13

    def __getitem__(self, index):
        if index == self.fatal:
            os._exit(3)
        return super().__getitem__(index)


class Raises(Pictures):
    """The data set itself fails at one picture."""

    def __getitem__(self, index):
        if index == 9:
            raise KeyError("no picture nine")
        return super().__getitem__(index)


class Threads(Pictures):
    """What threads the worker has after it recorded a picture."""

    def __getitem__(self, index):
        picture = self.picture(index)
        names = []
        for thread in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/comm" % thread) as file:
                names.append(file.read().strip())
        return picture, len(names)


class OwnBatch:
    """A batch of the user's own class."""

    def __init__(self, samples):
        self.pictures = torch.stack([picture for picture, _ in samples])
        self.numbers = torch.tensor([number for _, number in samples])


class SlottedBatch:
    """One that next() cannot look into."""

    __slots__ = ("pictures", "numbers")

    def __init__(self, pictures, numbers):
        self.pictures, self.numbers = pictures, numbers


def own_batch(samples):
    return OwnBatch(samples)


def slotted_batch(samples):
    batch = OwnBatch(samples)
    return SlottedBatch(batch.pictures, batch.numbers)


def mixed_up(samples):
    """Arithmetic in the worker on what was just collated."""
    pictures, numbers = torch.utils.data.default_collate(samples)
    return pictures.mul(0.25) + pictures.flip(0).exp() * 0.75, numbers


def as_list(samples):
    return list(samples)


def seeded(loader, seed=11):
    """All batches of one epoch; errors stand in their place."""
    torch.manual_seed(seed)
    random.seed(seed)
    iterator = iter(loader)
    batches = []
    while True:
        try:
            batches.append(next(iterator))
        except StopIteration:
            return batches
        except Exception as error:
            batches.append(error)
            if len(batches) > 100:
                raise


def text_of(error):
    """The text but for the lines of code on the way."""
    lines = str(error).splitlines()
    return [line for line in lines if not line.startswith(" ")]


def jobs_run():
    return headrace.report()["totals"].get("jobs", 0)


def children():
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        return file.read().split()


class Traces:
    """Threads and descriptors that are there now and were not before.

    What torch and the default device keep is there from the start.
    """

    def __init__(self):
        gc.collect()
        self.before = self.now()

    @staticmethod
    def now():
        found = collections.Counter(
            thread.name for thread in threading.enumerate()
        )
        for number in os.listdir("/proc/self/fd"):
            try:
                link = os.readlink("/proc/self/fd/" + number)
            except OSError:
                continue
            found[link.split(":")[0]] += 1
        return found

    def more(self, but):
        more = self.now() - self.before
        for kind in list(more):
            if kind.startswith(but):
                del more[kind]
        return more

    def check(self, test, but=("none",)):
        gc.collect()
        end = time.monotonic() + 5
        while self.more(but) and time.monotonic() < end:
            time.sleep(0.01)
        test.assertEqual(self.more(but), {})


# What stock leaves when a worker is killed: its own queues, shared memory
# of tensors, and files with which it tries how many it may open.
STOCK_LEAVES = ("pipe", "/dev/shm", "/tmp")


class Case(unittest.TestCase):
    limit = 240

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        make_pictures(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        signal.alarm(self.limit)

    def tearDown(self):
        signal.alarm(0)

    def assert_same(self, mine, stock):
        self.assertIs(type(mine), type(stock))
        if isinstance(stock, Exception):
            self.assertEqual(text_of(mine), text_of(stock))
        elif isinstance(stock, torch.Tensor):
            self.assertEqual(mine.dtype, stock.dtype)
            self.assertTrue(torch.equal(mine, stock))
        elif isinstance(stock, dict):
            self.assertEqual(list(mine), list(stock))
            for key in stock:
                self.assert_same(mine[key], stock[key])
        elif isinstance(stock, (list, tuple)):
            self.assertEqual(len(mine), len(stock))
            for a, b in zip(mine, stock):
                self.assert_same(a, b)
        elif isinstance(stock, (OwnBatch, SlottedBatch)):
            # Through a function of torch: tickets in it must act as tensors.
            self.assertEqual(float((mine.pictures - stock.pictures).abs()
                                   .max()), 0.0)
            self.assert_same(mine.numbers, stock.numbers)
        else:
            self.assertEqual(mine, stock)

    def compare(self, dataset, jobs=None, epochs=1, **params):
        """Stock, then the drop-in; returns how many jobs it ran."""
        params = {"batch_size": BATCH, "num_workers": WORKERS, **params}
        loader = DataLoader(dataset, **params)
        stock = [seeded(loader, 11 + epoch) for epoch in range(epochs)]
        del loader
        with headrace.image_backend("cpu"):
            loader = DataLoader(dataset, **params)
            before = jobs_run()
            mine = [seeded(loader, 11 + epoch) for epoch in range(epochs)]
            ran = jobs_run() - before
            del loader
        self.assert_same(mine, stock)
        if jobs is not None:
            self.assertEqual(ran, jobs)
        return ran


BATCHES = PICTURES // BATCH


class StartMethods(Case):
    def test_no_workers(self):
        self.compare(Pictures(self.folder), BATCHES, num_workers=0,
                     shuffle=True)

    def test_fork(self):
        self.start_method("fork")

    def test_spawn(self):
        self.start_method("spawn")

    def test_forkserver(self):
        self.start_method("forkserver")

    def start_method(self, name):
        self.compare(
            Pictures(self.folder),
            BATCHES,
            shuffle=True,
            multiprocessing_context=name,
        )
        self.compare(
            Bytes(self.folder),
            BATCHES * 2,
            epochs=2,
            persistent_workers=True,
            multiprocessing_context=name,
        )


class Samples(Case):
    def test_bytes(self):
        self.compare(Bytes(self.folder), BATCHES, shuffle=True)

    def test_nested(self):
        self.compare(Nested(self.folder), 2 * BATCHES)

    def test_batches_fetched_at_once(self):
        self.compare(Fetched(self.folder), BATCHES)

    def test_iterable(self):
        self.compare(Stream(self.folder), batch_size=3)
        self.compare(
            Stream(self.folder),
            batch_size=3,
            persistent_workers=True,
            epochs=2,
        )

    def test_single_samples(self):
        ran = self.compare(Pictures(self.folder), batch_size=None)
        self.assertLessEqual(ran, PICTURES)
        self.compare(Pictures(self.folder), batch_size=None, num_workers=0)

    def test_a_list_of_samples_is_not_as_many_jobs(self):
        ran = self.compare(Pictures(self.folder), collate_fn=as_list)
        self.assertLess(ran, PICTURES // 2)
        self.compare(
            Pictures(self.folder), collate_fn=as_list, num_workers=0
        )

    def test_own_batch(self):
        self.compare(Pictures(self.folder), BATCHES, collate_fn=own_batch)

    def test_slotted_batch(self):
        self.compare(Pictures(self.folder), BATCHES, collate_fn=slotted_batch)

    def test_used_in_the_worker(self):
        self.compare(Pictures(self.folder), 0, collate_fn=mixed_up)

    def test_persistent_workers(self):
        self.compare(
            Pictures(self.folder),
            3 * BATCHES,
            epochs=3,
            shuffle=True,
            persistent_workers=True,
        )

    def test_more_workers_than_batches(self):
        self.compare(Pictures(self.folder), BATCHES, num_workers=5)

    def test_a_loader_in_the_worker(self):
        self.compare(Inner(self.folder))

    def test_any_order(self):
        try:
            DataLoader([0], in_order=False)
        except TypeError:
            self.skipTest("this torch has no in_order")
        loader = {"batch_size": BATCH, "num_workers": WORKERS}
        torch.manual_seed(3)
        stock = list(DataLoader(Pictures(self.folder), **loader))
        torch.manual_seed(3)
        with headrace.image_backend("cpu"):
            mine = list(
                DataLoader(Pictures(self.folder), in_order=False, **loader)
            )
        mine.sort(key=lambda batch: int(batch[1][0]))
        self.assert_same(mine, stock)

    def test_backend_switched_off_while_batches_are_under_way(self):
        dataset = Pictures(self.folder)
        stock = seeded(DataLoader(dataset, batch_size=BATCH,
                                  num_workers=WORKERS))
        torch.manual_seed(11)
        with headrace.image_backend("cpu"):
            iterator = iter(DataLoader(dataset, batch_size=BATCH,
                                       num_workers=WORKERS))
            mine = [next(iterator)]
        for pictures, numbers in iterator:
            mine.append([pictures + 0, numbers])
        self.assert_same(mine, stock)

    def test_counts_of_workers_reach_the_report(self):
        with headrace.image_backend("cpu"):
            before = headrace.report()["totals"].get("recorded", 0)
            seeded(DataLoader(Pictures(self.folder), batch_size=BATCH,
                              num_workers=WORKERS))
            after = headrace.report()["totals"].get("recorded", 0)
        self.assertEqual(after - before, PICTURES)

    def test_workers_open_no_device(self):
        loader = {"batch_size": BATCH, "num_workers": WORKERS}
        dataset = Threads(self.folder)
        stock = seeded(DataLoader(dataset, **loader))
        with headrace.image_backend("cpu"):
            mine = seeded(DataLoader(dataset, **loader))
        most = max(int(numbers.max()) for _, numbers in stock)
        for _, numbers in mine:
            # One more is the thread of the queue, as in stock.
            self.assertLessEqual(int(numbers.max()), most)

    def test_submitted_before_it_is_asked_for(self):
        with headrace.image_backend("cpu"):
            before = jobs_run()
            iterator = iter(DataLoader(Pictures(self.folder),
                                       batch_size=BATCH,
                                       num_workers=WORKERS))
            end = time.monotonic() + 30
            while jobs_run() - before < BATCHES:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual(len(list(iterator)), BATCHES)


class Damage(Case):
    """One bad picture costs its batch, as in stock, and nothing else."""

    def setUp(self):
        super().setUp()
        self.own = tempfile.TemporaryDirectory()
        self.addCleanup(self.own.cleanup)
        make_pictures(self.own.name)
        self.names = names_in(self.own.name)

    def check(self, **params):
        for workers_, method in ((0, None), (2, "fork")):
            with self.subTest(workers=workers_):
                self.compare(
                    Pictures(self.own.name),
                    num_workers=workers_,
                    multiprocessing_context=method,
                    **params,
                )

    def rewrite(self, index, change):
        with open(self.names[index], "rb") as file:
            data = bytearray(file.read())
        with open(self.names[index], "wb") as file:
            file.write(change(data))

    def test_cut_short(self):
        self.rewrite(10, lambda data: data[: len(data) // 2])
        self.check()

    def test_no_header(self):
        self.rewrite(10, lambda data: b"\xff\xd8\xff" + bytes(200))
        self.check()

    def test_empty(self):
        self.rewrite(10, lambda data: b"")
        self.check()

    def test_gone(self):
        names = Pictures(self.own.name)
        os.unlink(self.names[10])
        self.compare(names, num_workers=2)

    def test_cut_short_with_the_end_of_a_whole_one(self):
        self.rewrite(10, lambda data: data[: len(data) // 2] + b"\xff\xd9")
        self.check()

    def test_cut_after_the_header(self):
        def cut(data):
            return data[: data.index(b"\xff\xda") + 14] + b"\xff\xd9"

        self.rewrite(4, cut)
        self.rewrite(17, cut)
        self.check()
        self.check(collate_fn=as_list)

    def test_the_data_set_raises(self):
        self.compare(Raises(self.folder), BATCHES - 1)


class Ends(Case):
    """Nothing is left behind, whatever way an iterator ends."""

    limit = 400

    def loader(self, kind=Pictures, **params):
        params = {"batch_size": 2, "num_workers": WORKERS, **params}
        return DataLoader(kind(self.folder), **params)

    def warm_up(self):
        """The default device and its threads stay; they are no leak."""
        seeded(self.loader())

    def test_whole_epochs(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                seeded(self.loader())
            traces.check(self)

    def test_an_iterator_at_its_end_holds_nothing(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            iterator = iter(self.loader())
            for _ in iterator:
                pass
            names = [thread.name for thread in threading.enumerate()]
            self.assertNotIn("headrace-channel", names)
            del iterator

    def test_early_break(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for round_ in range(ROUNDS):
                start = time.monotonic()
                for count, _ in enumerate(self.loader()):
                    if count == round_ % 5:
                        break
                del _
                self.assertLess(time.monotonic() - start, 20)
            traces.check(self)

    def test_nothing_was_asked_for(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                iter(self.loader())
            traces.check(self)

    def test_early_break_with_persistent_workers(self):
        want = seeded(self.loader(Plain))
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            loader = self.loader(Plain, persistent_workers=True)
            for _ in range(5):
                for _ in loader:
                    break
            self.assert_same(seeded(loader), want)
            del loader, _
            traces.check(self)

    def test_killed_worker(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(ROUNDS):
                start = time.monotonic()
                self.consume_all(self.loader(Killed))
                self.assertLess(time.monotonic() - start, 20)
            gc.collect()
            traces.check(self, STOCK_LEAVES)
            self.assertEqual(len(seeded(self.loader())), PICTURES // 2)

    def consume_all(self, loader):
        """Stock says it in one of two ways: by its handler of signals, or
        by what came of the dead worker's descriptors."""
        with self.assertRaises((RuntimeError, OSError, EOFError)):
            for _ in loader:
                pass

    def test_killed_from_outside(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                iterator = iter(self.loader())
                next(iterator)
                os.kill(iterator._workers[1].pid, signal.SIGKILL)
                with self.assertRaises((RuntimeError, OSError, EOFError)):
                    while True:
                        next(iterator)
                        time.sleep(0.01)
                del iterator
            traces.check(self, STOCK_LEAVES)

    def test_exception_in_the_consumer(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                with self.assertRaises(ZeroDivisionError):
                    self.fail_at_once(self.loader())
            traces.check(self)

    def fail_at_once(self, loader):
        for _ in loader:
            raise ZeroDivisionError

    def test_two_loaders_at_once(self):
        dataset, others = Pictures(self.folder), Bytes(self.folder)
        params = {"batch_size": 6, "num_workers": 1}

        def both():
            torch.manual_seed(1)
            outer = []
            for a in DataLoader(dataset, **params):
                outer.append([a, list(DataLoader(others, **params))])
            pairs = list(
                zip(DataLoader(dataset, **params),
                    DataLoader(others, **params))
            )
            return [outer, pairs]

        stock = both()
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            self.assert_same(both(), stock)
            traces.check(self)

    def test_loaders_in_threads(self):
        dataset = Pictures(self.folder)
        names = [set() for _ in range(3)]

        def work(found):
            for _, numbers in DataLoader(dataset, batch_size=5,
                                         num_workers=1):
                found.update(numbers.tolist())

        with headrace.image_backend("cpu"):
            threads = [
                threading.Thread(target=work, args=(found,))
                for found in names
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(names, [set(range(PICTURES))] * 3)

    def test_tickets_that_are_never_read(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            iterator = iter(self.loader(prefetch_factor=6))
            time.sleep(1.0)
            next(iterator)
            del iterator
            traces.check(self)

    def test_collected_in_a_circle(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            iterator = iter(self.loader())
            next(iterator)
            iterator.itself = [iterator]
            del iterator
            # Stock needs 5 s per worker for this, and leaves its own pipes.
            traces.check(self, STOCK_LEAVES)


class Fork(Case):
    def run_child(self, function):
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(60)
                function()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_child_after_the_device_was_used(self):
        dataset = Pictures(self.folder)
        params = {"batch_size": BATCH, "num_workers": 1}
        with headrace.image_backend("cpu"):
            mine = seeded(DataLoader(dataset, **params))
            held = iter(DataLoader(dataset, **params))
            next(held)

            def child():
                start = time.monotonic()
                self.assertFalse(workers.in_worker())
                self.assert_same(seeded(DataLoader(dataset, **params)), mine)
                self.assert_same(
                    seeded(DataLoader(dataset, batch_size=BATCH))[0][1],
                    mine[0][1],
                )
                self.assertLess(time.monotonic() - start, 30)

            for _ in range(5):
                self.run_child(child)
            self.assertEqual(len(list(held)), BATCHES - 1)

    def test_exit_with_work_in_flight(self):
        script = (
            "import sys, os\n"
            "sys.path.insert(0, %r)\n"
            "import test_workers as t, headrace\n"
            "headrace.set_image_backend('cpu')\n"
            "if __name__ == '__main__':\n"
            "    loader = t.DataLoader(t.Pictures(%r), batch_size=2,\n"
            "        num_workers=2, persistent_workers=True)\n"
            "    iterator = iter(loader)\n"
            "    next(iterator)\n"
        ) % (os.path.dirname(os.path.abspath(__file__)), self.folder)
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                timeout=90,
                text=True,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Pinned(Case):
    """With an accelerator that is not there."""

    def compare_pinned(self, dataset, pins, **params):
        count = []

        def pin(tensor, device=None):
            count.append(tensor)
            return torch.clone(tensor)

        accelerator = getattr(torch, "accelerator", None)
        patches = [mock.patch.object(torch.Tensor, "pin_memory", pin)]
        if accelerator is None:
            patches += [
                mock.patch.object(torch.cuda, "is_available", lambda: True),
                mock.patch.object(torch.cuda, "set_device", lambda _: None),
                mock.patch.object(torch.cuda, "current_device", lambda: 0),
            ]
        else:
            device = torch.device("cuda", 0)
            for name, value in (
                ("is_available", True),
                ("current_accelerator", device),
                ("current_device_index", 0),
                ("set_device_index", None),
            ):
                patches.append(
                    mock.patch.object(
                        accelerator, name, lambda *_, value=value: value
                    )
                )
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        self.compare(dataset, pin_memory=True, **params)
        self.assertEqual(len(count), 2 * pins)
        for patch in patches:
            patch.stop()

    def test_tensors(self):
        # Pictures and numbers of each batch.
        self.compare_pinned(Pictures(self.folder), 2 * BATCHES)

    def test_no_workers(self):
        self.compare_pinned(
            Pictures(self.folder), 2 * BATCHES, num_workers=0
        )

    def test_dictionaries_and_persistent_workers(self):
        self.compare_pinned(
            Nested(self.folder),
            3 * 2 * BATCHES,
            epochs=2,
            persistent_workers=True,
        )

    def test_a_bad_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            make_pictures(folder)
            name = names_in(folder)[10]
            with open(name, "rb") as file:
                data = file.read()
            with open(name, "wb") as file:
                file.write(data[: data.index(b"\xff\xda") + 14] + b"\xff\xd9")
            self.compare_pinned(Pictures(folder), 2 * BATCHES)


class Stateful(Case):
    def setUp(self):
        super().setUp()
        try:
            from torchdata.stateful_dataloader import StatefulDataLoader
        except ImportError as error:
            self.skipTest("needs torchdata: %s" % error)
        self.kind = StatefulDataLoader

    def run_all(self, method):
        params = {
            "batch_size": BATCH,
            "num_workers": WORKERS,
            "multiprocessing_context": method,
        }
        dataset = Pictures(self.folder)
        whole = seeded(self.kind(dataset, **params))
        loader = self.kind(dataset, **params)
        torch.manual_seed(11)
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        del iterator
        loader = self.kind(dataset, **params)
        loader.load_state_dict(state)
        return [whole, seeded(loader)]

    def test_fork_and_spawn(self):
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                stock = self.run_all(method)
                with headrace.image_backend("cpu"):
                    before = jobs_run()
                    mine = self.run_all(method)
                    ran = jobs_run() - before
                self.assert_same(mine, stock)
                self.assertGreaterEqual(ran, 2 * BATCHES - 1)


if __name__ == "__main__":
    unittest.main()
