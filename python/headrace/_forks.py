# SPDX-License-Identifier: Apache-2.0
"""Locks that the child of a fork finds free.

Another thread may hold a lock when a process is forked; it is not copied, and
nothing would release the lock in the child. Each lock of the package that a
child may take is renewed() there.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, TypeVar

_L = TypeVar("_L")
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def renewed(lock: _L) -> _L:
    """The lock, which is free in each child of this process."""
    _locks.add(lock)
    return lock


def _forked() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the standard library does with its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
