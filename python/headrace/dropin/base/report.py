# SPDX-License-Identifier: Apache-2.0
"""The drop-in's counters of this process, and a text of them.

Counters are grouped: "recorded", "materialised", "pillow", "failed",
"devices", "notes". A name within a group is a reason in words that stay the
same from release to release. Counting is cheap and always on.

Threads: any. An increment is one dictionary update under the lock.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Mapping
from typing import Any

from ... import _others
from ..._forks import renewed

# Reentrant: a signal handler may ask for the report while this counts.
_lock = renewed(threading.RLock())
_counts: dict[str, dict[str, int]] = {}
_totals: dict[str, int] = {}

# Frames of these packages are not the reason that a picture was decoded.
_PLUMBING = (
    "PIL",
    "concurrent",
    "contextlib",
    "functools",
    "headrace",
    "multiprocessing",
    "numpy",
    "runpy",
    "threading",
    "torch",
)
_COLLATE = "torch.utils.data._utils.collate"
MIXED = "batches in which not every picture is recorded, as of mixed formats"

TITLES = {
    "devices": "what made the pictures",
    "decoded": "pictures of other formats that Pillow decoded",
    "pillow": "not recorded, left to Pillow or torchvision",
    "materialised": "recorded, but not left to the batch's job, because of",
    "mended": "pictures of a job that Pillow or torchvision made again",
    "failed": "pictures that these could not make either",
    "again": "fetched again",
    "notes": "notes",
}

TEXTS = {
    "resize_of_floats": "tensors were resized by float32 numbers, which stays"
    " with torch: v1 does so, and v2 where antialias is not True, the filter is"
    " not bilinear, bicubic or lanczos, or the tensor is not of bytes",
    "num_workers_0": "num_workers=0: pictures of a batch run in parallel, but"
    " not while the consumer works; num_workers >= 1 or headrace.Loader do",
}


def count(group: str, name: str, times: int = 1) -> None:
    """Adds to one counter."""
    with _lock:
        names = _counts.setdefault(group, {})
        names[name] = names.get(name, 0) + times


def total(name: str, times: int = 1) -> None:
    """Adds to one total: "jobs", "pictures", "batches"."""
    with _lock:
        _totals[name] = _totals.get(name, 0) + times


def note(name: str) -> None:
    """Remembers something that is said once, however often it happens."""
    with _lock:
        _counts.setdefault("notes", {})[name] = 1


def caller() -> str:
    """Names the function, outside of Pillow and torch, that needs pixels."""
    frame: types.FrameType | None = sys._getframe(1)
    mixed = False
    inner = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "?")
        mixed = mixed or module == _COLLATE
        package = module.split(".", 1)[0]
        if package not in _PLUMBING:
            if mixed:
                return MIXED
            name = frame.f_code.co_name
            if name.startswith("__") or not name.startswith("_"):
                return _name(module, frame)
        if not inner and package != "headrace":
            inner = _name(module, frame)
        frame = frame.f_back
    return MIXED if mixed else inner


def _name(module: str, frame: types.FrameType) -> str:
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    if code.co_name.startswith("<"):  # <module>, <lambda>, ...
        name = "line %d" % frame.f_lineno
    elif module != "__main__":
        return "%s.%s" % (module, name)
    return "%s of %s" % (name, os.path.basename(code.co_filename))


def take() -> dict[str, Any]:
    """Returns all counters as plain data and sets them to zero.

    A worker process sends them to the process that prints the report, which
    add()s them.
    """
    with _lock:
        _note_decoded()
        taken = {"totals": dict(_totals), "counts": _copy()}
        _totals.clear()
        _counts.clear()
        return taken


def add(taken: Mapping[str, Any]) -> None:
    """Adds what take() returned in another process."""
    for name, times in taken["totals"].items():
        total(name, times)
    for group, names in taken["counts"].items():
        for name, times in names.items():
            if group == "notes":
                note(name)
            else:
                count(group, name, times)


def _note_decoded() -> None:
    for kind, times in _others.counts(clear=True).items():
        count("decoded", kind, times)


def _copy() -> dict[str, dict[str, int]]:
    # A signal handler may count meanwhile, by the lock that its thread holds.
    return {group: dict(names) for group, names in list(_counts.items())}


class Report(dict[str, Any]):
    """Counters as a dictionary; printed, they are a text.

    "totals": {"jobs", "pictures", ...}; other keys: {reason: times}.
    """

    def __str__(self) -> str:
        totals = self["totals"]
        lines = [
            "headrace: %d pictures in %d jobs, %d recorded"
            % (
                totals.get("pictures", 0),
                totals.get("jobs", 0),
                totals.get("recorded", 0),
            )
        ]
        for group, title in TITLES.items():
            names = self.get(group)
            if names:
                lines.append("  %s:" % title)
                lines += _lines(group, names)
        return "\n".join(lines)


def _lines(group: str, names: Mapping[str, int]) -> list[str]:
    if group == "notes":
        return ["    " + TEXTS.get(name, name) for name in sorted(names)]
    order = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    return ["%8d  %s" % (times, name) for name, times in order]


def report(reset: bool = False) -> Report:
    """Return what ran where, what was left to Pillow and why, since the start.

    reset=True sets the counters to zero.
    """
    with _lock:
        _note_decoded()
        found = Report(totals=dict(_totals), **_copy())
        if reset:
            _totals.clear()
            _counts.clear()
    return found
