# SPDX-License-Identifier: Apache-2.0
"""Image processors of Hugging Face's transformers, recorded. Imports torch.

A processor whose steps are those of its backend's class, or of a class that
_processors.py knows, gets a batch at once: its steps for each picture become
ops, and pixel_values one lazy tensor, which one job makes. In a fetch the
loader makes it; elsewhere it is made now.

All pictures of such a call must be recorded: opened under the drop-in and not
yet made, paths of JPEG files, or lazy tensors. Where the job runs at once, it
checks the files that nothing has read before: stock does the whole call if a
picture cannot be made. Otherwise, and where a class has other steps (Qwen2-VL,
LLaVA-NeXT), processors of backend torchvision run as they are, on lazy tensors:
process_image() makes one of a picture. pieces.py knows these two of backend
pil; its other calls are left to stock, and counted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from PIL import Image

from ... import _core, _processors
from ...errors import ArgumentError
from ..base import fetch
from ..base.report import count, total
from ..pillow import files, jobs, originals, pictures
from ..pillow.asked import resize_op
from . import encoded, images, pieces
from .batches import made_by
from .cell import Cell
from .tables import Table
from .tensor import LazyTensor, forget, lazy_types, plain, settle, wrap
from .wrappers import modes

_PACKAGE = "transformers."
_BACKENDS = _PACKAGE + "image_processing_backends"
# Modules whose functions are what a plan says.
_PLAIN = {
    _BACKENDS,
    _PACKAGE + "image_processing_utils",
    _PACKAGE + "image_processing_base",
}
_KNOWN = {
    f"{_PACKAGE}models.{kind.lower()}.image_processing_{pil}{kind.lower()}":
    kind
    for kind in ("ConvNext", "Beit")
    for pil in ("", "pil_")
} | {
    f"{_PACKAGE}models.{name}.image_processing_pil_{name}": kind
    for kind, name in (("Qwen2VL", "qwen2_vl"), ("LlavaNext", "llava_next"))
}
# The methods that a processor calls on its way.
_STEPS = (
    "_preprocess", "resize", "center_crop", "rescale", "normalize",
    "rescale_and_normalize", "process_image", "convert_to_rgb",
    "fetch_images", "_prepare_image_like_inputs", "_prepare_images_structure",
)
_PLAN_OF = (
    "do_resize", "resample", "do_center_crop", "do_rescale",
    "rescale_factor", "do_normalize", "image_mean", "image_std", "crop_pct",
    "do_pad", "data_format",
)
_MOST = 64  # plans that are remembered


class _Picture(NamedTuple):
    samples: Sequence[jobs.Recording]
    size: tuple[int, int]
    warns: int = 0  # as often stock's decoder says that it is deprecated
    unread: Any = None  # of Pillow: it has its file until the job has made it


class _Stock(Exception):
    """Stock must do it; its text is the reason."""


def preprocess(stock: Any) -> Any:
    """_preprocess_image_like_inputs() of a class, around the stock one."""

    def _preprocess_image_like_inputs(
        self: Any, images: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # (args may be maps of labels, which are left to stock.)
        if pictures.active and not fetch.is_off() and not modes():
            if all(x is None for x in args):
                made = _features(self, images, kwargs)
                if made is not None:
                    return made
            if _runs_lazily(self):
                return _settled(lambda: stock(self, images, *args, **kwargs))
        return stock(self, images, *args, **kwargs)

    return _preprocess_image_like_inputs


def call(stock: Any) -> Any:
    """preprocess(), around a stock one that does not come to the one above."""

    def preprocess(self: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
        inner = type(self)._preprocess_image_like_inputs
        is_ours = inner.__code__.co_filename == __file__
        if is_ours or not pictures.active or fetch.is_off() or modes():
            return stock(self, images, *args, **kwargs)
        if not _runs_lazily(self):
            return stock(self, images, *args, **kwargs)
        return _settled(lambda: stock(self, images, *args, **kwargs))

    return preprocess


def _runs_lazily(processor: Any) -> bool:
    """Where no loader makes what its steps leave lazy."""
    return not fetch.is_lazy() and _is_of(processor, "TorchvisionBackend")


def _settled(run: Callable[[], Any]) -> Any:
    """run() on lazy tensors, of which none is left. Files were checked."""
    with fetch.at(fetch.ITERABLE):
        try:
            made = run()
            settle()
        except BaseException:
            forget()
            raise
    return made


def process_image(stock: Any) -> Any:
    """TorchvisionBackend's, of one picture, where its tensor may be lazy."""

    def process_image(
        self: Any,
        image: Any,
        do_convert_rgb: Any = None,
        input_data_format: Any = None,
        device: Any = None,
        **kwargs: Any,
    ) -> Any:
        if pictures.active and fetch.is_lazy() and not modes():
            if _is_picture(image) and str(device) in ("None", "cpu"):
                try:
                    return _lazy(image, do_convert_rgb)
                except _Stock as why:
                    count("pillow", "a processor: %s" % why)
        return stock(
            self, image, do_convert_rgb, input_data_format, device, **kwargs
        )

    return process_image


