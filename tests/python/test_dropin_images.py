# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms of tensors: stock against recorded, op by op.

Each row says what is done to a picture that became a tensor at once, and
whether it is recorded (None: some are). Values, strides and errors are stock's
either way.
"""

import copy
import io
import threading

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import KINDS, in_fetch, on
from headrace import dropin
from headrace.dropin.torch import tensor
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.transforms import functional as F

try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F2
except ImportError:  # before 0.16
    v2 = F2 = None

BICUBIC = T.InterpolationMode.BICUBIC
LANCZOS = T.InterpolationMode.LANCZOS
NEAREST = T.InterpolationMode.NEAREST


def rows_of_both(f):
    """(recorded, how) by name, of v1 and v2. The picture: 90 x 80."""
    return {
        "crop": (True, lambda x: f.crop(x, 3, 4, 50, 60)),
        "crop over left, top": (True, lambda x: f.crop(x, -3, -4, 50, 60)),
        "crop over right": (True, lambda x: f.crop(x, 3, 70, 50, 60)),
        "crop over bottom": (True, lambda x: f.crop(x, 60, 4, 50, 60)),
        "crop over all": (True, lambda x: f.crop(x, -9, -9, 150, 160)),
        "crop over left and right": (
            True, lambda x: f.crop(x, 9, -1, 15, 160)),
        "crop outside": (False, lambda x: f.crop(x, 200, 200, 15, 16)),
        "crop of a crop": (
            True, lambda x: f.crop(f.crop(x, 3, 4, 50, 60), -1, 9, 40, 60)),
        "pad": (True, lambda x: f.pad(x, 3)),
        "pad two": (True, lambda x: f.pad(x, [3, 0], fill=255)),
        "pad four": (True, lambda x: f.pad(x, (0, 1, 2, 3), fill=7.0)),
        "pad one side": (True, lambda x: f.pad(x, [0, 1, 0, 0])),
        "pad a crop": (
            True, lambda x: f.pad(f.crop(x, 3, 4, 50, 60), [1, 2, 3, 4])),
        "pad by none": (False, lambda x: f.pad(x, 0)),
        "pad, fraction": (False, lambda x: f.pad(x, 2, fill=7.5)),
        "pad edge": (True, lambda x: f.pad(x, 2, padding_mode="edge")),
        "pad edge, far": (
            True, lambda x: f.pad(x, [0, 400, 3, 0], 9, "edge")),
        "pad reflect": (
            True, lambda x: f.pad(x, [2, 79], padding_mode="reflect")),
        "pad reflect, over": (
            None, lambda x: f.pad(x, [0, 100], padding_mode="reflect")),
        "pad symmetric": (
            True, lambda x: f.pad(x, [3, 0], padding_mode="symmetric")),
        "pad symmetric, a crop": (
            True, lambda x: f.pad(
                f.crop(x, 3, 4, 1, 60), 1, padding_mode="symmetric")),
        "pad reflect, a line": (
            None, lambda x: f.pad(
                f.crop(x, 3, 4, 1, 60), 1, padding_mode="reflect")),
        "pad edge, inverted": (
            True, lambda x: f.invert(f.pad(f.invert(x), 3, 0, "edge"))),
        "pad numbers": (False, lambda x: f.pad(x / 2, 2, fill=1)),
        "center_crop": (True, lambda x: f.center_crop(x, [60, 50])),
        "center_crop larger": (True, lambda x: f.center_crop(x, [160, 150])),
        "center_crop wider": (True, lambda x: f.center_crop(x, [40, 150])),
        "center_crop higher": (True, lambda x: f.center_crop(x, [101, 50])),
        "five_crop": (True, lambda x: torch.stack(f.five_crop(x, [40, 30]))),
        "cat": (
            True, lambda x: torch.cat([torch.stack([x, x.flip(-1)]),
                                       torch.stack([f.invert(x)])])),
        "cat, alike": (
            True, lambda x: torch.concat((torch.stack([x]),) * 2, dim=0)),
        "cat of channels": (False, lambda x: torch.cat([x, x])),
        "cat along others": (
            False, lambda x: torch.cat([torch.stack([x])] * 2, 1)),
        "cat of two sizes": (
            None, lambda x: torch.cat(
                [torch.stack([x, x]), torch.stack([x])[..., 1:]])),
        "hflip": (True, lambda x: f.hflip(x)),
        "vflip of a crop": (
            True, lambda x: f.vflip(f.crop(x, 3, 4, 50, 60))),
        "adjust_brightness": (True, lambda x: f.adjust_brightness(x, 1.3)),
        "darker": (True, lambda x: f.adjust_brightness(x, 0.31)),
        "posterize": (True, lambda x: f.posterize(x, 3)),
        "posterize not": (None, lambda x: f.posterize(x, 8)),
        "solarize": (True, lambda x: f.solarize(x, 99)),
        "invert": (True, lambda x: f.invert(x)),
        "invert a crop": (True, lambda x: f.invert(f.crop(x, 3, 4, 50, 60))),
        "pad, inverted": (True, lambda x: f.pad(f.invert(x), 3, fill=9)),
        "crop over, posterized": (
            True, lambda x: f.crop(f.posterize(x, 2), -3, -4, 50, 60)),
        "numbers": (
            True,
            lambda x: f.normalize(
                f.convert_image_dtype(f.pad(x, 2), torch.float32),
                [0.5], [0.25])),
        "antialias=False": (
            False, lambda x: f.resize(x, [30, 40], antialias=False)),
        "nearest": (False, lambda x: f.resize(x, [30, 40], NEAREST)),
        "same size": (
            None, lambda x: f.resize(x, list(x.shape[-2:]))),
        "crop, same size": (
            None, lambda x: f.resized_crop(x, 3, 4, 30, 40, [30, 40])),
        "adjust_contrast": (None, lambda x: f.adjust_contrast(x, 1.3)),
        "equalize": (False, lambda x: f.equalize(x)),
    }


def written(made, x):
    """The picture, after what was made of it was written to."""
    made.add_(1)
    return x


def facts(*tensors):
    return torch.tensor([[x._version, x._is_view()] for x in tensors])


def zeroed(pair):
    pair[0].zero_()
    return pair[1]


def named(x):
    x.foo = [5]
    return x + copy.deepcopy(x).foo[0]


def rows_of_memory(f):
    """Shared memory, the counts of writes, and views."""
    return {
        "resized_crop of that size": (
            None, lambda x: written(
                f.resized_crop(x, 3, 3, 9, 9, [9, 9]), x)),
        "facts of that": (
            None, lambda x: facts(f.resized_crop(x, 3, 3, 9, 9, [9, 9]))),
        "deepcopy of two": (
            None, lambda x: zeroed(copy.deepcopy([x, x.detach()]))),
        "deepcopy of a part": (
            None, lambda x: zeroed(copy.deepcopy([x, x[..., 1:5, 1:5]]))),
        "deepcopy of a name": (None, named),
        "facts of a copy": (None, lambda x: facts(copy.deepcopy(x))),
        "facts": (
            None, lambda x: facts(
                f.pad(x, 3), f.pad(x, [0, 1, 0, 0]),
                f.crop(x, -3, 4, 50, 60), f.center_crop(x, [160, 150]))),
        "facts of fills": (
            None, lambda x: facts(
                f.pad(x, 3, fill=[1] * x.shape[-3]), f.pad(x, 3, fill=[4]),
                f.pad(x, [0, 1, 0, 0], fill=[2] * x.shape[-3]))),
        "a nested fill": (None, lambda x: f.pad(x, 3, fill=[[1, 2, 3]])),
        "no fill": (None, lambda x: f.pad(x, 3, fill=[None])),
    }


def rows_of_v2():
    """Functions of tensors that v1 does not record, or does not have."""
    f = F2
    return {
        "resize": (True, lambda x: f.resize(x, [30, 40])),
        "resize short": (True, lambda x: f.resize(x, 30)),
        "resize short, list": (True, lambda x: f.resize(x, [130])),
        "resize, most": (True, lambda x: f.resize(x, 40, max_size=42)),
        "resize bicubic": (True, lambda x: f.resize(x, [31, 43], BICUBIC)),
        "resize lanczos": (True, lambda x: f.resize(x, [31, 43], LANCZOS)),
        "resize one side": (True, lambda x: f.resize(x, [31, x.shape[-1]])),
        "resize to a line": (True, lambda x: f.resize(x, [1, 33])),
        "resize a crop": (
            True, lambda x: f.resize(f.crop(x, 3, 4, 50, 60), [99, 20])),
        "resize rows": (
            True,
            lambda x: f.resize(f.crop(x, 3, 0, 20, x.shape[-1]), [9, 20])),
        "resize a column": (
            True, lambda x: f.resize(f.crop(x, 3, 4, 50, 1), [20, 7])),
        "resize of numbers": (False, lambda x: f.resize(x / 2, [30, 40])),
        "resize, inverted": (
            True, lambda x: f.resize(f.invert(x), [30, 40])),
        "resize twice": (
            True, lambda x: f.resize(f.resize(x, [60, 70]), [30, 20])),
        "resize, turned": (True, lambda x: f.resize(f.vflip(x), [30, 40])),
        "resize stack": (
            True, lambda x: f.resize(torch.stack([x, x.flip(-1)]), [30, 40])),
        "resized_crop": (
            True, lambda x: f.resized_crop(x, 3, 4, 50, 60, [30, 40])),
        "resized_crop of all": (
            True, lambda x: f.resized_crop(
                x, 0, 0, *x.shape[-2:], [30, 40])),
        "resized_crop, rows": (
            True, lambda x: f.resized_crop(
                x, 3, 0, 20, x.shape[-1], [30, 40])),
        "resized_crop over": (
            True, lambda x: f.resized_crop(x, -3, 4, 50, 60, [30, 40])),
        "resized_crop over all": (
            True, lambda x: f.resized_crop(
                x, -3, -4, 150, 160, [30, 40], BICUBIC)),
        "resized_crop over right": (
            True, lambda x: f.resized_crop(x, 3, 70, 50, 60, [30, 40])),
        "resized_crop over, same size": (
            None, lambda x: f.resized_crop(x, -3, 4, 50, 60, [50, 60])),
        "resized_crop outside": (
            None, lambda x: f.resized_crop(x, 300, 4, 50, 60, [30, 40])),
        "resized_crop to numbers": (
            True,
            lambda x: f.normalize(
                f.to_dtype(
                    f.hflip(f.resized_crop(x, 3, 4, 50, 60, [30, 40])),
                    torch.float32, scale=True),
                [0.5], [0.25])),
    }


def errors(f):
    return {
        "crop by text": lambda x: f.crop(x, "a", 4, 50, 60),
        "pad by three": lambda x: f.pad(x, [1, 2, 3]),
        "pad by text": lambda x: f.pad(x, "no"),
        "pad with text": lambda x: f.pad(x, 1, fill="no"),
        "pad how": lambda x: f.pad(x, 1, padding_mode="no"),
        "pad with two": lambda x: f.pad(x, 1, fill=[1, 2]),
        "pad below": lambda x: f.pad(x, -50),
        "center of three": lambda x: f.center_crop(x, [1, 2, 3]),
        "resize to 0": lambda x: f.resize(x, [0, 5], antialias=True),
        "resize to three": lambda x: f.resize(x, [1, 2, 3], antialias=True),
        "resize with text": lambda x: f.resize(x, 5, "no", antialias=True),
        "most": lambda x: f.resize(x, 50, max_size=40, antialias=True),
        "posterize": lambda x: f.posterize(x, 9),
        "solarize": lambda x: f.solarize(x, 256),
        "brightness": lambda x: f.adjust_brightness(x, -1),
        "five": lambda x: f.five_crop(x, [400, 30]),
    }


def may_resize():
    """Does this torchvision give bytes to torch's resize?"""
    from torchvision.transforms.v2.functional import _geometry

    return _geometry._do_native_uint8_resize_on_cpu(
        T.InterpolationMode.BILINEAR)


