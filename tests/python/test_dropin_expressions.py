# SPDX-License-Identifier: Apache-2.0
"""A tensor of the drop-in is stock's, whatever a program asks of it.

Each expression is evaluated on pictures and windows of several kinds, at top
level and in the fetch of a DataLoader. Compared with stock: values, class,
shape, strides, contiguity, offset, whether it is a view, and what a write to
the result does to the source, and the other way round."""

import copy
import functools
import io
import pickle
import re
import sys
import unittest
import warnings

import dropin_case as case  # first: it may skip this file
import numpy as np
import torch
import torch.utils.dlpack
from dropin_case import KINDS, digest, in_fetch, on
from headrace.dropin.torch import tensor
from PIL import Image
from torchvision.transforms import functional as F

EXPRESSIONS = """
x
x.detach()
x.data
x.clone()
x.clone(memory_format=torch.contiguous_format)
torch.clone(x)
x.contiguous()
x.contiguous().view(-1)
x.contiguous(memory_format=torch.contiguous_format)
x.cpu()
x.cpu().contiguous()
x.to(torch.float32)
x.to(torch.uint8)
x.to(torch.float64, True)
x.to(x.dtype, True)
x.to(x.dtype, False, True)
x.to(x.dtype, copy=True)
x.to(x.dtype, non_blocking=True)
x.to("cpu")
x.to("cpu", torch.float16)
x.to(torch.device("cpu"), x.dtype, True)
x.to(torch.device("cpu"), x.dtype, True, True)
x.to(torch.zeros(1))
x.to(torch.float64, memory_format=torch.contiguous_format)
x.to(x.dtype, memory_format=torch.contiguous_format)
x.to(torch.float64, memory_format=torch.preserve_format)
x.to(dtype=torch.float16)
x.float()
x.float(memory_format=torch.contiguous_format)
x.double()
x.half()
x.bfloat16()
x.int()
x.long()
x.short()
x.bool()
x.byte()
x.type(torch.float64)
x.type(torch.float32)
x.type_as(torch.zeros(1))
x.to(x) is x
x.to(x.dtype) is x
x.to(x.dtype, True) is x
x.type(x.dtype) is x
x.type_as(x) is x
x.type_as(x)
x.to(x)
x.type(x.dtype)
x.contiguous() is x
x.cpu() is x
x.zero_() is x
x.unsqueeze_(0) is x
x.requires_grad_(False) is x
x.detach() is x
x.detach_() is x
x.nothing_such
memoryview(x)
x + 1
1 + x
x - 0.5
1 - x
x * 2
x / 255
x // 2
x % 3
x ** 2
-x.float()
x / torch.tensor(3.0)
x.float() - M
(x.float() - M) / M
x.float().sub(M).div(M)
x.float().sub_(M).div_(M)
x.float().mul_(2).add_(1)
x.add(1, alpha=2)
x.clamp(0, 1)
x.float().clamp_(0.2, 0.6)
x.float().neg()
x.float().neg_()
torch.add(x, 1)
torch.sub(x, 1)
torch.mul(x, 3)
torch.div(x, 3)
torch.div(x, 3, rounding_mode="floor")
torch.clamp(x, 0, 1)
x == x
x > 0.5
x.eq(1)
x.sqrt() if x.is_floating_point() else x
x.float().exp()
x.sum()
x.float().mean()
x.float().mean((1, 2))
x.float().std(dim=(1, 2))
x.max()
x.amax((1, 2))
x.min()
x.flip(-1)
x.flip(-2)
x.flip((-1, -2))
x.flip(1, 2)
x.flip(0)
x.flip(())
torch.flip(x, (2,))
torch.fliplr(x[0])
torch.flipud(x)
torch.rot90(x, 1, (1, 2))
torch.roll(x, 1, 2)
x[0]
x[-1]
x[0, 1, 2]
x[:1]
x[None]
x[...]
x[:, 1:9, 2:8]
x[..., 1:9, 2:8]
x[..., 1:9, 2:8].contiguous()
x[..., 1:9, 2:8].contiguous().view(-1)
x[..., 1:9, 2:8].clone()
x[..., 1:9, 2:8] + 1
x[..., 1:9, 2:8].float()
x[..., 1:9, 2:8].float().div(255)
x[..., 1:9, 2:8].flip(-1)
x[..., 1:9, 2:8].detach()
x[..., 1:9, 2:8].to(x.dtype)
x[..., 1:9, 2:8].to(x.dtype, copy=True)
x[..., 1:9, 2:8][..., 1:3, 1:4]
x[..., 1:2, :]
x[..., 1:2, :].float()
x[..., :, 3:4]
x[..., :, 3:4].contiguous()
x[..., :, 3:4] * 1.5
x[..., 3:4, 3:4].clone()
x[..., :, :]
x[..., -5:, :-3]
x[..., ::2, 1:5]
x[..., 5:5, :]
x[:, [0, 2]]
x[x > 0]
x[..., torch.tensor([1, 2])]
x.select(0, 0)
x.narrow(1, 2, 3)
x.unfold(1, 2, 2)
x.diagonal(0, 1, 2)
x.unbind(0)
x.chunk(2, 1)
x.split(4, 2)
torch.tensor_split(x, 2, 1)
list(x)
x.permute(1, 2, 0)
x.permute(1, 2, 0).contiguous()
x.transpose(0, 2)
x.movedim(0, -1)
x.swapaxes(0, 1)
x.T if x.dim() == 2 else x.mT
x.unsqueeze(0)
x.unsqueeze(0).contiguous()
x.squeeze()
x.reshape(-1)
x.reshape(x.shape)
x.flatten()
x.flatten(1)
x.ravel()
x.view(x.shape)
x.view(-1)
x.view(torch.uint8)
x.view_as(x)
x.expand(x.shape)
x.expand(2, *x.shape)
x.repeat(1, 2, 1)
x.as_strided((2, 2), (1, 2))
x.as_subclass(torch.Tensor)
x.unsqueeze_(0)
x.squeeze_()
x.transpose_(0, 2)
x.swapaxes_(0, 1)
x.detach().unsqueeze_(0)
after(x.detach().unsqueeze_(0), x)
after(x.unsqueeze_(0), x)
after(x.transpose_(1, 2), x)
after(x.t_() if x.dim() == 2 else x.swapdims_(0, 1), x)
after(x.resize_(2, 3), x)
after(x.set_(torch.zeros(2)), x)
after(setattr(x, "data", torch.zeros(2, 2)), x)
after(x.as_strided_((2, 2), (1, 2)), x)
after(x.zero_(), x)
after(x.fill_(1), x)
after(x.copy_(torch.ones(())), x)
after(x[0].zero_(), x)
after(x[..., 1:3, 2:4].zero_(), x)
after(x[..., 1:3, 2:4].mul_(0), x)
after(x[..., 1:3, 2:4].contiguous().zero_(), x)
after(x.contiguous().zero_(), x)
after(x.cpu().zero_(), x)
after(x.to(x.dtype).zero_(), x)
after(x.to(x.dtype, True).zero_(), x)
after(x.detach().zero_(), x)
after(x.data.zero_(), x)
after(x.clone().zero_(), x)
after(x.reshape(-1).zero_(), x)
after(x.view(x.shape).zero_(), x)
after(x.as_subclass(torch.Tensor).zero_(), x)
after(x.__setitem__((0, 1), 3), x)
after(x.index_fill_(0, torch.tensor([0]), 2), x)
after(x.masked_fill_(x > 0, 1), x)
after(x.numpy().fill(1), x)
after(np.asarray(x).fill(1), x)
after(x.detach_(), x)
after(x.requires_grad_(False), x)
after(x.share_memory_(), x)
x.requires_grad_() if x.is_floating_point() else x
x.float().clone().requires_grad_()
torch.stack([x, x])
torch.stack([x, x.flip(-1)])
torch.stack([x, x], 1)
torch.stack([x, x]).float()
torch.stack([x, x]).float().sub_(M)
torch.stack([x, x])[..., 1:5, 2:6]
torch.stack([x, x])[..., 1:5, 2:6].contiguous()
torch.stack([x, x]).contiguous(memory_format=torch.channels_last)
torch.stack([x, x])[0]
torch.stack([x, x]).permute(0, 2, 3, 1)
torch.stack([torch.stack([x, x])] * 2)
torch.stack([x[..., 1:5, 2:6], x[..., 2:6, 1:5]])
torch.cat([x, x])
torch.cat([x, x], 2)
torch.utils.data.default_collate([x, x])
torch.utils.data.default_collate([{"a": x}, {"a": x}])["a"]
torch.zeros_like(x)
torch.empty_like(x).zero_()
torch.ones_like(x, dtype=torch.float64)
x.new_zeros(2)
x.new_tensor([1, 2])
torch.where(x > 0, x, torch.zeros_like(x))
torch.tensor(x.tolist())
torch.as_tensor(x)
torch.as_tensor(x, dtype=torch.float64)
torch.asarray(x)
torch.from_numpy(x.numpy())
torch.from_numpy(np.asarray(x).copy())
torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
torch.from_dlpack(x)
after(capsule(x).zero_(), x)
np.asarray(x)
np.array(x)
x.numpy()
x.tolist()
x.storage_offset()
x.is_contiguous()
x.is_contiguous(memory_format=torch.channels_last)
x.stride()
x.stride(0)
x.element_size()
x.nbytes if hasattr(x, "nbytes") else 0
x.is_shared()
x.is_pinned()
x.is_leaf
x.requires_grad
x.grad_fn
x._base is None
x._is_view()
x.data_ptr() != 0
x.is_floating_point()
x.is_set_to(x)
x.shape
x.size()
x.size(1)
len(x)
x.dim()
x.dtype
x.device
x.layout
isinstance(x, torch.Tensor)
hash(x) == hash(x)
repr(x[..., :2, :2])
str(x.shape)
"%s" % x.float().mean()
bool(x.sum() > 0)
float(x.float().sum())
copy.copy(x)
copy.deepcopy(x)
pickle.loads(pickle.dumps(x))
saved(x)
len(saved_bytes(x)) < 40000
torch.nn.Parameter(x) if x.is_floating_point() else x
torch.nn.Parameter(x, requires_grad=False)
buffer(x)
data_of(x)
after(data_of(x).zero_(), x)
traced(x)
conv(x)
gradient(x)
F.hflip(x)
F.vflip(x)
F.crop(x, 1, 2, 6, 5)
F.crop(x, 1, 2, 6, 5).contiguous()
F.crop(x, -1, 2, 6, 5)
F.center_crop(x, [6, 5])
F.center_crop(x, [6, 5]).contiguous()
F.resize(x, [7, 9])
F.resized_crop(x, 1, 2, 6, 5, [4, 4])
F.five_crop(x, [4, 4])
F.pad(x, [1, 2])
F.normalize(x, [0.1], [0.3])
F.normalize(x[..., 1:9, 2:8], [0.1], [0.3])
F.normalize(x, [0.1] * 3, [0.3] * 3)
F.normalize(x, [0.1] * 3, [0.3] * 3, True)
F.normalize(x.float(), [0.1] * 3, [0.3] * 3)
after(F.normalize(x, [0.1] * 3, [0.3] * 3).zero_(), x)
F.normalize(x.float(), [0.1] * 2, [0.3] * 2)
F.convert_image_dtype(x, torch.float32)
F.convert_image_dtype(x, torch.float32).contiguous()
F.convert_image_dtype(x, torch.uint8)
F.convert_image_dtype(x[..., 1:9, 2:8], torch.float64)
F.to_pil_image(x)
F.erase(x, 1, 2, 3, 4, torch.zeros(()))
F.adjust_brightness(x, 0.5)
F.rotate(x, 30.0)
F.gaussian_blur(x, [3, 3])
""".strip().splitlines()