def _lazy(picture: Any, converts: Any) -> Any:
    read = _of_pillow(picture, converts)
    w, h = read.size
    return wrap(LazyTensor, Cell(read.samples, (3, h, w), None))


def _is_picture(x: Any) -> bool:
    return isinstance(x, Image.Image)


def _features(processor: Any, given: Any, kwargs: Any) -> Any:
    """The processor's result, recorded; None: stock must make it."""
    try:
        made = _recorded(processor, given, kwargs)
    except _Stock as why:
        if not _is_of(processor, "TorchvisionBackend"):
            count("pillow", "a processor: %s" % why)
        return None
    except Exception as error:  # stock raises it, or knows better
        count("pillow", "a processor: %s" % type(error).__name__)
        return None
    module = sys.modules[_PACKAGE + "image_processing_utils"]
    return module.BatchFeature(*made)


def _recorded(processor: Any, given: Any, kwargs: Any) -> tuple[Any, ...]:
    """Arguments of its BatchFeature."""
    kind, backend = _kind(processor), _backend(processor)
    if kind in pieces.KINDS:
        return _cut(processor, pieces.KINDS[kind], given, kwargs)
    values = _pixel_values(processor, kind, backend, given, kwargs)
    return ({"pixel_values": values},)


def _pixel_values(
    processor: Any,
    kind: str,
    backend: _processors.Backend,
    given: Any,
    kwargs: Any,
) -> Any:
    if backend == "torchvision" and _has_own_numbers(processor):
        raise _Stock("other numbers")
    plan, table = _plan(kind, backend, kwargs)
    want = plan.out
    if want is None:
        raise _Stock("it keeps the sizes of pictures")
    tensors = _word(kwargs, "return_tensors")
    if tensors not in ("pt", "np") and (backend == "pil" or tensors != "None"):
        raise _Stock("return_tensors %s" % tensors)
    resize = _resize_of(backend, plan.resample) if (
        plan.size or plan.short) else None
    found = list(_pictures(backend, given, kwargs))
    samples = [
        each.followed_by(*_ops(plan, resize, picture.size))
        for picture in found
        for each in picture.samples
    ]
    if any(len(each.ops) > jobs.MAX_OPS for each in samples):
        raise _Stock("too many ops")
    w, h = want
    if tensors == "None" and fetch.is_lazy():
        _were_read(found)
        return [
            wrap(LazyTensor, Cell((each,), (3, h, w), table))
            for each in samples
        ]
    made = _batch(samples, (3, h, w), table)
    _were_read(found)
    if tensors == "np":
        return plain(made).numpy()
    # (Each of them has its own memory.)
    return made if tensors == "pt" else [each.clone() for each in made]


def _cut(
    processor: Any, kind: Any, given: Any, kwargs: Any
) -> tuple[Any, ...]:
    """The result of a class that pieces.py knows."""
    plan, table = _plan("", "pil", kind.rest(kwargs))
    if kind.one_size and plan.out is None:
        raise _Stock("pieces of several sizes")
    side = {"height": 1, "width": 1}  # only the filter is asked for
    asked = {**kwargs, "do_resize": True, "size": side, "do_pad": False}
    asked |= {"do_center_crop": False}
    resize = _resize_of("pil", _plan("", "pil", asked)[0].resample)

    def rest(have: Size) -> Any:
        return _ops(plan, resize, have), plan.out

    found = list(_pictures("pil", given, kwargs))
    if any(len(picture.samples) > 1 for picture in found):
        raise _Stock("stacks among pictures")
    sizes = [picture.size for picture in found]
    cut = [
        kind.pieces(processor, kwargs, size, resize, rest) for size in sizes
    ]
    samples = [picture.samples[0] for picture in found]
    pixels = pieces.pixels(samples, cut, table)
    if pixels is None:
        raise _Stock("too many ops")
    _were_read(found)
    data = kind.made(processor, kwargs, sizes, pixels)
    return data, kwargs.get("return_tensors")


