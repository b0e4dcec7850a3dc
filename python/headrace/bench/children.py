# SPDX-License-Identifier: Apache-2.0
"""Processes that measure when they are asked, and the memory they hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


class Ended(Exception):
    """The process does not run any more, or says why it cannot."""


class Child:
    """A process that programs.serve() runs in.

    begin() waits until it can measure, which is when it has imported what it
    needs; import_bytes is what it holds then. round() measures once; one
    thread at a time. Raise Ended. end() ends it, and whatever it has started.
    """

    def __init__(self, key: str, command: Sequence[str]) -> None:
        self.key = key
        self.name = key
        self.begun: dict[str, Any] = {}
        self.import_bytes = 0
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def begin(self) -> None:
        self.begun = self._line()
        self.name = self.begun["name"]
        self.import_bytes = memory_of(family(self.process.pid))

    def round(self) -> dict[str, Any]:
        assert self.process.stdin
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except OSError:
            pass  # _line() says it
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise Ended(f"it ended: {how}")
        told: dict[str, Any] = json.loads(line)
        if "not_run" in told:
            raise Ended(told["not_run"])
        return told

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


# ---- memory ----------------------------------------------------------------


def family(pid: int) -> Iterator[int]:
    """The process and those below it."""
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                for child in file.read().split():
                    yield from family(int(child))
    except OSError:
        pass  # it has ended


def _numbers(pid: int, name: str) -> dict[str, int]:
    """Bytes by name, of a file of /proc with lines as "RssFile:  4 kB"."""
    found = {}
    try:
        with open(f"/proc/{pid}/{name}") as file:
            for line in file:
                words = line.split()
                if len(words) == 3 and words[2] == "kB":
                    found[words[0][:-1]] = 1024 * int(words[1])
    except OSError:
        pass  # it has ended
    return found


def _shared_files(pid: int) -> dict[tuple[int, int], int]:
    """Files of shared memory that it has open: bytes that are in RAM.

    A DataLoader's batches lie in such files, and belong to no process's pages
    while no process reads their pixels.
    """
    found = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            link = f"/proc/{pid}/fd/{number}"
            with contextlib.suppress(OSError):
                if os.readlink(link).startswith(("/dev/shm/", "/memfd:")):
                    s = os.stat(link)
                    found[s.st_dev, s.st_ino] = 512 * s.st_blocks
    except OSError:
        pass
    return found


def memory_of(pids: Iterable[int]) -> int:
    """Bytes in RAM that a process and its children hold.

    Each page counts once. So do the files that they map, such as libraries, of
    which the one that maps most stands for all; also where processes beside
    these map them, which may be gone the next time.
    """
    pages = shared = files = 0
    open_files: dict[tuple[int, int], int] = {}
    for pid in pids:
        part = _numbers(pid, "smaps_rollup")
        pages += part.get("Pss_Anon", 0)
        shared += part.get("Pss_Shmem", 0)
        files = max(files, _numbers(pid, "status").get("RssFile", 0))
        open_files |= _shared_files(pid)
    # The two overlap by an unknown part: the larger one is a lower bound.
    return pages + files + max(shared, sum(open_files.values()))


class Watch:
    """A with statement in which the memory of a family is looked at.

    most: bytes, the largest sum that was seen. Looking takes 2 % of a core, or
    what four looks a second take.
    """

    def __init__(self, pid: int, interval: float = 0.25) -> None:
        self.pid, self.interval, self.most = pid, interval, 0
        self.looks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _look(self) -> None:
        self.most = max(self.most, memory_of(family(self.pid)))
        self.looks += 1

    def _run(self) -> None:
        took = 0.0
        while not self._stop.wait(min(self.interval, 50 * took)):
            begin = time.perf_counter()
            self._look()
            took = time.perf_counter() - begin

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
