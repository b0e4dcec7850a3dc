# SPDX-License-Identifier: Apache-2.0
"""A collate function of the name and the kind of timm's fast_collate, of a
module that stands for timm's: stock against drop-in, one job a batch."""

import pathlib
import sys
import tempfile
import textwrap
import unittest

import dropin_case as case
import torch
from torchvision import datasets
from torchvision import transforms as T

MODULE = '''
import torch

def fast_collate(batch):
    """Bytes of pictures in one tensor, and their labels."""
    labels = torch.tensor([item[1] for item in batch], dtype=torch.int64)
    out = torch.zeros((len(batch), *batch[0][0].shape), dtype=torch.uint8)
    for slot, item in zip(out, batch):
        slot.copy_(item[0])
    return out, labels
'''
BATCH = 8
STEPS = [T.RandomResizedCrop(64), T.RandomHorizontalFlip()]


class OneBad(torch.utils.data.Dataset):
    """Sample 5 is damaged."""

    def __init__(self, steps):
        self.steps = T.Compose(steps)
        self.paths = sorted(
            pathlib.Path(case.Samples.photos()).rglob("*.jp*g"))
        self.paths[5] = [p for p in case.Samples.bad() if "trunc" in p.name][0]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.steps(datasets.folder.pil_loader(self.paths[index])), index


class FastCollate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        package = pathlib.Path(folder, "timm", "data")
        package.mkdir(parents=True)
        for path in package.parent, package:
            (path / "__init__.py").touch()
        (package / "loader.py").write_text(textwrap.dedent(MODULE))
        sys.path.insert(0, folder)
        cls.addClassCleanup(sys.path.remove, folder)

    def epoch(self, steps, workers, data=None):
        def run():
            from timm.data.loader import fast_collate

            loader = torch.utils.data.DataLoader(
                data or datasets.ImageFolder(
                    case.Samples.photos(), T.Compose(steps)),
                BATCH, shuffle=data is None, num_workers=workers,
                collate_fn=fast_collate)
            return [batch for _ in range(2) for batch in loader]

        return run

    def assert_same(self, want, got):
        self.assertEqual(len(want), len(got))
        for (a, labels), (b, others) in zip(want, got):
            self.assertEqual(a.stride(), b.stride())
            self.assertIs(type(b), torch.Tensor)
            self.assertTrue(torch.equal(a, b) and torch.equal(labels, others))

    def test_bytes(self):
        for workers in 0, 2:
            run = self.epoch([*STEPS, T.PILToTensor()], workers)
            want = case.stock(run)
            got, report = case.ours(run)
            self.assert_same(want, got)
            self.assertFalse(report.get("materialised"), report)
            self.assertEqual(report["totals"]["jobs"], len(want), report)

    def test_floats(self):
        """The function copies them into bytes: not what a job does."""
        run = self.epoch(
            [*STEPS, T.PILToTensor(), lambda x: x.float() / 3], 0)
        want = case.stock(run)
        got, report = case.ours(run)
        self.assert_same(want, got)
        self.assertTrue(report["materialised"])

    def test_damaged(self):
        """Stock's error, where stock raises it."""
        steps = [T.Resize((40, 40)), T.PILToTensor()]
        for workers in 0, 2:
            run = self.epoch(steps, workers, OneBad(steps))
            texts = []
            for each in case.stock, case.ours:
                with self.assertRaises(OSError) as met:
                    each(run)
                texts.append(str(met.exception).strip().splitlines()[-1])
            self.assertEqual(*texts)


if __name__ == "__main__":
    unittest.main()