def _were_read(found: Sequence[_Picture]) -> None:
    """Leaves the pictures as stock's reading does, with its warnings."""
    encoded.warned(sum(picture.warns for picture in found))
    for picture in found:
        if picture.unread is not None:
            pictures.read(picture.unread, picture.samples[0])


def _batch(
    samples: Sequence[jobs.Recording],
    size: tuple[int, int, int],
    table: Table | None,
) -> Any:
    cell = Cell(samples, size, table, False, (len(samples),))
    if fetch.is_lazy():
        return wrap(LazyTensor, cell)
    tables = [table] * len(samples)
    group = made_by(samples, tables, size, cell.dtype)
    return group.slots(0, len(samples)).detach()


# ---- what it does -----------------------------------------------------------


def _backend(processor: Any) -> _processors.Backend:
    if _is_of(processor, "PilBackend"):
        return "pil"
    if _is_of(processor, "TorchvisionBackend"):
        return "torchvision"
    raise _Stock("of another backend")


def _is_of(processor: Any, backend: str) -> bool:
    return isinstance(processor, getattr(sys.modules[_BACKENDS], backend))


def _has_own_numbers(processor: Any) -> bool:
    """Would torch make others of its mean, its deviation and its factor?"""
    module = sys.modules[_BACKENDS]
    name = "_fuse_mean_std_and_rescale_factor"
    stock = getattr(module.TorchvisionBackend, name, None)
    return (
        getattr(type(processor), name, None) is not stock
        or name in vars(processor)
        or torch.get_default_dtype() is not torch.float32
    )


def _kind(processor: Any) -> str:
    """The name of a class that has steps of its own; "": it has none."""
    cls = type(processor)
    kind = _KNOWN.get(cls.__module__, "")
    here = {*_PLAIN, cls.__module__} if kind else _PLAIN
    for name in (*_STEPS, *getattr(pieces.KINDS.get(kind), "steps", ())):
        step = getattr(cls, name, None)
        if step is None:
            continue
        code = getattr(step, "__code__", None)
        theirs = sys.modules.get(getattr(step, "__module__", ""))
        if (
            name in vars(processor)
            or step.__module__ not in here
            or code is None
            or code.co_filename not in (
                getattr(theirs, "__file__", None), __file__)
        ):
            raise _Stock("%s has a %s() of its own" % (cls.__name__, name))
    return kind


_plans: dict[Any, tuple[_processors.Plan, Table | None]] = {}


def _plan(
    kind: str, backend: _processors.Backend, kwargs: Any
) -> tuple[_processors.Plan, Table | None]:
    said = {key: kwargs.get(key) for key in _PLAN_OF}
    for side in ("size", "crop_size"):
        said[side] = dict(kwargs.get(side) or {})
    said["device"] = kwargs.get("device")
    asked = (
        tuple((side, type(n), n) for side, n in x.items())
        if type(x) is dict
        else str(x) if name == "device" else (type(x), x)
        for name, x in said.items()
    )
    key = kind, backend, *asked  # (1 is not 1.0.)
    if key not in _plans:
        try:
            plan = _processors.planned(kind, backend, said)
        except ArgumentError as error:
            # Not what was asked, or each of many sizes would be a reason.
            name, why = str(error).split(" ")[0], str(error).split(": ")[-1]
            raise _Stock("%s: %s" % (name, why))
        if len(_plans) >= _MOST:
            _plans.clear()
        _plans[key] = plan, _table(plan.numbers)
    return _plans[key]


def _table(numbers: bytes | None) -> Table | None:
    if numbers is None:
        return None
    values = torch.frombuffer(bytearray(numbers), dtype=torch.float32)
    return Table(values.reshape(3, 1, 256))


Size = tuple[int, int]
Resize = Callable[[Size, Size], Any]


def _resize_of(backend: str, resample: int) -> Resize:
    """(have, want) -> the op; (): nothing is to do."""
    if backend == "pil":
        if not originals.is_stock("resize"):
            raise _Stock("Pillow's resize() was replaced")
        return lambda have, want: resize_op(
            have, want, resample, None, pictures.reference)
    module = sys.modules[_BACKENDS]
    mode = module.pil_torch_interpolation_mapping[resample]
    geometry = sys.modules["torchvision.transforms.v2.functional._geometry"]
    name = images._filter(geometry, mode, True)
    if name is None or (
        name == "lanczos" and not module.is_torchvision_greater_or_equal("0.27")
    ):
        raise _Stock("torch resizes other numbers with resample %d" % resample)
    return lambda have, want: (
        () if have == want else images.resize_op(want[1], want[0], name))


