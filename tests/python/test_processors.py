# SPDX-License-Identifier: Apache-2.0
"""headrace.transformers, and Hugging Face's processors with the drop-in: the
numbers of the real classes, bit for bit. (Releases: processors.txt.)
"""

import asyncio
import copy
import importlib.util
import io
import itertools
import json
import os
import pickle
import unittest
import unittest.mock
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import dropin_case as case
import headrace
import numpy
import torch
from headrace import _processors, ops
from headrace.transformers import Preprocess
from PIL import Image

IMAGENET = {"image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711]}


def size(h, w=None):
    return {"height": h, "width": h if w is None else w}


# As the models' preprocessor_config.json have them.
CONFIGS = {
    "vit": {"image_processor_type": "ViTImageProcessor", "resample": 2,
            "size": size(224), **HALF},
    "deit": {"feature_extractor_type": "DeiTFeatureExtractor", "size": 256,
             "resample": 3, "crop_size": 224, **IMAGENET},
    "swin": {"feature_extractor_type": "ViTFeatureExtractor", "size": 224,
             "resample": 3, **IMAGENET},
    "beit": {"image_processor_type": "BeitImageProcessor", "size": size(224),
             "resample": 2, "do_center_crop": False, **HALF},
    "beit-512": {"image_processor_type": "BeitImageProcessor",
                 "size": size(112, 160), "do_center_crop": True,
                 "crop_size": size(101, 99), "resample": 3, **IMAGENET},
    "clip": {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224,
             "crop_size": 224, "resample": 3, "do_center_crop": True, **CLIP},
    "clip-336": {"image_processor_type": "CLIPImageProcessor", "resample": 3,
                 "size": {"shortest_edge": 336}, "crop_size": size(336),
                 "do_convert_rgb": True, "rescale_factor": 0.00392156862745098,
                 **CLIP},
    "siglip": {"image_processor_type": "SiglipImageProcessor", "resample": 3,
               "size": size(384), "rescale_factor": 0.00392156862745098,
               **HALF},
    "dinov2": {"image_processor_type": "BitImageProcessor", "resample": 3,
               "size": {"shortest_edge": 256}, "crop_size": size(224),
               "do_convert_rgb": True, **IMAGENET},
    "convnext": {"image_processor_type": "ConvNextImageProcessor",
                 "size": {"shortest_edge": 224}, "crop_pct": 0.875,
                 "resample": 3, **IMAGENET},
    "convnext-384": {"image_processor_type": "ConvNextImageProcessor",
                     "size": {"shortest_edge": 384}, "resample": 3,
                     **IMAGENET},
    "bytes": {"image_processor_type": "CLIPImageProcessor", "resample": 2,
              "size": {"shortest_edge": 61}, "crop_size": size(60, 61),
              "do_rescale": False, "do_normalize": False},
}
BACKENDS = "torchvision", "pil"


def preprocess(name, **options):
    return Preprocess.from_config(CONFIGS[name], **options)


class Plans(unittest.TestCase):
    def test_ops(self):
        made = _processors.plan(CONFIGS["dinov2"])
        steps = made.steps()
        self.assertEqual(steps[:2], (
            ops.resize_short(256, filter="bicubic", order="torch"),
            ops.center_crop(224, 224, pad=True, down=True)))
        self.assertEqual(made.out, (224, 224))
        self.assertEqual(made.sizes((400, 301)),
                         ((340, 256), [(58, 16, 224, 224)]))
        self.assertEqual(
            _processors.plan(CONFIGS["convnext"], "pil").steps()[0],
            ops.resize_short(256, filter="bicubic"))

    def test_what_the_class_says(self):
        bare = _processors.plan({"image_processor_type": "CLIPImageProcessor"})
        self.assertEqual(bare, _processors.plan(CONFIGS["clip"]))
        named = {"image_processor_type": "ViTImageProcessorPil"}
        self.assertEqual(_processors.plan(named).backend, "pil")

    def test_null(self):
        """Is no, or nothing; not what the class says."""
        clip = CONFIGS["clip"]
        self.assertEqual(_processors.plan({**clip, "do_normalize": None}),
                         _processors.plan({**clip, "do_normalize": False}))
        for name in "size", "crop_size", "resample", "rescale_factor", (
                "image_mean"):
            with self.assertRaisesRegex(headrace.ArgumentError, name):
                _processors.plan({**clip, name: None})

    def test_refused_by_name(self):
        for name, more, backend in (
            ("image_processor_type", {"image_processor_type": "DetrX"}, None),
            ("image_processor_type",
             {"image_processor_type": "DetrImageProcessor"}, None),
            ("image_processor_type",
             {"image_processor_type": "Qwen2VLImageProcessor"}, None),
            ("image_processor_type",
             {"image_processor_type": "LlavaNextImageProcessorFast"}, None),
            ("do_pad", {"do_pad": True}, None),
            ("size", {"size": {"longest_edge": 5}}, None),
            ("size", {"size": {"shortest_edge": 5, "longest_edge": 9}}, None),
            ("size", {"size": size(0)}, None),
            ("size", {"size": "224"}, None),
            ("size", {"size": True}, None),
            ("crop_size", {"crop_size": 224.0}, None),
            ("rescale_factor", {"do_normalize": False, "rescale_factor": 1},
             None),
            ("resample", {"resample": 0}, None),
            ("resample", {"resample": 4}, "torchvision"),
            ("resample", {"resample": 6}, "pil"),
            ("crop_size", {"crop_size": {"height": 5}}, None),
            ("crop_size", {"crop_size": size(225)}, "pil"),
            ("image_mean", {"image_mean": [1, 2]}, None),
            ("image_std", {"image_std": [1, 0, 1]}, None),
            ("rescale_factor", {"rescale_factor": 0}, None),
            ("data_format", {"data_format": "channels_last"}, None),
            ("device", {"device": "cuda"}, None),
            ("do_resize", {"do_resize": False, "do_center_crop": False},
             None),
            ("backend", {}, "numpy"),
        ):
            with self.subTest(name=name, more=more):
                with self.assertRaisesRegex(headrace.ArgumentError, name):
                    Preprocess.from_config({**CONFIGS["clip"], **more},
                                           backend=backend)

    def test_halves_are_rounded_down(self):
        pixels = headrace.Pixels(6, 5, 1, data=bytes(range(30)))
        for down, first in ((True, 1), (False, 2)):
            op = ops.center_crop(3, 5, down=down)
            out = headrace.Batch(1, 1, 5, 3, "u8")
            headrace.submit([(pixels, (op,))], out).wait()
            self.assertEqual(bytes(out)[0], first)


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.paths = [str(p) for p in
                     case.pathlib.Path(case.Samples.photos()).rglob("*.jpg")]
        cls.paths = sorted(cls.paths)[:4]
        cls.bad = str(case.Samples.bad()[0])

    def test_sources(self):
        make = preprocess("clip", upright=False)
        want = make(self.paths)["pixel_values"]
        self.assertEqual(tuple(want.shape), (4, 3, 224, 224))
        self.assertEqual(want.dtype, torch.float32)
        found = make([open(p, "rb").read() for p in self.paths])
        self.assertTrue(torch.equal(found["pixel_values"], want))
        self.assertEqual(dict(found).keys(), {"pixel_values"})
        self.assertEqual(found.ok, [True] * 4)
        for on in False, True:
            if on:
                headrace.set_image_backend("cpu")
            try:
                pictures = [Image.open(p) for p in self.paths]
                found = make(pictures)
            finally:
                headrace.reset_image_backend()
            self.assertTrue(torch.equal(found["pixel_values"], want))
        one = make(self.paths[0], return_tensors="pt")
        self.assertTrue(torch.equal(one["pixel_values"], want[:1]))
        with self.assertRaisesRegex(headrace.ArgumentError, "return_tensors"):
            make(self.paths, return_tensors="np")

    def test_errors(self):
        make = preprocess("vit")
        pictures = [self.paths[0], self.bad, "/not/there.jpg"]
        found = make(pictures, on_error="zero")
        self.assertEqual(found.ok, [True, False, False])
        self.assertIn(self.bad, found.errors[1])
        self.assertIn("/not/there.jpg", found.errors[2])
        self.assertFalse(found["pixel_values"][1:].any())
        with self.assertRaises(headrace.PictureError) as caught:
            make(pictures)
        self.assertEqual(caught.exception.file, self.bad)
        self.assertTrue(caught.exception.stage)
        with self.assertRaises(FileNotFoundError):
            make(pictures[2:])
        with self.assertRaisesRegex(headrace.ArgumentError, "on_error"):
            make(pictures, on_error="skip")

    def test_memory_is_used_again(self):
        """When no tensor has it; a picture that failed leaves zeros in it."""
        from headrace import _memory

        _memory.clear()
        make = preprocess("vit")
        want = make(self.paths)
        kept = want["pixel_values"].clone()
        other = make(self.paths[:1] * 4)["pixel_values"]
        self.assertNotEqual(other.data_ptr(), want["pixel_values"].data_ptr())
        place = other.data_ptr()
        del other
        again = make([*self.paths[:3], self.bad], on_error="zero")
        self.assertEqual(again["pixel_values"].data_ptr(), place)
        self.assertTrue(torch.equal(again["pixel_values"][:3], kept[:3]))
        self.assertFalse(again["pixel_values"][3].any())
        self.assertEqual(len(_memory._blocks), 2)
        self.assertTrue(torch.equal(want["pixel_values"], kept))

    def test_an_array_needs_no_torch(self):
        make, want = preprocess("vit"), preprocess("vit")(self.paths)
        with unittest.mock.patch.dict("sys.modules", torch=None):
            found = make.submit(self.paths).numpy()
        self.assertTrue((found == want.pixel_values.numpy()).all())

    def test_features(self):
        """As a BatchFeature: attributes, and pickled with the values."""
        found = preprocess("vit")([self.paths[0], self.bad], on_error="zero")
        self.assertIs(found.pixel_values, found["pixel_values"])
        self.assertFalse(hasattr(found, "input_ids"))
        for made in (pickle.loads(pickle.dumps(found)), copy.copy(found)):
            self.assertIs(type(made), type(found))
            self.assertTrue(torch.equal(made.pixel_values, found.pixel_values))
            self.assertEqual(made.ok, [True, False])
            self.assertEqual(made.errors, found.errors)

    def test_file_and_pickle(self):
        folder = case.made_samples.scratch()
        for name, text in (
            ("preprocessor_config.json", CONFIGS["clip"]),
            ("processor_config.json", {"image_processor": CONFIGS["clip"]}),
        ):
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                json.dump(text, file)
            make = Preprocess.from_config(path)
            again = pickle.loads(pickle.dumps(make))
            self.assertEqual(again.backend, "torchvision")
            self.assertTrue(torch.equal(
                again(self.paths)["pixel_values"],
                preprocess("clip")(self.paths)["pixel_values"]))
        self.assertEqual(Preprocess.from_config(folder).shape, make.shape)

    def test_asyncio(self):
        # A budget of less than two batches: the second one waits.
        make = preprocess("siglip", device="cpu", threads=1, budget=4 << 20)
        want = make(self.paths[:1])["pixel_values"]

        async def all_of_them():
            return await asyncio.gather(
                *(make.run(self.paths[:1]) for _ in range(12)))

        for found in asyncio.run(all_of_them()):
            self.assertTrue(torch.equal(found["pixel_values"], want))

        async def failing():
            with self.assertRaises(headrace.PictureError):
                await make.run([self.bad])
            found = await make.run([self.bad], on_error="zero")
            return found.ok

        self.assertEqual(asyncio.run(failing()), [False])


def is_small(path):
    """Not a header that promises gigabytes."""
    try:
        info = headrace.probe(path)
    except headrace.Error:
        return os.path.getsize(path) > 0 and "bomb" not in path.name
    return info.width * info.height < 1 << 22


def real(name, backend):
    """The class of transformers, as AutoImageProcessor would make it."""
    import transformers

    config = CONFIGS[name]
    kind = _processors.family(config.get("image_processor_type")
                              or config["feature_extractor_type"])
    ending = "ImageProcessor" + ("Pil" if backend == "pil" else "")
    made = getattr(transformers, kind + ending)
    return made.from_dict(config)


@unittest.skipUnless(importlib.util.find_spec("transformers"),
                     "needs transformers")
class Real(case.Case):
    @classmethod
    def setUpClass(cls):
        photos = case.pathlib.Path(case.Samples.photos())
        cls.paths = [str(path) for path in sorted(photos.rglob("*.jp*g"))
                     if headrace.probe(path).components == 3][:5]

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def with_dropin(self, run):
        with headrace.image_backend("cpu"):
            headrace.dropin.report(reset=True)
            return run(), headrace.report()

    def test_preprocess(self):
        for name, backend in itertools.product(CONFIGS, BACKENDS):
            want = real(name, backend)(self.paths, return_tensors="pt")
            found = preprocess(name, backend=backend)(self.paths)
            self.assert_same_tensor(found["pixel_values"],
                                    want["pixel_values"], name)

    def test_transparent(self):
        """Pictures of Pillow; what is transparent is white."""
        picture = Image.open(self.paths[0]).convert("RGBA")
        picture.putalpha(picture.getchannel("G"))
        for x in picture, picture.convert("LA"):
            for backend in BACKENDS:
                want = real("clip", backend)([x], return_tensors="pt")
                found = preprocess("clip", backend=backend)(x)
                self.assert_same_tensor(found["pixel_values"],
                                        want["pixel_values"], x.mode)

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
        import transformers

        for name, jobs in (("Qwen2VL", len(self.paths)), ("LlavaNext", None),
                           ("Llava", 1), ("Detr", None)):
            kind = getattr(transformers, name + "ImageProcessor")
            for opened in (Image.open, str):
                def run():
                    x = list(map(opened, self.paths))
                    return kind()(x, return_tensors="pt")

                want = run()
                found, report = self.with_dropin(run)
                self.assertEqual(found.keys(), want.keys())
                for key in want:
                    self.assert_same_tensor(found[key], want[key], name)
                self.assertNotIn("pillow", report)
                self.assertEqual(report["totals"]["recorded"],
                                 len(self.paths))
                if jobs:
                    self.assertEqual(report["totals"]["jobs"], jobs)

    def test_steps_of_a_loader(self):
        """Also in a worker; and what a step raises is raised."""
        import transformers
        from torch.utils.data import DataLoader

        processor = transformers.Qwen2VLImageProcessor()

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return len(Real.paths)

            def __getitem__(self, index):
                return dict(processor(Image.open(Real.paths[index]),
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
        for kind in "Qwen2VL", "LlavaNext", "Siglip", "CLIP":
            processor = getattr(transformers, kind + "ImageProcessor")()

            def run():
                held = [Held(data) for data in files]
                x = [each.media if each.media.mode == "RGB" else
                     each.media.convert("RGB") for each in held]
                return processor(images=x, return_tensors="pt")

            want = run()
            found, report = self.with_dropin(run)
            for key in want:
                self.assert_same_tensor(found[key], want[key], kind)
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
                return len(Real.paths)

            def __getitem__(self, index):
                x = Image.open(Real.paths[index])
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

        ways = {
            "set_transform": lambda: data.with_transform(transform),
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
