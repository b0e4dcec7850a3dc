# SPDX-License-Identifier: Apache-2.0
"""Lazy tensors: where there are any, and what they hold. (That each use of
one gives what stock gives: programs/text/tensor_uses.txt.)"""

import gc
import io
import itertools

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import KINDS, in_fetch, on
from headrace import dropin
from headrace.dropin.torch import tensor
from PIL import Image
from torchvision.transforms import functional as F

try:
    from torchvision.transforms.v2 import functional as F2
except ImportError:  # before 0.15
    F2 = None

MEAN = torch.tensor([0.4, 0.5, 0.6])[:, None, None]


class Tensors(case.Case):
    @staticmethod
    def image(kind="colour"):
        return Image.open(io.BytesIO(KINDS[kind])).resize((40, 30))

    def test_lazy_in_a_fetch_only(self):
        makes = [F.to_tensor, F.pil_to_tensor,
                 lambda im: F.to_tensor(im)[:, 1:11, 2:14]]
        if F2:
            makes += [F2.to_image,
                      lambda im: F2.crop(F2.to_image(im), 1, 2, 9, 9)]
        with on():
            for make in makes:
                for kind in "colour", "grey":
                    self.assertNotIsInstance(make(self.image(kind)),
                                             tensor.Lazy)
                    found = in_fetch(lambda: type(make(self.image(kind))))
                    self.assertTrue(issubclass(found, tensor.Lazy))

    def test_pointwise_is_recorded(self):
        with on():
            in_fetch(self.pointwise)

    def pointwise(self):
        x = F.to_tensor(self.image())
        x = (x.sub(0.5).div_(MEAN).half() * 2).float().clone().detach()
        x = torch.clamp(x.contiguous().neg(), -1, 1).flip(-1)
        x = torch.stack([x[..., 2:9, 3:12], x[..., 3:10, 1:10]]) + 1
        self.assertIs(type(x), tensor.LazyTensor)
        self.assertNotIn("jobs", dropin.report()["totals"])
        self.assertEqual(x.shape, (2, 3, 7, 9))

    def test_tables_are_forgotten(self):
        """Random factors must not fill the memory."""
        with on():
            self.assertLess(in_fetch(self.remembered), 100)

    def remembered(self):
        x = F.to_tensor(self.image())
        for index in range(1000):
            x * (index + 0.5)
        return len(x._hr.table.results)

    def test_dead_tables_are_not_mistaken(self):
        """A remembered result belongs to a table, not to its address."""
        gc.collect()
        gc.freeze()  # or each collection looks at all of torch
        self.addCleanup(gc.unfreeze)
        wanted = [self.scaled(index) for index in range(50)]
        with on():
            found = in_fetch(lambda: [self.scaled(i) for i in range(50)])
        self.assertEqual(found, wanted)

    def scaled(self, index):
        x = F.to_tensor(self.image()) * (index + 0.5)
        result = (x + 1).sum().item()
        del x
        gc.collect()
        return result

    def test_gradients_of_parts(self):
        """A lazy part is torch's view of the whole, whatever follows."""
        uses = {
            "window": lambda s, w: s.requires_grad_(),
            "detached": lambda s, w: (s.detach(), s.requires_grad_()),
            "of the part": lambda s, w: w.requires_grad_(),
            "written": lambda s, w: (s.requires_grad_(), w.zero_()),
            "written before": lambda s, w: (w.mul_(2), s.requires_grad_()),
            "made before": lambda s, w: (w.sum(), s.requires_grad_()),
            "backward": lambda s, w: (
                s.requires_grad_(), (w.sum() + s.sum()).backward()),
        }
        parts = (lambda s: s[..., 3:20, 4:30], lambda s: s[0],
                 lambda s: s[1][..., 2:9, 3:8], lambda s: s[:, 1:])
        for (name, use), part in itertools.product(uses.items(), parts):
            for whole in (self.stack, lambda: F.to_tensor(self.image())):
                def run():
                    s = whole()
                    w = part(s)
                    use(s, w)
                    return (self.seen(s), self.seen(w),
                            w._base is s or not tensor._swap)

                want = case.outcome(run)
                with on():
                    found = case.outcome(lambda: in_fetch(run))
                self.assertEqual(found, want, name)

    def stack(self):
        return torch.stack([F.to_tensor(self.image()) for _ in range(2)])

    def seen(self, x):
        grad = x.grad_fn and type(x.grad_fn).__name__
        total = None if x.grad is None else x.grad.sum().item()
        return (x.requires_grad, x.is_leaf, grad, total, x._is_view(),
                x._version, x.stride(), x.sum().item())
