# SPDX-License-Identifier: Apache-2.0
"""Runs programs with the drop-in off and on, and says where they differ.

  python3 -m programs.run [--quick] [--only REGEX] [--jobs N] [--show]

Needs headrace and this folder's parent on PYTHONPATH. A process imports torch
and forks for each group of programs a child without the drop-in, and one with
it, which run the programs of the group in the same folders with the same
pictures and seeds. A program that ends its child, or differs in its group, is
run again, alone. Exit code: 0, or 1 if a program differs from stock in a way
that no page names.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import faulthandler
import gc
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

GROUP = 20
LIMIT = 150.0  # seconds for a program
ABSENT = re.compile(r"NameError: name '(v2|F2|tv_tensors)' is not defined")
DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"


# ---- the process that forks ------------------------------------------------


def serve() -> None:
    """Reads groups of names, a line of JSON each, and answers with results."""
    from . import program, samples

    load()
    import torch

    torch.set_num_threads(1)
    samples.all_files()
    gc.freeze()  # else each collection of a child looks at all of torch
    known = program.names()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        names, folder, on = json.loads(line)
        print(json.dumps(in_child(names, folder, on, known)), file=answers,
              flush=True)


def load() -> None:
    from . import files, loaders, pictures, tensors  # noqa: F401


def in_child(names: Any, folder: str, on: bool, known: Any) -> Any:
    """Results of the programs, as far as the child came, and how it ended."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        try:
            child_main(names, folder, on, known, writing)
        finally:
            os._exit(3)
    os.close(writing)
    text = read_all(reading, LIMIT)
    os.close(reading)
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    status = os.waitpid(child, 0)[1]
    results = [json.loads(line) for line in text.splitlines()
               if line.endswith("]")]
    shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return results, "no end" if code == -9 else "exit code %d" % code


def read_all(reading: int, limit: float) -> str:
    """The child's output, until it ends or is silent for so long."""
    parts = []
    while select.select([reading], [], [], limit)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


def child_main(
    names: Any, folder: str, on: bool, known: Any, writing: int
) -> None:
    from . import program

    faulthandler.enable()
    if on:
        import headrace

        headrace.set_image_backend("cpu")
    for number, name in enumerate(names):
        faulthandler.dump_traceback_later(LIMIT - 5)
        where = os.path.join(folder, str(number))
        lines = program.execute(program.ALL[name], where, known)
        os.chdir(folder)
        shutil.rmtree(where, ignore_errors=True)
        os.write(writing, (json.dumps(lines) + "\n").encode())
    faulthandler.cancel_dump_traceback_later()
    os._exit(0)


# ---- the process that compares ---------------------------------------------


