# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's image processors with the drop-in: the results of stock.

(Releases: processors.txt. Classes with other steps: test_processors_steps.py.)
"""

import io
import itertools
import os
import unittest
import unittest.mock
import warnings

import dropin_case as case
import headrace
import numpy
import torch
from headrace import _processors
from PIL import Image
from processor_case import BACKENDS, CONFIGS, Real, real, size


def is_small(path):
    """Not a header that promises gigabytes."""
    try:
        info = headrace.probe(path)
    except headrace.Error:
        return os.path.getsize(path) > 0 and "bomb" not in path.name
    return info.width * info.height < 1 << 22


class Dropin(Real):
    def test_dropin(self):
        n = len(self.paths)
        for name, backend in itertools.product(CONFIGS, BACKENDS):
            processor = real(name, backend)
            for opened in (Image.open, str):
                def run():
                    x = list(map(opened, self.paths))
                    return processor(x, return_tensors="pt")["pixel_values"]

                want = run()
                found, report = self.with_dropin(run)
                self.assert_same_tensor(found, want, name)
                self.assertEqual(report["devices"], {"cpu": n})
                self.assertEqual(report["totals"]["jobs"], 1)
                self.assertNotIn("pillow", report)
                self.assertNotIn("materialised", report)

    def test_kinds_of_files(self):
        """All kinds: also turned, grey and broken files, and stock's own."""
        paths = [path for path in case.Samples.kinds() + case.Samples.bad()
                 if is_small(path)]
        # (A shorter side would be gigabytes of a very long picture.)
        asked = [(opened, str(path)) for path in paths
                 for opened in (Image.open, str)]
        for backend in BACKENDS:
            processor = real("deit", backend)

            def one(opened, path):
                x = opened(path)
                return processor(x, return_tensors="pt")["pixel_values"]

            def run():
                return [case.outcome(lambda: one(*each)) for each in asked]

            wanted = run()
            found, _ = self.with_dropin(run)
            for want, have, each in zip(wanted, found, asked):
                if isinstance(want, torch.Tensor):
                    self.assert_same_tensor(have, want, str(each))
                else:
                    self.assertEqual(have, want, each)

    def test_what_it_returns(self):
        for backend in BACKENDS:
            processor = real("dinov2", backend)
            for how in ("pt", "np", None):
                def run():
                    x = [Image.open(p) for p in self.paths]
                    return processor(x, return_tensors=how)["pixel_values"]

                want = run()
                found, _ = self.with_dropin(run)
                self.assertIs(type(found), type(want))
                for one, other in zip(found, want):
                    self.assertIs(type(one), type(other))
                    self.assertEqual(one.shape, other.shape)
                    self.assertTrue(numpy.array_equal(one, other))

    def test_files_are_decoded_once(self):
        """In a call the job checks them, and they are as after load()."""
        from headrace.dropin.pillow import files

        for backend in BACKENDS:
            processor = real("clip", backend)

            def run():
                x = [Image.open(p) for p in self.paths[:3]]
                with unittest.mock.patch.object(files, "checked",
                                                side_effect=AssertionError):
                    made = processor([*x, x[0]], return_tensors="pt")
                state = [(p.fp, p.tile, case.facts(p)) for p in x]
                return made["pixel_values"], state

            want = run()
            found, report = self.with_dropin(run)
            self.assert_same_tensor(found[0], want[0], backend)
            self.assertEqual(found[1], want[1])
            self.assertNotIn("pillow", report)
            self.assertEqual(report["totals"]["recorded"], 3)

    def test_damaged_among_others(self):
        """The call raises what stock's raises, and leaves what it leaves."""
        data = open(self.paths[0], "rb").read()
        tables = b"\xff\xc4\0\x13\0" + b"\xff" * 16  # of no Huffman code
        bad = {"cut": data[:len(data) // 2],
               "broken": data[:len(data) // 2] + tables + data[-2:],
               "mended": data[:-2000] + bytes(1998) + data[-2:]}
        for name, backend in itertools.product(bad, BACKENDS):
            processor = real("vit", backend)

            def run():
                x = [Image.open(self.paths[1]),
                     Image.open(io.BytesIO(bad[name])),
                     Image.open(self.paths[2])]
                made = case.outcome(lambda: processor(
                    x, return_tensors="pt")["pixel_values"])
                after = [case.outcome(lambda: see(p.convert("L")))
                         for p in x for see in (lambda y: y.size, case.facts)]
                return made, after

            want = run()
            found, _ = self.with_dropin(run)
            if isinstance(want[0], torch.Tensor):
                self.assert_same_tensor(found[0], want[0], name)
            else:
                self.assertEqual(found[0], want[0], (name, backend))
            self.assertEqual(found[1], want[1], (name, backend))

    def test_warnings(self):
        """torchvision's warnings stay: its decoder of paths is deprecated."""
        processor = real("vit", "torchvision")

        def run():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                processor(self.paths[:2], return_tensors="pt")
            return [(x.category, str(x.message)) for x in caught]

        want = run()
        found, report = self.with_dropin(run)
        self.assertEqual(found, want)
        self.assertEqual(report["totals"]["recorded"], 2)

    def test_reasons_are_few(self):
        processor = real("vit", "pil")

        def run():
            for long in range(50, 60):
                processor(Image.open(self.paths[0]), return_tensors="pt",
                          size={"longest_edge": long, "shortest_edge": 40})

        _, report = self.with_dropin(run)
        self.assertEqual(list(report["pillow"]), [
            "a processor: size: it must have height and width, or"
            " shortest_edge alone"])

    def test_what_fails_is_counted(self):
        """A fault of ours leaves the call to stock, and the report says so."""
        with unittest.mock.patch.object(
                _processors, "planned", side_effect=KeyError("size")):
            _, report = self.with_dropin(lambda: real("vit", "torchvision")(
                Image.open(self.paths[0]), size=size(31, 33)))
        self.assertEqual(report["pillow"]["a processor: KeyError"], 1)

    def test_lists_have_memory_of_their_own(self):
        processor = real("vit", "torchvision")
        with headrace.image_backend("cpu"):
            made = processor([Image.open(p) for p in self.paths])
        for each in made["pixel_values"]:
            self.assertEqual(each.untyped_storage().nbytes(),
                             each.numel() * each.element_size())

    def test_lists_beside_pictures(self):
        """Stock says that it is no list of pictures."""
        for backend in BACKENDS:
            processor = real("vit", backend)

            def run(nested):
                x = [Image.open(p) for p in self.paths[:3]]
                x = [[x[0]], [], x[1:]] if nested else [x[:1], *x[1:]]
                return processor(x, return_tensors="pt")["pixel_values"]

            want = run(True)
            found, report = self.with_dropin(lambda: run(True))
            self.assert_same_tensor(found, want, "nested")
            self.assertNotIn("pillow", report)
            with headrace.image_backend("cpu"):
                with self.assertRaisesRegex(ValueError, "flat list"):
                    run(False)

    def test_stacks(self):
        """A list of them is one of pictures, one among pictures is none."""
        processor = real("bytes", "torchvision")

        class Set(torch.utils.data.Dataset):
            def __len__(self):
                return 1

            def __getitem__(_, index):
                x = [torchvision.io.decode_image(self.paths[0])
                     for _ in range(3)]
                y = torch.stack(x)
                given = [y, y] if self.alike else [x[0], y]
                return processor(given, return_tensors="pt")["pixel_values"]

        import torchvision

        def run():
            return list(torch.utils.data.DataLoader(Set(), batch_size=None))

        self.alike = True
        self.assert_same_tensor(self.with_dropin(run)[0][0], run()[0])
        self.alike = False
        want = case.outcome(run)
        self.assertNotIsInstance(want, list)
        self.assertEqual(self.with_dropin(lambda: case.outcome(run))[0], want)

    def test_other_numbers(self):
        """Numbers of another dtype, a whole factor, a user's own class."""
        import transformers

        class Mine(transformers.CLIPImageProcessor):
            def _fuse_mean_std_and_rescale_factor(self, **how):
                mean, *others = super()._fuse_mean_std_and_rescale_factor(
                    **how)
                return mean * 0, *others

        clip = transformers.CLIPImageProcessor
        for make, dtype in (
            (clip, torch.float64), (Mine, torch.float32),
            (lambda: clip(do_normalize=False, rescale_factor=1.0),
             torch.float32),
            (lambda: clip(do_normalize=False, rescale_factor=1),
             torch.float32),
        ):
            def run():
                x = [Image.open(p) for p in self.paths[:2]]
                return make()(x, return_tensors="pt")["pixel_values"]

            torch.set_default_dtype(dtype)
            try:
                want = run()
                found, _ = self.with_dropin(run)
            finally:
                torch.set_default_dtype(torch.float32)
            self.assert_same_tensor(found, want)

    def test_other_arguments(self):
        processor = real("vit", "torchvision")
        for more in ({"size": size(96, 130)}, {"do_normalize": False},
                     {"do_rescale": False}, {"do_resize": False},
                     {"image_mean": [0.1, 0.2, 0.3]}, {"resample": 3},
                     {"do_center_crop": True, "crop_size": size(99, 301)}):
            def run():
                x = [Image.open(p) for p in self.paths[:1]]
                return processor(x, return_tensors="pt", **more)[
                    "pixel_values"]

            want = run()
            found, _ = self.with_dropin(run)
            self.assert_same_tensor(found, want, str(more))

    def test_in_a_loader(self):
        """One job for each batch, also where a sample is processed alone."""
        from torch.utils.data import DataLoader, Dataset

        processor = real("clip", "torchvision")

        class Data(Dataset):
            def __len__(self):
                return len(Dropin.paths)

            def __getitem__(self, index):
                x = Image.open(Dropin.paths[index])
                return processor(x, return_tensors="pt")["pixel_values"][0]

        def run(workers):
            loader = DataLoader(Data(), batch_size=len(self.paths),
                                num_workers=workers)
            return torch.cat([x.clone() for x in loader])

        want = run(0)
        for workers in 0, 2:
            found, report = self.with_dropin(lambda: run(workers))
            self.assert_same_tensor(found, want, f"{workers} workers")
            self.assertEqual(report["totals"]["jobs"], 1)
            self.assertNotIn("materialised", report)

    def test_values_of_a_batch(self):
        """Parts of what a processor returns are made together, too."""
        processor = real("clip", "torchvision")

        def run():
            made = [processor(Image.open(path), return_tensors="pt")[
                "pixel_values"][0] for path in self.paths]
            return [x.numpy() for x in made]

        want = run()
        found, report = self.with_dropin(lambda: case.in_fetch(run))
        self.assertTrue(all(map(numpy.array_equal, found, want)))
        self.assertEqual(report["totals"]["jobs"], 1)


if __name__ == "__main__":
    unittest.main()
