# SPDX-License-Identifier: Apache-2.0
"""submit(): many pictures as one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from . import _core
from .image import Image, Source
from .ops import Key, Ops

Sources: TypeAlias = "Source | Image"
Sample: TypeAlias = (
    "Image | tuple[Sources, Ops] | tuple[Sources, Ops, Key | None]"
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
            ops come first. ops: a tuple of headrace.ops. key: (seed, index,
            epoch) for random ops. An Image alone is a sample, too.
        out: a Batch: sample i is written to slot first_slot + i, and must
            have its channels and size; or a list of Pixels, one for each.
        device: a Device or a name; None: the device that made the Batch.
        on_error: "fail": wait() raises the error of the first sample that
            failed, and its slot is zero; "zero": only results tell; "skip":
            as "zero", but the slot is not cleared: it holds what it held, or
            a part of the picture.
        timeout: seconds for the whole job; then its status is HR_ETIMEDOUT.
        first_slot: of the Batch.
        strict: never another engine than the device's own.
        on_done: called once with the job, on a thread of the library, when it
            has ended. It must be short and must not wait for jobs. What it
            raises goes to sys.unraisablehook.
        tier: "exact": only what is bit-exact on this machine; "close": also a
            media engine's decoder if it measured within 2 levels; "fast":
            also its own scaling.
        cache: a Cache for these samples; None: that of the device, or of
            set_cache().

    A sample that fails harms no other one: Job.results has the status of
    each, which device made which stages, and why an engine was left. It waits
    only if the jobs in flight hold all of the device's byte budget; the GIL is
    released then. Raises headrace.ArgumentError or TypeError if a sample
    cannot be; then nothing is submitted.
    """
    return _core.submit(
        [_plain(s) for s in samples],
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


def _plain(sample: Sample) -> Any:
    if isinstance(sample, Image):
        return (sample._source, sample._ops, sample._key)
    image = sample[0]
    if not isinstance(image, Image):
        return sample
    key = sample[2] if len(sample) == 3 else image._key
    return (image._source, image._ops + sample[1], key)
