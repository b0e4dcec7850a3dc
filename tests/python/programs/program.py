# SPDX-License-Identifier: Apache-2.0
"""Programs: text that is run in a folder with pictures, or a function.

A text sees the modules of names(), writes down what it sees by see(), and what
its last expression gives is seen, too. blocks() reads several texts, which
blank lines separate, each with its name in a comment on top; rows() makes one
of each line. A line "# documented: PAGE: SENTENCE" names the sentence of a page
of docs/ that says that the program differs from stock.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import importlib
import operator
import os
import pathlib
import random
import textwrap
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from . import outcome, samples


@dataclasses.dataclass
class Program:
    name: str
    run: str | Callable[[Any], Any]
    documented: str = ""
    place: str = "plain"  # or fetch, worker, iterable, script
    slow: bool = False  # not of the quick selection
    alone: bool = False  # in a process of its own


ALL: dict[str, Program] = {}
# Known differences from stock, in the words of a page of docs/.
_PAGE = "python-torchvision.md: "
KNOWN = {
    "class": _PAGE + "Its class is a subclass of `torch.Tensor`",
    "picture": _PAGE + "`type(picture) is Image.Image` is false",
    "derived": _PAGE + "from which no class should be derived",
    "fetch": _PAGE + "`torch.utils.swap_tensors` refuse a lazy tensor",
    "twice": _PAGE + "counts in `__getitem__` happens twice",
    "kept": _PAGE + "it has kept raise where they are used",
    "old": _PAGE + "`torch.Tensor(x)` raises there, and `_base` is another",
    "sent": _PAGE + "A tensor from a worker is not in shared memory",
    "resize_": _PAGE + "also where stock's are NumPy's memory and cannot",
    "modes": _PAGE + "other calls in `to_tensor` than those of stock",
}


def add(program: Program) -> None:
    assert program.name not in ALL, program.name
    ALL[program.name] = program


def listed(name: str) -> str:
    """A file of rows or blocks."""
    path = pathlib.Path(__file__).parent / "text" / ("%s.txt" % name)
    return path.read_text()


def lines_of(text: str) -> list[str]:
    """Rows; one goes on where a line begins with four spaces."""
    return text.replace("\n    ", " ").strip().splitlines()


def named(name: str) -> dict[str, str]:
    """Rows "NAME: CODE"."""
    pairs = (line.partition(": ") for line in lines_of(listed(name)))
    return {name: code + "\n" for name, _, code in pairs}


def rows(
    prefix: str, text: str, before: str = "", each: int = 1, quick: int = 0,
    make: Callable[[str, str], str] = operator.add, **more: Any
) -> None:
    """One of so many lines, and one of so many of these quickly. Behind ##
    stands a word of KNOWN. make: the program of before and a line."""
    for line in lines_of(text):
        line, _, known = line.partition(" ## ")
        line = line.rstrip()
        name = "%s | %s" % (prefix, line)
        number = zlib.crc32(name.encode())
        if number % each == 0:
            slow = not quick or number // each % quick != 0
            add(Program(name, make(before, line + "\n"), KNOWN.get(known, ""),
                        **{"slow": slow, **more}))


def blocks(prefix: str, text: str, **more: Any) -> None:
    for block in textwrap.dedent(text).strip("\n").split("\n\n"):
        lines = block.strip("\n").splitlines()
        name, known, given = lines.pop(0).lstrip("# "), "", dict(more)
        while lines and lines[0].startswith("# "):
            word, _, known = lines.pop(0)[2:].partition(": ")
            given[word] = known or True
            if word == "documented":
                given[word] = KNOWN.get(known, known)
        add(Program("%s | %s" % (prefix, name), "\n".join(lines) + "\n",
                    **given))


def program(**more: Any) -> Callable[[Any], Any]:
    def put(function: Any) -> Any:
        module = function.__module__.rpartition(".")[2]
        name = "%s | %s" % (module, function.__name__.replace("_", " "))
        add(Program(name, function, **more))
        return function

    return put


# ---- running one -----------------------------------------------------------

_MODULES = """
contextlib copy gc io json math os pathlib pickle queue random shutil stat sys
tarfile tempfile threading time warnings weakref zipfile multiprocessing
numpy:np torch torchvision PIL torch.utils.data:data torch.nn.functional:nnf
PIL.Image PIL.ImageChops PIL.ImageDraw PIL.ImageEnhance PIL.ImageFile
PIL.ImageFilter PIL.ImageOps PIL.ImageStat torchvision.transforms:T
PIL.JpegImagePlugin PIL.ImageSequence PIL.ImageColor PIL.ImageMath
PIL.ImageMorph PIL.ImageCms torchvision.transforms.functional:F
torchvision.transforms.v2:v2 torchvision.transforms.v2.functional:F2
torchvision.datasets:datasets torchvision.datasets.folder:folder
torchvision.utils:tvutils torchvision.tv_tensors:tv_tensors programs.loaders:L
torch.utils.dlpack:dlpack
""".split()


def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "programs.text"}
    for entry in _MODULES:
        path, _, short = entry.partition(":")
        try:
            module = importlib.import_module(path)
        except ImportError:
            continue
        found[short or path.rpartition(".")[2]] = module
    found.update({k: getattr(data, k) for data in [torch.utils.data] for k in (
        "DataLoader", "Dataset", "IterableDataset")})
    # Imported before the drop-in is switched on, as most programs do.
    for name in ("to_tensor", "pil_to_tensor", "normalize"):
        found[name] = getattr(found["F"], name)
    for name in ("pil_loader", "default_loader"):
        found[name] = getattr(found["folder"], name)
    return found


class See:
    """Collects the values that a program sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, *values: Any) -> None:
        self.lines += ["saw " + outcome.describe(value) for value in values]

    def attempt(self, run: Callable[[], Any]) -> None:
        """Writes down what it gives, or raises."""
        self(self.get(run))

    def get(self, run: Callable[[], Any]) -> Any:
        """Returns its result, or the exception."""
        try:
            return run()
        except Exception as error:
            error.__traceback__ = None
            return error

    def written(self, x: Any, use: Callable[[Any], Any], to_x: int) -> None:
        """Sees a value that was made of x after a write to x, or x after a
        write to that value."""

        def run() -> Any:
            y = use(x)
            while isinstance(y, (list, tuple)) and y:
                y = y[0]
            if not isinstance(y, torch.Tensor) or y.requires_grad:
                return None
            with torch.no_grad():
                (x if to_x else y).add_(1)
            return y if to_x else x

        self.attempt(run)


