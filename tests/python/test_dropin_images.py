# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms of tensors: stock against recorded, op by op.

Each row says whether it is recorded (+; -: not; ?: some are), and what is done
by the module f to a picture x that became a tensor at once. Values, strides and
errors are stock's either way.
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


# Both v1 and v2 have them. The picture: 90 x 80.
BOTH = """
+ f.crop(x, 3, 4, 50, 60)
+ f.crop(x, -3, -4, 50, 60)
+ f.crop(x, 3, 70, 50, 60)
+ f.crop(x, 60, 4, 50, 60)
+ f.crop(x, -9, -9, 150, 160)
+ f.crop(x, 9, -1, 15, 160)
- f.crop(x, 200, 200, 15, 16)
+ f.crop(f.crop(x, 3, 4, 50, 60), -1, 9, 40, 60)
+ f.pad(x, 3)
+ f.pad(x, [3, 0], fill=255)
+ f.pad(x, (0, 1, 2, 3), fill=7.0)
+ f.pad(x, [0, 1, 0, 0])
+ f.pad(f.crop(x, 3, 4, 50, 60), [1, 2, 3, 4])
- f.pad(x, 0)
- f.pad(x, 2, fill=7.5)
+ f.pad(x, 2, padding_mode="edge")
+ f.pad(x, [0, 400, 3, 0], 9, "edge")
+ f.pad(x, [2, 79], padding_mode="reflect")
? f.pad(x, [0, 100], padding_mode="reflect")
+ f.pad(x, [3, 0], padding_mode="symmetric")
+ f.pad(f.crop(x, 3, 4, 1, 60), 1, padding_mode="symmetric")
? f.pad(f.crop(x, 3, 4, 1, 60), 1, padding_mode="reflect")
+ f.invert(f.pad(f.invert(x), 3, 0, "edge"))
- f.pad(x / 2, 2, fill=1)
+ f.center_crop(x, [60, 50])
+ f.center_crop(x, [160, 150])
+ f.center_crop(x, [40, 150])
+ f.center_crop(x, [101, 50])
+ torch.stack(f.five_crop(x, [40, 30]))
+ torch.cat([torch.stack([x, x.flip(-1)]), torch.stack([f.invert(x)])])
+ torch.concat((torch.stack([x]),) * 2, dim=0)
- torch.cat([x, x])
- torch.cat([torch.stack([x])] * 2, 1)
? torch.cat([torch.stack([x, x]), torch.stack([x])[..., 1:]])
+ f.hflip(x)
+ f.vflip(f.crop(x, 3, 4, 50, 60))
+ f.adjust_brightness(x, 1.3)
+ f.adjust_brightness(x, 0.31)
+ f.posterize(x, 3)
? f.posterize(x, 8)
+ f.solarize(x, 99)
+ f.invert(x)
+ f.invert(f.crop(x, 3, 4, 50, 60))
+ f.pad(f.invert(x), 3, fill=9)
+ f.crop(f.posterize(x, 2), -3, -4, 50, 60)
+ f.normalize(f.convert_image_dtype(f.pad(x, 2), torch.float32), [0.5], [0.25])
- f.resize(x, [30, 40], antialias=False)
- f.resize(x, [30, 40], NEAREST)
? f.resize(x, list(x.shape[-2:]))
? f.resized_crop(x, 3, 4, 30, 40, [30, 40])
? f.adjust_contrast(x, 1.3)
- f.equalize(x)
"""


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


# Shared memory, the counts of writes, and views.
MEMORY = """
? written(f.resized_crop(x, 3, 3, 9, 9, [9, 9]), x)
? facts(f.resized_crop(x, 3, 3, 9, 9, [9, 9]))
? zeroed(copy.deepcopy([x, x.detach()]))
? zeroed(copy.deepcopy([x, x[..., 1:5, 1:5]]))
? named(x)
? facts(copy.deepcopy(x))
? facts(f.pad(x, 3), f.pad(x, [0, 1, 0, 0]), f.crop(x, -3, 4, 50, 60),
    f.center_crop(x, [160, 150]))
? facts(f.pad(x, 3, fill=[1] * x.shape[-3]), f.pad(x, 3, fill=[4]), f.pad(x,
    [0, 1, 0, 0], fill=[2] * x.shape[-3]))
? f.pad(x, 3, fill=[[1, 2, 3]])
? f.pad(x, 3, fill=[None])
"""


