# SPDX-License-Identifier: Apache-2.0
"""Several views of each picture: one job for the batches of all of them, with
the bits, draws and errors of stock, also where the guess is wrong."""

import os
import tempfile
import unittest
import weakref
from unittest import mock

import dropin_case as case
import headrace
import torch
from headrace import _core
from headrace.dropin.pillow.jobs import FLIP
from headrace.dropin.torch import speculate, views
from headrace.dropin.workers import channel, tickets
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import transforms

PICTURES = 20
BATCH = 8  # 8, 8, 4
BATCHES = 3


def crop(size, scale=(0.05, 1)):
    return transforms.Compose([
        transforms.RandomResizedCrop(size, scale),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])


DINO = [crop(24, (0.4, 1))] * 2 + [crop(16, (0.05, 0.4))] * 4
MOCO = [crop(24, (0.2, 1))] * 2


def reversed_list(made):
    return made[::-1]


def flat(batch):
    """As many views as they come, not stacked."""
    return [view for made, _ in batch for view in made], 0


class Pictures(Dataset):
    def __init__(self, folder, crops, keep=list):
        self.paths = [os.path.join(folder, name)
                      for name in sorted(os.listdir(folder))]
        self.crops = crops
        self.keep = keep

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = Image.open(self.paths[index]).convert("RGB")
        return self.keep([each(picture) for each in self.crops]), index


class Cases(case.Case):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        for number in range(PICTURES):
            picture = case.noise("RGB", (60 + number, 50), number)
            picture.save(os.path.join(self.folder, "%02d.jpg" % number))
        speculate.here.forget()
        views.here.forget()

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def run_all(self, data, **options):
        options.setdefault("batch_size", BATCH)
        found = []
        for pictures, _ in DataLoader(data, **options):
            found += pictures
        return found + [torch.rand(3)]  # the same draws

    def compare(self, data, **options):
        """The totals of the report."""
        wanted = case.stock(lambda: self.run_all(data, **options))
        found, report = case.ours(
            lambda: self.run_all(data, **options), "cpu")
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assert_same_tensor(one, other)
        return report["totals"]


class Right(Cases):
    def test_one_job_for_all_views(self):
        for crops in (DINO, MOCO):
            with self.subTest(len(crops)):
                totals = self.compare(Pictures(self.folder, crops))
                self.assertEqual(totals["jobs"], BATCHES)
                self.assertEqual(totals["pictures"], PICTURES * len(crops))

    def test_with_workers(self):
        for crops in (DINO, MOCO):
            for keep in (list, tuple, reversed_list):
                with self.subTest(len(crops), keep=keep):
                    totals = self.compare(
                        Pictures(self.folder, crops, keep), num_workers=2)
                    self.assertEqual(totals["jobs"], BATCHES)
                    self.assertEqual(totals["pictures"],
                                     PICTURES * len(crops))

    def test_workers_that_do_not_stack(self):
        """Views that travel one by one are those of their picture, too."""
        totals = self.compare(
            Pictures(self.folder, DINO), collate_fn=flat, num_workers=1)
        self.assertLessEqual(totals["jobs"], BATCHES)

    def test_dictionaries_and_tuples(self):
        class Named(Pictures):
            def __getitem__(self, index):
                one, other = super().__getitem__(index)[0]
                return (one, other), {"index": index}

        totals = self.compare(Named(self.folder, MOCO))
        self.assertEqual(totals["jobs"], BATCHES)


class NotTogether(Cases):
    """A worker cannot send what a batch has recorded as one message."""

    def run_with(self, fails):
        ship = channel.Sender.ship

        def unless(sender, records, single=False):
            fails(records)
            return ship(sender, records, single)

        with mock.patch.object(channel.Sender, "ship", unless):
            return self.compare(Pictures(self.folder, MOCO), num_workers=1)

    def test_some_cannot_be_pickled(self):
        def fails(records):
            if len(records) > 1 or records[0].samples[0].ops[-1][0] == FLIP:
                raise TypeError("it cannot be pickled")

        before = self.run_with(lambda records: None)
        totals = self.run_with(fails)
        self.assertEqual(before["jobs"], BATCHES)
        self.assertGreater(totals["jobs"], BATCHES)

    def test_the_owner_is_gone(self):
        """While the second batch is sent."""
        calls = []

        def fails(records):
            calls.append(records)
            if len(calls) == 2:
                raise BrokenPipeError

        self.run_with(fails)


