# SPDX-License-Identifier: Apache-2.0
"""Arguments: what they must be is said by their names."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import _core
from .errors import ArgumentError

Function = TypeVar("Function", bound=Callable[..., Any])


def whole(
    name: str, value: Any, least: int = 0, below: int | None = None
) -> int:
    """Return an int; raise TypeError or ArgumentError with its name."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {value!r}") from None
    if number < least:
        raise ArgumentError(f"{name}: {number} is less than {least}")
    if below is not None and number >= below:
        raise ArgumentError(f"{name}: {number} is not below {below}")
    return number


def made_channels(ops: Iterable[tuple[Any, ...]], channels: int) -> int:
    """Channels of the picture that ops make of one with so many channels."""
    for op in ops:
        if op[0] == _core.DECODE:
            channels = 1 if op[1] == _core.GRAY else 3
        elif op == _SINGLE:
            channels = 1
    return channels


_SINGLE = (_core.OPS["grayscale"][0], True)


def hints(others: Mapping[str, str]) -> Callable[[Function], Function]:
    """Decorates a function: another library's keyword is an error that names
    the one to use."""

    def decorate(function: Function) -> Function:
        known = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in known and name in others:
                    raise TypeError(
                        f"there is no argument {name!r}: {others[name]}"
                    )
            return function(*args, **keywords)

        return call  # type: ignore[return-value]

    return decorate
