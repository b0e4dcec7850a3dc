# SPDX-License-Identifier: Apache-2.0
"""The error of install(): what is there is not what the drop-in knows."""

from __future__ import annotations

import types
from typing import Any, NoReturn

from ...errors import Error


class HookError(Error):
    """Pillow, torch or torchvision is not what the drop-in knows."""


def refuse(what: str) -> NoReturn:
    raise HookError(
        "the drop-in cannot be switched on: " + what, status="HR_EUNSUPPORTED"
    )


def stock_function(owner: Any, name: str) -> types.FunctionType:
    """The function that a class or a module has itself."""
    found = vars(owner).get(name)
    if isinstance(found, staticmethod):
        found = found.__func__
    if not isinstance(found, types.FunctionType):
        refuse("%s.%s is not a function" % (owner.__name__, name))
    return found