def _ops(plan: _processors.Plan, resize: Resize | None, have: Size) -> Any:
    size, windows = plan.sizes(have)
    made = []
    if resize is not None and size is not None:
        op = resize(have, size)
        if op is None:
            raise _Stock("a resize that Pillow must do")
        made += [op] if op else []
        have = size
    for x, y, w, h in windows:
        if (x, y, w, h) != (0, 0, *have):
            outside = x < 0 or y < 0 or x + w > have[0] or y + h > have[1]
            made.append((jobs.CROP, x, y, w, h, outside))
        have = w, h
    return made


# ---- its pictures -----------------------------------------------------------


def _word(kwargs: Any, name: str) -> str:
    """An argument that is a word, an enum of words, or None."""
    value = kwargs.get(name)
    return str(getattr(value, "value", value))


def _pictures(
    backend: str, given: Any, kwargs: Any
) -> Iterator[_Picture]:
    layout = _word(kwargs, "input_data_format")
    if layout not in ("None", "channels_first"):
        raise _Stock("input_data_format")
    flat = list(_flat(given))
    is_nested = any(type(x) in _LISTS for x in _listed(given))
    stacks = [type(x) in lazy_types() and len(x._hr.lead) for x in flat]
    if any(stacks) and (is_nested or not all(stacks)):
        raise _Stock("stacks among pictures")
    if not flat:
        raise _Stock("no pictures")
    for each in flat:
        if isinstance(each, str):
            yield _of_path(backend, each)
        elif type(each) in lazy_types():
            yield _of_tensor(each)
        else:
            yield _of_pillow(each, kwargs.get("do_convert_rgb"))


_LISTS = list, tuple


def _listed(given: Any) -> list[Any]:
    return list(given) if type(given) in _LISTS else [given]


def _flat(given: Any) -> Iterator[Any]:
    """Pictures, or of lists of them; stock takes no lists beside pictures."""
    listed = _listed(given)
    nested = [type(each) in _LISTS for each in listed]
    if any(nested) and not all(nested):
        raise _Stock("lists beside pictures")
    for each in listed:
        if type(each) in _LISTS:
            yield from each
        else:
            yield each


def _of_pillow(picture: Any, converts: Any) -> _Picture:
    if type(picture) not in pictures.RECORDERS:
        raise _Stock("a picture that is not recorded")
    if converts and pictures._is_transparent(picture):
        raise _Stock("a transparent picture")
    if picture.mode != "RGB":
        if not converts:
            raise _Stock("mode %s" % picture.mode)
        picture = picture.convert("RGB")
    if not fetch.is_lazy():  # the job runs at once, and finds damage
        hr = pictures.unread(picture)
        if hr is not None:
            return _Picture((hr,), picture.size, unread=picture)
    hr = None
    if type(picture) in pictures.RECORDERS:
        hr = pictures.recording(picture)
    if hr is None:
        raise _Stock("a picture that is not recorded")
    return _Picture((hr,), picture.size)


def _of_tensor(lazy: Any) -> _Picture:
    cell = lazy._hr
    c, h, w = cell.size
    if (
        not cell.open()
        or cell.dtype is not torch.uint8
        or cell.table is not None
        or cell.tables is not None
        or c != 3
        or min(h, w) <= 4  # sides that might be channels
        or len(cell.lead) > 1
    ):
        raise _Stock("a tensor that is no picture of bytes")
    return _Picture(cell.samples, (w, h))


def _of_path(backend: str, path: str) -> _Picture:
    """A file as load_image(), or torchvision, makes it: upright and RGB."""
    if not os.path.isfile(path):
        raise _Stock("a text that is no path")
    module = sys.modules[_PACKAGE + "image_utils"]
    if backend == "pil":
        return _of_pillow(module.load_image(path), True)
    codec = module.is_torchcodec_usable(decode="image")
    package = encoded.CODEC if codec else encoded.MODULE
    if package not in encoded.agree:
        raise _Stock("paths that another decoder reads")
    source: Any = _core.read_file(path)
    info = files.probe(source)
    reason = encoded._objection(info, "RGB")
    if reason is None and not encoded.may_turn(source, info):
        reason = "turned by its EXIF"
    if reason is None and fetch.is_lazy() and not fetch.can_ask_again():
        reason, source = files.checked(source)
    if reason is not None:
        raise _Stock(reason)
    ops = encoded.OPS[package, "RGB", info.orientation != 1]
    fetch.recorded(source, ops[0].open)
    total("recorded")
    hr = jobs.recorded((source, ops))
    warns = 2 if package == encoded.MODULE else 0
    return _Picture((hr,), encoded.turned_size(info), warns)
