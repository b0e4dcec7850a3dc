# SPDX-License-Identifier: Apache-2.0
"""Makes every picture on both sides, and tells the findings.

Files are taken in groups. Every pipeline of a group is one flight of jobs;
while they run, Pillow makes the same pictures here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from PIL import Image

from .. import _core
from .._command import Stopped, warn
from ..errors import DeviceError, Error
from . import cases, files, options, page, stacks, text
from .cases import Case, Picture
from .compare import compare
from .files import File
from .findings import FAILED, Findings, Row, Worst
from .options import MODULE, Options
from .ours import Flight, Made, open_files
from .stacks import Failed, Left, Recorder
from .stock import TORCH, Stock, installed_reference, torch_lacks, versions

# Files of a group, and pixels, unless one file has more.
_FILES = 16
_PIXELS = 40_000_000


def run(opt: Options) -> int:
    """Returns the exit code. Raises OSError and Error where it cannot run."""
    for path in (opt.json, opt.report):
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            warn(MODULE, f"{path}: there is no such folder")
            return FAILED
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of Pillow, about single files
        if opt.inputs:
            found = files.find(opt.inputs)
        else:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="headrace-validate-")
            )
            found = files.Found(files.make(folder, opt.seed), [])
        chosen = files.choose(found.files, opt.limit, opt.seed)
        if not chosen:
            warn(MODULE, "no JPEG or PNG file was found")
            return FAILED
        session = Session(opt, chosen, found)
        session.compare_all()
        return _tell(opt, session.findings)


def _tell(opt: Options, findings: Findings) -> int:
    if opt.json == "-":
        print(json.dumps(text.as_json(findings), indent=2))
    else:
        if not opt.quiet:
            print("\n".join(text.lines(findings)))
        print("verdict: " + findings.verdict())
    sys.stdout.flush()
    wrote = True
    if opt.json and opt.json != "-":
        data = json.dumps(text.as_json(findings), indent=2) + "\n"
        wrote &= _write(opt.json, data)
    if opt.report:
        wrote &= _write(opt.report, page.page(findings))
    return findings.code() if wrote else FAILED


def _write(path: str, data: str) -> bool:
    # Names of files need not be text.
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(data)
    except OSError as error:
        warn(MODULE, f"{path}: cannot be written: {error.strerror}")
        return False
    return True


def _leave_to_pillow(rows: dict[str, Row]) -> None:
    """Says which rows have nothing of torch's resize."""
    lacks = torch_lacks()
    for name, row in rows.items():
        if name in ("resize-box", "resize-hamming"):
            row.not_run = "torch has no such filter"
        elif name in options.STACKS and not name.startswith("tensors"):
            row.not_run = "Pillow resizes these, not torch"
        elif lacks and name in (*cases.RESIZING, *options.STACKS):
            row.not_run = lacks