# Functions of tensors that v1 does not record, or does not have.
ONLY_V2 = """
+ f.resize(x, [30, 40])
+ f.resize(x, 30)
+ f.resize(x, [130])
+ f.resize(x, 40, max_size=42)
+ f.resize(x, [31, 43], BICUBIC)
+ f.resize(x, [31, 43], LANCZOS)
+ f.resize(x, [31, x.shape[-1]])
+ f.resize(x, [1, 33])
+ f.resize(f.crop(x, 3, 4, 50, 60), [99, 20])
+ f.resize(f.crop(x, 3, 0, 20, x.shape[-1]), [9, 20])
+ f.resize(f.crop(x, 3, 4, 50, 1), [20, 7])
- f.resize(x / 2, [30, 40])
+ f.resize(f.invert(x), [30, 40])
+ f.resize(f.resize(x, [60, 70]), [30, 20])
+ f.resize(f.vflip(x), [30, 40])
+ f.resize(torch.stack([x, x.flip(-1)]), [30, 40])
+ f.resized_crop(x, 3, 4, 50, 60, [30, 40])
+ f.resized_crop(x, 0, 0, *x.shape[-2:], [30, 40])
+ f.resized_crop(x, 3, 0, 20, x.shape[-1], [30, 40])
+ f.resized_crop(x, -3, 4, 50, 60, [30, 40])
+ f.resized_crop(x, -3, -4, 150, 160, [30, 40], BICUBIC)
+ f.resized_crop(x, 3, 70, 50, 60, [30, 40])
? f.resized_crop(x, -3, 4, 50, 60, [50, 60])
? f.resized_crop(x, 300, 4, 50, 60, [30, 40])
+ f.normalize(f.to_dtype(f.hflip(f.resized_crop(x, 3, 4, 50, 60, [30, 40])),
    torch.float32, scale=True), [0.5], [0.25])
"""


ERRORS = """
? f.crop(x, "a", 4, 50, 60)
? f.pad(x, [1, 2, 3])
? f.pad(x, "no")
? f.pad(x, 1, fill="no")
? f.pad(x, 1, padding_mode="no")
? f.pad(x, 1, fill=[1, 2])
? f.pad(x, -50)
? f.center_crop(x, [1, 2, 3])
? f.resize(x, [0, 5], antialias=True)
? f.resize(x, [1, 2, 3], antialias=True)
? f.resize(x, 5, "no", antialias=True)
? f.resize(x, 50, max_size=40, antialias=True)
? f.posterize(x, 9)
? f.solarize(x, 256)
? f.adjust_brightness(x, -1)
? f.five_crop(x, [400, 30])
"""


def rows(text, f):
    """(recorded, how) by the text of the row; four spaces go on with one."""
    lines = text.replace("\n    ", " ").strip().splitlines()
    names = {**globals(), "f": f}
    return {line: ({"+": True, "-": False, "?": None}[line[0]],
                   eval(f"lambda x: ({line[2:]})", names)) for line in lines}


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
        self.check(F.pil_to_tensor, rows(BOTH, F))

    def test_v2(self):
        if not v2:
            self.skipTest("this torchvision has no transforms v2")
        for enter in F2.to_image, F2.pil_to_tensor:
            self.check(enter, rows(BOTH, F2))

    def test_resizes(self):
        if not (v2 and may_resize()):
            self.skipTest("this torch resizes no bytes")
        for enter in F2.to_image, F2.pil_to_tensor:
            self.check(enter, rows(ONLY_V2, F2))

    def test_memory(self):
        enters = [(F.pil_to_tensor, F)]
        if v2:
            enters += [(F2.pil_to_tensor, F2), (F2.to_image, F2)]
        for enter, f in enters:
            self.check(enter, rows(MEMORY, f))

    def test_errors(self):
        enters = [(F.pil_to_tensor, F)]
        if v2:
            enters += [(F2.pil_to_tensor, F2), (F2.to_image, F2)]
        for enter, f in enters:
            more = "? f.posterize(x, 3), f.posterize(x, 3.0)" * (f is F2)
            self.check(enter, rows(ERRORS + more, f))

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
