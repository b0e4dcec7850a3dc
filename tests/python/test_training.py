# SPDX-License-Identifier: Apache-2.0
"""A training loop reaches the same loss, step by step, with one line more."""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import torch
    import torchvision  # noqa: F401
    from torchvision import datasets, transforms
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headrace

COMMAND = pathlib.Path(os.environ["HEADRACE_BUILD"]).resolve() / "headrace"
PICTURES, BATCH, EPOCHS = 24, 8, 2


def make_network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.25),  # draws from the generator that loaders use
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 10),
    )


def losses(folder, workers):
    """The loss of each step of a usual training loop."""
    torch.manual_seed(17)
    torch.set_num_threads(1)  # so that torch's own sums have one order
    steps = transforms.Compose([
        transforms.RandomResizedCrop(64),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])
    data = datasets.ImageFolder(folder, steps)
    loader = torch.utils.data.DataLoader(
        data, batch_size=BATCH, shuffle=True, num_workers=workers)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    found = []
    for _ in range(EPOCHS):
        for pictures, labels in loader:
            optimizer.zero_grad()
            loss = criterion(network(pictures), labels)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        subprocess.run(
            [COMMAND, "samples", cls.temp.name, "--photos-only", "--count",
             str(PICTURES), "--size", "200x150"],
            check=True, stdout=subprocess.DEVNULL)
        cls.folder = pathlib.Path(cls.temp.name) / "photos"

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def compare(self, workers):
        stock = losses(self.folder, workers)
        with headrace.image_backend("cpu"):
            ours = losses(self.folder, workers)
        self.assertEqual(len(stock), EPOCHS * PICTURES // BATCH)
        # Equal numbers, not nearly equal ones; and the network learns from
        # pictures, so other pictures give another loss.
        self.assertEqual(stock, ours)
        self.assertGreater(len(set(stock)), 1)

    def test_in_this_process(self):
        self.compare(0)

    def test_with_workers(self):
        self.compare(2)