class Session:
    """The state that is the same for all pictures."""

    def __init__(
        self, opt: Options, chosen: Sequence[File], found: files.Found
    ) -> None:
        if opt.backend:
            _core.set_image_backend(opt.backend)
        self._opt = opt
        self._files = chosen
        installed = installed_reference()
        reference = opt.reference or installed
        _core.set_reference(reference)
        self._stock = Stock(None if reference == installed else reference)
        self._broken: str | None = None  # the drop-in
        self._pipelines = cases.PIPELINES | {
            options.OPS: cases.of_list(opt.ops)
        }
        rows = {name: Row() for name in opt.pipelines}
        self._recorder = self._prepare(rows, reference, installed)
        name = _core.get_image_backend()
        facts = {
            "version": _core.version(),
            "backend": name,
            "device": _description(name),
            "libjpeg": _core.jpeg_library(),
            "reference": reference,
            "installed_reference": installed,
            "theirs": versions(),
            "seed": opt.seed,
            "made": not opt.inputs,
            "found": len(found.files),
        }
        self.findings = Findings(
            facts, name == "cpu", len(chosen), rows, found.faults,
            shown=page.WORST if opt.report else 0, broken=self._broken,
        )

    def _prepare(
        self,
        rows: dict[str, Row],
        reference: str | None,
        installed: str | None,
    ) -> Recorder | None:
        """Says of each row that cannot be run why."""
        if reference is None:
            for name in rows:
                if name in (*cases.RESIZING, *options.STACKS):
                    rows[name].not_run = (
                        "the installed Pillow's resize follows no reference"
                        " that is known; --reference names one"
                    )
            return None
        if reference == TORCH:
            _leave_to_pillow(rows)
            reference = installed
        wanted = [
            name for name, row in rows.items()
            if name in options.STACKS and not row.not_run
        ]
        made, missing = stacks.transforms(wanted)
        for name, why in missing.items():
            rows[name].not_run = why
        if not made:
            return None
        recorder = Recorder(made, self._stock, self._opt.seed, reference)
        try:
            recorder.cases([])
        except Error as error:
            for name in made:
                rows[name].not_run = str(error)
            self._broken = str(error)
            return None
        return recorder

    # ---- all files -------------------------------------------------------

    def compare_all(self) -> None:
        findings = self.findings
        try:
            for start, group in _groups(self._files):
                self._compare(start, group)
                findings.done += len(group)
                self._progress()
        except Stopped as stopped:
            findings.signal = stopped.number
        except DeviceError as error:
            findings.failure = str(error)

    def _progress(self) -> None:
        if self._opt.quiet or not sys.stderr.isatty():
            return
        done, total = self.findings.done, self.findings.total
        end = "\n" if done == total else "\r"
        print(f"{done} of {total}", end=end, file=sys.stderr, flush=True)

    def _compare(self, start: int, group: Sequence[File]) -> None:
        flight = open_files(group)
        opened = [_open(file, start + i) for i, file in enumerate(group)]
        pictures, readable = [], []
        for file, made, picture in zip(group, flight.wait(), opened):
            if isinstance(picture, Picture):
                pictures.append(picture)
                if made.pixels is not None:
                    readable.append(picture)
                    continue
            self._refuse(file, made, picture)
        for name, row in self.findings.rows.items():
            if row.not_run is None and name in self._pipelines:
                self._run(self._cases(name, readable))
        if self._recorder is not None:
            found, others = self._recorder.cases(pictures)
            self._run(found)
            for picture, other in others:
                self._note(picture.file, other)

    def _refuse(
        self, file: File, made: Made, theirs: Picture | Exception
    ) -> None:
        if isinstance(theirs, Picture):
            self.findings.refuse(file, made, None)
            return
        limit = isinstance(theirs, Image.DecompressionBombError)
        # The file is named already.
        reason = _text(theirs).replace(f" {file.path!r}", "")
        self.findings.refuse(file, made, reason, limit)

    def _note(self, file: File, other: Left | Failed) -> None:
        if isinstance(other, Left):
            self.findings.rows[other.pipeline].left[other.reason] += 1
        else:
            self.findings.refuse_case(file, *other)

    # ---- one pipeline of a group -----------------------------------------

    def _cases(
        self, name: str, pictures: Sequence[Picture]
    ) -> list[tuple[Picture, Case]]:
        make, seed = self._pipelines[name], self._opt.seed
        return [
            (picture, case)
            for picture in pictures
            for case in make(picture, self._stock, seed)
        ]

    def _run(self, found: Sequence[tuple[Picture, Case]]) -> None:
        flight = Flight([case for _, case in found])
        theirs = [_call(case.theirs) for _, case in found]
        for (picture, case), want, made in zip(found, theirs, flight.wait()):
            if made.pixels is None or isinstance(want, Exception):
                self._fail(picture.file, case, made, want)
            else:
                self._result(picture, case, made, made.pixels, want)

    def _fail(
        self, file: File, case: Case, made: Made, want: bytes | Exception
    ) -> None:
        ours = theirs = None
        if made.pixels is None:
            ours = f"{made.status}: {made.reason} ({case.what})"
        if isinstance(want, Exception):
            theirs = f"{_text(want)} ({case.what})"
        self.findings.refuse_case(file, case.pipeline, ours, theirs)

    def _result(
        self,
        picture: Picture,
        case: Case,
        made: Made,
        ours: memoryview,
        theirs: bytes,
    ) -> None:
        findings, file = self.findings, picture.file
        difference = compare(ours, theirs, case.dtype)
        findings.compared(picture.index, case, difference)
        findings.made(made)
        if not difference.differing:
            return
        findings.differs(file, case, difference, _hint(file))
        if findings.shown and len(ours) == len(theirs):
            score = difference.differing / difference.elements
            findings.show(Worst(score, file.name, case, difference,
                                bytes(ours), theirs))


# ---- helpers ---------------------------------------------------------------


def _description(name: str) -> str:
    for device in _core.devices():
        if device["name"] == name:
            return str(device["description"])
    return ""


def _groups(every: Sequence[File]) -> Iterator[tuple[int, Sequence[File]]]:
    """(index of the first, files)"""
    start, pixels = 0, 0
    for index, file in enumerate(every):
        more = _pixels(file)
        if index > start and (
            index - start >= _FILES or pixels + more > _PIXELS
        ):
            yield start, every[start:index]
            start, pixels = index, 0
        pixels += more
    if every:
        yield start, every[start:]


def _pixels(file: File) -> int:
    try:
        info = _core.probe(file.path)
    except Exception:  # what is wrong with it is told later
        return 0
    return info.width * info.height


def _open(file: File, index: int) -> Picture | Exception:
    try:
        return Picture(file, index)
    except Exception as error:  # Pillow refuses in many ways
        return error


def _call(theirs: Callable[[], bytes]) -> bytes | Exception:
    try:
        return theirs()
    except Exception as error:
        return error


def _text(error: Any) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _hint(file: File) -> str | None:
    """A known reason for a difference in what is decoded."""
    try:
        with open(file.path, "rb") as data:
            info = _core.probe(data.read())
    except (Error, OSError):
        return None
    if info.process == "progressive" and info.all_scans is False:
        return (
            "scans are missing, which libjpeg-turbo 3.0.1 and later fill in"
            " otherwise than earlier ones"
        )
    return None
