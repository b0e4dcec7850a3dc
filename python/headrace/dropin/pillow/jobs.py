# SPDX-License-Identifier: Apache-2.0
"""Recordings, and the two ways to make their pixels.

Pixels are made by a job of the library, or by stock Pillow, which repeats the
ops one by one (``replay``), for each picture that failed in a job. Pillow then
raises the error that the user would have seen without Headrace. A DataLoader
worker has a CPU engine without threads for pixels that it needs while it
fetches.

Everything here works without torch. Threads: any.
"""

from __future__ import annotations

import functools
import io
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

from PIL import Image, JpegImagePlugin

from ... import _core, _oracle
from .. import base
from ..base import fetch
from ..base.report import count, total
from ..base.worker import in_worker

DECODE = _core.DECODE
CROP = _core.CROP
RESIZE = _core.RESIZE
FLIP = _core.FLIP
ERASE = _core.ERASE  # of tensors only, and last
_PAD = _core.OPS["pad"][0]
_WARPS = _core.OPS["affine"][0], _core.OPS["perspective"][0]
RGB, GRAY = 0, 1
HORIZONTAL, VERTICAL, TORCH = 1, 2, 3  # orders of passes

# Pillow's numbers of its six filters -> ours.
FILTERS = {number: _core.PIL_FILTER[number] for number in range(6)}

# In the report, behind the names of devices that made pictures there.
IN_WORKERS = ", in workers"
# Bytes that the jobs of a worker process may hold.
_WORKER_BUDGET = 64 << 20

# Longest list of ops that is recorded; the library takes 32.
MAX_OPS = 30


Source = Union[
    bytes, bytearray, memoryview, _core.FileBytes, _core.PackEntry, _core.Pixels
]
Ops = tuple[tuple[Any, ...], ...]


class Recording(NamedTuple):
    """The ops done to a picture; recorded() makes one fast.

    source: bytes-like object: a JPEG file (FileBytes, where ours has read it),
    or what _core.pack() made of one (so has FileBytes of a file that a cache
    knows); or a PackEntry; or Pixels, where stock has made some. Never a path:
    a file may be another one, or gone, by the time its picture is made.
    ops: tuple of _core's op tuples; the first is ``(DECODE, mode, False)``, of
    Pixels a Given.
    RESIZE always says its order of passes, so a recording means the same
    whatever Pillow is installed where it runs.
    """

    source: Source
    ops: Ops

    def followed_by(self, *ops: tuple[Any, ...]) -> Recording:
        return recorded((self.source, self.ops + ops))


# Recording(), but without its function in Python: a third of the time.
recorded: Callable[[tuple[Source, Ops]], Recording] = functools.partial(
    tuple.__new__, Recording
)


# An op behind which a picture has one channel.
SINGLE = (_core.OPS["grayscale"][0], True)


def channels(ops: Ops) -> int:
    return 1 if ops[0][1] == GRAY or SINGLE in ops else 3


class Given(tuple[Any, ...]):
    """The first op, where pixels are given; no job has it.

    ``(DECODE, RGB, False, width, height)``.
    """

    __slots__ = ()

    def pixels(self, data: Any) -> _core.Pixels:
        """The source, of its bytes."""
        w, h = self[3:]
        return _core.Pixels(w, h, 3, data=data, device=device())

    def open(self, source: _core.Pixels) -> Image.Image:
        return Image.frombytes("RGB", self[3:], bytes(source))


def given(image: Image.Image) -> Recording:
    """The recording of a picture that has its pixels, in RGB."""
    op = Given((DECODE, RGB, False, *image.size))
    return recorded((op.pixels(image.tobytes()), (op,)))


def _sample(recording: Recording) -> Any:
    """As a job takes it."""
    source, ops = recording
    return (source, ops[1:]) if type(ops[0]) is Given else recording


def open_stock(source: Source) -> Image.Image:
    """Opens it as Pillow does, without the drop-in."""
    if is_packed(source):
        return _unpacked(source)
    return JpegImagePlugin.jpeg_factory(io.BytesIO(source))


# The device of this process alone, and its number.
_own: tuple[int, _core.Device | None] = (0, None)


def own_device() -> _core.Device:
    """The CPU, by the thread that submits: a worker starts no thread."""
    global _own
    pid, device = _own
    if device is None or pid != os.getpid():
        device = _core.Device("cpu", threads=-1, budget=_WORKER_BUDGET)
        _own = os.getpid(), device
    return device