V2 = """
v2.normalize(x.float(), [0.1] * 3, [0.3] * 3)
v2.normalize(x.float(), [0.1] * 2, [0.3] * 2)
v2.normalize(x.float(), [0.1], [0.3])
v2.normalize(x, [0.1] * 3, [0.3] * 3)
v2.to_dtype(x, torch.float32, True)
v2.to_dtype(x, torch.float32, True).contiguous()
v2.normalize(v2.to_dtype(x, torch.float32, True), [0.1] * 3, [0.3] * 3)
v2.normalize(v2.to_dtype(x[..., 1:9, 2:8], torch.float32, True), [0.1], [0.3])
v2.to_dtype(x, torch.float64)
v2.to_dtype(x[..., 1:9, 2:8], torch.float32, True)
v2.crop(x, 1, 2, 6, 5)
v2.crop(x, 1, 2, 6, 5).contiguous()
v2.center_crop(x, [6, 5])
v2.resized_crop(x, 1, 2, 6, 5, [4, 4])
v2.five_crop(x, [4, 4])
v2.horizontal_flip(x)
v2.to_image(x)
v2.to_pil_image(x)
v2.resize(x, [7, 9])
v2.pad(x, [1, 2])
""".strip().splitlines()


def after(_, x):
    return x


def saved_bytes(x):
    file = io.BytesIO()
    torch.save(x, file)
    return file.getvalue()


