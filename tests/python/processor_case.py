# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of image processors: configs, and the real classes."""

import importlib.util
import os
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import dropin_case
import headrace
from headrace import _processors
from headrace.transformers import Preprocess

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
class Real(dropin_case.Case):
    """Some photographs, for tests of the classes of transformers."""

    @classmethod
    def setUpClass(cls):
        photos = dropin_case.pathlib.Path(dropin_case.Samples.photos())
        cls.paths = [str(path) for path in sorted(photos.rglob("*.jp*g"))
                     if headrace.probe(path).components == 3][:5]

    def tearDown(self):
        headrace.reset_image_backend()
        super().tearDown()

    def with_dropin(self, run):
        with headrace.image_backend("cpu"):
            headrace.dropin.report(reset=True)
            return run(), headrace.report()
