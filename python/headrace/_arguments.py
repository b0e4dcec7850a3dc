# SPDX-License-Identifier: Apache-2.0
"""Arguments: what they must be is said by their names."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

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


def hints(others: Mapping[str, str]) -> Callable[[Function], Function]:
    """Of a function: a keyword that another library has says what to take."""

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