class Rows(case.Case):
    def check(self, enter, rows):
        for kind in "colour", "grey":
            for name, (recorded, how) in rows.items():
                with self.subTest(name, kind=kind, enter=enter.__name__):
                    self.compare(enter, how, kind, recorded)

    def compare(self, enter, how, kind, recorded):
        def run():
            return how(enter(Image.open(io.BytesIO(KINDS[kind]))))

        def lazy():
            out = run()
            is_open = isinstance(out, tensor.Lazy) and out._hr.value is None
            return out, is_open, dropin.report().get("materialised")

        wanted = case.outcome(run)
        with on():
            found = case.outcome(lambda: in_fetch(lazy))
        if not isinstance(wanted, torch.Tensor):
            self.assertEqual(found, wanted)
            return
        self.assert_same_tensor(tensor.plain(found[0]), wanted)
        if recorded is not None:
            self.assertEqual(found[1], recorded)
        if recorded:
            self.assertFalse(found[2])

    def test_v1(self):
        self.check(F.pil_to_tensor, rows_of_both(F))

    def test_v2(self):
        if not v2:
            self.skipTest("this torchvision has no transforms v2")
        for enter in F2.to_image, F2.pil_to_tensor:
            self.check(enter, rows_of_both(F2))

    def test_resizes(self):
        if not (v2 and may_resize()):
            self.skipTest("this torch resizes no bytes")
        for enter in F2.to_image, F2.pil_to_tensor:
            self.check(enter, rows_of_v2())

    def test_memory(self):
        enters = [(F.pil_to_tensor, F)]
        if v2:
            enters += [(F2.pil_to_tensor, F2), (F2.to_image, F2)]
        for enter, f in enters:
            self.check(enter, rows_of_memory(f))

    def test_errors(self):
        enters = [(F.pil_to_tensor, F)]
        if v2:
            enters += [(F2.pil_to_tensor, F2), (F2.to_image, F2)]
        for enter, f in enters:
            rows = {name: (None, how) for name, how in errors(f).items()}
            if f is F2:
                rows["3.0"] = None, lambda x: (
                    f.posterize(x, 3), f.posterize(x, 3.0))
            self.check(enter, rows)

    def test_boxes_and_masks_beside_it(self):
        if not (v2 and may_resize()):
            self.skipTest("this torch resizes no bytes")
        step = v2.Compose([
            v2.ToImage(), v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(),
            v2.ToDtype({tv_tensors.Image: torch.float32, "others": None},
                       scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3)])

        def sample():
            case.seed()
            picture = Image.open(io.BytesIO(KINDS["colour"]))
            w, h = picture.size
            return step(picture, {
                "boxes": tv_tensors.BoundingBoxes(
                    [[1, 2, w - 9, h - 7]], format="XYXY", canvas_size=(h, w)),
                "mask": tv_tensors.Mask(torch.eye(h, w, dtype=torch.uint8)),
                "label": 3,
            })

        def lazy():
            image, others = sample()
            return image, others, image._hr.value is None

        image, others = sample()
        with on():
            found, beside, is_open = in_fetch(lazy)
        self.assertTrue(is_open)
        self.assert_same_tensor(tensor.plain(found), image)
        for name in "boxes", "mask":
            self.assert_same_tensor(beside[name], others[name])
        self.assertEqual(beside["label"], 3)


