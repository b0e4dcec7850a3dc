# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: the same pictures in files, tar, packs and records, by a
Loader, whose peer is always the folder of files; and what an index costs that
has many records."""
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import headrace
import record_writers
from bench_table import interleave
from headrace import ops

TIMES = 2  # each picture, so that an epoch takes a while
FIRST = 16  # pictures of the first batch
CHUNK = 10000  # records of one, where there are many
STEPS = [ops.decode(), ops.random_resized_crop(224, 224),
         ops.random_flip(horizontal=0.5)]


# ---- Rows --------------------------------------------------------------------

def loader(source, shuffle=True, batch=FIRST, budget=1):
    """A budget of 1 is that of the least that is read ahead."""
    return headrace.Loader(source, STEPS, batch=batch, shuffle=shuffle, seed=1,
                           dtype="u8", to="numpy", device="cpu", budget=budget,
                           epochs=1)


class Epochs:
    """The same epoch again and again. (None is made ahead: the time of that
    would be another container's.)"""

    def __init__(self, source, shuffle):
        self.loader = loader(source, shuffle, 64, 0)

    def __call__(self):
        self.loader.set_epoch(0)
        for _ in self.loader:
            pass


def forget(place):
    """Drop what the page cache has of all files there."""
    for folder, _, names in os.walk(place):
        for name in names:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def disk_bytes():
    with open("/proc/self/io") as file:
        return {line.split(":")[0]: int(line.split()[1])
                for line in file}["read_bytes"]


def first_batch(source, place):
    """Seconds to open and to the first random batch, bytes from the disk (0
    where files lie in memory)."""
    gc.collect()
    forget(place)
    before, begin = disk_bytes(), time.perf_counter()
    with contextlib.closing(loader(source)) as made:
        opened = time.perf_counter()
        next(iter(made))
        done = time.perf_counter()
        made.close()
    return opened - begin, done - begin, disk_bytes() - before


def write_pack(b):
    def write(place, items, group=0):
        path = os.path.join(place, "a.hrp")
        folder = os.path.join(place, "files")
        record_writers.write_files(folder, items)
        subprocess.run([os.path.join(b.build, "headrace"), "pack", folder,
                        "--out", path, "-q"], check=True)
        return path
    return write


def written(b, root, items, **options):
    """Name -> (folder, source) of each that can be written here."""
    found = {}
    for name, write in {**record_writers.WRITERS,
                        "pack": write_pack(b)}.items():
        place = os.path.join(root, name)
        os.mkdir(place)
        try:
            found[name] = place, write(place, items, **options)
        except ImportError as error:
            print(f"not run: {name}: {error}", file=sys.stderr)
    return found


def container_rows(b):
    data = b.files.data * TIMES
    items = [(f"{i:05}.jpg", label, data[i]) for label in range(10)
             for i in range(label, len(data), 10)]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=b.build
                                     ) as root:
        found = written(b, root, items)
        for name, shuffle in (("in order", False), ("shuffled", True)):
            runs = [Epochs(source, shuffle) for _, source in found.values()]
            peer, *times = interleave(b.rounds, *runs,
                                      clock=time.process_time)
            del runs  # (what is mapped stays in the page cache)
            for kind, seconds in zip(found, [peer, *times]):
                key = f"container_{kind}_{name.replace(' ', '_')}"
                b.table.versus(key, f"{kind}, {name}, CPU time", len(items),
                               seconds, peer, "files",
                               0.95 if kind != "files" else None)
        firsts = {name: [] for name in found}
        for _ in range(b.rounds):
            for name, (place, source) in found.items():
                firsts[name].append(first_batch(source, place))
    for k, (key, text, unit, scale) in enumerate((
            ("open", "opened", "ms", 1e3),
            ("first", f"first batch of {FIRST}, shuffled, from the disk", "ms",
             1e3), ("read", "bytes read for that batch", "MB", 1e-6))):
        for name, rounds in firsts.items():
            ours = [r[k] * scale for r in rounds]
            peer = [r[k] * scale for r in firsts["files"]]
            b.table.add(f"container_{name}_{key}", f"{name}, {text}", unit,
                        statistics.median(ours), statistics.median(peer),
                        "files", [p / x for x, p in zip(ours, peer)]
                        if all(ours) else None)


# ---- Many records ------------------------------------------------------------

class Many:
    """Records of a few bytes, which are no pictures."""

    def __init__(self, num):
        self.num = num

    def __iter__(self):
        for label in range(10):
            for i in range(label, self.num, 10):
                yield f"{i:08}.jpg", label, b"0123456789abcdef"


# In a process of its own: what a small one needs is there before.
OPEN = """
import json, sys, time
import headrace

def memory(key):
    with open("/proc/self/status") as file:
        return {line.split(":")[0]: int(line.split()[1]) << 10
                for line in file if line.endswith("kB\\n")}[key]

small, large = sys.argv[1:]
steps = [headrace.ops.decode(), headrace.ops.resize(8, 8)]
headrace.Loader(small, steps)
before, begin = memory("RssAnon"), time.perf_counter()
kept = headrace.Loader(large, steps)
seconds = time.perf_counter() - begin
print(json.dumps([len(kept._source), seconds, memory("RssAnon") - before]))
"""


def opened(b, name, write, root):
    sources = []
    for num in (100, b.options.records):
        place = os.path.join(root, str(num))
        os.mkdir(place)
        sources.append(write(place, Many(num), CHUNK))
    done = subprocess.run([sys.executable, "-c", OPEN, *sources], check=True,
                          stdout=subprocess.PIPE,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                              filter(None, sys.path))))
    num, seconds, size = json.loads(done.stdout)
    if num != b.options.records:
        raise AssertionError(f"{name}: {num} records")
    for key, text, unit, value in (
            ("index", "memory", "B", size), ("open_record", "opened", "us",
                                             seconds * 1e6)):
        b.table.add(f"container_{name}_{key}", f"{name}, {text} per record, of "
                    f"{num}", unit, value / num)


def index_rows(b):
    for name, write in record_writers.WRITERS.items():
        with tempfile.TemporaryDirectory(prefix="headrace-bench-",
                                         dir=b.build) as root:
            try:
                opened(b, name, write, root)
            except ImportError as error:
                print(f"not run: {name}: {error}", file=sys.stderr)
