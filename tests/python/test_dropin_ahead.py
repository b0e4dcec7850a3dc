# SPDX-License-Identifier: Apache-2.0
"""Batches that are begun while they are recorded: the same bits, draws and
errors as stock's, and nothing is left of a guess that was wrong."""

import multiprocessing
import os
import tempfile
import threading
import unittest
from unittest import mock

import dropin_case as case
import headrace
import torch
from headrace.dropin.torch import batches, speculate
from headrace.dropin.pillow import files
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import transforms

PICTURES = 70
BATCH = 32  # 32, 32, 6
EPOCHS = 3
WHOLE = PICTURES // BATCH * EPOCHS  # batches of the full length
PARTS = (BATCH - 1) // speculate.PART
TRAIN = transforms.Compose([
    transforms.RandomResizedCrop(24),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])


class Pictures(Dataset):
    def __init__(self, folder, transform=TRAIN):
        self.paths = [os.path.join(folder, "%02d.jpg" % i)
                      for i in range(PICTURES)]
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def open(self, index):
        return Image.open(self.paths[index]).convert("RGB")

    def __getitem__(self, index):
        return self.transform(self.open(index)), index


class Cases(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        for number in range(PICTURES):
            picture = case.noise("RGB", (40, 30 + number % 9), number)
            picture.save(os.path.join(cls.folder, "%02d.jpg" % number))

    def setUp(self):
        speculate.here.forget()
        self.sent = []
        real = batches.Group.add

        def add(group, samples, tables, known=True):
            self.sent.append((len(samples), known))
            return real(group, samples, tables, known)

        self.patch(batches.Group, "add", add)
        self.processors({0, 1})
        self.addCleanup(headrace.reset_image_backend)

    def patch(self, owner, name, value):
        patch = mock.patch.object(owner, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def processors(self, numbers):
        """Sets the processors that this process may use."""
        self.patch(os, "sched_getaffinity", lambda pid: numbers)

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def run_all(self, data, epochs=EPOCHS, **options):
        found = []
        loader = DataLoader(data, options.pop("batch_size", BATCH),
                            shuffle=True, **options)
        for _ in range(epochs):
            found += [batch[0] for batch in loader]
            found.append(torch.rand(3))  # the same draws
        return found

    def same(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assert_same_tensor(one, other)
            storages = [
                (t.untyped_storage() if hasattr(t, "untyped_storage")
                 else t.storage()).nbytes()
                for t in (one, other)]
            self.assertEqual(*storages)

    def compare(self, data, **options):
        """The report; self.sent has (pictures, known) of each job."""
        wanted = case.stock(lambda: self.run_all(data, **options))
        found, report = case.ours(
            lambda: self.run_all(data, **options), "cpu")
        self.same(found, wanted)
        return report["totals"]

    def early(self):
        """Jobs that were begun before their batch was collated."""
        return [n for n, known in self.sent if not known]


class Right(Cases):
    def test_train(self):
        totals = self.compare(Pictures(self.folder))
        # All but the first: only then is a batch expected.
        self.assertEqual(self.early(), [speculate.PART] * PARTS * (WHOLE - 1))
        self.assertEqual(totals["jobs"], 3 * EPOCHS)
        self.assertEqual(totals["pictures"], PICTURES * EPOCHS)
        self.assertNotIn("begun in vain", totals)

    def test_one_processor_records_a_batch_first(self):
        self.processors({1})
        totals = self.compare(Pictures(self.folder), epochs=1)
        self.assertEqual(self.early(), [])
        self.assertEqual(totals["jobs"], 3)

    def test_it_begins_while_pictures_are_recorded(self):
        opened = []

        class Watched(Pictures):
            def open(data, index):
                opened.append(len(self.sent))
                return super().open(index)

        self.compare(Watched(self.folder), epochs=1)
        # (Stock's run and the first batch of ours: no jobs.)
        second = opened[PICTURES + BATCH :][:BATCH]
        before = second[0]
        self.assertEqual(second[: speculate.PART], [before] * speculate.PART)
        self.assertEqual(second[-1], before + PARTS)

    def test_bytes(self):
        self.compare(Pictures(self.folder, transforms.Compose([
            transforms.RandomCrop(20), transforms.PILToTensor()])))
        self.assertTrue(self.early())

    def test_dropped_tail(self):
        self.compare(Pictures(self.folder), drop_last=True)
        self.assertEqual(len(self.early()), PARTS * (WHOLE - 1))

    def test_a_longer_tail(self):
        """The last batch of an epoch is begun as if it were whole."""
        self.compare(Pictures(self.folder), batch_size=50)
        self.assertEqual(len(self.early()), 6 * 2 + 2 * 3)

    def test_the_same_picture_twice(self):
        class Twice(Pictures):
            def open(data, index):
                return super().open(index // 20)

        self.compare(Twice(self.folder))
        self.assertTrue(self.early())

    def test_damaged(self):
        """In what is begun, and in the rest."""
        for number in 3, BATCH - 1:
            with self.subTest(number):
                speculate.here.forget()
                self.sent.clear()
                self.damaged(number)

    def damaged(self, number):
        path = os.path.join(self.folder, "bad.jpg")
        good = case.saved(case.noise("RGB", (64, 64)))
        last = good.rindex(b"\xff\xda")
        bad = good[:last] + b"\xff\xd8" + good[last:]
        with open(path, "wb") as file:
            file.write(bad)
        # The header is looked at as if the file were fine.
        real, info = files.probe, files.probe(good)
        patch = mock.patch.object(
            files, "probe", lambda s: info if bytes(s) == bad else real(s))
        # (No draws: stock raises before it draws for the rest of the batch.)
        data = Pictures(self.folder, transforms.Compose(
            [transforms.Resize((24, 24)), transforms.ToTensor()]))
        data.paths[BATCH + number] = path

        def run():
            found = []
            for _ in range(2):
                iterator = iter(DataLoader(data, BATCH))
                for _ in range(3):
                    result = case.outcome(lambda: next(iterator)[0])
                    found.append(case.facts(result))
            return found

        wanted = case.stock(run)
        self.assertIs(wanted[1][1][0], OSError)
        with patch:
            found, _ = case.ours(run, "cpu")
        self.assertEqual(found, wanted)
        self.assertGreaterEqual(len(self.early()), 2 * PARTS)


class Wrong(Cases):
    """Guesses that are not taken."""

    def vain(self, most, data, **options):
        totals = self.compare(data, **options)
        self.assertLessEqual(len(self.early()), most * PARTS)
        self.assertGreater(totals["begun in vain"], 0)

    def test_another_order(self):
        self.vain(3, Pictures(self.folder), epochs=4, collate_fn=lambda b: (
            default_collate(b[::-1])))

    def test_some_left_out(self):
        self.vain(3, Pictures(self.folder), epochs=4, collate_fn=lambda b: (
            default_collate([each for each in b if each[1] % 9])))

    def test_changed_before_it_is_collated(self):
        def collate(batch):
            for picture, number in batch:
                if batch[0][1] % 3 == 0:
                    picture.mul_(2)
            return default_collate(batch)

        self.vain(12, Pictures(self.folder), epochs=6, collate_fn=collate)

    def test_two_tensors_of_a_picture(self):
        class Two(Pictures):
            def __getitem__(self, index):
                picture = self.open(index)
                both = self.transform(picture), self.transform(picture)
                return torch.stack(both), index

        # (Lazy stacks are no single pictures: they are never begun.)
        self.compare(Two(self.folder))
        self.assertEqual(self.early(), [])

        class Pair(Two):
            def __getitem__(self, index):
                picture = self.open(index)
                return [self.transform(picture) for _ in "ab"], index

        def flat(batch):
            both = default_collate(batch)[0]
            return [torch.stack(both)]

        # (Nor are views of a picture, which are made together.)
        self.compare(Pair(self.folder), epochs=4, collate_fn=flat)
        self.assertEqual(self.early(), [])

    def test_sizes_that_differ(self):
        class Some(Pictures):
            sizes = 0

            def __getitem__(self, index):
                picture, _ = super().__getitem__(index)
                Some.sizes += 1
                if (Some.sizes - 1) // BATCH % 2:
                    picture = picture[:, :20]
                return picture, index

        data = Some(self.folder)

        def run():
            Some.sizes = 0
            return self.run_all(data, epochs=4, drop_last=True)

        wanted = case.stock(run)
        found, _ = case.ours(run, "cpu")
        self.same(found, wanted)

    def test_pixels_are_needed(self):
        class Looks(Pictures):
            def __getitem__(self, index):
                picture, _ = super().__getitem__(index)
                if index % 5 == 0:
                    picture = picture + 1
                return picture, index

        self.compare(Looks(self.folder))

    def test_an_error_in_the_middle(self):
        class Fails(Pictures):
            left = 0

            def __getitem__(self, index):
                Fails.left -= 1
                if Fails.left == 0:
                    raise KeyError("once")
                return super().__getitem__(index)

        data = Fails(self.folder)

        def run():
            Fails.left = BATCH + 20
            loader = DataLoader(data, BATCH)
            found = [case.outcome(lambda: list(loader))]
            return found + self.run_all(data)

        wanted = case.stock(run)
        found, report = case.ours(run, "cpu")
        self.assertEqual(found[0], wanted[0])
        self.same(found[1:], wanted[1:])
        self.assertGreater(report["totals"]["begun in vain"], 0)

    def test_two_loaders(self):
        def run():
            data = Pictures(self.folder)
            pairs = zip(DataLoader(data, BATCH), DataLoader(data, 20))
            return [t for pair in pairs for t in (pair[0][0], pair[1][0])]

        wanted = case.stock(run)
        found, _ = case.ours(run, "cpu")
        self.same(found, wanted)

    def test_patience(self):
        """After many wrong guesses there are few."""
        with headrace.image_backend("cpu"):
            self.run_all(Pictures(self.folder), 20, drop_last=True,
                         collate_fn=lambda b: default_collate(b[::-1]))
        # 40 batches; the guesses come after 2, 4, 8, 16.
        self.assertLessEqual(len(self.early()), 5 * PARTS)


class Ends(Cases):
    def begin(self):
        """A batch in the middle of its recording."""
        data = Pictures(self.folder)
        headrace.set_image_backend("cpu")
        next(iter(DataLoader(data, BATCH)))
        self.kept = case.in_fetch(
            lambda: [data[index] for index in range(BATCH // 2)]
        )
        self.assertIsNotNone(speculate.here.begun.group)
        return data

    def test_switched_off_meanwhile(self):
        self.begin()
        headrace.set_image_backend(None)
        self.assertIsNone(speculate.here.begun)
        self.assertIsNone(speculate.here.plan)
        found = [picture + 0 for picture, _ in self.kept]
        self.assertEqual(len(found), BATCH // 2)

    def test_other_threads(self):
        """A thread that records has no plan of this one's."""
        data = self.begin()
        before = self.early()
        thread = threading.Thread(
            target=lambda: [data[index] for index in range(BATCH)])
        thread.start()
        thread.join()
        self.assertEqual(self.early(), before)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork_meanwhile(self):
        data = self.begin()
        context = multiprocessing.get_context("fork")
        queue, end = context.Pipe(False)

        def child():
            end.send((speculate.here.plan, speculate.here.begun))
            tensor = next(iter(DataLoader(data, BATCH)))[0]
            end.send(float(tensor.double().sum()))

        def seeded():
            torch.manual_seed(3)
            return next(iter(DataLoader(data, BATCH)))[0]

        torch.manual_seed(3)
        process = context.Process(target=child)
        process.start()
        end.close()  # so that a child that ends early is seen
        self.assertEqual(queue.recv(), (None, None))
        self.assertEqual(queue.recv(), float(seeded().double().sum()))
        process.join()
