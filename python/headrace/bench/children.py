# SPDX-License-Identifier: Apache-2.0
"""Processes that measure when they are asked, and the memory they hold."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any


class Ended(Exception):
    """The process does not run any more, or says why it cannot."""


class Child:
    """A process that programs.serve() runs in.

    begin() waits until it can measure, and round() measures once; one thread
    at a time. Raise Ended. end() ends it, and whatever it has started.
    """

    def __init__(self, key: str, command: Sequence[str]) -> None:
        self.key = key
        self.name = key
        self.begun: dict[str, Any] = {}
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


def memory_of(pid: int) -> int:
    """Bytes in RAM; what several processes share is shared among them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


class Watch:
    """A with statement in which the memory of a family is looked at.

    most: bytes, the largest sum that was seen.
    """

    def __init__(self, pid: int, interval: float = 0.25) -> None:
        self.pid, self.interval, self.most = pid, interval, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _look(self) -> None:
        held = sum(memory_of(pid) for pid in family(self.pid))
        self.most = max(self.most, held)

    def _run(self) -> None:
        while not self._stop.wait(self.interval):
            self._look()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
