# SPDX-License-Identifier: Apache-2.0
"""timm, Hugging Face datasets, webdataset and Lightning with the drop-in: the
tensors of the stock program, bit for bit, and what ran where. Lightning with a
Loader. (Releases: neighbours.txt.)
"""

import importlib.util
import io
import json
import os
import pathlib
import random
import tempfile
import unittest

if not any(map(importlib.util.find_spec,
               ("timm", "datasets", "webdataset", "lightning"))):
    raise unittest.SkipTest("needs timm, datasets, webdataset or lightning")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import dropin_case as case
import headrace
import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets as torch_datasets
from torchvision import transforms

BATCH = 8
TRAIN = transforms.Compose([
    transforms.RandomResizedCrop(48),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])


def needs(module):
    return unittest.skipUnless(
        importlib.util.find_spec(module), "needs " + module)


class Neighbours(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = case.Samples.photos()
        cls.paths = [path for path, _ in
                     torch_datasets.ImageFolder(cls.folder).samples]

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def both(self, name, run):
        """run() gives tensors; the report of ours, which is also printed."""
        def seeded():
            random.seed(3)
            numpy.random.seed(3)
            torch.manual_seed(3)
            return list(run())

        wanted = seeded()
        with headrace.image_backend("cpu"):
            headrace.dropin.report(reset=True)
            found = seeded()
            report = headrace.report()
        self.assertEqual(len(found), len(wanted))
        self.assertTrue(wanted)
        for one, other in zip(found, wanted):
            self.assert_same_tensor(one, other, name)
        print("%s: %s" % (name, json.dumps(report)))
        return report

    def all_recorded(self, report, epochs=1):
        n = len(self.paths) * epochs
        self.assertEqual(report["totals"]["pictures"], n)
        self.assertEqual(report["devices"], {"cpu": n})
        self.assertNotIn("pillow", report)
        self.assertNotIn("mended", report)


@needs("timm")
class Timm(Neighbours):
    def loader(self, training, **options):
        from timm.data import create_dataset, create_loader

        data = create_dataset("", root=self.folder, is_training=training)
        return create_loader(
            data, input_size=(3, 48, 48), batch_size=BATCH,
            is_training=training, color_jitter=None, hflip=0.5,
            num_workers=options.pop("num_workers", 0), **options)

    def batches(self, training, **options):
        for pictures, labels in self.loader(training, **options):
            yield pictures
            yield labels

    def test_train(self):
        report = self.both("timm train", lambda: self.batches(
            True, use_prefetcher=False))
        self.assertNotIn("materialised", report)

    def test_evaluation(self):
        report = self.both("timm evaluation", lambda: self.batches(
            False, use_prefetcher=False))
        self.all_recorded(report)
        self.assertNotIn("materialised", report)

    def test_prefetcher(self):
        for workers in 0, 2:
            report = self.both("timm prefetcher", lambda: self.batches(
                False, use_prefetcher=True, num_workers=workers,
                device=torch.device("cpu"), persistent_workers=False))
            self.all_recorded(report)
            self.assertNotIn("materialised", report)
            self.assertLessEqual(report["totals"]["jobs"],
                                 -(-len(self.paths) // BATCH))

    def test_workers(self):
        report = self.both("timm workers", lambda: self.batches(
            False, use_prefetcher=False, num_workers=2))
        self.all_recorded(report)

    def test_random_augmentations(self):
        self.both("timm rand-m9", lambda: self.batches(
            True, use_prefetcher=False, re_prob=0.5,
            auto_augment="rand-m9-mstd0.5-inc1"))


@needs("datasets")
class HuggingFace(Neighbours):
    def data(self):
        import datasets

        data = datasets.Dataset.from_dict({
            "image": self.paths, "label": list(range(len(self.paths)))})
        return data.cast_column("image", datasets.Image())

    def batches(self, data, **options):
        for batch in DataLoader(data, BATCH, shuffle=True, **options):
            yield batch["pixels"]
            yield batch["label"]

    def transformed(self):
        def steps(batch):
            pictures = [TRAIN(image.convert("RGB"))
                        for image in batch["image"]]
            return {"pixels": pictures, "label": batch["label"]}

        return self.data().with_transform(steps)

    def test_image_feature(self):
        data = self.transformed()
        report = self.both("datasets", lambda: self.batches(data))
        self.all_recorded(report)
        self.assertNotIn("materialised", report)

    def test_workers(self):
        data = self.transformed()
        report = self.both("datasets, 2 workers", lambda: self.batches(
            data, num_workers=2, multiprocessing_context="fork"))
        self.all_recorded(report)

    def test_arrays(self):
        """Its own formats ask for pixels."""
        data = self.data().select(range(8)).with_format("torch")
        report = self.both("datasets, with_format", lambda: [
            each["image"] for each in data])
        self.assertTrue(report["materialised"])


@needs("webdataset")
class WebDataset(Neighbours):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import webdataset

        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.archive = os.path.join(cls.temporary.name, "all.tar")
        with webdataset.TarWriter(cls.archive) as archive:
            for number, path in enumerate(cls.paths):
                archive.write({
                    "__key__": "%05d" % number,
                    "jpg": pathlib.Path(path).read_bytes(),
                    "cls": number,
                })

    def batches(self, kind, **options):
        import webdataset

        data = (
            webdataset.WebDataset(self.archive, shardshuffle=False,
                                  workersplitter=lambda urls: urls)
            if options else
            webdataset.WebDataset(self.archive, shardshuffle=False)
        )
        data = (data.decode(kind).to_tuple("jpg", "cls")
                .map_tuple(lambda image: TRAIN(image), int))
        for pictures, numbers in DataLoader(data, BATCH, **options):
            yield pictures
            yield numbers

    def test_decode_pil(self):
        report = self.both("webdataset", lambda: self.batches("pil"))
        self.all_recorded(report)
        self.assertNotIn("materialised", report)

    def test_workers(self):
        report = self.both("webdataset, 2 workers", lambda: self.batches(
            "pil", num_workers=2, multiprocessing_context="fork"))
        self.assertEqual(list(report["devices"]), ["cpu"])

    def test_decode_numbers(self):
        """"rgb" asks Pillow's picture for an array."""
        import webdataset

        def run():
            data = webdataset.WebDataset(self.archive, shardshuffle=False)
            for image, _ in data.decode("rgb8").to_tuple("jpg", "cls"):
                yield torch.from_numpy(numpy.array(image))

        report = self.both("webdataset rgb8", run)
        self.assertTrue(report["materialised"])


@needs("lightning")
class Lightning(Neighbours):
    def met(self, data, epochs):
        """The batches that a Trainer gives its model."""
        import lightning

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(1))
                self.met = []

            def training_step(self, batch, _):
                self.met += [each.clone() for each in batch]
                return self.weight.sum()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        model = Model()
        lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False).fit(model, data)
        return model.met

    def test_drop_in(self):
        data = torch_datasets.ImageFolder(self.folder, TRAIN)
        report = self.both("Lightning", lambda: self.met(
            DataLoader(data, BATCH, shuffle=True), 1))
        self.all_recorded(report)
        self.assertNotIn("materialised", report)

    def test_loader(self):
        """Each of its epochs is one of the loader's, whole."""
        def loader():
            return headrace.Loader(self.folder, TRAIN, batch=BATCH,
                                   shuffle=True, seed=3, device="cpu")

        alone = loader()
        want = [each.clone() for _ in range(2) for batch in alone
                for each in batch]
        found = self.met(loader(), 2)
        self.assertEqual(len(found), len(want))
        for one, other in zip(found, want):
            self.assert_same_tensor(one, other, "Loader in Lightning")
