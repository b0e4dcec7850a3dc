# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: the same pictures in files, tar, packs and records, by a
Loader. The peer is always the folder of files."""
import contextlib
import gc
import json
import os
import statistics
import struct
import subprocess
import tarfile
import tempfile
import time

import headrace
from bench_table import interleave
from headrace import ops

TIMES = 2  # each picture, so that an epoch takes a while
GROUP = 64  # rows of a group or chunk
FIRST = 16  # pictures of the first batch
STEPS = [ops.decode(), ops.random_resized_crop(224, 224),
         ops.random_flip(horizontal=0.5)]


# ---- Writers -----------------------------------------------------------------

def write_files(b, place, items):
    for name, label, data in items:
        folder = os.path.join(place, f"c{label}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    return place


def write_tar(b, place, items):
    path = os.path.join(place, "a.tar")
    with tarfile.open(path, "w") as archive:
        for name, label, data in items:
            for end, part in ((".jpg", data), (".cls", b"%d" % label)):
                with tempfile.TemporaryFile() as file:
                    file.write(part)
                    file.seek(0)
                    member = tarfile.TarInfo(name[:-4] + end)
                    member.size = len(part)
                    archive.addfile(member, file)
    return path


def write_pack(b, place, items):
    folder = os.path.join(place, "files")
    os.mkdir(folder)
    write_files(b, folder, items)
    path = os.path.join(place, "a.hrp")
    subprocess.run([os.path.join(b.build, "headrace"), "pack", folder, "--out",
                    path, "-q"], check=True)
    return path


def write_tfrecord(b, place, items):
    import tfrecord

    path = os.path.join(place, "a.tfrecord")
    writer = tfrecord.TFRecordWriter(path)
    for _, label, data in items:
        writer.write({"image": (data, "byte"), "label": (label, "int")})
    writer.close()
    return path


def table_of(items):
    import pyarrow

    return pyarrow.table({
        "image": pyarrow.array([data for *_, data in items],
                               pyarrow.binary()),
        "label": [label for _, label, _ in items]})


def write_parquet(b, place, items):
    from pyarrow import parquet

    path = os.path.join(place, "a.parquet")
    parquet.write_table(table_of(items), path, row_group_size=GROUP,
                        compression="none")
    return path


def write_arrow(b, place, items):
    import pyarrow

    path, table = os.path.join(place, "a.arrow"), table_of(items)
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=GROUP)
    return path


def write_mds(b, place, items):
    """Chunks as streaming's MDSWriter makes them: loader/source/chunks.c."""
    shards = []
    for first in range(0, len(items), GROUP):
        rows = [struct.pack("<I", len(data)) + data + struct.pack("<q", label)
                for _, label, data in items[first:first + GROUP]]
        ends = [4 + 4 * (len(rows) + 1) + 2]
        for row in rows:
            ends.append(ends[-1] + len(row))
        name = f"shard.{len(shards):05}.mds"
        with open(os.path.join(place, name), "wb") as file:
            file.write(struct.pack(f"<I{len(ends)}I", len(rows), *ends) +
                       b"{}" + b"".join(rows))
        shards.append({
            "column_encodings": ["bytes", "int"], "format": "mds",
            "column_names": ["image", "label"], "column_sizes": [None, 8],
            "compression": None, "samples": len(rows), "version": 2,
            "zip_data": None,
            "raw_data": {"basename": name, "bytes": ends[-1], "hashes": {}}})
    with open(os.path.join(place, "index.json"), "w") as file:
        json.dump({"shards": shards, "version": 2}, file)
    return place


CONTAINERS = {"files": write_files, "tar": write_tar,
              "tfrecord": write_tfrecord, "mds": write_mds,
              "parquet": write_parquet, "arrow": write_arrow,
              "pack": write_pack}


# ---- Rows --------------------------------------------------------------------

def loader(source, shuffle=True, batch=FIRST, budget=1):
    """A budget of 1 is that of the least that is read ahead."""
    return headrace.Loader(source, STEPS, batch=batch, shuffle=shuffle, seed=1,
                           dtype="u8", to="numpy", device="cpu", budget=budget)


class Epochs:
    """One epoch after the other, from a loader that stays."""

    def __init__(self, source, shuffle):
        self.loader = loader(source, shuffle, 64, 0)

    def __call__(self):
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


def written(b, root):
    """Name -> (folder, source) of each that can be written here."""
    items = [(f"{i:05}-{k}.jpg", i % 10, data) for k in range(TIMES)
             for i, data in enumerate(b.files.data)]
    found = {}
    for name, write in CONTAINERS.items():
        place = os.path.join(root, name)
        os.mkdir(place)
        try:
            found[name] = place, write(b, place, items)
        except ImportError as error:
            print(f"not run: {name}: {error}")
    return found, len(items)


def container_rows(b):
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=b.build
                                     ) as root:
        found, num = written(b, root)
        for name, shuffle in (("in order", False), ("shuffled", True)):
            runs = [Epochs(source, shuffle) for _, source in found.values()]
            peer, *times = interleave(b.rounds, *runs,
                                      clock=time.process_time)
            del runs  # (what is mapped stays in the page cache)
            for kind, seconds in zip(found, [peer, *times]):
                key = f"container_{kind}_{name.replace(' ', '_')}"
                b.table.versus(key, f"{kind}, {name}, CPU time", num, seconds,
                               peer, "files")
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
