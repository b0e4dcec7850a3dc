# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: image processors of transformers, a batch a call, beside
the same call without Headrace. Needs transformers.

Rows of one core are CPU time: other programs on the machine change it little.
"""
import contextlib
import io
import os
import sys
import time

import headrace
from PIL import Image

from bench_table import interleave
from bench_work import BATCH
from headrace.transformers import Preprocess

# Class -> its name in keys, and the config that is its own.
KINDS = {"ViTImageProcessor": "vit", "CLIPImageProcessor": "clip"}
STREAM = 16  # calls that follow one another


def transformers():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers as module
    except ImportError as e:
        print(f"not run: processors: {e}", file=sys.stderr)
        return None
    return module


class Call:
    """A call with pictures of Pillow, as programs open them."""

    def __init__(self, processor, files):
        self.processor, self.files = processor, files

    def __call__(self):
        pictures = [Image.open(io.BytesIO(data)) for data in self.files]
        self.processor(pictures, return_tensors="pt")


class DropIn(Call):
    """The same with the drop-in on, which is switched before it counts."""

    @contextlib.contextmanager
    def around(self):
        with headrace.image_backend("cpu"):
            self()
            yield


def processor_rows(b):
    module = transformers()
    if module is None:
        return
    files = colors(b)
    name = f"transformers {module.__version__}"
    for kind, key in KINDS.items():
        processor = getattr(module, kind)()
        make = Preprocess.from_config({"image_processor_type": kind},
                                      device="cpu", threads=1)
        theirs, ours, direct = interleave(
            b.rounds, Call(processor, files), DropIn(processor, files),
            lambda: make(files), clock=time.process_time)
        b.table.versus(f"processor_{key}",
                       f"{kind}, {len(files)} pictures a call",
                       len(files), ours, theirs, name, 4)
        b.table.versus(f"preprocess_{key}", "  Preprocess, of their bytes",
                       len(files), direct, theirs, name, 5)


def colors(b):
    """As many pictures as a call has: those of three components."""
    return [data for data in b.files.data
            if headrace.probe(data).components == 3][:BATCH]


def preprocess_rows(b):
    """Calls follow one another, and two are in flight, as in a server."""
    if len(os.sched_getaffinity(0)) < 2 or transformers() is None:
        return
    files = colors(b)
    for kind, key in KINDS.items():
        config = {"image_processor_type": kind}
        two, one = (Preprocess.from_config(config, device="cpu", threads=n)
                    for n in (2, 1))
        b.table.versus(f"preprocess_{key}_two_threads",
                       f"  Preprocess, {kind}, 2 threads for 1",
                       STREAM * len(files),
                       *interleave(b.rounds, lambda: stream(two, files),
                                   lambda: stream(one, files)),
                       "ours with 1 thread", 1.9)


def stream(make, files):
    before = make.submit(files)
    for _ in range(STREAM - 1):
        after = make.submit(files)
        before.torch()
        before = after
    before.torch()
