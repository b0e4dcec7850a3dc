#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An HTTP service on aiohttp: POST / with a JPEG answers with its tensor.

    serve.py [--port 8080] [--threads N] [--wait SECONDS] [--memory MIB] ...

    200  float32, C x H x W, as X-Shape says; normalised as for ImageNet, or
         as the processor does whose preprocessor_config.json --config names
    408  the body took more than --timeout seconds
    413  the body is longer than --limit, or than fits into --memory
    422  the picture cannot be decoded: {"error", "stage", "offset"}
    429  too much to do: ask again after Retry-After seconds

Two bounds say what is too much. Pictures wait --wait seconds at most: a request
that would wait longer, by the length of the queue and the recent time of each
picture, is refused at once. So an answer comes soon or not at all, under any
load; once or twice what a request takes alone is a good --wait. Bodies and
tensors of all requests share --memory; a client that does not take its answer
in --timeout seconds loses it.

GET /stats answers with what was counted. A request that its client gives up
cancels its picture. SIGTERM stops it when those at work are done.
"""

import argparse
import asyncio
import collections
import math
import os
import time

from aiohttp import web

import headrace
from headrace import ops
from headrace.transformers import Preprocess

STEPS = (
    ops.decode(),
    ops.resize_short(256),
    ops.center_crop(224, 224),
    ops.normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
)


class Line:
    """Counts the queued pictures, and estimates the next one's wait."""

    def __init__(self):
        self.ahead = 0  # pictures that are not made yet
        self.each = 0.0  # seconds from one to the next, of late
        self.since = 0.0  # when the last one was made

    def expected(self):
        return self.ahead * self.each

    def __enter__(self):
        if not self.ahead:
            self.since = time.monotonic()
        self.ahead += 1

    def __exit__(self, failed, *_):
        self.ahead -= 1
        if failed:
            return
        now = time.monotonic()
        took, self.since = now - self.since, now
        self.each += (took - self.each) / 16 if self.each else took


class Service:
    """One device, and what may be in flight on it."""

    def __init__(self, make, options):
        self.make, self.options = make, options
        self.device = make.device  # opened now, not with the first request
        self.line = Line()
        self.memory, self.held = options.memory << 20, 0
        self.answer_bytes = 4 * math.prod(make.shape)
        # A larger body never fits: its client would be told to retry for ever.
        self.limit = min(options.limit, self.memory - self.answer_bytes)
        if self.limit < 1:
            raise ValueError("--memory is less than an answer takes")
        self.counts = collections.Counter()

    async def tensor(self, request):
        """Answer one picture."""
        size = request.content_length or self.limit
        need = self.answer_bytes + size
        # Before its body is read: what is refused shall cost nothing.
        if size > self.limit:
            return self.refuse(413, {"error": f"more than {self.limit} bytes"})
        if self.held + need > self.memory:
            return self.busy("no memory")
        if self.line.expected() > self.options.wait:
            return self.busy("too many wait")
        self.held += need
        try:
            return await self.answer(request)
        except asyncio.CancelledError:
            self.counts["canceled"] += 1
            raise
        finally:
            self.held -= need

    async def answer(self, request):
        try:
            async with asyncio.timeout(self.options.timeout):
                data = await request.read()
        except TimeoutError:
            return self.refuse(408, {"error": "the body came too slowly"})
        # Others have come while it was read.
        if self.line.expected() > self.options.wait:
            return self.busy("too many wait")
        with self.line:
            output = self.make.submit([data])
            try:
                await output
            except asyncio.CancelledError:
                output.job.cancel()
                raise
        result = output.results[0]
        if not result.ok:
            return self.refuse(422, {"error": result.reason,
                                     "stage": result.stage,
                                     "offset": result.offset})
        return await self.send(request, output.batch)

    async def send(self, request, batch):
        """Write it here, so that it counts as held until it is gone."""
        shape = ",".join(map(str, self.make.shape))
        response = web.StreamResponse(headers={"X-Shape": shape})
        response.content_length = self.answer_bytes
        try:
            async with asyncio.timeout(self.options.timeout):
                await response.prepare(request)
                await response.write(memoryview(batch).cast("B"))
                await response.write_eof()
            self.counts[200] += 1
        except ConnectionResetError:  # gone meanwhile
            self.counts["canceled"] += 1
        except TimeoutError:
            self.counts["not taken"] += 1
            if request.transport:
                request.transport.abort()
        return response

    def busy(self, why):
        after = max(1, math.ceil(self.line.expected()))
        return self.refuse(429, {"error": why}, {"Retry-After": str(after)})

    def refuse(self, status, why, headers=None):
        self.counts[status] += 1
        return web.json_response(why, status=status, headers=headers)

    async def stats(self, _):
        return web.json_response(
            {"ahead": self.line.ahead, "held_bytes": self.held,
             "seconds_each": self.line.each,
             "answers": {str(k): n for k, n in self.counts.items()},
             "device": self.device.stats()})


def application(options):
    how = {"device": options.backend, "threads": options.threads}
    make = (Preprocess.from_config(options.config, dtype="f32", **how)
            if options.config else headrace.Pipeline(STEPS, **how))
    service = Service(make, options)
    app = web.Application(client_max_size=service.limit)
    app.add_routes([web.post("/", service.tensor),
                    web.get("/stats", service.stats)])
    return app


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--config", metavar="FILE",
                        help="preprocessor_config.json of a model")
    # The event loop needs a core, or answers wait for it.
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=max(1, cores - 1),
                        help="that make pictures; default: cores but one")
    parser.add_argument("--wait", type=float, default=0.1,
                        help="seconds [0.1]")
    parser.add_argument("--memory", type=int, default=256, help="MiB [256]")
    parser.add_argument("--limit", type=int, default=16 << 20,
                        help="bytes of a body [16 MiB]")
    parser.add_argument("--timeout", type=float, default=30,
                        help="seconds [30]")
    options = parser.parse_args()
    try:
        app = application(options)
    except (headrace.Error, OSError, ValueError) as error:
        parser.error(str(error))
    web.run_app(app, host=options.host, port=options.port,
                handler_cancellation=True, access_log=None)


if __name__ == "__main__":
    main()
