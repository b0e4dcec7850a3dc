# SPDX-License-Identifier: Apache-2.0
"""Whole pipelines, stock against drop-in: same seed, same bits, one job.

ImageFolder, transforms v1 and v2, DataLoader with num_workers=0. Each
pipeline says how many jobs a batch may take; ?: some pictures are needed
one by one. The photographs are made by the command; those of the corpus are
the workload of record, where it is there.
"""

import io
import os
import tempfile
import unittest

try:
    import PIL.Image
    import PIL.ImageOps
    import torch
    from torchvision import datasets
    from torchvision import transforms as T
except ImportError as error:
    raise unittest.SkipTest("needs torch and torchvision: %s" % error)

try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError:
    v2 = None

import dropin_case as case
import headrace

NORM = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH = 8
F32 = torch.float32


def five(crops):
    return torch.stack([T.ToTensor()(crop) for crop in crops])


def cut_out(tensor):
    """Writes into a window of the picture, as Cutout does."""
    tensor[:, 10:20, 5:25] = 0
    tensor[..., 30:40, 30:40].fill_(1)
    return tensor


def rows(text, names):
    """(jobs, steps) by name; four spaces go on with a row."""
    found = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        name, _, steps = line[2:].partition(": ")
        jobs = None if line[0] == "?" else int(line[0])
        found[name] = jobs, eval(f"[{steps}]", names)
    return found


def head(t=T, size=64):
    return [t.RandomResizedCrop(size), t.RandomHorizontalFlip()]


V1 = """
1 train: *head(), to_tensor, norm
1 eval: T.Resize(72), T.CenterCrop(64), to_tensor, norm
1 squash: T.Resize((64, 64)), to_tensor, norm
1 bicubic: T.RandomResizedCrop(64, interpolation=bicubic), to_tensor
1 nearest: T.Resize((50, 70), nearest), to_tensor
1 pil_to_tensor: *head(), T.PILToTensor()
1 convert_dtype: *head(), T.PILToTensor(), T.ConvertImageDtype(F32), norm
1 normalize in place: *head(), to_tensor, T.Normalize(*NORM, inplace=True)
1 random_crop: T.Resize((70, 70)), T.RandomCrop(64, padding=4), to_tensor
1 mirrored borders: T.Resize((70, 70)), T.RandomCrop(64, padding=4,
    padding_mode="reflect"), T.Pad((3, -2, 0, 5), padding_mode="edge"),
    to_tensor
1 centre of a small one: T.Resize((40, 50)), T.CenterCrop(64), to_tensor
2 five_crop: T.Resize(80), T.FiveCrop(64), T.Lambda(five)
1 grey: T.Grayscale(), T.Resize((64, 50)), to_tensor, T.Normalize(0.5, 2)
1 tensor flips: T.Resize((64, 50)), to_tensor, T.RandomHorizontalFlip(),
    T.RandomVerticalFlip()
1 lambda: *head(), to_tensor, T.Lambda(lambda x: x * 2 - 1)
1 half: *head(), to_tensor, norm, T.Lambda(lambda x: x.half())
1 bfloat16: *head(), to_tensor, norm, T.Lambda(lambda x: x.bfloat16())
1 double: *head(), to_tensor, T.Lambda(lambda x: x.double() / 3)
1 erasing: *head(), to_tensor, norm, T.RandomErasing()
? cut out: *head(), to_tensor, T.Lambda(cut_out)
1 rand_augment: *head(), T.RandAugment(), to_tensor
1 jitter: T.ColorJitter(0.4, 0.4, 0.4), *head(), to_tensor
? tensor resize: T.PILToTensor(), T.Resize((50, 60))
1 grey, three: T.Grayscale(3), *head(), to_tensor
1 rotation: *head(), T.RandomRotation(20), to_tensor
1 rotation, expanded: T.RandomRotation(20, expand=True, fill=(9, 0, 200)),
    T.RandomRotation(20, center=(3, 50)), *head(), to_tensor
"""


def v1_pipelines():
    bicubic = T.InterpolationMode.BICUBIC
    nearest = T.InterpolationMode.NEAREST
    to_tensor, norm = T.ToTensor(), T.Normalize(*NORM)
    return rows(V1, {**globals(), **locals()})