def device() -> _core.Device | None:
    """Where jobs of this process run; None: on the default device."""
    return own_device() if in_worker() else None


def is_packed(source: Source) -> bool:
    """Is it what _core.pack() made?"""
    if type(source) is _core.PackEntry:
        return source.packed
    return bytes(memoryview(source)[:2]) != b"\xff\xd8"


def _unpacked(source: Source) -> Image.Image:
    """Pillow cannot read it; the CPU can, also in workers.

    Raises PictureError, with the names of the pack file and the picture.
    """
    device = own_device()
    info = _core.probe(source)
    mode, channels = ("L", 1) if info.components == 1 else ("RGB", 3)
    ops = ((DECODE, GRAY if channels == 1 else RGB, False),)
    pixels = _core.Pixels(info.width, info.height, channels, device=device)
    _core.submit([(source, ops)], [pixels], device=device).wait()
    return Image.frombytes(mode, (info.width, info.height), bytes(pixels))


def replay(recording: Recording) -> Image.Image:
    """Makes the picture with stock Pillow. Raises what Pillow raises.

    A decode op may open the file by other means than Pillow's.
    """
    source, ops = recording
    image = getattr(ops[0], "open", open_stock)(source)
    image.load()
    fetch.made(source)
    made: Image.Image = _oracle.apply(image, _sample(recording)[1])
    return made


def decode(recording: Recording, mode: str, size: tuple[int, int]) -> Any:
    """Makes the pixels of one picture now: a plain PIL.Image.Image."""
    if len(recording.ops) == 1 and type(recording.ops[0]) is Given:
        return replay(recording)
    w, h = size
    channels = len(mode) if mode == "RGB" else 1
    pixels = bytearray(w * h * channels)
    batch = _core.Batch(
        1, channels, h, w, "u8", "nhwc", data=pixels, device=device()
    )
    failed = run([recording], batch)
    if failed:
        return replay(recording)
    return Image.frombytes(mode, size, bytes(pixels))


class _Aside(threading.local):
    """A cache for jobs of this thread, in place of the process's."""

    cache: _core.Cache | None = None


aside = _Aside()


def submit(
    recordings: Sequence[Recording],
    batch: Any,
    slot: int = 0,
    known: bool = True,
) -> Any:
    """Submits one job for all; slot + i of the batch is recording i's.

    Recordings of one source, as FiveCrop makes them, begin with the same ops:
    a job before it does those once. known=False: the report does not count it.
    """
    share = _alone if len(recordings) == 1 else _share
    first, pictures, samples = share(recordings)
    how = _how()
    if first:
        _core.submit(first, pictures, **how)
    job = _core.submit(samples, batch, first_slot=slot, **how)
    if known:
        total("jobs", 2 if first else 1)
        total("pictures", len(samples))
    return job


def _how() -> dict[str, Any]:
    """How jobs of the drop-in are submitted."""
    return {
        "on_error": "zero",
        "tier": base.tier,
        "cache": aside.cache,
        "device": device(),
    }


class Part:
    """The samples of one batch in a job of several."""

    __slots__ = ("_job", "_number", "_of")

    def __init__(self, job: Any, number: int, of: int) -> None:
        self._job, self._number, self._of = job, number, of

    def __len__(self) -> int:
        return len(self._job) // self._of

    @property
    def results(self) -> list[Any]:
        found = self._job.results
        return [found[i] for i in range(self._number, len(found), self._of)]

    def wait(self) -> None:
        self._job.wait()

    def cancel(self) -> None:
        """Cancels the job of all views."""
        self._job.cancel()


def submit_views(
    columns: Sequence[Sequence[Recording]], batches: Sequence[Any]
) -> list[Part]:
    """One job for several batches, which decodes equal sources once.

    Recording i of each column is of the same source.
    """
    job = _core.submit(
        [_sample(recording) for row in zip(*columns) for recording in row],
        batches,
        **_how(),
    )
    total("jobs")
    total("pictures", len(job))
    return [Part(job, i, len(batches)) for i in range(len(batches))]