class Server:
    """A process that forks, in a folder of its own."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="headrace-programs-")
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "programs.run", "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True)

    def ask(self, names: list[str], on: bool) -> Any:
        assert self.process.stdin and self.process.stdout
        folder = os.path.join(self.folder, "work")
        print(json.dumps([names, folder, on]), file=self.process.stdin,
              flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("programs: the server ended\n" + self.said())
        return json.loads(line)

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def outcomes(self, names: list[str], on: bool) -> dict[str, list[str]]:
        """Each program's outcome. If a program ends the child, the remaining
        ones run in a new child."""
        found: dict[str, list[str]] = {}
        while names:
            results, end = self.ask(names, on)
            found.update(zip(names, results))
            names = names[len(results):]
            if names:
                found[names[0]] = ["the process ended: " + end]
                names = names[1:]
        return found

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


def compare(
    server: Server, names: list[str]
) -> list[tuple[str, list[str] | None]]:
    """(name, lines that differ) of those programs that differ; None: stock has
    no such module here."""
    found: list[tuple[str, list[str] | None]] = []
    stock = server.outcomes(names, False)
    for name in names:
        if any(ABSENT.search(line) for line in stock[name]):
            found.append((name, None))
    absent = dict(found)
    names = [name for name in names if name not in absent]
    ours = server.outcomes(names, True)
    for name in names:
        first = difference(stock[name], ours[name])
        if not first:
            continue
        alone = [server.outcomes([name], on)[name] for on in (False, False,
                                                              True)]
        lines = difference(alone[0], alone[2])
        if difference(alone[0], alone[1]):
            lines = ["stock differs from itself"] + difference(*alone[:2])
        elif not lines:
            lines = ["only behind others of its group"] + first
        found.append((name, lines))
    return found


def difference(stock: list[str], ours: list[str]) -> list[str]:
    lost, new = list(stock), []
    for line in ours:
        if line in lost:
            lost.remove(line)
        else:
            new.append(line)
    if not lost and not new and stock != ours:
        return ["another order"]
    pairs = zip(lost, new) if len(lost) == len(new) else ()
    for number, (one, other) in enumerate(list(pairs)):
        lost[number], new[number] = shortened(one, other)
    return ["  stock " + line for line in lost] + [
        "  ours  " + line for line in new]


def shortened(one: str, other: str) -> tuple[str, str]:
    """Both texts without most of their common beginning and end."""
    head = len(os.path.commonprefix([one, other]))
    tail = len(os.path.commonprefix([one[head:][::-1], other[head:][::-1]]))
    start, rest = max(0, head - 60), max(0, tail - 60)
    return tuple(  # type: ignore[return-value]
        "..." * (start > 0) + text[start:len(text) - rest] + "..." * (rest > 0)
        for text in (one, other))


def stands(documented: str) -> bool:
    """Says whether the page has the sentence."""
    page, _, sentence = documented.partition(": ")
    text = " ".join((DOCS / page).read_text().split())
    return " ".join(sentence.split()) in text


def groups(chosen: dict[str, Any]) -> list[list[str]]:
    found: list[list[str]] = []
    open_: list[str] = []
    for name, program in chosen.items():
        if program.alone or not isinstance(program.run, str):
            found.append([name])
            continue
        open_.append(name)
        if len(open_) == GROUP:
            found.append(open_)
            open_ = []
    return found + [open_] * bool(open_)


def run_all(chosen: dict[str, Any], options: Any) -> list[int]:
    """Counts of programs: that differ, that differ as a page says, that cannot
    run."""
    servers = [Server() for _ in range(options.jobs)]
    free, counts = list(servers), [0, 0, 0]

    def work(names: list[str]) -> None:
        server = free.pop()
        try:
            for name, lines in compare(server, names):
                counts[tell(chosen[name], lines, options.show)] += 1
        finally:
            free.append(server)

    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(work, groups(chosen)))
    finally:
        for server in servers:
            server.close()
    return counts


def tell(program: Any, lines: list[str] | None, show: bool) -> int:
    """Prints how it differs; 0; 1: a page says that it does; 2: not run."""
    if lines is None:
        return 2
    if program.documented and stands(program.documented):
        print("named: %s (%s)" % (program.name, program.documented), flush=True)
        return 1
    text = ["DIFFERS: %s [%s]" % (program.name, program.place)]
    if show and isinstance(program.run, str):
        text.append("    " + program.run.strip().replace("\n", "\n    "))
    print("\n".join(text + lines), flush=True)
    return 0


def chosen_of(options: Any) -> dict[str, Any]:
    from . import program

    load()
    return {
        name: each
        for name, each in program.ALL.items()
        if re.search(options.only, name)
        and not (options.quick and each.slow)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="their text")
    parser.add_argument("--serve", action="store_true",
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    chosen = chosen_of(options)
    start = time.monotonic()
    bad, named, absent = run_all(chosen, options)
    print("%d programs, %d not run (no transforms v2 here), %d differ, %d more "
          "differ as a page says, %.0f s" % (
              len(chosen), absent, bad, named, time.monotonic() - start))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
