# SPDX-License-Identifier: Apache-2.0
# Long: many DataLoaders with workers.
"""A damaged picture in a DataLoader: what a data set does about it is stock's.

Each case runs with stock Pillow and with the drop-in; batches, errors and the
states of generators must be equal.
"""

import collections
import collections.abc
import os
import pathlib
import random
import shutil
import tempfile
import threading
import unittest
import warnings

import dropin_case as case  # first: it may skip this file
import headrace
import numpy as np
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    SequentialSampler,
    Subset,
    default_collate,
    get_worker_info,
)
from torchvision import datasets, transforms

warnings.filterwarnings("ignore", message=".*num_workers.*")
warnings.filterwarnings("ignore", message=".*worker processes.*")

PICTURES = 20
DAMAGED = (5, 13)
RESIZE = transforms.Compose(
    [
        transforms.Resize((24, 24)),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ]
)


def setUpModule():
    global folder
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    folder = holder.name
    draw = random.Random(3)
    os.mkdir(os.path.join(folder, "class"))
    for index in range(PICTURES):
        size = draw.randrange(60, 90), draw.randrange(60, 90)
        coarse = Image.frombytes("RGB", (9, 7), draw.randbytes(189))
        coarse.resize(size, Image.BICUBIC).save(name(index), quality=90)
        if index in DAMAGED:
            damage(name(index))


def name(index):
    return os.path.join(folder, "class", "%02d.jpg" % index)


def damage(path):
    """A marker in the scan that there is not: libjpeg gives up."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        place = len(data) * 9 // 10
        data[place : place + 2] = b"\xff\x18"
        file.seek(0)
        file.write(data)


class Base(Dataset):
    """What stock raises for a damaged picture leaves __getitem__."""

    transform = RESIZE

    def __len__(self):
        return PICTURES

    def read(self, index):
        return self.transform(Image.open(name(index)).convert("RGB"))

    def __getitem__(self, index):
        return self.read(index), index


class Next(Base):
    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        except OSError:
            return self[(index + 1) % PICTURES]


class Bare(Base):
    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        except:  # noqa: E722
            return self[(index + 1) % PICTURES]


class Drawn(Base):
    """Another one, by each generator."""

    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        except Exception:
            random.random()
            torch.rand(1)
            return self[int(np.random.randint(6, 10))]


class Nothing(Base):
    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        except OSError:
            return None


class Grey(Base):
    """A substitute of another shape and class."""

    def __getitem__(self, index):
        try:
            return {"x": self.read(index), "n": index}
        except OSError:
            return {"x": torch.zeros(3, 24, 24, dtype=torch.float64), "n": -1}


class Pixels(Base):
    """Pixels are asked for behind the except."""

    def read(self, index):
        try:
            picture = Image.open(name(index)).convert("RGB")
        except OSError:
            picture = Image.new("RGB", (64, 64), "red")
        array = np.asarray(picture)[:32, :32]
        return torch.from_numpy(array.copy()).sum()


class Many(Base):
    def __getitems__(self, indexes):
        found = []
        for index in indexes:
            try:
                found.append(self[index])
            except OSError:
                found.append((torch.ones(3, 24, 24), -index))
        return found


class Where(Base):
    """The second time is in the worker, with all that it has."""

    def __getitem__(self, index):
        info = get_worker_info()
        worker = -1 if info is None else info.id
        try:
            return self.read(index), worker, self.made == os.getpid()
        except OSError:
            return torch.zeros(3, 24, 24), worker, self.made == os.getpid()


def set_up_worker(number):
    get_worker_info().dataset.made = os.getpid()


def top(picture):
    return transforms.functional.to_tensor(picture.crop((0, 0, 24, 8)))


class Top(Next):
    """The damage is far below the window."""

    transform = staticmethod(top)


class Stops(Base):
    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        except OSError:
            raise StopIteration("enough")


class OfItsOwn(Base):
    """An error of another sample of the batch comes later than damage."""

    def __getitem__(self, index):
        if index % 4 == 3:
            raise KeyError("no picture %d" % index)
        return super().__getitem__(index)


class Tried(Base):
    """A picture is read to see whether it can be."""

    def read(self, index):
        Image.open(name(index)).convert("RGB")
        return torch.zeros(3, 24, 24)


class Whole(Base):
    """Pictures leave the fetch."""

    def read(self, index):
        return Image.open(name(index)).convert("RGB")


class Thin(Base):
    """Sides and channels of one, whose strides may be any."""

    def read(self, index):
        picture = Image.open(name(index - index % 4))
        return [
            transforms.functional.to_tensor(thin)
            for thin in (picture.convert("L"), picture.resize((1, 1)))
        ]


class Changing(Base):
    """Each file is another one, or gone, once it was read."""

    def __init__(self, change, raises=True):
        self.change, self.raises = change, raises
        holder = tempfile.TemporaryDirectory()
        self.holder = holder  # a worker has no hand in it
        self.folder = shutil.copytree(folder, holder.name + "/copy")

    def read(self, index):
        path = os.path.join(self.folder, "class", "%02d.jpg" % index)
        try:
            x = self.transform(Image.open(path).convert("RGB"))
        except OSError:
            if self.raises:
                raise
            return torch.ones(3, 24, 24)
        self.change(path)
        return x

    def files(self):
        found = {}
        for path in pathlib.Path(self.folder).rglob("*"):
            if path.is_file():
                found[path.name] = case.digest(path.read_bytes())
        return sorted(found.items())


def smaller(path):
    Image.open(path).resize((30, 20)).save(path, "JPEG")


def run_changing(change, raises, **how):
    data = Changing(change, raises)
    # The first of a batch, and another one, are damaged.
    order = [5, *range(5), *range(6, PICTURES)]
    found = run(data, sampler=order, **how) + data.files()
    data.holder.cleanup()
    return found


class Nested(Base):
    """A loader in the data set."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        inner = DataLoader(Next(), 6, sampler=range(index, index + 7))
        return [x for x, _ in inner][0][0]