def compiled(text: str) -> Any:
    """Keeps the last value as _last; of a tuple each part by itself, so that an
    error of one does not hide the others."""
    tree = ast.parse(text, "<program>")
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        value = last.value
        if isinstance(value, ast.Tuple) and len(value.elts) > 1:
            call = ast.parse("see.get(lambda: 0)", mode="eval").body
            for number, part in enumerate(value.elts):
                own: Any = copy.deepcopy(call)
                own.args[0].body = part
                value.elts[number] = own
        tree.body[-1] = ast.Assign([ast.Name("_last", ast.Store())], value)
        for node in ast.walk(tree.body[-1]):
            ast.copy_location(node, last)
        ast.fix_missing_locations(tree)
    return compile(tree, "<program>", "exec")


def once(run: Any, known: dict[str, Any], see: See) -> Any:
    """The program, and its last value."""
    if not isinstance(run, str):
        return run(see)
    space = dict(known, see=see)
    exec(compiled(run), space)
    return space.get("_last", "none")


class Inside(torch.utils.data.Dataset):
    """A data set whose item is the program."""

    def __init__(self, run: Any, known: Any, see: See) -> None:
        self.run, self.known, self.see = run, known, see

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Any:
        if i:
            raise IndexError(i)
        self.see.lines.clear()
        value = once(self.run, self.known, self.see)
        return value, list(self.see.lines)


class InsideIterable(torch.utils.data.IterableDataset):
    def __init__(self, *about: Any) -> None:
        self.inside = Inside(*about)

    def __iter__(self) -> Iterator[Any]:
        yield self.inside[0]


def first(batch: list[Any]) -> Any:
    return batch[0]


def run_in(place: str, run: Any, known: Any, see: See) -> Any:
    if place == "plain":
        return once(run, known, see)
    inside = (InsideIterable if place == "iterable" else Inside)(
        run, known, see)
    loader = torch.utils.data.DataLoader(
        inside, batch_size=1, collate_fn=first,
        num_workers=int(place == "worker"))
    for value, lines in loader:
        see.lines[:] = lines
        return value


def prepare(folder: str, run: Any) -> None:
    os.makedirs(folder)
    os.chdir(folder)
    for name, content in samples.all_files().items():
        if not isinstance(run, str) or name in run or name == "a.jpg":
            with open(name, "wb") as file:
                file.write(content)
            os.utime(name, (1.5e9, 1.5e9))


def seed() -> None:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)


def warnings_of(warned: list[Any]) -> list[str]:
    """How often something is said to be old depends on what torch compiled
    before, so that stands once."""
    lines = ["warned %s: %s" % (w.category.__name__, outcome.words(w.message))
             for w in warned]
    once = dict.fromkeys(
        line for line, w in zip(lines, warned)
        if issubclass(w.category, (FutureWarning, DeprecationWarning)))
    return list(once) + [line for line in lines if line not in once]


def execute(program: Program, folder: str, known: dict[str, Any]) -> list[str]:
    """All that came of it, line by line."""
    prepare(folder, program.run)
    seed()
    see = See()
    value: Any = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            value = run_in(program.place, program.run, known, see)
            see(value)
        except Exception as error:
            if os.environ.get("PROGRAMS_TRACE"):
                traceback.print_exc()
            see.lines.append("raised %s at %s" % (
                outcome.describe(error), outcome.where(error)))
            error.__traceback__ = None
        drawn = outcome.generators()
    os.chdir(folder)
    lines = list(see.lines)
    del value
    known["gc"].collect()
    lines += warnings_of(warned)
    lines.append("generators " + drawn)
    lines += ["file " + line for line in outcome.files(folder)]
    lines += ["open " + line for line in outcome.descriptors(folder)]
    return [line.replace(folder, "HERE") for line in lines]
