# SPDX-License-Identifier: Apache-2.0
"""The cost of recording a sample beside stock's own Python.

    PYTHONPATH=build/python python3 tests/python/record_cost.py

runs the recipes `plain`, `tensors` and `io` of headrace.bench on a picture of
16 x 16, which stock makes in next to no time, with a size of 8. Nothing is made
of what is recorded. Figures are microseconds of CPU time per sample, the least
of some repetitions; the difference is what the drop-in asks for.
"""

import argparse
import os
import tempfile
import time
import warnings

import torch
from headrace import dropin
from headrace.bench import recipes
from PIL import Image
from torch.utils.data import DataLoader, Dataset

SIDE, SIZE = 16, 8


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--samples", type=int, default=200, help="[200]")
    a.add_argument("--repetitions", type=int, default=7, help="[7]")
    return a.parse_args()


def opened(path):
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class Timed(Dataset):
    """Its item is the least time of a sample; none of them is kept."""

    def __init__(self, o, recipe, path):
        self.o, self.path = o, path
        self.open = recipes.loader(recipe).get("loader", opened)
        self.make = recipes.transform(recipe, SIZE)

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return min(self.repetition() for _ in range(self.o.repetitions))

    def repetition(self):
        start = time.thread_time()
        for _ in range(self.o.samples):
            self.make(self.open(self.path))
        return (time.thread_time() - start) / self.o.samples * 1e6


def measure(data):
    return next(iter(DataLoader(data, None)))


def main():
    o = parse()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("recipe     stock  recorded  difference   us per sample")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.jpg")
        Image.new("RGB", (SIDE, SIDE), (9, 90, 200)).save(path)
        for recipe in "plain", "tensors", "io":
            data = Timed(o, recipe, path)
            stock = measure(data)
            dropin.install()
            recorded = measure(data)
            dropin.uninstall()
            print(f"{recipe:8} {stock:7.0f} {recorded:9.0f}"
                  f" {recorded - stock:11.0f}")


if __name__ == "__main__":
    main()
