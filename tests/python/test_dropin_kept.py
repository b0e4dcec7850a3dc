# SPDX-License-Identifier: Apache-2.0
"""Tensors that a data set keeps have their values behind the fetch; a default
device is not where batches are made."""

import io
import os
import tempfile
from unittest import mock

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import noise, on, saved
from headrace import dropin
from headrace.dropin.torch import batches, tensor
from PIL import Image
from torch.utils.data import DataLoader, Dataset
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

    def test_pictures_are_made_once(self):
        """Stock Pillow has their pixels from the second epoch on."""

        class Pictures(Kept):
            def __getitem__(self, index):
                if index not in self.kept:
                    self.kept[index] = Image.open(self.paths[index])
                return F.to_tensor(self.kept[index].crop((5, 6, 45, 50)))

        wanted = self.epochs(Pictures(self.folder), 1)[0]
        with on():
            data = Pictures(self.folder)
            for found in self.epochs(data, 2):
                self.assertTrue(torch.equal(found, wanted))
            dropin.report(reset=True)
            self.assertTrue(torch.equal(self.epochs(data, 1)[0], wanted))
            self.assertNotIn("jobs", dropin.report()["totals"])

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


class Devices(case.Case):
    """torch.device("meta"), as any default that is no CPU."""

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
