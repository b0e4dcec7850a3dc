# SPDX-License-Identifier: Apache-2.0
"""A Loader's batches in MindSpore: bit for bit those of the command, and what
its own data set takes. (Release: mindspore.txt.)"""

import io
import contextlib
import json
import tempfile
import unittest

try:
    from mindspore import dataset, mindrecord
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None

import numpy

import headrace
import headrace.mindrecord
from headrace.bench import command

import core_samples as samples

BATCH = 5


class Records(unittest.TestCase):
    """Files that it writes: what its own reader says, in the same order."""

    def write(self, shards, fields, rows, index=(), at_a_time=17):
        path = tempfile.mkdtemp(dir=samples.scratch()) + "/a.mindrecord"
        writer = mindrecord.FileWriter(path, shards)
        writer.set_header_size(1 << 14)
        writer.set_page_size(1 << 19)
        writer.add_schema(fields, "photos")
        if index:
            writer.add_index(list(index))
        for i in range(0, len(rows), at_a_time):
            writer.write_raw_data(rows[i:i + at_a_time])
        writer.commit()
        return [path] if shards == 1 else [f"{path}{i}" for i in range(shards)]

    def same(self, paths, image, label):
        seen = 0
        for path in paths:
            rows = headrace.mindrecord.Rows(path, (image, label))
            theirs = list(dataset.MindDataset(
                [path], shuffle=False, num_parallel_workers=1,
            ).create_dict_iterator(num_epochs=1, output_numpy=True))
            self.assertEqual(len(rows), len(theirs))
            for i, (number, row) in enumerate(zip(rows.labels(), theirs)):
                self.assertEqual(rows[i], row[image].tobytes())
                want = row[label].item()
                self.assertEqual(
                    rows.classes[number] if rows.classes else number, want)
            seen += len(rows)
        return seen

    def test_files(self):
        photos = [samples.read(path) for path in samples.photos()]
        whole = {"type": "int64"}, [i * (-7)**(i % 9) for i in range(300)]
        words = {"type": "string"}, [f"w{i % 11}" * (i % 40 + 1)
                                     for i in range(300)]
        for kind, labels in whole, words:
            for index in (), ("name",), ("label",):
                rows = [{"image": photos[i % len(photos)], "label": labels[i],
                         "name": f"n{i}", "mask": b"x" * (i % 30 + 1),
                         "box": numpy.full(i % 5 + 1, i, numpy.float32)}
                        for i in range(300)]
                fields = {"image": {"type": "bytes"}, "label": kind,
                          "name": {"type": "string"},
                          "mask": {"type": "bytes"},
                          "box": {"type": "float32", "shape": [-1]}}
                self.assertEqual(self.same(
                    self.write(3, fields, rows, index), "image", "label"), 300)
                for row in rows:
                    del row["mask"], row["box"]
                del fields["mask"], fields["box"]
                self.assertEqual(self.same(
                    self.write(1, fields, rows, index), "image", "label"), 300)


class InMindSpore(unittest.TestCase):
    def setUp(self):
        self.folder = samples.folder() / "photos"

    def loader(self, steps=samples.EVAL, source=None, **options):
        return headrace.Loader(source or self.folder, steps, batch=BATCH,
                               device="cpu", to="numpy", **options)

    def data(self, loader):
        return dataset.GeneratorDataset(loader, ["image", "label"],
                                        shuffle=False, num_parallel_workers=1)

    @staticmethod
    def epoch(data, **options):
        return list(data.create_tuple_iterator(num_epochs=1, **options))

    def test_the_tensors_of_the_command(self):
        loader = self.loader()
        found = self.epoch(self.data(loader), output_numpy=True)
        self.assertEqual(len(found), len(loader))
        pictures = numpy.concatenate([x for x, _ in found])
        self.assertEqual(pictures.dtype, numpy.float32)
        self.assertEqual(
            pictures.tobytes(),
            samples.of_command(samples.photos(), samples.EVAL_TEXT))

    def test_epochs_of_random_ops(self):
        """The loader's own samples, in the same order."""
        options = {"steps": samples.TRAIN, "shuffle": True, "seed": 3}
        want = self.loader(**options)
        data = self.data(self.loader(**options))
        for _ in range(3):
            found = self.epoch(data)
            self.assertEqual(len(found), len(want))
            for (x, y), (ours, labels) in zip(found, want):
                self.assertEqual(x.asnumpy().tobytes(), ours.tobytes())
                self.assertEqual(y.asnumpy().tolist(), labels.tolist())

    def test_all_epochs_by_one_iterator(self):
        want = self.loader(samples.TRAIN, seed=3)
        data = self.data(self.loader(samples.TRAIN, seed=3))
        iterator = data.create_tuple_iterator(num_epochs=2, output_numpy=True)
        for _ in range(2):
            for (x, _), (ours, _) in zip(iterator, want, strict=True):
                self.assertEqual(x.tobytes(), ours.tobytes())

    def test_how_many(self):
        loader = self.loader()
        self.assertEqual(self.data(loader).get_dataset_size(), len(loader))

    def test_a_bad_picture(self):
        source = [(path, 0) for path in samples.photos()[:BATCH]]
        source[2] = (b"no picture", 0)
        with self.assertRaisesRegex(RuntimeError, "not a picture"):
            self.epoch(self.data(self.loader(source=source)))
        (x, _), = self.epoch(
            self.data(self.loader(source=source, on_error="zero")),
            output_numpy=True)
        self.assertEqual([bool(each.any()) for each in x],
                         [i != 2 for i in range(BATCH)])

    def test_its_own_data_set_beside(self):
        """Figures; there is no promise about them here."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = command.main([str(self.folder), "--only",
                                 "loader,mindspore", "--rounds", "1",
                                 "--batch", "8", "--json", "-"])
        self.assertEqual(code, 0)
        rows = {row["key"]: row for row in json.loads(out.getvalue())["rows"]}
        for key, row in rows.items():
            self.assertEqual({e["pictures"] for one in row["rounds"]
                              for e in (one["first"], *one["later"])},
                             {rows["loader"]["rounds"][0]["first"]["pictures"]})
            print(f"{key}: {row['first']['img_per_s']:.0f} and later "
                  f"{row['later']['img_per_s']:.0f} pictures/s")
        self.assertEqual(set(rows), {"loader", "mindspore"})
