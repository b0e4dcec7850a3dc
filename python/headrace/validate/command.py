# SPDX-License-Identifier: Apache-2.0
"""The command from start to end. Pillow is imported only after the arguments
are read."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _command
from .options import MODULE, Options, parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return _command.main(MODULE, "Pillow", lambda: parse(arguments), _run)


def _run(options: Options) -> int:
    from .run import run

    return run(options)
