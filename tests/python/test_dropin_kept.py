# SPDX-License-Identifier: Apache-2.0
"""Tensors that a data set keeps have their values behind the fetch; what a
loader delivers is no view; a default device is not where batches are made."""

import io
import os
import tempfile
import unittest
from unittest import mock

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import in_fetch, noise, on, saved
from headrace import dropin
from headrace.dropin.torch import batches, tensor
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import transforms
from torchvision.transforms import functional as F

PICTURES = 6


class Kept(Dataset):
    """Makes each tensor once."""

    def __init__(self, folder, change=None):
        self.paths = [os.path.join(folder, "%d.jpg" % i)
                      for i in range(PICTURES)]
        self.kept = {}
        self.change = change

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if index not in self.kept:
            picture = Image.open(self.paths[index]).convert("RGB")
            self.kept[index] = F.to_tensor(picture.resize((40, 30)))
        x = self.kept[index]
        return x if self.change is None else self.change(x)


class Keeping(case.Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for number in range(PICTURES):
            picture = noise("RGB", (50, 60), number)
            picture.save(os.path.join(self.folder, "%d.jpg" % number))

    def epochs(self, data, number, **options):
        return [torch.cat(list(DataLoader(data, 2, **options)))
                for _ in range(number)]

    def test_made_once(self):
        """Also what is derived from them, and without their files."""
        for change in None, lambda x: x * 2, lambda x: x[:, 2:9, 3:9]:
            wanted = self.epochs(Kept(self.folder, change), 1)[0]
            with on():
                data = Kept(self.folder, change)
                first = self.epochs(data, 1)[0]
                dropin.report(reset=True)
                data.paths = ["gone"] * PICTURES
                later = self.epochs(data, 2)
                self.assertNotIn("jobs", dropin.report()["totals"])
            for found in first, *later:
                self.assertTrue(torch.equal(found, wanted))

    def test_a_batch_is_not_their_memory(self):
        with on():
            data = Kept(self.folder)
            for batch in DataLoader(data, 2):
                batch.zero_()
            self.assertGreater(min(float(x.max()) for x in data.kept.values()),
                               0)

    def test_in_workers(self):
        """A worker that lives on makes what it keeps once."""
        wanted = self.epochs(Kept(self.folder), 1)[0]
        how = {"num_workers": 1, "persistent_workers": True}
        with on():
            loader = DataLoader(Kept(self.folder), 2, **how)
            jobs = []
            for _ in range(4):
                found = torch.cat(list(loader))
                self.assertTrue(torch.equal(found, wanted))
                jobs.append(dropin.report(reset=True)["totals"].get("jobs", 0))
        self.assertGreater(jobs[0], 0)
        self.assertEqual(jobs[1:], [0, 0, 0])

    def test_kept_ones_that_cannot_be_made(self):
        """A batch that does not need them is delivered."""

        class Data(Kept):
            def __getitem__(self, index):
                super().__getitem__(index)
                return index

        with on():
            data = Data(self.folder)
            with mock.patch.object(tensor, "_run", lambda cells: [
                    (cell, OSError("no picture")) for cell in cells]):
                found = [int(x) for batch in DataLoader(data, 2)
                         for x in batch]
            self.assertEqual(found, list(range(PICTURES)))
            self.assertGreater(float(data.kept[0].sum()), 0)


class Delivered(case.Case):
    """What stock's batch and tensors let a program do."""

    # A batch of 16 has more than 1 MB, where memory is ours, and the second of
    # them is begun while it is recorded.
    shape = (128, 128)

    def facts(self, x):
        size = (x.untyped_storage() if hasattr(x, "untyped_storage")
                else x.storage()).nbytes()
        file = io.BytesIO()
        torch.save(x, file)
        return (x._base is None, x._is_view(), x.storage_offset(), size,
                x.stride(), x._version, x.detach_() is x,
                len(file.getvalue()) - size < 4096)

    def all_facts(self, workers):
        data = saved(noise("RGB", (200, 150)))
        shape = self.shape

        class Data(Dataset):
            def __len__(self):
                return 33

            def __getitem__(self, index):
                picture = Image.open(io.BytesIO(data))
                return F.to_tensor(picture.resize(shape))

        found = []
        for collate in default_collate, list:
            for batch in DataLoader(Data(), 16, num_workers=workers,
                                    collate_fn=collate):
                if isinstance(batch, torch.Tensor):
                    batch = [batch]
                # A write to one must not be a write to another, for autograd.
                weight = torch.ones((), requires_grad=True)
                loss = (batch[0] * weight).sum()
                for other in batch[1:]:
                    other.add_(1)
                loss.backward()
                for other in batch[1:]:
                    other.sub_(1)
                found.append([self.facts(x)[:5] + self.facts(x)[6:]
                              for x in batch])
        return found

    def test_batches(self):
        for workers in 0, 1:
            wanted = self.all_facts(workers)
            with on():
                self.assertEqual(self.all_facts(workers), wanted)


class Devices(case.Case):
    """torch.device("meta"), as any default that is no CPU."""

    def all_of(self):
        data = saved(noise("RGB", (60, 50)))
        steps = transforms.Compose([
            transforms.Resize(30), transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.2] * 3)])

        def item():
            with torch.device("meta"):
                return some()

        def collate(items):
            with torch.device("meta"):
                return default_collate(items)

        def some():
            picture = Image.open(io.BytesIO(data))
            x = F.to_tensor(picture)
            return [
                x,
                F.to_tensor(picture.convert("L")),
                x.float(), x * 2, x.flip(-1), x[:, 3:9, 2:8].contiguous(),
                x.double() / 3, x.to(torch.bfloat16), x.clone(),
                default_collate([x, x]), torch.stack([x, x]).float(),
                steps(picture),
            ]

        class Data(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return item()[:8]

        torch.manual_seed(1)
        found = item() + in_fetch(item)
        for batch in DataLoader(Data(), 2, collate_fn=collate):
            found += batch
        return found

    def test_default_device(self):
        if not hasattr(torch, "set_default_device"):
            self.skipTest("torch before 2.0")
        wanted = self.all_of()
        with on():
            found = self.all_of()
        for one, other in zip(found, wanted):
            self.assertEqual(one.device.type, "cpu")
            self.assert_same_tensor(one, other)

    def test_modes_see_stock(self):
        if not hasattr(torch, "set_default_device"):
            self.skipTest("torch before 2.0")
        from torch.overrides import TorchFunctionMode

        class Mode(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        data = saved(noise("RGB", (60, 50)))

        def both():
            picture = Image.open(io.BytesIO(data))
            with Mode():
                F.to_tensor(picture)
            with torch.device("meta"):
                seen.append(F.pil_to_tensor(picture).device)

        seen = []
        both()
        wanted, seen = seen, []
        with on():
            both()
        self.assertEqual(seen, wanted)

    def test_a_group_is_on_the_cpu(self):
        if not hasattr(torch, "set_default_device"):
            self.skipTest("torch before 2.0")
        with torch.device("meta"):
            for dtype in torch.float32, torch.float64, torch.bfloat16:
                group = batches.Group(1, (3, 4, 5), dtype)
                self.assertEqual(group.out.device.type, "cpu")
