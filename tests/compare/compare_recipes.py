#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does the drop-in make stock's tensors of whole recipes, to the bit?

Runs each recipe of headrace.bench (torchvision's TrivialAugmentWide,
RandAugment, AutoAugment, ColorJitter, MoCo v2, DINO, timm's), with
torchvision's v1 and v2, without worker processes and with two, first without
the drop-in and then with it, from the same seeds, over generated photos and
those of the corpus. The pass condition is 0 tensors that differ, and that the
drop-in leaves no picture to Pillow: else stock would be compared with stock.
The recipe timm_m10 posterizes to 0 bits, which Pillow 13 refuses: the texts of
these errors are compared, too.

    tests/compare/compare_recipes.py --build build
    tests/compare/compare_recipes.py --build build --count 200 --only moco
    tests/compare/compare_recipes.py --build build --backend opencl

Another backend than the CPU's must also have made 98 % of the pictures that it
began to the end, and is held to compare.py's conditions.

Exit code 1 if anything differs, 77 if torchvision is missing.
"""
import argparse
import hashlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from unittest import mock

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import compare  # which says what else is missing, and ends
    import headrace
    import made
    import torch
    import torchvision
    from headrace.bench import programs, recipes
    from headrace.dropin.pillow import jobs
    from PIL import Image, ImageOps
except ImportError as e:
    print(f"not run: {e}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)

WORKERS = (0, 2)
BATCH = 16
REFUSED = "timm_m10"


def refused(size, v2):
    """A transform of timm's highest magnitude, 10, and many ops."""
    from timm.data import create_transform

    return create_transform(size, is_training=True, color_jitter=0.4,
                            auto_augment="rand-m10-n8-inc1")


def pillow_refuses():
    try:
        ImageOps.posterize(Image.new("L", (1, 1)), 0)
    except ValueError:
        return True
    return False


class Refused(torchvision.datasets.ImageFolder):
    """A picture that its transform refuses is the text of the error."""

    def __getitem__(self, index):
        try:
            return super().__getitem__(index)[0]
        except ValueError as error:
            return f"{type(error).__name__}: {error}"


def samples(name, batch):
    """Returns a list of views, or the text of an error, for each picture."""
    if name == REFUSED:
        return [one if isinstance(one, str) else [one] for one in batch]
    x, _ = batch
    return zip(*(x if isinstance(x, (list, tuple)) else [x]))


def digests(name, data, workers):
    """Returns a digest of each picture, with all of its views, or its error."""
    programs.seed()
    found = []
    collate = list if name == REFUSED else recipes.collate(name)
    loader = torch.utils.data.DataLoader(
        data, BATCH, shuffle=True, num_workers=workers, collate_fn=collate)
    for sample in (one for batch in loader for one in samples(name, batch)):
        if not isinstance(sample, str):
            digest = hashlib.sha1()
            for view in sample:
                digest.update(view.contiguous().numpy())
            sample = digest.digest()
        found.append(sample)
    return found


def counted(count, failures=jobs.failures):
    """jobs.failures(), which sees the results of all jobs, counts them."""
    def wrapped(job, recordings):
        found = failures(job, recordings)
        for result in job.results:
            if result.status == 0:
                count.note(result, result.spans[0][0] != "resample")
        return found
    return wrapped


def compare_recipe(tally, count, name, v2, workers, o, folder):
    kind = Refused if name == REFUSED else torchvision.datasets.ImageFolder
    data = kind(folder, recipes.transform(name, o.size, v2))
    stock = digests(name, data, workers)
    headrace.set_image_backend(o.backend)
    try:
        headrace.report(reset=True)
        with mock.patch.object(jobs, "failures", counted(count)):
            ours = digests(name, data, workers)
        found = headrace.report()
    finally:
        headrace.reset_image_backend()
    bad = sum(a != b for a, b in itertools.zip_longest(stock, ours))
    what, level = f"{name}, v{1 + v2}", f"{workers} workers"
    for one in stock:
        tally.add(what, level, one, 0)
    if bad or not stock:
        tally.add(what, level, "", bad or 1, f"{what}, {level}: {bad} of "
                  f"{len(stock)} pictures differ")
    left = {**found.get("materialised", {}), **found.get("pillow", {})}
    made = found["totals"].get("pictures", 0)
    print(f"{what}, {level}: {made} pictures made, {sum(left.values())} of them "
          f"left to Pillow {left or ''}")
    errors = sum(isinstance(one, str) for one in stock)
    if name == REFUSED:
        print(f"{what}, {level}: {errors} pictures refused")
        if not errors and pillow_refuses():
            tally.add(what, level, "", 1, f"{what}, {level}: none is refused")
    if left or made < len(stock) - errors:
        tally.add(what, level, "", 1, f"{what}, {level}: left to Pillow: {left}")


def photos(o, folder):
    """One class with as many pictures, half of them the corpus's, if it is
    there, which is returned."""
    top, made = os.path.join(folder, "classes/all"), os.path.join(folder, "made")
    os.makedirs(top)
    subprocess.run(
        [os.path.join(o.build, "headrace"), "samples", "--photos-only",
         "--seed", o.seed, "--count", str(o.count), "--size", "320x240",
         made], check=True, stdout=subprocess.DEVNULL)
    chosen = []
    for root, most in ((os.path.join(compare.CORPUS, "photos"), o.count // 2),
                       (made, o.count)):
        files = [path for path, *_ in compare.tree(root, "")
                 if path.lower().endswith((".jpg", ".jpeg"))]
        most = min(most - len(chosen), len(files))
        chosen += random.Random(o.seed).sample(files, most)
    for number, path in enumerate(chosen):
        os.symlink(os.path.abspath(path), os.path.join(top, f"{number}.jpg"))
    return os.path.isdir(compare.CORPUS)


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--count", type=int, default=24, help="pictures [24]")
    a.add_argument("--size", type=int, default=64, help="of a side [64]")
    a.add_argument("--seed", default="1", help="of which pictures [1]")
    a.add_argument("--only", default="", help="recipes with commas between")
    a.add_argument("--backend", default="cpu", help="[cpu]")
    a.add_argument("--entropy", action="store_true",
                   help="the backend decodes entropy coding, too")
    return a.parse_args()


def able(skips):
    """(recipe, whether it is of v2) of what is installed here."""
    for v2 in (False, True):
        for name in recipes.RECIPES:
            if v2 and name.startswith(("timm", "tensors", "io", "hf-")):
                continue  # of one kind only
            try:
                recipes.transform(name, 64, v2)
                yield name, v2
            except ImportError as error:
                which = "all of v2" if v2 else name
                skips.append(f"{which}: {error}")
                if v2:
                    return


def main():
    o = parse()
    recipes.RECIPES[REFUSED] = refused, ""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    begin, tally, skips = time.monotonic(), compare.Tally(), []
    count = made.Count()
    if o.entropy:
        os.environ["HEADRACE_OPENCL_ENTROPY"] = "device"
    if reason := compare.cannot_open(o):
        return compare.not_opened(reason)
    print(f"seed {o.seed}; Pillow {Image.__version__}; torchvision "
          f"{torchvision.__version__}; {o.count} pictures to {o.size}")
    with tempfile.TemporaryDirectory(prefix="headrace-recipes-") as folder:
        if not photos(o, folder):
            skips.append("the corpus: set HEADRACE_CORPUS to its folder")
        for (name, v2), workers in itertools.product(able(skips), WORKERS):
            if not o.only or name in o.only.split(","):
                compare_recipe(tally, count, name, v2, workers, o,
                               os.path.join(folder, "classes"))
    if o.backend != "cpu":
        compare.made_check(tally, o.backend, count, whole=0.98,
                           entropy=o.entropy)
    print(f"{time.monotonic() - begin:.0f} s")
    return compare.report(tally, skips)


if __name__ == "__main__":
    sys.exit(main())
