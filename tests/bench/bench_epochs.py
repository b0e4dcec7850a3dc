# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: later epochs, of pictures that were prepared once."""
import os
import statistics
import subprocess

from bench_alone import STAGES, stage_rounds
from bench_jobs import levels, open_device
from bench_table import interleave
from bench_work import Jobs, folder, peer_train, train_ops, train_samples
from headrace import _core

# The promised ratio to torchvision, by instruction set.
CACHE = {"c": None, "avx2": 8, "avx512": 12, "neon": None}
PACK = {"c": None, "avx2": 7.5, "avx512": 11, "neon": None}


def later_rows(b, key, times, peer, at_least):
    for level, seconds in times:
        b.table.versus(f"{key}_{level}", f"  later epochs, {level} kernels",
                       b.files.n, seconds, peer, b.torchvision, at_least[level])


def cache_rows(b):
    """The train transform with a cache: of its first epoch (in one so small
    that nothing is there when it comes again); and of later ones, for which the
    round that does not count fills it."""
    samples = train_samples(b.files)
    devs = {level: open_device(level=level, cache=1 << 30)
            for level in levels()}
    runs = [Jobs(dev, samples) for dev in devs.values()]
    runs.append(Jobs(open_device(cache=2 << 20), samples))
    *times, filling, peer = interleave(b.rounds, *runs,
                                       lambda: peer_train(b.files))
    b.table.versus("first_epoch_cache", "first epoch, which fills a cache",
                   b.files.n, filling, peer, b.torchvision)
    later_rows(b, "later_epochs", zip(devs, times), peer, CACHE)


def pack_rows(b):
    """The same from a pack file that lies in the page cache. Its first epoch
    checks all that it reads, later ones need not."""
    with folder(b.files) as files:
        path = os.path.join(files, "bench.hrp")
        subprocess.run([os.path.join(b.build, "headrace"), "pack", files,
                        "--out", path], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        size = os.path.getsize(path)
        dev = open_device()
        fast = [n for n in levels() if n != "c"] or ["c"]
        seen = pack_samples(b, path)  # the round that does not count checks
        runs = [Jobs(open_device(level=level), seen) for level in fast]

        def first():
            """A file that was just opened: nothing in it is checked yet."""
            Jobs(dev, pack_samples(b, path))()
        *times, checking, peer = interleave(b.rounds, *runs, first,
                                            lambda: peer_train(b.files))
    b.table.versus("first_epoch_pack", "first epoch from a pack file",
                   b.files.n, checking, peer, b.torchvision)
    later_rows(b, "later_pack", zip(fast, times), peer, PACK)
    total = sum(map(len, b.files.data))
    b.table.add("pack_size", "size of the pack file", "MB", size / 1e6,
                total / 1e6, "the files", [total / size])


def pack_samples(b, path):
    pack = _core.PackFile(path)
    return [(pack[i], train_ops(box)) for i, box in enumerate(b.files.boxes)]


def packing_row(b):
    """hr_pack() of each file, that is stage entropy and packing, beside what
    libjpeg-turbo needs for stage entropy alone."""
    rounds = stage_rounds(b)
    best = [r[levels()[-1]] for r in rounds]
    ours = [s["ticks"][STAGES.index("pack")] / s["ticks_per_ns"] / 1e9
            for s in best]
    peer = [r["peer"][0] / 1e9 for r in rounds]
    b.table.versus("pack", "packing a picture", rounds[0]["files"], ours, peer,
                   "libjpeg-turbo, coefficients")
    b.table.add("pack_speed", "  of files, one thread", "MB/s",
                best[0]["bytes"] / 1e6 / statistics.median(ours))