Point = collections.namedtuple("Point", "x y")


def filtered(batch):
    return default_collate([item for item in batch if item is not None])


def as_list(batch):
    return batch


def as_point(batch):
    return Point([x for x, _ in batch], {"n": [n for _, n in batch]})


def plain(item):
    """Comparable, and with the types in it."""
    if isinstance(item, torch.Tensor):
        facts = type(item), item.dtype, tuple(item.shape), item.stride()
        return (*facts, case.digest(item.contiguous().numpy().tobytes()))
    if isinstance(item, Image.Image):
        return type(item.copy()), case.digest(item.tobytes())
    if isinstance(item, dict):
        return {key: plain(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return type(item), [plain(value) for value in item]
    return item


def epoch(loader):
    found = []
    batches = iter(loader)
    while True:
        try:
            found.append(plain(next(batches)))
        except StopIteration:
            return found
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            found.append((type(error), lines[0], lines[-1]))


def run(data, epochs=1, **how):
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    loader = DataLoader(data, **{"batch_size": 4, **how})
    found = [epoch(loader) for _ in range(epochs)]
    found.append((random.random(), np.random.rand(), torch.rand(1).item()))
    return found


CASES = {
    "next": lambda **how: run(Next(), **how),
    "bare except": lambda **how: run(Bare(), **how),
    "drawn": lambda **how: run(Drawn(), 2, **how),
    "None, filtered": lambda **how: run(Nothing(), collate_fn=filtered, **how),
    "another shape": lambda **how: run(Grey(), **how),
    "raised": lambda **how: run(Base(), **how),
    "StopIteration": lambda **how: run(Stops(), **how),
    "pixels later": lambda **how: run(Pixels(), **how),
    "__getitems__": lambda **how: run(Many(), **how),
    "single samples": lambda **how: run(Next(), batch_size=None, **how),
    "batch_sampler": lambda **how: run(
        Next(),
        batch_size=1,
        batch_sampler=BatchSampler(SequentialSampler(Next()), 6, False),
        **how,
    ),
    "Subset, ConcatDataset": lambda **how: run(
        ConcatDataset([Subset(Drawn(), range(4, 9)), Next()]), **how
    ),
    "shuffled": lambda **how: run(Drawn(), 2, shuffle=True, **how),
    "lists": lambda **how: run(Next(), collate_fn=as_list, **how),
    "named tuples": lambda **how: run(Drawn(), collate_fn=as_point, **how),
    "below the window": lambda **how: run(Top(), **how),
    "nested": lambda **how: run(Nested(), batch_size=1, **how),
    "its own error": lambda **how: run(OfItsOwn(), **how),
    "tried": lambda **how: run(Tried(), **how),
    "pictures": lambda **how: run(Whole(), collate_fn=as_list, **how),
    "thin": lambda **how: run(Thin(), collate_fn=as_list, **how),
    "removed": lambda **how: run_changing(os.unlink, True, **how),
    "removed, caught": lambda **how: run_changing(os.unlink, False, **how),
    "written, caught": lambda **how: run_changing(smaller, False, **how),
    "raised, lists": lambda **how: run(Base(), collate_fn=as_list, **how),
    "folder": lambda **how: run(datasets.ImageFolder(folder, RESIZE), **how),
}
WITH_WORKERS = {
    "persistent": lambda **how: run(
        Drawn(), 3, persistent_workers=True, shuffle=True, **how
    ),
    "where": lambda **how: run(Where(), worker_init_fn=set_up_worker, **how),
    "far ahead": lambda **how: run(
        Drawn(), batch_size=2, prefetch_factor=4, **how
    ),
}


class Same(case.Case):
    def assert_same(self, way):
        stock = way()
        headrace.set_image_backend("cpu")
        try:
            found = way()
        finally:
            headrace.reset_image_backend()
        for number, (one, other) in enumerate(zip(found, stock)):
            self.assertEqual(str(one), str(other), "epoch %d" % number)


class Iterators(case.Case):
    def test_what_is_left_of_a_batch(self):
        """A damaged tensor that somebody keeps spoils no other batch."""
        kept = []

        class Keeps(Dataset):
            def __len__(self):
                return 2 * DAMAGED[0]

            def __getitem__(self, index):
                with Image.open(name(index)) as picture:
                    kept.append(RESIZE(picture))
                return kept[-1].sum()

        with case.on():
            headrace.report(reset=True)
            batches = iter(DataLoader(Keeps(), DAMAGED[0] + 1))
            with self.assertRaises(OSError):
                next(batches)
            next(batches)
            self.assertEqual(sum(headrace.report()["again"].values()), 1)

    """What began with the drop-in on ends with it."""

    def test_off_in_the_middle_and_between_epochs(self):
        loader = DataLoader(Next(), 4, num_workers=2, persistent_workers=True)
        for epoch_number in range(3):
            headrace.set_image_backend("cpu")
            for number, (x, _) in enumerate(loader):
                self.assertIs(type(x), torch.Tensor)
                if number == epoch_number:
                    headrace.reset_image_backend()
        for x, _ in loader:
            self.assertIs(type(x), torch.Tensor)

    def test_batches_are_not_read_through(self):
        """A Mapping that reads when it is asked, beside pictures."""
        global Remote

        class Remote(collections.abc.Mapping):
            def __len__(self):
                return 9

            def __iter__(self):
                return iter(range(9))

            def __getitem__(self, key):
                self.reads = getattr(self, "reads", 0) + 1
                return key

        def beside(batch):
            boxed = collections.UserDict(x=batch[0][0])
            return [x for x, _ in batch], Remote(), boxed

        for workers in (0, 2):
            headrace.set_image_backend("cpu")
            try:
                how = {"num_workers": workers, "collate_fn": beside}
                for pictures, remote, boxed in DataLoader(Next(), 4, **how):
                    kinds = {type(x) for x in [*pictures, boxed["x"]]}
                    self.assertEqual(kinds, {torch.Tensor})
                    self.assertEqual(getattr(remote, "reads", 0), 0)
            finally:
                headrace.reset_image_backend()

    def test_looks_like_stock(self):
        loader = DataLoader(Next(), 4, num_workers=1)
        stock = type(iter(loader))
        headrace.set_image_backend("cpu")
        try:
            ours = type(iter(loader))
        finally:
            headrace.reset_image_backend()
        self.assertTrue(issubclass(ours, stock))
        self.assertEqual(repr(ours), repr(stock))

    def test_no_thread_of_a_channel_at_the_fork_of_its_workers(self):
        found = []
        os.register_at_fork(before=lambda: found.append(threading.enumerate()))
        headrace.set_image_backend("cpu")
        try:
            list(DataLoader(Next(), 4, num_workers=2))
        finally:
            headrace.reset_image_backend()
        self.assertEqual(len(found), 2)
        for threads in found:
            names = [thread.name for thread in threads]
            self.assertNotIn("headrace-channel", names)


def add_cases():
    def add(title, way, workers):
        def test(self):
            self.assert_same(lambda: way(num_workers=workers))

        text = "".join(c if c.isalnum() else "_" for c in title)
        setattr(Same, "test_%s_%d" % (text, workers), test)

    for title, way in CASES.items():
        add(title, way, 0)
        if title != "StopIteration":  # stock waits 5 s for such a worker
            add(title, way, 2)
    for title, way in WITH_WORKERS.items():
        add(title, way, 2)


add_cases()

if __name__ == "__main__":
    unittest.main()
