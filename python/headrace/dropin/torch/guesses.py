# SPDX-License-Identifier: Apache-2.0
"""How often a thread guesses what comes next, and for which cells it does.

A wrong guess costs processor time, so the next one is made later: after 2, 4, 8
... batches. A right one ends that.
"""

from __future__ import annotations

import threading
from typing import Any

_MOST_PATIENT = 1024  # batches


class Guesses(threading.local):
    """One thread's. In the child of a fork the parent's guesses are not ours:
    register forget()."""

    misses = 0
    wait = 0  # batches until there is another guess

    def missed(self) -> None:
        self.misses += 1
        self.wait = min(2**self.misses, _MOST_PATIENT)

    def is_due(self) -> bool:
        """Asked once a batch."""
        if self.wait > 0:
            self.wait -= 1
            return False
        return True

    def forget(self) -> None:
        vars(self).clear()


def is_simple(cell: Any) -> bool:
    """Says whether a cell of cell.py is one picture, lazy, and no view."""
    return (
        cell.value is None
        and not cell.lead
        and cell.tables is None
        and cell.base is None
        and cell.views is None
    )
