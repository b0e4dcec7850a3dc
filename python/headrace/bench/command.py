# SPDX-License-Identifier: Apache-2.0
"""The command from start to end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from .. import _command
from .._command import Stopped, warn
from . import pictures, programs, text
from .children import Child, Ended, Watch
from .figures import Figures, Row
from .options import MODULE, Options, parse
from .page import page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    stops = Stops()
    return _command.main(MODULE, "NumPy", lambda: parse(arguments),
                         lambda options: _run(options, stops), stops.take)


class Stops:
    """Takes the first signal: raises Stopped; if it came in a with statement,
    at its end. Later signals are ignored, as all is being ended."""

    def __init__(self) -> None:
        self.came: int | None = None
        self.held = False

    def take(self, number: int, _: Any) -> None:
        if self.came is None:
            self.came = number
            if not self.held:
                raise Stopped(number)

    def __enter__(self) -> None:
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False
        if self.came is not None:
            raise Stopped(self.came)


def _run(options: Options, stops: Stops) -> int:
    found = pictures.find(options.inputs, options.limit)
    if not found.paths:
        warn(MODULE, f"{', '.join(options.inputs)}: no JPEG file that all "
                     f"programs can decode{text.left_out(found.left_out)}")
        return 2
    figures = Figures(_facts(options, found))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        photos = os.path.join(folder, "photos")
        os.mkdir(photos)
        config = pictures.place(found, photos) | {
            "batch": options.batch,
            "size": options.size,
            "workers": options.workers,
            "threads": max(1, options.workers),
            "later": options.later,
            "recipe": options.recipe,
            "v2": options.v2,
            "device": options.device,
            "cache": options.cache,
        }
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        start = _cpu_of_all()
        with contextlib.ExitStack() as ends:
            running = list(_begin(options, figures, path, ends, stops))
            _measure(options, figures, running)
        figures.facts["others"] = _others(start, _cpu_of_all())
    _report(options, figures)
    fine = figures.measured() and "differ" not in map(
        figures.pixels, figures.rows)
    return 0 if fine else 1


def _begin(
    options: Options,
    figures: Figures,
    path: str,
    ends: contextlib.ExitStack,
    stops: Stops,
) -> Iterator[tuple[Child, Row]]:
    """Yields the programs that run; notes why the others do not."""
    for key in options.only:
        kind, packages = programs.PROGRAMS[key]
        if options.recipe.startswith("timm"):
            packages += " timm"
        if options.recipe.startswith("hf-"):
            packages += " transformers"
        reasons: list[str] = []
        for python in options.pythons:
            command = [python, "-P", programs.__file__, key, path]
            try:
                with stops:  # or a signal might come before `ends` has it
                    child = Child(key, command)
                    ends.callback(child.end)
            except OSError as error:
                reasons.append(f"{python}: {error.strerror}")
                continue
            try:
                child.begin()
            except Ended as why:
                reasons.append(str(why))
                child.end()
                continue
            row = Row(key, child.name, kind.pixels, child.begun["import_s"],
                      child.import_bytes)
            figures.rows.append(row)
            yield child, row
            break
        else:
            # The last one is the interpreter that was named for it.
            figures.not_run[key] = f"{reasons[-1]} (it needs {packages})"


def _measure(
    options: Options, figures: Figures, running: list[tuple[Child, Row]]
) -> None:
    for number in range(options.rounds):
        for child, row in list(running):
            if sys.stderr.isatty():
                warn(MODULE,
                     f"round {number + 1} of {options.rounds}: {row.name}")
            try:
                with Watch(child.process.pid) as watch:
                    measured = child.round()
            except Ended as why:
                # A row of fewer rounds than the others would mislead.
                figures.not_run[row.key] = str(why)
                figures.rows.remove(row)
                running.remove((child, row))
                continue
            row.rounds.append(measured | {"memory_bytes": watch.most})


def _report(options: Options, figures: Figures) -> None:
    if options.report:
        with open(options.report, "w") as file:
            file.write(page(figures))
    if options.json:
        whole = json.dumps(text.as_json(figures), indent=1)
        if options.json == "-":
            print(whole)
            return
        with open(options.json, "w") as file:
            file.write(whole + "\n")
    for line in text.lines(figures):
        print(line.rstrip())


# ---- the machine -----------------------------------------------------------


def _facts(options: Options, found: pictures.Pictures) -> dict[str, Any]:
    n = len(found.paths)
    return {
        "machine": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "pictures": n,
        "left_out": found.left_out,
        "mean_bytes": sum(map(os.path.getsize, found.paths)) // n,
        "mean_pixels": sum(w * h for w, h in found.sizes) // n,
        "size": options.size,
        "batch": options.batch,
        "workers": options.workers,
        "recipe": options.recipe,
        "v2": options.v2,
        "rounds": options.rounds,
        "others": 0.0,
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return os.uname().machine


def _cpu_of_all() -> tuple[float, float, float]:
    """Seconds: of all cores, of all processes, of ours and ended children."""
    with open("/proc/stat") as file:
        ticks = [int(x) for x in file.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    hertz = os.sysconf("SC_CLK_TCK")
    busy = (sum(ticks) - idle) / hertz
    return sum(ticks) / hertz, busy, programs.cpu_seconds()


def _others(
    start: tuple[float, float, float], end: tuple[float, float, float]
) -> float:
    """Share of the machine's CPU time that other processes took."""
    every, busy, ours = (b - a for a, b in zip(start, end))
    return round(max(0.0, busy - ours) / every, 3) if every else 0.0
