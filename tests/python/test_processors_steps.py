# SPDX-License-Identifier: Apache-2.0
"""Image processors that have steps of their own, with the drop-in, and programs
that call them: loaders, servers, datasets. (Releases: processors.txt.)
"""

import importlib.util
import io
import itertools
import unittest

import dropin_case as case
import numpy
import torch
from PIL import Image
from processor_case import Real, real


class Steps(Real):
    def test_a_step_of_its_own(self):
        import transformers

        class Mine(transformers.CLIPImageProcessor):
            def rescale_and_normalize(self, images, *args):
                return super().rescale_and_normalize(images, *args) + 1

        processor = Mine()

        def run():
            x = [Image.open(p) for p in self.paths]
            return processor(x, return_tensors="pt")["pixel_values"]

        want = run()
        found, report = self.with_dropin(run)
        self.assert_same_tensor(found, want, "Mine")
        self.assertEqual(report["devices"], {"cpu": len(self.paths)})
        self.assertEqual(report["totals"]["jobs"], 1)

    def test_steps_of_other_classes(self):
        """They run as they are, on tensors that record: resizes and more."""
        self.steps(("Qwen2VL", len(self.paths)), ("LlavaNext", None),
                   ("Llava", 1), ("Detr", None))

    def test_pieces(self):
        """Backend pil: one job for all pieces of one size."""
        self.steps(("Qwen2VL", None), ("LlavaNext", 1), ending="Pil")

    def steps(self, *kinds, ending=""):
        import transformers

        for name, jobs in kinds:
            kind = getattr(transformers, name + "ImageProcessor" + ending)
            for opened in (Image.open, str):
                def run():
                    x = list(map(opened, self.paths))
                    return kind()(x, return_tensors="pt")

                report = self.same(run, name)
                self.assertNotIn("pillow", report)
                self.assertEqual(report["totals"]["recorded"],
                                 len(self.paths))
                if jobs:
                    self.assertEqual(report["totals"]["jobs"], jobs)

    def same(self, run, text):
        """Compares all that a processor returns; returns the report."""
        want = run()
        found, report = self.with_dropin(run)
        self.assertIs(type(found), type(want), text)
        self.assertEqual(list(found), list(want), text)
        for key in want:
            self.assertIs(type(found[key]), type(want[key]), text)
            pairs = zip(found[key], want[key], strict=True)
            if isinstance(want[key], torch.Tensor):
                pairs = [(found[key], want[key])]
            for one, other in pairs:
                if isinstance(other, torch.Tensor):
                    self.assert_same_tensor(one, other, text)
                elif isinstance(other, numpy.ndarray):
                    self.assertEqual(one.dtype, other.dtype, text)
                    self.assertEqual(one.strides, other.strides, text)
                    self.assertTrue(numpy.array_equal(one, other), text)
                else:
                    self.assertEqual(one, other, text)
        return report

    def test_arguments_of_pieces(self):
        """All that a config may ask of them, or stock does it."""
        import transformers

        size = {"shortest_edge": 60 * 60, "longest_edge": 200 * 200}
        grid = [[112, 224], [224, 112], [300, 200]]
        small = {"height": 112, "width": 96}
        numbers = ({"do_rescale": False}, {"do_normalize": False},
                   {"do_rescale": False, "do_normalize": False},
                   {"resample": 2}, {"image_std": [0.1, 0.2, 0.3]},
                   {"rescale_factor": 0.01}, {"return_tensors": "np"},
                   {"return_tensors": None}, {"do_convert_rgb": False})
        for name, more in (
            ("Qwen2VL", (
                {}, {"patch_size": 7}, {"merge_size": 1},
                {"temporal_patch_size": 1}, {"do_resize": False},
                {"size": {"shortest_edge": 9, "longest_edge": None}},
                {"min_pixels": 900, "max_pixels": 1 << 14}, *numbers)),
            ("LlavaNext", (
                {}, {"size": small}, {"size": {"shortest_edge": 30}},
                {"crop_size": {"height": 100, "width": 80}},
                {"crop_size": {"height": 300, "width": 300}},
                {"do_center_crop": False}, {"do_resize": False},
                {"do_resize": False, "do_center_crop": False},
                {"image_grid_pinpoints": [[97, 201]]},
                {"image_grid_pinpoints": grid}, {"do_pad": False},
                *numbers)),
        ):
            kind = getattr(transformers, name + "ImageProcessorPil")
            made = kind(size=size) if name == "Qwen2VL" else kind()
            for each in more:
                def run():
                    x = [Image.open(p) for p in self.paths[:3]]
                    x[0] = x[0].resize((280, 280))
                    x += [x[0].crop((0, 0, 200, 97))]
                    how = {"return_tensors": "pt", **each}
                    try:
                        return made(x, **how)
                    except Exception as error:
                        return {"error": [str(error)]}

                with self.subTest(name, more=each):
                    report = self.same(run, each)
                    if not each or each in numbers:
                        self.assertNotIn("pillow", report)

    def test_damaged_among_pieces(self):
        """The call raises what stock's raises, also in a loader."""
        import transformers
        from torch.utils.data import DataLoader

        data = open(self.paths[0], "rb").read()
        tables = b"\xff\xc4\0\x13\0" + b"\xff" * 16  # of no Huffman code
        bad = data[:len(data) // 2], data[:len(data) // 2] + tables + data[-2:]
        for name in "Qwen2VL", "LlavaNext":
            processor = getattr(transformers, name + "ImageProcessorPil")()
            for each in bad:
                class Data(torch.utils.data.Dataset):
                    def __len__(self):
                        return 1

                    def __getitem__(_, index):
                        x = [Image.open(self.paths[1]),
                             Image.open(io.BytesIO(each))]
                        return dict(processor(x, return_tensors="pt"))

                for run in (lambda: Data()[0], lambda: next(iter(
                        DataLoader(Data(), None)))):
                    want = case.outcome(run)
                    found, _ = self.with_dropin(lambda: case.outcome(run))
                    if isinstance(want, dict):
                        self.same(run, name)
                    else:
                        self.assertEqual(found, want)

    def test_steps_of_a_loader(self):
        """Also in a worker; and what a step raises is raised."""
        import transformers
        from torch.utils.data import DataLoader

        processor = transformers.Qwen2VLImageProcessor()

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return len(Steps.paths)

            def __getitem__(self, index):
                return dict(processor(Image.open(Steps.paths[index]),
                                      return_tensors="pt"))

        def run(workers):
            return list(DataLoader(Data(), batch_size=None,
                                   num_workers=workers))

        want = run(0)
        for workers in 0, 1:
            found, _ = self.with_dropin(lambda: run(workers))
            for one, other in zip(found, want, strict=True):
                for key in other:
                    self.assert_same_tensor(one[key], other[key], key)

        def narrow():
            return processor(Image.open(self.paths[0]).resize((900, 4)))

        want = case.outcome(narrow)
        self.assertIn("aspect ratio", want[1])
        found, _ = self.with_dropin(lambda: case.outcome(narrow))
        self.assertEqual(found, want)

    def test_as_servers_call(self):
        """vLLM and SGLang open bytes and give pictures, all in one call."""
        import transformers

        class Held:  # what vLLM gives its parts of a program
            def __init__(self, data):
                self.data = data
                self.media = Image.open(io.BytesIO(data))

        files = [open(path, "rb").read() for path in self.paths]
        kinds = "Qwen2VL", "LlavaNext", "Siglip", "CLIP"
        for kind, ending in itertools.product(kinds, ("", "Pil")):
            name = kind + "ImageProcessor" + ending
            processor = getattr(transformers, name)()

            def run():
                held = [Held(data) for data in files]
                x = [each.media if each.media.mode == "RGB" else
                     each.media.convert("RGB") for each in held]
                return processor(images=x, return_tensors="pt")

            report = self.same(run, name)
            self.assertEqual(report["totals"]["recorded"], len(files))
            self.assertNotIn("pillow", report)

    def test_pictures_that_no_job_makes(self):
        """They stand beside others, in one call."""
        import transformers

        processor = transformers.Qwen2VLImageProcessor()

        def run():
            with Image.open(self.paths[0]) as first:
                given = [first, first.convert("L"), first.convert("RGBA"),
                         numpy.array(first)]
                return processor(given, return_tensors="pt")["pixel_values"]

        want = run()
        found, report = self.with_dropin(run)
        self.assert_same_tensor(found, want)
        self.assertEqual(list(report["pillow"]), ["a processor: "
                         "a picture that is not recorded"])

    @unittest.skipUnless(importlib.util.find_spec("datasets"),
                         "needs datasets")
    def test_datasets(self):
        import datasets
        from torch.utils.data import DataLoader

        processor = real("vit", "torchvision")
        data = datasets.Dataset.from_dict({"image": self.paths}).cast_column(
            "image", datasets.Image())

        def transform(examples):
            return processor(examples["image"], return_tensors="pt")

        def with_set_transform():
            own = data.select(range(len(data)))
            own.set_transform(transform)
            return own

        ways = {
            "set_transform": with_set_transform,
            "with_transform": lambda: data.with_transform(transform),
            "map": lambda: data.map(
                transform, batched=True, remove_columns=["image"],
                load_from_cache_file=False).with_format("torch"),
        }
        for name, way in ways.items():
            def run():
                loader = DataLoader(way(), batch_size=2)
                return torch.cat([x["pixel_values"] for x in loader])

            want = run()
            found, report = self.with_dropin(run)
            self.assert_same_tensor(found, want, name)
            self.assertEqual(report["devices"], {"cpu": len(self.paths)})


if __name__ == "__main__":
    unittest.main()
