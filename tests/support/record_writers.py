# SPDX-License-Identifier: Apache-2.0
"""Writers of containers, by the packages of records.txt. MDS, litData and
MindRecord, whose packages bring too many others, are written by hand.

A writer gets an empty folder and pictures (NAME, CLASS, DATA), a class after
the other, and returns the source. Samples have the same order in all of them.
"""
import io
import itertools
import json
import os
import sqlite3
import struct
import tarfile

GROUP = 64  # rows of a group or chunk


def groups(items, num):
    items = iter(items)
    while group := list(itertools.islice(items, num)):
        yield group


def write_files(place, items, group=GROUP):
    for name, label, data in items:
        folder = os.path.join(place, f"c{label}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    return place


def write_tar(place, items, group=GROUP):
    path = os.path.join(place, "a.tar")
    with tarfile.open(path, "w") as archive:
        for name, label, data in items:
            for end, part in ((".jpg", data), (".cls", b"%d" % label)):
                member = tarfile.TarInfo(name[:-4] + end)
                member.size = len(part)
                archive.addfile(member, io.BytesIO(part))
            archive.members.clear()
    return path


def write_tfrecord(place, items, group=GROUP):
    import tfrecord

    path = os.path.join(place, "a.tfrecord")
    writer = tfrecord.TFRecordWriter(path)
    for _, label, data in items:
        writer.write({"image": (data, "byte"), "label": (label, "int")})
    writer.close()
    return path


def write_lmdb(place, items, group=GROUP):
    import lmdb

    with lmdb.open(place, map_size=1 << 36, sync=False) as made, \
            made.begin(write=True) as put:
        for name, label, data in items:
            put.put(f"{label}/{name}".encode(), data)
    return place


# ---- Tables ----------------------------------------------------------------

def tables(items, group):
    import pyarrow

    for rows in groups(items, group):
        _, labels, data = zip(*rows)
        yield pyarrow.table({"image": pyarrow.array(data, pyarrow.binary()),
                             "label": pyarrow.array(labels, pyarrow.int64())})


def write_parquet(place, items, group=GROUP):
    from pyarrow import parquet

    path, parts = os.path.join(place, "a.parquet"), tables(items, group)
    first = next(parts)
    with parquet.ParquetWriter(path, first.schema,
                               compression="none") as writer:
        for table in itertools.chain([first], parts):
            writer.write_table(table)
    return path


def write_arrow(place, items, group=GROUP):
    import pyarrow

    path, parts = os.path.join(place, "a.arrow"), tables(items, group)
    first = next(parts)
    with pyarrow.ipc.new_file(path, first.schema) as writer:
        for table in itertools.chain([first], parts):
            writer.write_table(table)
    return path


# ---- By hand ---------------------------------------------------------------

def write_chunk(path, rows, about=b""):
    """Rows with where each begins, and returns its size."""
    ends = [4 + 4 * (len(rows) + 1) + len(about)]
    for row in rows:
        ends.append(ends[-1] + len(row))
    with open(path, "wb") as file:
        file.write(struct.pack(f"<I{len(ends)}I", len(rows), *ends) + about +
                   b"".join(rows))
    return ends[-1]


def write_mds(place, items, group=GROUP):
    """As MDSWriter of streaming 0.13."""
    shards = []
    for part in groups(items, group):
        rows = [struct.pack("<I", len(data)) + data + struct.pack("<q", label)
                for _, label, data in part]
        name = f"shard.{len(shards):05}.mds"
        size = write_chunk(os.path.join(place, name), rows, b"{}")
        shards.append({
            "column_encodings": ["bytes", "int"], "format": "mds",
            "column_names": ["image", "label"], "column_sizes": [None, 8],
            "compression": None, "samples": len(rows), "version": 2,
            "zip_data": None,
            "raw_data": {"basename": name, "bytes": size, "hashes": {}}})
    with open(os.path.join(place, "index.json"), "w") as file:
        json.dump({"shards": shards, "version": 2}, file)
    return place


def write_litdata(place, items, group=GROUP):
    """As optimize() of litdata 0.2.76."""
    chunks = []
    for part in groups(items, group):
        rows = [struct.pack("<2I", len(data), 8) + data +
                struct.pack("<q", label) for _, label, data in part]
        name = f"chunk-0-{len(chunks)}.bin"
        size = write_chunk(os.path.join(place, name), rows)
        chunks.append({"chunk_bytes": size, "chunk_size": len(rows),
                       "dim": None, "filename": name})
    spec = [1, {"type": "builtins.dict", "context": '["image", "label"]',
                "children_spec": []}]
    with open(os.path.join(place, "index.json"), "w") as file:
        json.dump({"chunks": chunks, "config": {
            "compression": None, "data_format": ["bytes", "int"],
            "data_spec": json.dumps(spec), "encryption": None}}, file)
    return place


# Pages of a MindRecord file.
HEADER, PAGE = 1 << 14, 1 << 25


class Pages:
    """Bytes go to the last page of their kind while it has room."""

    def __init__(self, file, numbers):
        self.file, self.numbers, self.used = file, numbers, PAGE

    def put(self, data):
        """Returns number of the page, begin and end of the data there."""
        if self.used + len(data) > PAGE:
            self.page, self.used = next(self.numbers), 0
        self.file.seek(HEADER + self.page * PAGE + self.used)
        self.file.write(data)
        self.used += len(data)
        return self.page, self.used - len(data), self.used


def write_mindrecord(place, items, group=GROUP):
    """As FileWriter of mindspore 2.10 with an index of labels."""
    path, num = os.path.join(place, "a.mindrecord"), 0
    numbers = itertools.count()
    with open(path, "wb", buffering=1 << 20) as file, \
            sqlite3.connect(path + ".db") as index:
        blobs, raws = Pages(file, numbers), Pages(file, numbers)
        names = [f"PAGE_{part}" for kind in ("RAW", "BLOB") for part in
                 (f"ID_{kind}", f"OFFSET_{kind}", f"OFFSET_{kind}_END")]
        columns = ", ".join(f"{name} INT NOT NULL" for name in
                            ["ROW_ID", *names, "ROW_GROUP_ID"])
        index.execute(f"CREATE TABLE INDEXES({columns}, INC_0 INT, "
                      "label_0 INTEGER, PRIMARY KEY(ROW_ID, INC_0))")
        for _, label, data in items:
            raw = b"\x81\xa5label\xd2" + struct.pack(">i", label)
            index.execute(
                f"INSERT INTO INDEXES VALUES({', '.join('?' * 10)})",
                (num, *raws.put(struct.pack("<Q", len(raw)) + raw),
                 *blobs.put(struct.pack("<Q", len(data)) + data), 0, 0, label))
            num += 1
        head = json.dumps({
            "header_size": HEADER, "page_size": PAGE, "version": "3.0",
            "schema": [{"blob_fields": ["image"], "schema": {
                "image": {"type": "bytes"}, "label": {"type": "int32"}}}],
            "page": [{"page_type": "BLOB_DATA", "page_id": 0,
                      "start_row_id": 0, "end_row_id": num}]}).encode()
        # (A page has its whole size, but for the last one.)
        file.seek(0)
        file.write(struct.pack("<Q", len(head)) + head)
    return path


WRITERS = {"files": write_files, "tar": write_tar, "tfrecord": write_tfrecord,
           "lmdb": write_lmdb, "mds": write_mds, "litdata": write_litdata,
           "parquet": write_parquet, "arrow": write_arrow,
           "mindrecord": write_mindrecord}
