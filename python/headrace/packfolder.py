# SPDX-License-Identifier: Apache-2.0
"""PackFolder: pack files as a data set for torch's loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from . import _left_out
from ._core import PackFile
from .errors import ArgumentError

Path: TypeAlias = "str | os.PathLike[str] | os.PathLike[bytes]"


class PackFolder:
    """A data set like torchvision's ImageFolder, of what 'headrace pack' made.

    Args:
        path: a pack file, or several, as --split makes them.
        transform: called with a picture of Pillow, RGB.
        target_transform: called with the number of its class.
        classes: names in the order of their numbers, or a mapping of names to
            numbers, in place of the file's own. They may be another file's.
        strict: pictures that are no sample raise headrace.ReadError.

    Sample i is (transform(picture), target_transform(class)). Classes are those
    of the folder that was packed, also empty ones. They, and the pictures in
    them, have the order of ImageFolder, so shuffling with the same seed gives
    the same batches. If the labels of tar files or lists are numbers, these
    are the classes, and classes[i] is "" for a number that does not occur.

    A picture without a label, where others have one, is no sample; nor is one
    of a class that was not named. One warning says so, and skipped has them.

    After headrace.set_image_backend() pictures are recorded, and a batch is
    one job; without it each is made when it is asked for. The numbers are the
    same, and those of the stock program with the files.

    Attributes, as ImageFolder's: root, classes, class_to_idx, samples, imgs,
    targets, transform, target_transform. packs: the PackFiles.

    It needs Pillow, and not torch. It pickles as paths and lists; workers of
    any kind may have it. Errors: those of PackFile; headrace.PictureError for a
    damaged picture, where the batch is.
    """

    def __init__(
        self,
        path: Path | Sequence[Path],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        *,
        classes: _left_out.Classes | None = None,
        strict: bool = False,
    ) -> None:
        named = _left_out.numbered(classes)
        one = isinstance(path, (str, os.PathLike))
        paths: list[Any] = [path] if one else list(path)  # type: ignore
        self.root = path
        self.packs = [PackFile(each) for each in paths]
        self.transform = transform
        self.target_transform = target_transform
        found = [
            (label, os.path.dirname(name), name, pack, number)
            for pack in self.packs
            for number, (name, label) in enumerate(
                zip(pack.names, pack.labels)
            )
        ]
        # ImageFolder's order: classes; folders in them; names in those.
        found.sort(key=lambda each: each[:3])
        self.class_to_idx = numbers = named or _numbers(self.packs)
        other = _left_out.OTHER if named else _left_out.WORD
        none = _left_out.UNLABELLED
        self.classes = list(_left_out.listed(numbers))
        # As beside the folders of classes: it is no sample.
        self._skipped: _left_out.Skipped = tuple(
            (os.path.join(pack.path, name), other if label else none)
            for label, _, name, pack, _ in found
            if numbers and label not in numbers
        )
        if self._skipped:
            found = [each for each in found if each[0] in numbers]
        called = ", ".join(map(os.fsdecode, paths))
        _left_out.tell(called, self._skipped, (), strict)
        self.samples = [
            (name, numbers.get(label, -1)) for label, _, name, *_ in found
        ]
        self.targets = [target for _, target in self.samples]
        self._places = [(pack, number) for *_, pack, number in found]

    @property
    def skipped(self) -> tuple[str, ...]:
        """The parts of the files that are no samples: "PATH: REASON"."""
        return _left_out.texts(self._skipped)

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """(name, class) of each sample, the same as samples."""
        return self.samples

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        pack, number = self._places[index]
        target: Any = self.targets[index]
        picture = _load(pack[number])
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target

    def __repr__(self) -> str:
        return "<headrace.PackFolder of %d pictures, %d classes>" % (
            len(self),
            len(self.classes),
        )


def _fixed(packs: Sequence[PackFile]) -> bool:
    return any(pack.fixed for pack in packs)


def _numbers(packs: Sequence[PackFile]) -> dict[str, int]:
    """The number of each class, also of classes without a picture."""
    if not _fixed(packs):
        named = {label for pack in packs for label, _ in pack.classes}
        labels = named.union(*(pack.labels for pack in packs)) - {""}
        return {label: i for i, label in enumerate(sorted(labels))}
    numbers: dict[str, int] = {}
    for pack in packs:
        for label, number in pack.classes if pack.fixed else ():
            if numbers.setdefault(label, number) != number:
                raise ArgumentError(
                    f"{pack.path}: class {label!r} is number {number}, "
                    f"and {numbers[label]} in another file"
                )
    return numbers


class Entries:
    """(entry, class) of each sample, in the same order: for headrace.Loader."""

    def __init__(self, folder: PackFolder) -> None:
        self._places, self._targets = folder._places, folder.targets

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        pack, number = self._places[index]
        return pack[number], self._targets[index]


def _load(entry: Any) -> Any:
    """The loader, which needs Pillow; imported when it is needed."""
    global _load
    # First, so that the drop-in's hooks come before what makes use of them.
    import PIL.JpegImagePlugin  # noqa: F401

    from .dropin.pillow.folder import load_entry

    _load = load_entry
    return load_entry(entry)
