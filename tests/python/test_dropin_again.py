# SPDX-License-Identifier: Apache-2.0
"""DataLoaders of data sets with damaged pictures, as the drop-in leaves them.
(What a data set does about damage is stock's: programs/loaders.py.)"""

import collections
import collections.abc
import os
import random
import tempfile
import threading
import unittest
import warnings

import dropin_case as case  # first: it may skip this file
import headrace
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

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


class Next(Dataset):
    """The next picture, where one is damaged."""

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        try:
            return RESIZE(Image.open(name(index)).convert("RGB")), index
        except OSError:
            return self[(index + 1) % PICTURES]


class Iterators(case.Case):
    """An iterator that began with the drop-in on ends with it."""

    def test_what_is_left_of_a_batch(self):
        """A damaged tensor that is kept spoils no other batch."""
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
            self.assertRaises(OSError, next, batches)
            next(batches)
            self.assertEqual(sum(headrace.report()["again"].values()), 1)

    def test_removed_behind_a_damaged_one(self):
        """Damage is found while the files of its batch are still there."""
        self.addCleanup(setUpModule)

        class Removes(Next):
            def __getitem__(self, index):
                try:
                    found = RESIZE(Image.open(name(index)).convert("RGB"))
                    os.unlink(name(index))
                    return found
                except OSError:
                    return torch.ones(3, 24, 24)

        def run():
            setUpModule()
            case.seed()
            order = [*DAMAGED, *range(PICTURES)]
            return [case.facts(batch) for batch in
                    DataLoader(Removes(), 4, sampler=order)]

        wanted = run()
        with case.on():
            self.assertEqual(run(), wanted)

    def test_a_batch_of_which_nothing_is_kept(self):
        """Stock raises for a damaged picture of it; no other is made."""

        class Strict(Next):
            def __getitem__(self, index):
                return RESIZE(Image.open(name(index)).convert("RGB"))

        def nothing(batch):
            return None

        def run(data, workers):
            loader = DataLoader(data, 4, num_workers=workers,
                                collate_fn=nothing)
            try:
                return list(loader)
            except OSError as error:
                return str(error).splitlines()[-1]

        for workers in (0, 2):
            for data in (Next(), Strict()):
                wanted = run(data, workers)
                self.assertIs(type(wanted), [list, str][type(data) is Strict])
                with case.on():
                    headrace.report(reset=True)
                    self.assertEqual(run(data, workers), wanted)
                    totals = headrace.report()["totals"]
                    self.assertEqual(totals.get("pictures", 0), 0)
                    if workers == 0:
                        self.assertGreater(totals["recorded"], 0)

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
        # (An iterator that raised ends when its circle is collected.)
        others = threading.enumerate()
        os.register_at_fork(before=lambda: found.append(threading.enumerate()))
        headrace.set_image_backend("cpu")
        try:
            list(DataLoader(Next(), 4, num_workers=2))
        finally:
            headrace.reset_image_backend()
        self.assertEqual(len(found), 2)
        for threads in found:
            names = [each.name for each in threads if each not in others]
            self.assertNotIn("headrace-channel", names)
