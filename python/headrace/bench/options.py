# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

from .._command import Parser, UsageError, count
from .programs import PROGRAMS
from .recipes import RECIPES

MODULE = "headrace.bench"
ABOUT = """\
Feeds a training loop with your pictures by each program that is installed, side
by side: RandomResizedCrop, flip, ToTensor, Normalize, as float32; or a recipe.
"""
TAKING = [name for name, (kind, _) in PROGRAMS.items() if kind.recipes]
RECIPE_LINES = "".join(
    f"  {name:<9}{words}\n" for name, (_, words) in RECIPES.items()
)
MORE = f"""\
programs: {", ".join(PROGRAMS)}.

recipes:
{RECIPE_LINES}
Only {", ".join(TAKING)} take others than plain, torchvision's v1 or v2.
They draw from the same seeds; the bits of their first pictures are compared.
For one core: taskset -c 0 python3 -m headrace.bench ... --workers 0.

Each runs in a process of its own, and they take turns. A round begins with a
new data set: its first epoch, in which "first batch" is the time from there to
the first batch, packages being imported; then later ones, which some programs
make from a cache. The files are read once before, so nobody waits for the disk.
What is printed are medians of the rounds; "x stock", of the ratios of each
round. CPU seconds are those of all threads and worker processes, for 1,000
pictures; memory is the most that they held, in megabytes: the whole, and beside
what a process holds that has only imported the packages. Measure on a machine
that has nothing else to do.

exit status: 0 something was measured; 1 nothing could be, or bits differ from
stock's; 2 could not begin;
130 or 143 ended by SIGINT or SIGTERM.
"""


@dataclasses.dataclass
class Options:
    inputs: list[str]
    only: list[str]
    pythons: list[str]  # this interpreter first
    workers: int
    batch: int
    size: int
    rounds: int
    later: int
    limit: int  # 0: all
    device: str
    cache: str
    recipe: str
    v2: bool
    json: str | None
    report: str | None


def parse(arguments: Sequence[str] | None) -> Options:
    """Raises UsageError; SystemExit after --help."""
    read = _parser().parse_args(arguments)
    only = [name for name in read.only.split(",") if name]
    for name in only:
        if name not in PROGRAMS:
            raise UsageError(f"--only {name}: there are {', '.join(PROGRAMS)}")
    able = _able(read, only)
    counts = {
        name: count("--" + name, getattr(read, name), least, 31)
        for name, least in (
            ("workers", 0), ("batch", 1), ("size", 1), ("rounds", 1),
            ("later", 0), ("limit", 0),
        )
    }
    return Options(
        inputs=read.input,
        only=[n for n in able if n in only or not only],
        pythons=[sys.executable, *read.python],
        device=read.backend,
        cache=read.cache,
        recipe=read.recipe,
        v2=read.v2,
        json=read.json,
        report=read.report,
        **counts,
    )


def _able(read: Any, only: list[str]) -> list[str]:
    """The programs that can do what is asked for."""
    if read.recipe not in RECIPES:
        raise UsageError(
            f"--recipe {read.recipe}: there are {', '.join(RECIPES)}"
        )
    if read.recipe == "plain" and not read.v2:
        return list(PROGRAMS)
    for name in only:
        if name not in TAKING:
            raise UsageError(
                f"--only {name}: of programs only {', '.join(TAKING)} take "
                f"{'--v2' if read.v2 else '--recipe ' + read.recipe}"
            )
    return TAKING


def _parser() -> Parser:
    p = Parser(MODULE, ABOUT, MORE)
    cores = str(len(os.sched_getaffinity(0)))
    p.add_argument("input", nargs="+", metavar="INPUT",
                   help="folder of JPEG files, or one of them")
    p.add_argument("--only", metavar="LIST", default="",
                   help="names of programs with commas between them [all]")
    p.add_argument("--python", metavar="FILE", action="append", default=[],
                   help="another interpreter, that has packages which this one"
                   " lacks; as often as you like")
    p.add_argument("--workers", metavar="N", default=cores,
                   help="worker processes or threads of each program; of the"
                   " drop-in worker processes, 0: none [%(default)s, the"
                   " number of cores]")
    p.add_argument("--recipe", metavar="NAME", default="plain",
                   help="what is made of the pictures, see below [plain]")
    p.add_argument("--v2", action="store_true",
                   help="the recipe with classes of torchvision's v2")
    p.add_argument("--batch", metavar="N", default="64",
                   help="pictures of a batch [64]")
    p.add_argument("--size", metavar="N", default="224",
                   help="pixels of a side [224]")
    p.add_argument("--rounds", metavar="N", default="3",
                   help="how often all take their turn [3]")
    p.add_argument("--later", metavar="N", default="2",
                   help="epochs behind the first of each round [2]")
    p.add_argument("--limit", metavar="N", default="0",
                   help="the first N pictures only")
    p.add_argument("--backend", metavar="NAME", default="cpu",
                   help="device of Headrace: cpu, opencl, vaapi, ... [cpu]")
    p.add_argument("--cache", metavar="SIZE", default="2G",
                   help="what headrace.Loader and cached keep for later epochs;"
                   " 0: nothing [2G]")
    p.add_argument("--json", metavar="FILE",
                   help="write what was measured as JSON; -: print it, and no"
                   " text")
    p.add_argument("--report", metavar="FILE.html",
                   help="write a page with a chart")
    return p
