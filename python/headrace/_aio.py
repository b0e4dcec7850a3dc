# SPDX-License-Identifier: Apache-2.0
"""How `await job` waits."""

from __future__ import annotations

import asyncio
import os

from . import _core


async def wait(job: _core.Job) -> tuple[_core.Result, ...]:
    """Wait for a job without blocking the event loop; return its results.

    It raises what job.wait() does. Cancelling the task leaves the job alone.
    """
    if not job.poll():
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        # A loop has one reader for a descriptor; several tasks may wait.
        fd = os.dup(job.fileno())
        loop.add_reader(fd, done.set)
        try:
            await done.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
    job.wait()
    return job.results
