# SPDX-License-Identifier: Apache-2.0
"""From start to end. Pillow is imported only after the arguments are read."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import Error
from .options import UsageError, parse, warn


class Ended(BaseException):
    """SIGINT or SIGTERM came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        options = parse(arguments)
    except UsageError as error:
        warn(f"{error} (--help says more)")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files may be any bytes.
            stream.reconfigure(errors="backslashreplace")
    before = [(n, signal.signal(n, _end))
              for n in (signal.SIGINT, signal.SIGTERM)]
    try:
        from .run import run
    except ImportError as error:
        warn(f"it needs Pillow, which cannot be imported: {error}")
        return 2
    try:
        return run(options)
    except Ended as ended:  # before anything was compared
        return 128 + ended.number
    except OSError as error:
        warn(f"{error.filename}: {error.strerror}" if error.filename
             else str(error))
    except Error as error:
        warn(str(error))
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return 2


def _end(number: int, _: Any) -> None:
    raise Ended(number)
