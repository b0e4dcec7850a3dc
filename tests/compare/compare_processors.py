#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Do image processors of transformers get the same bits with the drop-in on?

Takes the configs of tests/python/processor_case.py, both backends and the
pictures of a folder, over and over up to --count of them: the real class
without the drop-in, with it (pictures opened by Pillow), and Preprocess of
their bytes. Qwen2-VL and LLaVA-NeXT are compared, too, without Preprocess.

    tests/compare/compare_processors.py --build build PHOTOS --count 500

Needs transformers and torchvision (tests/python/processors.txt). Exit code 1
if anything differs.
"""
import argparse
import itertools
import os
import pathlib
import sys

sys.path += [os.path.dirname(__file__) + p for p in ("/../support", "/../python")]
import package  # noqa: F401  says which headrace
import headrace
import torch
import transformers
from headrace import report
from PIL import Image
from processor_case import BACKENDS, CONFIGS, preprocess, real

PART = 25  # pictures of a call


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("photos", help="folder of JPEG files")
    a.add_argument("--build", default="build", help="build folder [build]")
    a.add_argument("--count", type=int, default=PART,
                   help="pictures for each processor [%d]" % PART)
    a.add_argument("--only", default="", help="processors with this name")
    return a.parse_args()


def cases():
    """(name, processor, Preprocess or None)"""
    for name, backend in itertools.product(CONFIGS, BACKENDS):
        yield ("%s, %s" % (name, backend), real(name, backend),
               preprocess(name, backend=backend, upright=False))
    kinds = ("Qwen2VL", "LlavaNext"), zip(BACKENDS, ("", "Pil"))
    for kind, (backend, ending) in itertools.product(*kinds):
        made = getattr(transformers, f"{kind}ImageProcessor{ending}")()
        yield f"{kind}, {backend}", made, None


def run(processor, paths):
    opened = [Image.open(path) for path in paths]
    pictures = [x if x.mode == "RGB" else x.convert("RGB") for x in opened]
    return processor(pictures, return_tensors="pt")


def differ(want, found):
    """How many tensors differ in shape or bytes."""
    return sum(not (key in found and torch.equal(want[key], found[key]))
               for key in want)


def compare(processor, make, paths):
    """(calls that differ, pictures that jobs made)"""
    bad = made = 0
    for start in range(0, len(paths), PART):
        part = paths[start : start + PART]
        want = run(processor, part)
        with headrace.image_backend("cpu"):
            report(reset=True)
            bad += differ(want, run(processor, part)) > 0
            made += report()["totals"].get("recorded", 0)
        if make is not None:
            bad += differ(want, make([p.read_bytes() for p in part])) > 0
    return bad, made


def main():
    o = parse()
    torch.set_num_threads(1)
    found = sorted(p for p in pathlib.Path(o.photos).rglob("*")
                   if p.suffix.lower() in (".jpg", ".jpeg"))
    paths = list(itertools.islice(itertools.cycle(found), o.count))
    wrong = 0
    for name, processor, make in cases():
        if o.only in name:
            bad, made = compare(processor, make, paths)
            wrong += bad
            print("%-26s %d pictures, %d recorded, %d calls differ"
                  % (name, len(paths), made, bad), flush=True)
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