class NoBatch(Cases):
    """A worker sends pictures by a queue of the program's."""

    def test_nothing_keeps_them(self):
        queue = torch.multiprocessing.get_context("fork").Queue()

        class Told(Pictures):
            def __getitem__(self, index):
                made, label = super().__getitem__(index)
                queue.put(made[0])
                return made, label

        with case.on():
            for _ in DataLoader(Told(self.folder, MOCO), num_workers=1):
                pass
            told = [queue.get() for _ in range(PICTURES)]
        self.assertIs(type(told[0]), tickets.Ticket)
        gone = weakref.ref(told[0])
        del told
        self.assertIsNone(gone())


class Wrong(Cases):
    """The collated batch is another one than was guessed."""

    def test_another_order(self):
        self.compare(Pictures(self.folder, DINO, reversed_list))

    def test_some_are_left_out(self):
        self.compare(Pictures(self.folder, DINO, lambda made: made[1:4]))

    def test_changed_between_two_batches(self):
        def collate(batch):
            first = default_collate([made[0] for made, _ in batch])
            others = [made[1].mul_(2) for made, _ in batch]
            return [first, default_collate(others)], 0

        self.compare(Pictures(self.folder, MOCO), collate_fn=collate)

    def test_written_to_between_two_batches(self):
        def collate(batch):
            first = default_collate([made[0] for made, _ in batch])
            for made, _ in batch:
                made[1][:, 2:5, 3:9] = 7
            return [first, default_collate([m[1] for m, _ in batch])], 0

        self.compare(Pictures(self.folder, MOCO), collate_fn=collate)

    def test_one_picture_needed_between(self):
        def collate(batch):
            first = default_collate([made[0] for made, _ in batch])
            total = batch[2][0][1].sum()
            rest = default_collate([made[1] for made, _ in batch])
            return [first, rest, total], 0

        self.compare(Pictures(self.folder, MOCO), collate_fn=collate)

    def test_views_that_differ_in_number(self):
        class Uneven(Pictures):
            def __getitem__(self, index):
                made, index = super().__getitem__(index)
                self.spare = made[1 + index % 2:]
                return made[:1], index

        self.compare(Uneven(self.folder, DINO))

    def test_it_guesses_less_often(self):
        def collate(batch):
            kept = [made for made, _ in batch]  # the others are there, too
            return [default_collate([made[0] for made in kept])], 0

        data = Pictures(self.folder, MOCO)
        totals = self.compare(data, collate_fn=collate)
        self.assertGreater(totals["jobs"], 0)
        self.assertGreater(views.here.misses, 0)


class Bad(Cases):
    def test_damaged_files(self):
        for cut in (300, 900):
            path = os.path.join(self.folder, "11.jpg")
            with open(path, "rb") as file:
                data = file.read()
            with open(path, "wb") as file:
                file.write(data[:-cut])
            with self.subTest(cut):
                data = Pictures(self.folder, DINO)
                wanted = case.outcome(
                    lambda: case.stock(lambda: self.run_all(data)))
                found = case.outcome(
                    lambda: case.ours(lambda: self.run_all(data), "cpu"))
                self.assertEqual(found[0], wanted[0])
                self.assertEqual(found[1], wanted[1])


class Several(case.Case):
    """submit() with several batches, which take the samples in turn."""

    def setUp(self):
        self.file = case.KINDS["colour"]

    def sample(self, x, side):
        return self.file, (
            headrace.ops.decode(), headrace.ops.crop(x, 0, side, side))

    def test_each_gets_its_own(self):
        device = _core.Device("cpu", threads=1)
        large = _core.Batch(3, 3, 40, 40, "u8", "nhwc", device=device)
        small = _core.Batch(3, 3, 20, 20, "u8", "nhwc", device=device)
        samples = [self.sample(i, side) for i in range(3)
                   for side in (40, 20)]
        _core.submit(samples, [large, small], device=device).wait()
        # (All six are of one source: it is decoded once.)
        self.assertEqual(device.stats()["shared"], 5)
        for batch, side in ((large, 40), (small, 20)):
            alone = _core.Batch(3, 3, side, side, "u8", "nhwc", device=device)
            _core.submit([self.sample(i, side) for i in range(3)], alone,
                         device=device).wait()
            self.assertEqual(bytes(batch), bytes(alone))

    def test_what_is_refused(self):
        batch = _core.Batch(1, 3, 20, 20, "u8")
        samples = [self.sample(i, 20) for i in range(4)]
        with self.assertRaisesRegex(headrace.ArgumentError, "sample 2: .*slot"):
            _core.submit(samples, [batch, batch])
        with self.assertRaisesRegex(TypeError, r"out\[1\] is not a Batch"):
            _core.submit(samples, [batch, 1])


if __name__ == "__main__":
    unittest.main()
