#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/serve.py with a device that makes a picture in 40 ms, one after the
other, and computes nothing: how long pictures wait follows from the service's
rules then, however busy the machine is."""

import asyncio
import importlib.util
import pathlib
import types

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "serve.py"
SECONDS = 0.04


class Output:
    """Pipeline.submit()'s result, as far as the service looks at it."""

    results = (types.SimpleNamespace(ok=True),)
    job = types.SimpleNamespace(cancel=lambda: None)
    batch = bytes(4 * 3 * 224 * 224)

    def __init__(self, turn):
        self.turn = turn

    def __await__(self):
        return self.made().__await__()

    async def made(self):
        async with self.turn:
            await asyncio.sleep(SECONDS)


class Slow:
    shape = (3, 224, 224)
    device = types.SimpleNamespace(stats=dict)

    def __init__(self, *_, **__):
        self.turn = asyncio.Lock()

    def submit(self, _):
        return Output(self.turn)


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("serve", PROGRAM)
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    serve.headrace.Pipeline = Slow
    serve.main()
