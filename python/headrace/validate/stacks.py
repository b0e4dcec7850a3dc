# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms, as stock and as the drop-in records them.

The same transforms run twice on each file with the same seeds: with the
drop-in switched on, when they only record, and with it off. Our side is the
recording, run as a job. So random draws and the arithmetic of the tensors are
compared as a user's program has them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import Error
from .cases import Case, Picture
from .stock import Stock

_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

Transform = Callable[[Any], Any]


class Left(NamedTuple):
    """A picture that the drop-in does not record: Pillow makes it."""

    pipeline: str
    reason: str


class Failed(NamedTuple):
    """A transform that raised an error on one side only."""

    pipeline: str
    ours: str | None
    theirs: str | None


def transforms(names: Sequence[str]) -> tuple[
    dict[str, Transform], dict[str, str]
]:
    """The named transforms that can be run, and why the others cannot."""
    made: dict[str, Transform] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            made[name] = _BUILDERS[name.split("-")[0]](name.split("-")[1])
        except Exception as error:  # a broken installation raises anything
            missing[name] = _reason(error)
    return made, missing


def _reason(error: Exception) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return f"{type(error).__name__}: {error}"
    package, _, rest = (error.name or "?").partition(".")
    module = sys.modules.get(package)
    if rest and module is not None:
        return f"{package} {module.__version__} has no {rest}"
    return f"{package} is not installed"


def _v1(kind: str) -> Transform:
    import torchvision.transforms as v1

    return _compose(v1, kind, [v1.ToTensor()])


def _v2(kind: str) -> Transform:
    import torch
    import torchvision.transforms.v2 as v2

    # torchvision 0.15 has an unfinished v2 without them.
    importlib.import_module("torchvision.tv_tensors")
    tail = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return _compose(v2, kind, tail)


def _tensors(kind: str) -> Transform:
    import torch
    import torchvision.transforms.v2 as v2

    importlib.import_module("torchvision.tv_tensors")
    tail = [v2.ToDtype(torch.float32, scale=True)]
    rest = _compose(v2, kind, tail)
    composed: Transform = v2.Compose([v2.ToImage(), rest])
    return composed


def _compose(module: Any, kind: str, tail: list[Any]) -> Transform:
    if kind == "train":
        head = [module.RandomResizedCrop(224), module.RandomHorizontalFlip()]
    else:
        head = [module.Resize(256), module.CenterCrop(224)]
    normalize = module.Normalize(_MEAN, _STD)
    composed: Transform = module.Compose([*head, *tail, normalize])
    return composed


_BUILDERS: dict[str, Callable[[str], Transform]] = {
    "v1": _v1,
    "v2": _v2,
    "tensors": _tensors,
}


class Recorder:
    """Cases of pictures, from transforms that the drop-in records."""

    def __init__(
        self,
        made: dict[str, Transform],
        stock: Stock,
        seed: int,
        order: str | None,
    ) -> None:
        """order: the reference that resizes of pictures follow."""
        self._transforms = made
        self._stock = stock
        self._seed = seed
        self._order = order

    def cases(
        self, pictures: Sequence[Picture]
    ) -> tuple[list[tuple[Picture, Case]], list[tuple[Picture, Left | Failed]]]:
        """The cases that can be compared, and the others. Raises HookError."""
        if not self._transforms:
            return [], []
        found: list[tuple[Picture, Case]] = []
        others: list[tuple[Picture, Left | Failed]] = []
        with self._switched_on():
            for picture in pictures:
                for name in self._transforms:
                    case = self._record(name, picture)
                    if isinstance(case, Case):
                        found.append((picture, case))
                    else:
                        others.append((picture, case))
        for index, (picture, other) in enumerate(others):
            if isinstance(other, Failed):
                theirs = self._error(other.pipeline, picture)
                others[index] = picture, other._replace(theirs=theirs)
        return found, others

    @contextlib.contextmanager
    def _switched_on(self) -> Iterator[None]:
        from .. import dropin
        from ..dropin.pillow import originals

        # It compares a picture with stock, which must follow our reference.
        with self._stock.in_order(), originals.counts_as_stock("resize"):
            dropin.install(self._order)
        try:
            yield
        finally:
            dropin.uninstall()

    def _run(self, name: str, picture: Picture) -> Any:
        """The user's program: load, transform, from the same seed."""
        import torch
        from torchvision.datasets.folder import default_loader

        seed = f"{self._seed}:{picture.index}:{name}"
        number = random.Random(seed).getrandbits(63)
        torch.manual_seed(number)
        return self._transforms[name](default_loader(picture.file.path))

    def _record(self, name: str, picture: Picture) -> Case | Left | Failed:
        from ..dropin.torch import tensor
        from ..dropin.base import fetch
        from ..dropin.base.report import add, take

        before = take()
        try:
            with fetch.at(fetch.MAP):  # where tensors are lazy
                lazy = self._run(name, picture)
            if not isinstance(lazy, tensor.lazy_types()):
                return Left(name, _why(take()))
            record = tensor.record_of(lazy)
        except fetch.AskAgain as failed:
            return Failed(name, str(failed), None)
        except Exception as error:
            return Failed(name, _text(error), None)
        finally:
            take()
            add(before)
        if record is None:
            return Left(name, "its pixels were asked for")
        return self._case(name, picture, record)

    def _case(self, name: str, picture: Picture, record: Any) -> Case:
        (source, steps), table = record.samples[0], record.tables[0]
        if table is not None:
            steps = (*steps, table.op())
        c, h, w = record.size
        return Case(
            name,
            f"seed {self._seed}",
            (source, steps),
            (w, h),
            c,
            "f32",
            lambda: self._theirs(name, picture),
        )

    def _theirs(self, name: str, picture: Picture) -> bytes:
        with self._stock.in_order():
            value = self._run(name, picture).contiguous()
        size = value.numel() * value.element_size()
        return ctypes.string_at(value.data_ptr(), size)

    def _error(self, name: str, picture: Picture) -> str | None:
        try:
            self._theirs(name, picture)
        except Exception as error:
            return _text(error)
        return None


def _text(error: Exception) -> str:
    if isinstance(error, Error):
        return f"{error.status}: {error.reason}"
    return f"{type(error).__name__}: {error}"


# Groups of the drop-in's counters for pictures that are left to Pillow.
_GROUPS = {
    "pillow": "{}",
    "materialised": "its pixels were asked for by {}",
    "mended": "a job failed: {}",
}


def _why(taken: dict[str, Any]) -> str:
    for group, form in _GROUPS.items():
        for reason in taken["counts"].get(group, {}):
            return form.format(reason)
    return "not recorded"
