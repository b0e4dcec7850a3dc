#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a training loop waits for its data, stock and with the drop-in.

  PYTHONPATH=BUILD/python bench_python_workers.py [--files DIR] [...]

A DataLoader with two workers and batches of 50 feeds a consumer that is busy
for 150 ms per batch, as a loop is that waits for its accelerator. Measured is
the time from asking for a batch to having its tensor; the first batches of an
epoch, for which nobody can have worked ahead, are not counted. Stock and the
drop-in take turns, so that other load on the machine meets both.

Prints the median and the 90th percentile of both in ms. With --check the exit
code is 1 where the drop-in's median is above --most.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time
import warnings

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import headrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = os.environ.get("HEADRACE_CORPUS", ROOT.parent / "shared/corpus")
SKIP = 2  # batches at the start of an epoch


class Files(Dataset):
    """The files of a folder, as often as needed, with the train transform."""

    def __init__(self, names, count):
        self.names, self.count = names, count
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(
                    [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
                ),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        name = self.names[index % len(self.names)]
        with open(name, "rb") as file:
            picture = Image.open(file).convert("RGB")
        return self.transform(picture), index


def waits(o, names):
    """Milliseconds for which each batch of one epoch was waited."""
    torch.manual_seed(1)
    loader = DataLoader(
        Files(names, o.batch * (o.batches + SKIP)),
        batch_size=o.batch,
        num_workers=o.workers,
        shuffle=True,
        multiprocessing_context=o.method,
    )
    found, iterator = [], iter(loader)
    while True:
        start = time.perf_counter()
        try:
            pictures, _ = next(iterator)
        except StopIteration:
            return found[SKIP:]
        found.append(1e3 * (time.perf_counter() - start))
        assert type(pictures) is torch.Tensor
        del pictures
        time.sleep(o.busy / 1e3)


def waits_drop_in(o, names):
    with headrace.image_backend(o.device):
        before = headrace.report()["totals"].get("jobs", 0)
        found = waits(o, names)
        ran = headrace.report()["totals"]["jobs"] - before
    if ran != o.batches + SKIP:
        sys.exit("%d jobs for %d batches" % (ran, o.batches + SKIP))
    return found


def row(name, found):
    found = sorted(found)
    p90 = found[int(0.9 * len(found))]
    print("%-8s %6.1f  (90 %%: %.1f)" % (name, statistics.median(found), p90))


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    corpus = pathlib.Path(CORPUS) / "photos/imagenet-sample"
    parser.add_argument("--files", default=corpus, help="a folder of JPEGs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", choices=("fork", "spawn", "forkserver"))
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--busy", type=float, default=150.0, help="ms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=5.0, help="ms")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main():
    o = options()
    warnings.simplefilter("ignore")
    names = sorted(map(str, pathlib.Path(o.files).rglob("*.[jJ][pP]*[gG]")))
    if not names:
        sys.exit("no JPEG files in %s" % o.files)
    stock, ours = [], []
    for _ in range(o.rounds):
        stock += waits(o, names)
        ours += waits_drop_in(o, names)
    print(
        "waiting for data, ms per batch of %d; %d workers, consumer busy"
        " %g ms, torch %s, %s"
        % (o.batch, o.workers, o.busy, torch.__version__, o.device)
    )
    row("stock", stock)
    row("drop-in", ours)
    if o.check and statistics.median(ours) > o.most:
        sys.exit("above %g ms" % o.most)


if __name__ == "__main__":
    main()