def saved(x):
    return torch.load(io.BytesIO(saved_bytes(x.as_subclass(torch.Tensor))))


def buffer(x):
    module = torch.nn.Module()
    module.register_buffer("b", x)
    return module.state_dict()["b"]


def data_of(x):
    t = torch.zeros(2)
    t.data = x
    return t


def capsule(x):
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))


def traced(x):
    net = torch.jit.trace(lambda t: t * 2.5, x, check_trace=False)
    return net(torch.ones(2))


def conv(x):
    return torch.nn.functional.avg_pool2d(x.float()[None], 2)


def gradient(x):
    x = x.float().clone().requires_grad_()
    (x * x).sum().backward()
    return x.grad


NAMES = {
    "torch": torch,
    "np": np,
    "copy": copy,
    "pickle": pickle,
    "F": F,
    **{
        f.__name__: f
        for f in (
            after,
            saved_bytes,
            saved,
            buffer,
            data_of,
            capsule,
            traced,
            conv,
            gradient,
        )
    },
}


@functools.lru_cache
def compiled(text):
    return compile(text, text, "eval")


def evaluate(text, x):
    m = torch.arange(1.0, 1 + x.shape[-3]).reshape(-1, 1, 1) / 10
    return eval(compiled(text), NAMES, {"x": x, "M": m})