class Tensors(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = F.pil_to_tensor(Image.open(io.BytesIO(KINDS["colour"])))
        return x, F.convert_image_dtype(x, torch.float32), x.to(torch.int16)


class Threads(Tensors):
    """Some of a sample is made on a thread of its own, which is in no fetch."""

    def __getitem__(self, i):
        x = F.pil_to_tensor(Image.open(io.BytesIO(KINDS["colour"])))
        made = []
        thread = threading.Thread(target=lambda: made.extend([
            F.hflip(x), F.crop(x, -3, 4, 50, 60), x.detach(), x[:1], x.float(),
            F.convert_image_dtype(x, torch.float32), x.clone(), x]))
        thread.start()
        thread.join()
        return made


class Delivered(case.Case):
    """A loader's tensors are as new as stock's."""

    def seen(self, workers):
        def one(x):
            return x.is_inference() or x._version

        found = []
        for inference in False, True:
            for size in None, 2:
                with torch.inference_mode(inference):
                    made = list(DataLoader(
                        Tensors(), size, num_workers=workers))
                found.append([one(x) for three in made for x in three])
        return found

    def test_threads(self):
        loader = DataLoader(Threads(), 2, collate_fn=list)
        wanted = list(loader)
        with on():
            found = list(loader)
        for batch, right in zip(found, wanted):
            for sample, of in zip(batch, right):
                for x, y in zip(sample, of):
                    self.assertIs(type(x), torch.Tensor)
                    self.assert_same_tensor(x, y)

    def test_versions(self):
        for workers in 0, 1:
            want = self.seen(workers)
            with on():
                self.assertEqual(self.seen(workers), want, workers)
