#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the drop-in: what recording costs, and pictures per second.

usage: bench_python.py FOLDER [--v2] [--open] [--rounds N] [--batch N]
                       [--backend NAME] [--headrace build/headrace] [--json]
       bench_python.py FOLDER --against PACKAGE [--v2] [--rounds N] ...

FOLDER holds pictures, in any depth. PYTHONPATH must lead to the package.

  floor      us per sample: the data set and the transforms alone, on a picture
             whose methods do nothing (and a ToTensor that does nothing)
  recording  us per sample: the same with the drop-in, nothing decoded
             (both: CPU time inside of fetches, files that were opened before)
  stock      pictures per second, DataLoader with num_workers=0, Pillow
  drop-in    the same after headrace.set_image_backend("auto")
  cached     the same after headrace.set_cache("2G"), from the second epoch on
  packed     the same with headrace.PackFolder of a pack file of the pictures,
             from the second epoch on (with --headrace)
  ... cpu    us of CPU time per picture, of all threads, of each of these
  run        the same pictures and ops by the command that --headrace names,
             with two threads

--open: the data set opens files with PIL.Image.open(), as one's own do; else
torchvision's loader does. Rounds of all are interleaved; the median and the
range are printed, and so are the quotients, each of two numbers of one round.
Where other programs run beside, CPU time tells more than pictures per second.

--against: us of CPU time per picture of the drop-in in this package and in that
of another build (BUILD/python), in turns: the least of all rounds, and the
quotient of both. Rows are data sets that use torchvision's loader or
Image.open(), and two workers, each without a cache and with one that is full.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from PIL import Image
from torchvision import datasets, transforms
from torchvision.transforms import functional

import headrace

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]
PASSES = 6
EPOCHS = 3
OPS = "decode,random_resized_crop=224,random_hflip,normalize=imagenet"
ENDINGS = (".jpg", ".jpeg")


class Nothing(Image.Image):
    """A picture that can be cropped, resized and flipped at no cost."""

    def crop(self, box=None):
        return self

    def resize(self, size, *args, **kwargs):
        return self

    def transpose(self, method):
        return self


def train(v2):
    if not v2:
        return transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )
    from torchvision.transforms import v2 as t

    return t.Compose(
        [
            t.RandomResizedCrop(224),
            t.RandomHorizontalFlip(),
            t.ToImage(),
            t.ToDtype(torch.float32, scale=True),
            t.Normalize(MEAN, STD),
        ]
    )


def make_folder(source, folder):
    """One class of links, as ImageFolder wants it."""
    os.makedirs(os.path.join(folder, "a"))
    count = 0
    for where, _, names in os.walk(source):
        for name in sorted(names):
            if name.lower().endswith(ENDINGS):
                path = os.path.abspath(os.path.join(where, name))
                os.symlink(path, os.path.join(folder, "a", name))
                count += 1
    return count


def samples(data):
    """us of CPU time per sample, after one pass that fills all caches."""
    passes = []
    loader = torch.utils.data.DataLoader(
        data, 64, collate_fn=lambda batch: None)
    for _ in range(PASSES):
        start = time.thread_time()
        for _ in loader:
            pass
        passes.append((time.thread_time() - start) / len(data) * 1e6)
    return statistics.median(passes[1:])


def floor(folder, v2):
    picture = Nothing()
    picture._size = (500, 375)
    setattr(picture, "_mode" if hasattr(picture, "_mode") else "mode", "RGB")
    tensor = torch.zeros(3, 224, 224)
    own = {"to_tensor": functional.to_tensor, "normalize": functional.normalize}
    module = functional
    if v2:
        from torchvision.transforms.v2 import functional as module

        own = {"to_image": module.to_image}
        tensor = torch.zeros(3, 1, 1)
    for name in own:
        setattr(module, name, lambda *args, **kwargs: tensor)
    try:
        data = datasets.ImageFolder(folder, train(v2), loader=lambda p: picture)
        return samples(data)
    finally:
        for name, stock in own.items():
            setattr(module, name, stock)


def recording(folder, v2, loader, backend):
    headrace.set_image_backend(backend)
    try:
        return samples(datasets.ImageFolder(folder, train(v2), loader=loader))
    finally:
        headrace.set_image_backend(None)


def rate(folder, v2, loader, batch, name, cache=None, pack=None):
    """Pictures per second, and us of CPU time per picture."""
    if name:
        headrace.set_image_backend(name)
    headrace.set_cache(cache)
    try:
        if pack:
            data = headrace.PackFolder(pack, train(v2))
        else:
            data = datasets.ImageFolder(folder, train(v2), loader=loader)
        batches = torch.utils.data.DataLoader(data, batch, shuffle=True)
        if cache or pack:
            for _ in batches:
                pass
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(EPOCHS):
            for _ in batches:
                pass
        count = EPOCHS * len(data)
        cpu = (time.process_time() - cpu) / count * 1e6
        return count / (time.perf_counter() - start), cpu
    finally:
        headrace.set_cache(None)
        if name:
            headrace.set_image_backend(None)


def open_rgb(path):
    return Image.open(path).convert("RGB")


