# SPDX-License-Identifier: Apache-2.0
"""The common part of the commands validate and bench."""

from __future__ import annotations

import argparse
import io
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from .errors import Error

Options = TypeVar("Options")


class UsageError(Exception):
    """One line that says what is wrong with the arguments."""


class Stopped(BaseException):
    """SIGINT or SIGTERM came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Parser(argparse.ArgumentParser):
    """The parser of python3 -m MODULE; raises UsageError."""

    def __init__(self, module: str, about: str, more: str) -> None:
        super().__init__(
            prog=f"python3 -m {module}",
            description=about,
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def count(name: str, text: str, least: int, bits: int) -> int:
    if text.isascii() and text.isdigit() and least <= int(text) < 1 << bits:
        return int(text)
    raise UsageError(f"{name} {text}: must be a whole number, {least} or more")


def warn(module: str, text: str) -> None:
    """One line on standard error."""
    print(f"{module}: {text}", file=sys.stderr)


def stop(number: int, _: Any) -> None:
    raise Stopped(number)


def main(
    module: str,
    needs: str,
    options: Callable[[], Options],
    run: Callable[[Options], int],
    take: Callable[[int, Any], None] = stop,
) -> int:
    """Run a command from start to end; return its exit code.

    needs: the package that run() imports first. take: of both signals.
    """
    try:
        read = options()
    except UsageError as error:
        warn(module, f"{error} (--help says more)")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files may be any bytes.
            stream.reconfigure(errors="backslashreplace")
    before = [(n, signal.signal(n, take))
              for n in (signal.SIGINT, signal.SIGTERM)]
    try:
        return run(read)
    except Stopped as stopped:
        return 128 + stopped.number
    except OSError as error:
        warn(module, f"{error.filename}: {error.strerror}"
             if error.filename else str(error))
    except ImportError as error:
        warn(module, f"it needs {needs}, which cannot be imported: {error}")
    except Error as error:
        warn(module, str(error))
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return 2
