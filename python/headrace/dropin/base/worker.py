# SPDX-License-Identifier: Apache-2.0
"""Is this process a DataLoader worker? Needs no torch.

A worker runs the data set, the transforms and the collate function as always;
pictures are recorded, not decoded. When the DataLoader pickles what a worker
made, each lazy tensor goes over a channel (workers/channel.py) to the process
that owns the device, which submits it at once, and a Ticket takes its place
in the DataLoader's queue. next() exchanges tickets for tensors.

The process id decides if this process is a worker, for a worker may be a
thread one day, and a thread can use the device itself.
"""

from __future__ import annotations

import os
from typing import Any


class Worker:
    """The state of a worker process; set where its loop starts."""

    pid = -1
    number = 0
    sender: Any = None  # a channel.Sender
    # Batches that may be on their way; 0: its parent opens no Fetched.
    depth = 0


def in_worker() -> bool:
    """True in a DataLoader worker process, which must not open a device."""
    return Worker.pid == os.getpid()