def run(command, folder, batch):
    done = subprocess.run(
        [command, "run", folder, "--ops", OPS, "--out", "none", "--json"]
        + ["--threads", "2", "--epochs", str(EPOCHS), "--batch", str(batch)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)["img_per_s"]


def make_pack(command, folder):
    """The pack file of a folder, beside its classes."""
    path = folder + ".hrp"
    subprocess.run(
        [command, "pack", os.path.join(folder, "a"), "--out", path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return path


# Name: whether the data set opens its files itself, workers, cache.
ROWS = {
    "folder": (False, 0, None),
    "folder, cached": (False, 0, "2G"),
    "open": (True, 0, None),
    "open, cached": (True, 0, "2G"),
    "2 workers": (False, 2, None),
    "2 workers, cached": (False, 2, "2G"),
}


def cpu_seconds():
    """Of this process and of workers that have ended."""
    used = [resource.getrusage(who) for who in (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def answer(folder, args):
    """Measures the rows that it is asked for, line by line."""
    headrace.set_image_backend(args.backend)
    loaders, cached = {}, None
    for line in sys.stdin:
        opens, workers, cache = ROWS[line.strip()]
        if (opens, workers) not in loaders:
            how = open_rgb if opens else datasets.folder.default_loader
            data = datasets.ImageFolder(folder, train(args.v2), loader=how)
            loaders[opens, workers] = torch.utils.data.DataLoader(
                data, args.batch, shuffle=True, num_workers=workers)
        loader = loaders[opens, workers]
        if cache != cached:
            headrace.set_cache(cache)
            for _ in loader:
                pass
        cached = cache
        start = cpu_seconds()
        for _ in range(EPOCHS):
            for _ in loader:
                pass
        count = EPOCHS * len(loader.dataset)
        print((cpu_seconds() - start) / count * 1e6, flush=True)


def start(package, args):
    command = [sys.executable, __file__, args.folder, "--answer"]
    command += ["--backend", args.backend, "--batch", str(args.batch)]
    return subprocess.Popen(
        command + ["--v2"] * args.v2, env={**os.environ, "PYTHONPATH": package},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def ask(child, row):
    try:
        child.stdin.write(row + "\n")
        return float(child.stdout.readline())
    except (OSError, ValueError):
        sys.exit("%s: %s ended with %s" % (row, child.args[0], child.wait()))


def against(args):
    """In turns: this package, and the other one."""
    own = os.path.dirname(os.path.dirname(headrace.__file__))
    both = [start(package, args) for package in (args.against, own)]
    for row in ROWS:
        found = ([], [])
        for _ in range(args.rounds + 1):
            for values, child in zip(found, both):
                values.append(ask(child, row))
        before, now = (min(values[1:]) for values in found)
        print("%-18s %7.1f -> %7.1f us %6.3f" % (
            row, before, now, now / before), flush=True)
    for child in both:
        child.stdin.close()
        child.wait()


QUOTIENTS = (
    ("over the floor", "recording", "floor", float.__sub__, "%+7.1f us"),
    ("against stock", "drop-in", "stock", float.__truediv__, "%7.2fx"),
    ("cached against stock", "cached", "stock", float.__truediv__, "%7.2fx"),
    ("CPU", "stock cpu", "drop-in cpu", float.__truediv__, "%7.2fx"),
    ("CPU, cached", "stock cpu", "cached cpu", float.__truediv__, "%7.2fx"),
    ("CPU, packed", "stock cpu", "packed cpu", float.__truediv__, "%7.2fx"),
    ("against run", "drop-in", "run", float.__truediv__, "%7.2fx"),
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--v2", action="store_true")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--headrace")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--against")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.against:
        return against(args)
    torch.set_num_threads(1)  # a second one only wakes up for normalize
    loader = open_rgb if args.open else datasets.folder.default_loader
    rates = [("stock", None), ("drop-in", args.backend), (
        "cached", args.backend, "2G")]
    found = {"floor": [], "recording": []}
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "pictures")
        if not make_folder(args.folder, folder):
            sys.exit("no JPEG file in " + args.folder)
        if args.answer:
            return answer(folder, args)
        if args.headrace:
            pack = make_pack(args.headrace, folder)
            rates.append(("packed", args.backend, None, pack))
        for _ in range(args.rounds):
            found["floor"].append(floor(folder, args.v2))
            found["recording"].append(
                recording(folder, args.v2, loader, args.backend))
            for key, *how in rates:
                rounds = rate(folder, args.v2, loader, args.batch, *how)
                for name, value in zip((key, key + " cpu"), rounds):
                    found.setdefault(name, []).append(value)
            if args.headrace:
                once = run(args.headrace, folder, args.batch)
                found.setdefault("run", []).append(once)
    if args.json:
        print(json.dumps(found))
        return
    for key, values in found.items():
        us = key.endswith(("cpu", "floor", "recording"))
        print(
            "%-11s %7.1f %-5s (%.1f .. %.1f)"
            % (
                key,
                statistics.median(values),
                "us" if us else "img/s",
                min(values),
                max(values),
            )
        )
    for name, one, other, compare, form in QUOTIENTS:
        if other in found:
            both = list(map(compare, found[one], found[other]))
            print(name, form % statistics.median(both))


if __name__ == "__main__":
    main()
