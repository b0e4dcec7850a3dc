# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .. import ops
from .._command import Parser, UsageError, count
from ..errors import ArgumentError
from ..ops import Ops

MODULE = "headrace.validate"
REFERENCES = ("pillow-12", "pillow-12.2", "pillow-13", "torch-2")
FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
CASES = (
    "decode",
    *("resize-" + name for name in FILTERS),
    "random-crop",
    "crop-pad",
    "flip",
    "augment",
)
STACKS = tuple(
    f"{api}-{kind}" for api in ("v1", "v2", "tensors")
    for kind in ("train", "eval")
)
PIPELINES = CASES + STACKS
OPS = "ops"  # the row of --ops

ABOUT = """\
Compares Headrace's pictures with those of the installed Pillow and
torchvision, to the bit. Without INPUT it makes a dozen pictures itself.
"""
MORE = f"""\
pipelines: decode,
  resize-FILTER (FILTER: {", ".join(FILTERS)}),
  {", ".join(PIPELINES[7:])}.
  A first part means all that begin with it, as in --pipelines resize,v1.

The first of these make pixels with Pillow, augment each op that changes pixels
and random lists of them; v1 and v2 are torchvision's usual
transforms, recorded by the drop-in, and tensors those of v2 that begin with
ToImage. What the drop-in leaves to stock is counted with its reason and not
compared.

A reference says which pass of a resize comes first, as in that release of
Pillow. With another one than the installed Pillow's, Pillow resizes one axis
at a time, in that order; with torch-2 torch does.

exit status: 0 all that was compared is equal; 1 something differs, is made by
one side only, or could not be read; 2 could not run, or nothing is known of
the device, which made none of it; 130 or 143 ended by SIGINT or SIGTERM,
after saying what was compared. A file that Headrace does not take (12 bits,
lossless, over a limit) or that is over a limit of Pillow's is told and is no
difference.
"""


@dataclasses.dataclass
class Options:
    inputs: list[str]
    backend: str | None
    reference: str | None
    pipelines: list[str]
    ops: Ops  # (): those of pipelines
    limit: int  # 0: all
    seed: int
    json: str | None
    report: str | None
    quiet: bool


def parse(arguments: Sequence[str] | None) -> Options:
    """Raises UsageError; SystemExit after --help."""
    read = _parser().parse_args(arguments)
    if read.reference not in (None, *REFERENCES):
        raise UsageError(
            f"--reference {read.reference}: there are {', '.join(REFERENCES)}"
        )
    return Options(
        inputs=read.input,
        backend=read.backend,
        reference=read.reference,
        pipelines=[OPS] if read.ops else choose(read.pipelines),
        ops=_ops(read),
        limit=count("--limit", read.limit, 1, 63) if read.limit else 0,
        seed=count("--seed", read.seed, 0, 63),
        json=read.json,
        report=read.report,
        quiet=read.quiet,
    )


def _parser() -> Parser:
    p = Parser(MODULE, ABOUT, MORE)
    p.add_argument("input", nargs="*", metavar="INPUT",
                   help="file or folder of JPEG and PNG files")
    p.add_argument("--backend", metavar="NAME",
                   help="device to look at: cpu, opencl, opencl:1, vaapi, ..."
                   " [HEADRACE_BACKEND, else the best there is]")
    p.add_argument("--reference", metavar="NAME",
                   help=f"{', '.join(REFERENCES)} [the installed Pillow's]")
    p.add_argument("--pipelines", metavar="LIST", default="",
                   help="names with commas between them [all]")
    p.add_argument("--ops", metavar="LIST", default="",
                   help="compare what this list makes, in their place, as"
                   " decode,resize=64,adjust_hue=0.1")
    p.add_argument("--limit", metavar="N",
                   help="only N pictures, chosen by the seed")
    p.add_argument("--seed", metavar="N", default="0",
                   help="of that choice and of random crops [0]")
    p.add_argument("--json", metavar="FILE",
                   help="write what was found as JSON; -: print it, and no"
                   " text")
    p.add_argument("--report", metavar="FILE.html",
                   help="write a page with the pictures that differ most")
    p.add_argument("-q", "--quiet", action="store_true",
                   help="print only the verdict")
    return p


def _ops(read: Any) -> Ops:
    if not read.ops:
        return ()
    if read.pipelines:
        raise UsageError("--ops and --pipelines: only one of them")
    try:
        return ops.parse(read.ops)
    except ArgumentError as error:
        raise UsageError(f"--ops: {error}") from None


def choose(text: str) -> list[str]:
    """Names of pipelines, in the order of the table."""
    wanted: set[str] = set()
    for part in filter(None, text.split(",")):
        names = [n for n in PIPELINES if n == part or n.startswith(part + "-")]
        if not names:
            raise UsageError(
                f"--pipelines {part}: there are {', '.join(PIPELINES)}"
            )
        wanted.update(names)
    if text and not wanted:
        raise UsageError("--pipelines: no name")
    return [name for name in PIPELINES if name in wanted or not wanted]
