# SPDX-License-Identifier: Apache-2.0
"""Stock functions that run ours and stay the same objects.

So one is replaced where it was imported from its module before, too, and it
pickles. TorchScript compiles the stock code.

Threads: as hooks.py, which asks for them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from .refusal import stock_function

# Owner, name, value.
Triples = Iterator[tuple[Any, Any, Any]]
# Stock functions -> copies with the stock code.
copies: dict[types.FunctionType, Any] = {}
# The function that runs is a constant of the code, in place of this text: it
# has the stock globals, and to import ours costs a microsecond a call.
_CALLED = "the function that runs"
_CODE = """
def {name}({parameters}):
    headrace_called = {called!r}
    return headrace_called({arguments})
"""


def function(owner: Any, name: str, stays: bool = False) -> Any:
    """A stock function; a copy of one that stays: of a module all do."""
    found = stock_function(owner, name)
    stays = stays or isinstance(owner, types.ModuleType)
    if not stays or found.__closure__:
        return found
    if found not in copies:
        copy = types.FunctionType(
            found.__code__,
            found.__globals__,
            found.__name__,
            found.__defaults__,
        )
        copy.__kwdefaults__ = found.__kwdefaults__
        copies[found] = functools.update_wrapper(copy, found)
        del copy.__wrapped__  # type: ignore[attr-defined]
    return copies[found]


def in_place(stock: types.FunctionType, new: Any) -> Triples:
    """Lists what to set so that a function, which has a copy, runs new."""
    code = stock.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: code.co_argcount])
    named = list(code.co_varnames[code.co_argcount : last])
    text = _CODE.format(
        name=stock.__name__,
        parameters=", ".join(names + ["*"] * bool(named) + named),
        arguments=", ".join(names + ["%s=%s" % (n, n) for n in named]),
        called=_CALLED,
    )
    made: dict[str, Any] = {}
    exec(compile(text, "<%s>" % __name__, "exec"), made)
    code = made[stock.__name__].__code__
    consts = tuple(new if c == _CALLED else c for c in code.co_consts)
    yield stock, "__code__", code.replace(co_consts=consts)
    yield stock, "__wrapped__", copies[stock]
    yield stock, "__original_fn", copies[stock]
    yield stock, "__script_if_tracing_wrapper", True