def look(result):
    """All that a program sees of a result, and the tensors in it."""
    if isinstance(result, torch.Tensor):
        kind = getattr(type(result), "stands_for", type(result))
        facts = (
            kind,
            result.dtype,
            result.shape,
            result.stride(),
            result.is_contiguous(),
            result.storage_offset(),
            result.requires_grad,
        )
        base = result._base is None
        values = result.detach().as_subclass(torch.Tensor)
        raw = values.contiguous().numpy().tobytes()
        again = (kind, result.dtype, result.shape, result.stride())
        return facts, base, digest(raw), again == facts[:4]
    if isinstance(result, (list, tuple)) and type(result) is not torch.Size:
        return [look(part) for part in result]
    return case.facts(result)


def first(result):
    while isinstance(result, (list, tuple)) and result:
        result = result[0]
    return result


def written(make, text, to_source):
    """What a write to one of them makes of the other."""
    x = make()
    y = first(evaluate(text, x))
    if not isinstance(y, torch.Tensor) or y.requires_grad:
        return None
    with torch.no_grad():
        (x if to_source else y).add_(1)
    return look(y if to_source else x)


def seen(make, text):
    torch.manual_seed(1)
    texts = []
    for run in (
        lambda: look(evaluate(text, make())),
        lambda: written(make, text, True),
        lambda: written(make, text, False),
    ):
        found = repr(case.outcome(run))
        for name in "LazyTensor", "LazyTVImage":
            found = found.replace(name, "Tensor")
        texts.append(found)
    return texts


def without_views(texts):
    return [re.sub(r"\), (True|False), '", "), '", text) for text in texts]


def picture(kind):
    return Image.open(io.BytesIO(KINDS[kind])).resize((15, 12))


KINDS_OF_TENSORS = {
    "float": lambda: F.to_tensor(picture("colour")),
    "bytes": lambda: F.pil_to_tensor(picture("colour")),
    "grey float": lambda: F.to_tensor(picture("grey")),
    "grey bytes": lambda: F.pil_to_tensor(picture("grey")),
    "window of float": lambda: F.to_tensor(picture("colour"))[:, 1:11, 2:14],
    "window of bytes": lambda: F.pil_to_tensor(picture("colour"))[
        ..., 1:11, 2:14
    ],
}
if "torchvision.transforms.v2" in sys.modules:
    from torchvision.transforms.v2 import functional as v2

    NAMES["v2"] = v2
    EXPRESSIONS += V2
    KINDS_OF_TENSORS["image"] = lambda: v2.to_image(picture("colour"))
    KINDS_OF_TENSORS["grey image"] = lambda: v2.to_image(picture("grey"))
    KINDS_OF_TENSORS["window of image"] = lambda: v2.crop(
        v2.to_image(picture("colour")), 1, 2, 10, 12
    )
# They reach torch's C++ without asking the class of a lazy tensor, so what is
# made there is no view for torch. All else is equal.
NO_VIEWS = {
    "after(x.set_(torch.zeros(2)), x)",
    "torch.as_tensor(x, dtype=torch.float64)",
}


class Expressions(unittest.TestCase):
    """Stock's results, at top level and in a fetch."""

    def check(self, place):
        def all_of(make):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return place(lambda: [seen(make, t) for t in EXPRESSIONS])

        for kind, make in KINDS_OF_TENSORS.items():
            wanted = all_of(make)
            with on():
                found = all_of(make)
            for text, ours, stock in zip(EXPRESSIONS, found, wanted):
                with self.subTest(kind=kind, text=text):
                    if text in NO_VIEWS and place is in_fetch:
                        ours, stock = map(without_views, (ours, stock))
                    self.assertEqual(ours, stock)

    def test_top_level(self):
        self.check(lambda run: run())

    def test_in_a_fetch(self):
        self.check(in_fetch)

    def test_kinds_are_lazy_in_a_fetch_only(self):
        for make in KINDS_OF_TENSORS.values():
            with on():
                self.assertNotIsInstance(make(), tensor.Lazy)
                kind = in_fetch(lambda: type(make()))
                self.assertTrue(issubclass(kind, tensor.Lazy))


if __name__ == "__main__":
    unittest.main()
