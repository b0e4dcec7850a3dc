# SPDX-License-Identifier: Apache-2.0
"""The command headrace: python3 -m headrace run, pack, devices, ..."""

from __future__ import annotations

import os
import signal
import sys

from . import _core


def main() -> int:
    """Run the command with the arguments of this process."""
    if not hasattr(_core, "command"):
        print(
            "headrace: this build of the package has no command: install the"
            " headers of popt, jansson and libpng (Debian: libpopt-dev,"
            " libjansson-dev, libpng-dev), then the package again",
            file=sys.stderr,
        )
        return 2
    # Signals that the command does not handle act as in a program of C.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    return _core.command(b"headrace", *map(os.fsencode, sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