V2 = """
1 train: *crop, image, scale, norm
1 eval: v2.Resize(72), v2.CenterCrop(64), image, scale, norm
1 pure: *crop, image, scale, norm, pure
1 pil_to_tensor: *crop, v2.PILToTensor(), scale
1 to_tensor: *crop, v2.ToTensor(), norm
1 bytes: *crop, image
1 half: *crop, image, half, norm
1 by type: *crop, image, v2.ToDtype(by_type, scale=True)
1 in place: *crop, image, scale, v2.Normalize(*NORM, inplace=True)
1 convert_dtype: *crop, image, v2.ConvertImageDtype(F32)
1 jitter: v2.ColorJitter(0.4, 0.4), *crop, image, scale
1 image first: image, *head(v2), scale, norm
? image first, no antialias: image, v2.Resize((50, 60), antialias=False), scale
1 image first, no resize: image, v2.CenterCrop(48), v2.RandomHorizontalFlip(),
    scale
1 fill by type: *crop, image, v2.Pad(3, fill=fill), scale
1 mirrored borders: *crop, v2.Pad([4, 2], padding_mode="symmetric"), image,
    scale
1 random_choice: v2.RandomChoice([v2.Resize((64, 64)), crop[0]]), image, scale
"""


def v2_pipelines():
    scale = v2.ToDtype(F32, scale=True)
    norm, image = v2.Normalize(*NORM), v2.ToImage()
    crop, pure = head(v2), v2.ToPureTensor()
    by_type = {tv_tensors.Image: F32, "others": None}
    fill = {tv_tensors.Image: 127, "others": 0}
    half = v2.ToDtype(torch.float16, scale=True)
    return rows(V2, {**globals(), **locals()})


class Pipelines(case.Case):
    """How one pipeline is compared."""

    folder = ""
    batch = BATCH

    def loader(self, steps, **kwargs):
        data = datasets.ImageFolder(self.folder, T.Compose(steps))
        return torch.utils.data.DataLoader(
            data, self.batch, shuffle=True, num_workers=0, **kwargs
        )

    def check(self, jobs, steps, device=None):
        def run():
            return list(self.loader(steps))

        wanted = case.stock(run)
        found, report = case.ours(run, device)
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assert_same_tensor(one[0], other[0])
            self.assertTrue(torch.equal(one[1], other[1]))
        pictures = sum(len(batch[1]) for batch in wanted)
        self.assertGreaterEqual(report["totals"]["recorded"], pictures)
        self.assertNotIn("mended", report)
        self.assertNotIn("pillow", report)
        if jobs is None:
            self.assertTrue(report["materialised"])
        else:
            self.assertEqual(report["totals"]["jobs"], jobs * len(wanted))
            self.assertNotIn("materialised", report)
        return report


