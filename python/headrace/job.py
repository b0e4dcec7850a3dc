# SPDX-License-Identifier: Apache-2.0
"""submit(): many pictures as one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from . import _core
from .compose import as_ops, is_transform
from .image import Image, Source
from .ops import Key, Ops

Sources: TypeAlias = "Source | Image"
Sample: TypeAlias = (
    "Image | tuple[Sources, Any] | tuple[Sources, Any, Key | None]"
)


def submit(
    samples: Iterable[Sample],
    out: _core.Batch | Sequence[_core.Pixels],
    *,
    device: _core.Device | str | None = None,
    on_error: Literal["fail", "zero", "skip"] = "fail",
    timeout: float | None = None,
    first_slot: int = 0,
    strict: bool = False,
    on_done: Callable[[_core.Job], object] | None = None,
    tier: Literal["exact", "close", "fast"] = "exact",
    cache: _core.Cache | None = None,
) -> _core.Job:
    """Submit samples as one job, which runs by itself; return it.

    Args:
        samples: each is (source, ops) or (source, ops, key). source: encoded
            bytes or another buffer of them, also what pack() returned (held
            by the job), a path (read by the job), Pixels, or an Image, whose
            ops come first. ops: a tuple or list of headrace.ops, or transforms
            of torchvision, see headrace.compose.translate(). key: (seed, index,
            epoch) for random ops. An Image alone is a sample, too.
        out: a Batch: sample i is written to slot first_slot + i, and must
            have its channels and size; or a list of Pixels, one for each.
        device: a Device or a name; None: the device that made the Batch.
        on_error: "fail": wait() raises the error of the first sample that
            failed, and its slot is zero; "zero": only results tell; "skip":
            as "zero", but the slot is not cleared: it holds what it held, or
            a part of the picture.
        timeout: seconds for the whole job; then its status is HR_ETIMEDOUT.
        first_slot: the slot of sample 0 in the Batch.
        strict: never another engine than the device's own.
        on_done: called once with the job, on a thread of the library, when it
            has ended. It must be short and must not wait for jobs. Its
            exceptions go to sys.unraisablehook.
        tier: "exact": only engines that are bit-exact on this machine;
            "close": also a media engine's decoder if it measured within 2
            levels; "fast": also its own scaling.
        cache: a Cache for these samples; None: the device's, or that of
            set_cache().

    A sample that fails harms no other one: Job.results has the status of
    each, which device made which stages, and why an engine was left. It waits
    only if the jobs in flight hold all of the device's byte budget; the GIL is
    released then. Raises headrace.ArgumentError or TypeError if a sample
    cannot be; then nothing is submitted.
    """
    known: dict[int, tuple[Any, Ops]] = {}
    return _core.submit(
        [_plain(s, known) for s in samples],
        out,
        device=device,
        on_error=on_error,
        timeout=timeout,
        first_slot=first_slot,
        strict=strict,
        on_done=on_done,
        tier=tier,
        cache=cache,
    )


def _plain(sample: Sample, known: dict[int, tuple[Any, Ops]]) -> Any:
    if isinstance(sample, Image):
        return (sample._source, sample._ops, sample._key)
    if not isinstance(sample, tuple) or len(sample) not in (2, 3):
        return sample  # refused, with its number
    image, steps, *key = sample
    if type(steps) is not tuple or is_transform(steps):
        # (The steps are kept, so that no others get their id.)
        if id(steps) not in known:
            known[id(steps)] = steps, as_ops(steps)[0]
        steps = known[id(steps)][1]
    if isinstance(image, Image):
        key = key or [image._key]
        return (image._source, image._ops + steps, *key)
    return (image, steps, *key)
