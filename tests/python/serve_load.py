#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a service of examples/serve.py for pictures, in a process of its own.

  serve_load.py URL --clients N --seconds S [--rate R] PICTURE...

With a rate, request i is due at i / R seconds, whatever became of those before
it (an open loop), and its time counts from then: what this process is late
counts, too. So it runs before all others where it may (root): it stands for
another machine. Without one, each client asks when it has its answer (a closed
loop). Prints JSON: {STATUS: [seconds, ...]}; a failed connection is "failed".
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import time

import aiohttp


async def post(client, data):
    try:
        async with client.post("/", data=data) as answer:
            await answer.read()
            return answer.status
    except aiohttp.ClientError as error:
        return f"failed: {error}"


async def ask(client, first, options, data, met):
    n, began = first, options.began
    while True:
        now = time.perf_counter()
        due = began + n / options.rate if options.rate else max(began, now)
        if due >= began + options.seconds:
            return
        await asyncio.sleep(max(0, due - now))
        status = await post(client, data[n % len(data)])
        met[status].append(time.perf_counter() - due)
        if status != 200 and not options.rate:
            await asyncio.sleep(0.005)
        n += options.clients


async def run(options):
    data = [path.read_bytes() for path in options.pictures]
    met = collections.defaultdict(list)
    async with aiohttp.ClientSession(
            options.url, connector=aiohttp.TCPConnector(limit=0)) as client:
        options.began = time.perf_counter() + 0.1
        await asyncio.gather(*(ask(client, i, options, data, met)
                               for i in range(options.clients)))
    print(json.dumps(met))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("pictures", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    if options.rate:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
