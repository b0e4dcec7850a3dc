# SPDX-License-Identifier: Apache-2.0
"""headrace.transformers: the numbers of the real classes, bit for bit.

(Releases: processors.txt.)
"""

import asyncio
import copy
import itertools
import json
import os
import pickle
import unittest
import unittest.mock

import dropin_case as case
import headrace
import torch
from headrace import _processors, ops
from headrace.transformers import Preprocess
from PIL import Image
from processor_case import BACKENDS, CONFIGS, Real, preprocess, real, size


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

    def test_sources_of_columns(self):
        """None and mappings, as submit() says; a mapping alone is one."""
        make, path = preprocess("vit"), self.paths[0]
        want = make([path])["pixel_values"]
        with open(path, "rb") as file:
            data = file.read()
        column = [{"bytes": data, "path": None}, None, {"path": path}]
        found = make(column, on_error="zero")
        self.assertEqual(found.ok, [True, False, True])
        for i in 0, 2:
            self.assertTrue(torch.equal(found["pixel_values"][i], want[0]))
        self.assertTrue(torch.equal(make(column[0])["pixel_values"], want))

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork()")
    def test_a_child_has_what_its_parent_waited_for(self):
        make = preprocess("vit", device="cpu", threads=1)
        done, features = make.submit(self.paths).wait(), make(self.paths)
        last = make.submit(self.paths)

        def holds():
            with self.assertRaises(headrace.DeviceError):
                last.torch()
            return (done.ok == features.ok == [True] * 4
                    and done.errors == features.errors == {}
                    and torch.equal(done.torch(), features.pixel_values)
                    and (done.numpy() == done.torch().numpy()).all())

        pid = os.fork()
        if not pid:
            os._exit(case.outcome(lambda: bool(holds())) is not True)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        last.wait()

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


class Numbers(Real):
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


if __name__ == "__main__":
    unittest.main()
