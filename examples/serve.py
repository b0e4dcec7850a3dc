#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An HTTP service on aiohttp: POST / with a JPEG answers with its tensor.

    serve.py [--port 8080] [--threads N] [--queue N] [--limit BYTES]

    200  float32, C x H x W, as X-Shape says; normalised as for ImageNet
    413  the body is longer than --limit
    422  the picture cannot be decoded: {"error", "stage", "offset"}
    429  --queue pictures are being made or wait: ask again later

GET /stats answers with what was counted. A request that its client gives up
cancels its picture. SIGTERM stops it when those at work are done.
"""

import argparse
import asyncio
import collections
import os

from aiohttp import web

import headrace
from headrace import ops

STEPS = (
    ops.decode(),
    ops.resize_short(256),
    ops.center_crop(224, 224),
    ops.normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
)


class Service:
    """One device, and a bound on what is in flight on it."""

    def __init__(self, make, queue):
        self.make, self.queue = make, queue
        self.device = make.device  # opened now, not with the first request
        self.in_flight = 0
        self.counts = collections.Counter()

    async def tensor(self, request):
        """Answer one picture; never more than the queue at once."""
        # Before its body is read: what is refused shall cost nothing.
        if self.in_flight >= self.queue:
            return self.refuse(429, {"error": "busy"}, {"Retry-After": "1"})
        self.in_flight += 1
        try:
            return await self.answer(await request.read())
        except asyncio.CancelledError:
            self.counts["canceled"] += 1
            raise
        finally:
            self.in_flight -= 1

    async def answer(self, data):
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
        self.counts[200] += 1
        shape = ",".join(map(str, self.make.shape))
        return web.Response(body=bytes(memoryview(output.batch)),
                            headers={"X-Shape": shape})

    def refuse(self, status, why, headers=None):
        self.counts[status] += 1
        return web.json_response(why, status=status, headers=headers)

    async def stats(self, _):
        return web.json_response(
            {"in_flight": self.in_flight, "queue": self.queue,
             "answers": {str(k): n for k, n in self.counts.items()},
             "device": self.device.stats()})


def application(options):
    make = headrace.Pipeline(STEPS, device=options.backend,
                             threads=options.threads)
    service = Service(make, options.queue or 4 * options.threads)
    app = web.Application(client_max_size=options.limit)
    app.add_routes([web.post("/", service.tensor),
                    web.get("/stats", service.stats)])
    return app


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--threads", type=int,
                        default=len(os.sched_getaffinity(0)))
    parser.add_argument("--queue", type=int, default=0,
                        help="pictures in flight; default: 4 per thread")
    parser.add_argument("--limit", type=int, default=16 << 20)
    options = parser.parse_args()
    try:
        app = application(options)
    except headrace.Error as error:
        parser.error(str(error))
    web.run_app(app, host=options.host, port=options.port,
                handler_cancellation=True, access_log=None)


if __name__ == "__main__":
    main()
