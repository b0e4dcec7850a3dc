# SPDX-License-Identifier: Apache-2.0
"""Our side: many pictures as few jobs, and the engines of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _core, ops
from ..errors import DeviceError, Error
from .cases import Case
from .files import File

# Most pictures of a job, and most bytes that it writes, if more than one.
_SLOTS = 32
_BYTES = 64 << 20
_ELEMENT = {"f32": 4, "f16": 2, "u8": 1}


class Made(NamedTuple):
    """pixels: None if it was refused; then status and reason say why.

    spans: (first stage, last stage, device). why: reasons that kept the first
    engine from doing everything; fallbacks: how often an engine failed at it.
    """

    pixels: memoryview | None
    status: str
    reason: str
    spans: list[tuple[str, str, str]]
    why: list[str]
    fallbacks: int = 0

    def by(self) -> str:
        """"entropy on cpu, reconstruct..store on opencl:0"."""
        return ", ".join(
            f"{first if first == last else f'{first}..{last}'} on {device}"
            for first, last, device in self.spans
        )


class Flight:
    """Jobs that were submitted. wait() gives what they made, in order."""

    def __init__(
        self, cases: Sequence[Case], device: _core.Device | None = None
    ) -> None:
        self._made: list[Made | None] = [None] * len(cases)
        self._groups: list[_Group] = []
        for places in _group(cases):
            try:
                self._groups.append(_Group(cases, places, device))
            except DeviceError:
                raise
            except Error as error:
                for place in places:
                    self._made[place] = _refused(error)

    def wait(self) -> list[Made]:
        for group in self._groups:
            for place, made in group.wait():
                self._made[place] = made
        return [made for made in self._made if made is not None]


def _refused(error: Error) -> Made:
    return Made(None, error.status, error.reason, [], [])


def _group(cases: Sequence[Case]) -> list[list[int]]:
    """Cases that fit into one batch; in order."""
    groups: list[list[int]] = []
    last: dict[Any, list[int]] = {}
    for place, case in enumerate(cases):
        key = (case.size, case.channels, case.dtype, case.layout)
        places = last.get(key)
        full = places is not None and (
            len(places) >= _SLOTS or _bytes(case) * len(places) > _BYTES
        )
        if places is None or full:
            places = last[key] = []
            groups.append(places)
        places.append(place)
    return groups


def _bytes(case: Case) -> int:
    w, h = case.size
    return w * h * case.channels * _ELEMENT[case.dtype]


class _Group:
    """One job."""

    def __init__(
        self,
        cases: Sequence[Case],
        places: list[int],
        device: _core.Device | None,
    ) -> None:
        case = cases[places[0]]
        w, h = case.size
        self._places = places
        self._stride = _bytes(case)
        self._data = bytearray(self._stride * len(places))
        batch = _core.Batch(
            len(places),
            case.channels,
            h,
            w,
            case.dtype,
            case.layout,
            data=self._data,
            device=device,
        )
        samples: list[Any] = [cases[place].sample for place in places]
        self._job = _core.submit(
            samples, batch, on_error="skip", device=device
        )

    def wait(self) -> list[tuple[int, Made]]:
        self._job.wait()
        view = memoryview(self._data)
        made = []
        for slot, result in enumerate(self._job.results):
            start = slot * self._stride
            pixels = view[start : start + self._stride]
            made.append((self._places[slot], _made(result, pixels)))
        return made


def _made(result: _core.Result, pixels: memoryview) -> Made:
    if result.status_name == "HR_EDEVICE":
        raise DeviceError(result.message, result.status_name)
    return Made(
        pixels if result.ok else None,
        result.status_name,
        result.reason,
        list(result.spans),
        list(result.why),
        result.fallbacks,
    )


def open_files(files: Sequence[File]) -> Flight:
    """Can each file be read? Makes 8 x 8 pixels of it."""
    # A filter that needs every row: decoding ends after the last one needed.
    step = ops.resize(8, 8, filter="box", order="horizontal")
    steps = (ops.decode(), step)
    return Flight(
        [
            Case("", "", (file.path, steps), (8, 8), 3, "u8", bytes)
            for file in files
        ]
    )