def _share(recordings: Sequence[Recording]) -> tuple[Any, Any, Any]:
    """(samples of a first job, its pictures, samples of the second)."""
    samples: list[Any] = list(map(_sample, recordings))
    members: dict[int, list[int]] = {}
    for index, (source, _) in enumerate(recordings):
        members.setdefault(id(source), []).append(index)
    first, pictures = [], []
    if len(members) < len(samples):
        for indexes in members.values():
            same = _common([recordings[index].ops for index in indexes])
            size = _size_after(same)
            if len(indexes) == 1 or size is None:
                continue
            pictures.append(_pixels(size, channels(same)))
            source = recordings[indexes[0]].source
            first.append(_sample(recorded((source, same))))
            for index in indexes:
                rest = recordings[index].ops[len(same) :]
                samples[index] = (pictures[-1], rest)
    return first, pictures, samples


def _pixels(size: tuple[int, int], channels: int) -> _core.Pixels:
    return _core.Pixels(*size, channels, device=device())


class _Last(threading.local):
    """The source and ops of this thread's last job of one picture.

    From the second job of a source on: pixels, and the ops that made them.
    """

    source: Any = None
    ops: Ops = ()
    pixels: Any = None


_last = _Last()
# The most pixels that a thread keeps for the next part of a picture.
_MOST_KEPT = 1 << 24
_UNCHANGING = bytes, _core.FileBytes, _core.PackEntry


def _alone(recordings: Sequence[Recording]) -> tuple[Any, Any, Any]:
    """_share() for one recording: parts of a picture often come one by one."""
    ((source, ops),) = recordings
    plain: Any = [], [], [_sample(recordings[0])]
    if type(source) not in _UNCHANGING:
        return plain
    if _last.source is not source:
        _last.source, _last.ops, _last.pixels = source, ops, None
        return plain
    same = _common([_last.ops, ops])
    if not same or len(same) == len(ops):
        return plain
    first, pictures = [], []
    if _last.pixels is None or len(same) < len(_last.ops):
        size = _size_after(same, _size_of(source, ops[0]))
        if size is None or size[0] * size[1] > _MOST_KEPT:
            return plain
        _last.ops = same
        _last.pixels = _pixels(size, channels(same))
        first, pictures = [(source, same)], [_last.pixels]
    return first, pictures, [(_last.pixels, ops[len(same) :])]


def _size_of(source: Source, op: tuple[Any, ...]) -> tuple[int, int]:
    """Width and height of a file as a decode op makes it."""
    info = _core.probe(source)
    if op[2] and info.orientation >= 5:
        return info.height, info.width
    return info.width, info.height


def _common(lists: Sequence[Ops]) -> Ops:
    """The ops that all begin with, as long as they make pictures."""
    same = []
    for ops in zip(*lists):
        if any(op != ops[0] for op in ops):
            break
        if ops[0][0] in (_core.TABLE, ERASE):
            break
        same.append(ops[0])
    return tuple(same)


def _size_after(
    ops: Ops, size: tuple[int, int] | None = None
) -> tuple[int, int] | None:
    """Size of what the ops make of this size, or say themselves."""
    for op in ops:
        if op[0] == CROP:
            size = (op[3], op[4])
        elif op[0] == RESIZE:
            size = (op[1], op[2])
        elif op[0] in _WARPS:
            size = (op[2], op[3])
        elif op[0] == _PAD and size:
            left, top, right, bottom = op[1:5]
            size = (size[0] + left + right, size[1] + top + bottom)
        elif op[0] == FLIP and op[3] and size:
            size = (size[1], size[0])
    return size


def failures(
    job: Any, recordings: Sequence[Recording]
) -> list[tuple[int, str]]:
    """Waits for the job. Returns (index, reason) of what did not succeed.

    Raises only what concerns all: a device that is gone, Ctrl-C.
    """
    job.wait()
    failed = []
    devices: dict[str, int] = {}
    for index, result in enumerate(job.results):
        if result.status != 0:
            failed.append((index, result.status_name))
            continue
        if result.warnings:
            # Pillow may refuse a file that the decoder mended, when it gets to
            # the end.
            failed.append((index, "warnings"))
            continue
        fetch.made(recordings[index].source)
        name = _where(result)
        devices[name] = devices.get(name, 0) + 1
    for name, times in devices.items():
        count("devices", name, times)
    for _, reason in failed:
        count("mended", reason)
    return failed


def run(recordings: Sequence[Recording], batch: Any) -> list[tuple[int, str]]:
    return failures(submit(recordings, batch), recordings)


def _where(result: Any) -> str:
    """"opencl", or "cpu decode, opencl ..." where several shared it."""
    names = list(dict.fromkeys(span[2] for span in result.spans))
    text = " + ".join(names) + (IN_WORKERS if in_worker() else "")
    return text + " (%s)" % ", ".join(result.why) if result.why else text
