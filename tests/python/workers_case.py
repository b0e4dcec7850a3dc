# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of DataLoader workers: data sets, and comparing."""

import collections
import gc
import importlib.util
import io
import os
import random
import signal
import tempfile
import threading
import time
import unittest
import warnings

if not importlib.util.find_spec("torchvision"):
    raise unittest.SkipTest("needs torch and torchvision")

import headrace
import PIL.Image
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision import transforms

PICTURES = 24
BATCH = 8
BATCHES = PICTURES // BATCH
WORKERS = 2
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
    """Pictures without random transforms."""

    def __init__(self, folder):
        super().__init__(folder)
        self.transform = transforms.Compose(
            [
                transforms.Resize(50),
                transforms.CenterCrop(48),
                transforms.ToTensor(),
            ]
        )


class V2(Pictures):
    """Through transforms v2: samples are tv_tensors.Image."""

    def __init__(self, folder):
        super().__init__(folder)
        from torchvision.transforms import v2

        self.transform = v2.Compose(
            [
                v2.RandomResizedCrop(48),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
            ]
        )


class Bytes(Pictures):
    """Opened from memory: the bytes must reach the device's process."""

    def picture(self, index):
        with open(self.names[index], "rb") as file:
            data = io.BytesIO(file.read())
        return self.transform(PIL.Image.open(data).convert("RGB"))


class Mixed(Bytes):
    """Every other picture from memory."""

    def picture(self, index):
        if index % 2:
            return Pictures.picture(self, index)
        return super().picture(index)


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
        return batch, index


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
    """Returns the worker's threads after it recorded a picture."""

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


def bare(error):
    """Removes the frames that it came through: one of them holds the iterator.
    Keeping the error would make a circle, and stock takes 5 s a worker to
    collect it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


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
            batches.append(bare(error))
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


def is_of_a_channel(link):
    """Says whether a socket listens for our workers, or connects to one."""
    inode = link[len("socket:["):-1]
    with open("/proc/net/unix") as file:
        return any(f" {inode} @headrace-" in line for line in file)


class Traces:
    """Threads and descriptors that are there now and were not before.

    The ones of torch and the default device are there from the start.
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
            kind = link.split(":")[0]
            ours = kind == "socket" and is_of_a_channel(link)
            found["channel" if ours else kind] += 1
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


# Stock leaves these when a worker is killed: its own queues, shared memory of
# tensors, files with which it tries how many it may open, and connections in
# whose __del__ its signal handler raised.
STOCK_LEAVES = ("pipe", "/dev/shm", "/tmp", "socket")


class Case(unittest.TestCase):
    limit = 500

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
            if isinstance(stock, OwnBatch):
                self.assertIs(type(mine.pictures), torch.Tensor)
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
