# SPDX-License-Identifier: Apache-2.0
"""Pictures that the command makes: one folder for all files of a run, which
only read there, and one of its own for what a file writes."""

import atexit
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get(
    "HEADRACE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
COMMAND = BUILD / "headrace"
PHOTOS = 24

shared = None  # run.py says where


def allowed(seconds):
    """Seconds to allow on a machine that others use, too."""
    return seconds * max(1, os.getloadavg()[0] / os.cpu_count())


@functools.cache
def scratch():
    """A folder that goes when the process does."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="headrace-python-"))
    owner = os.getpid()

    def remove():
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


@functools.cache
def folder():
    """photos/, kinds/, bad/, samples.json; the first process makes them."""
    path = pathlib.Path(shared or scratch()) / "samples"
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / "made").exists():
            try:
                subprocess.run([COMMAND, "samples", path, "-n", str(PHOTOS)],
                               check=True, stdout=subprocess.DEVNULL)
            except OSError as error:
                raise unittest.SkipTest(f"needs the command: {error}")
            (path / "made").touch()
    return path