class Photos(Pipelines):
    """Photographs that the command makes, in every pipeline."""

    @classmethod
    def setUpClass(cls):
        cls.folder = case.Samples.photos()

    def all(self, pipelines):
        for name, (jobs, steps) in pipelines.items():
            with self.subTest(name):
                self.check(jobs, steps)

    def test_v1(self):
        self.all(v1_pipelines())

    @unittest.skipUnless(v2, "this torchvision has no transforms v2")
    def test_v2(self):
        self.all(v2_pipelines())

    @unittest.skipUnless(v2, "this torchvision has no transforms v2")
    def test_resize_of_floats_is_reported_once(self):
        report = self.check(*v2_pipelines()["image first, no antialias"])
        self.assertEqual(report["notes"]["resize_of_floats"], 1)
        self.assertEqual(str(report).count("antialias"), 1)

    def test_other_data_sets(self):
        """Any data set that opens pictures with Pillow records them."""

        def opened(path):
            return PIL.Image.open(path).convert("RGB")

        def from_bytes(path):
            with open(path, "rb") as file:
                return PIL.Image.open(io.BytesIO(file.read())).convert("RGB")

        def turned(path):  # as data sets of Hugging Face do
            image = PIL.Image.open(path)
            image.load()
            if image.getexif().get(0x112, 1) != 1:
                image = PIL.ImageOps.exif_transpose(image)
            return image.convert("RGB")

        def in_a_stream(path):  # as webdataset does
            with open(path, "rb") as file:
                data = file.read()
            with io.BytesIO(data) as stream:
                image = PIL.Image.open(stream)
                image.load()
            return image.convert("RGB")

        compose = T.Compose(v1_pipelines()["train"][1])
        paths = [path for path, _ in datasets.ImageFolder(self.folder).samples]
        for load in opened, from_bytes, turned, in_a_stream:
            with self.subTest(load.__name__):

                class Data(torch.utils.data.Dataset):
                    def __len__(self):
                        return len(paths)

                    def __getitem__(self, index, load=load):
                        return {"x": compose(load(paths[index])), "i": index}

                def run():
                    return list(torch.utils.data.DataLoader(Data(), BATCH))

                wanted = case.stock(run)
                found, report = case.ours(run)
                for one, other in zip(found, wanted):
                    self.assert_same_tensor(one["x"], other["x"])
                self.assertEqual(report["totals"]["jobs"], len(wanted))

    def test_devices(self):
        """Each that makes exact pictures makes the same ones."""
        steps = v1_pipelines()["train"][1]
        for device in headrace.devices():
            name = device["name"]
            with self.subTest(name):
                if not device["available"]:
                    self.skipTest("%s: %s" % (name, device["reason"]))
                if not device["exact"]:
                    self.skipTest("%s is not exact" % name)
                report = self.check(1, steps, name)
                text = " ".join(report["devices"])
                self.assertIn(device["backend"], text)

    def test_collate_functions_of_others(self):
        """Tensors that are taken one by one are made in groups."""

        def copy_one_by_one(batch):
            out = torch.empty(len(batch), *batch[0][0].shape)
            for index, (tensor, _) in enumerate(batch):
                out[index].copy_(tensor)
            return out

        def stack(batch):
            return torch.stack([tensor for tensor, _ in batch])

        def dictionary(batch):
            return {"x": torch.stack([tensor for tensor, _ in batch])}

        for how in (copy_one_by_one, stack, dictionary, list):
            with self.subTest(how.__name__):

                def run():
                    steps = v1_pipelines()["train"][1]
                    made = []
                    for batch in self.loader(steps, collate_fn=how):
                        if how is list:
                            batch = torch.stack([x + 0 for x, _ in batch])
                        if how is dictionary:
                            batch = batch["x"]
                        made.append(batch + 0)
                    return made

                wanted = case.stock(run)
                found, report = case.ours(run)
                for one, other in zip(found, wanted):
                    self.assert_same_tensor(one, other)
                self.assertEqual(report["totals"]["jobs"], len(wanted))

    def test_default_type_double(self):
        torch.set_default_dtype(torch.float64)
        try:
            self.check(1, [*head(), T.ToTensor()])
        finally:
            torch.set_default_dtype(torch.float32)

    def test_batches_do_not_share_memory(self):
        steps = [T.Resize((224, 224)), T.ToTensor()]

        def run():
            batches = []
            for batch, _ in self.loader(steps):
                batches.append(batch)
                batches.append(batch[1:3])
                del batches[:-1:4]
            return batches

        wanted = case.stock(run)
        found, _ = case.ours(run)
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assertTrue(torch.equal(one, other))


class Corpus(Pipelines):
    """The workload of record: 200 photographs of ImageNet."""

    batch = 50

    @classmethod
    def setUpClass(cls):
        photos = case.CORPUS / "photos/imagenet-sample"
        if not photos.is_dir():
            raise unittest.SkipTest("no corpus")
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = held.name
        os.mkdir(os.path.join(held.name, "a"))
        for path in photos.glob("*.JPEG"):
            os.symlink(path, os.path.join(held.name, "a", path.name))

    def test_v1(self):
        norm = T.Normalize(*NORM)
        self.check(1, [*head(T, 224), T.ToTensor(), norm])
        self.check(1, [T.Resize(256), T.CenterCrop(224), T.ToTensor(), norm])

    @unittest.skipUnless(v2, "this torchvision has no transforms v2")
    def test_v2(self):
        end = [v2.ToImage(), v2.ToDtype(F32, scale=True), v2.Normalize(*NORM)]
        self.check(1, [*head(v2, 224), *end])
        self.check(1, [v2.Resize(256), v2.CenterCrop(224), *end])
