# SPDX-License-Identifier: Apache-2.0
"""What the tests of headrace._core share: pictures, and the command's bytes."""

import atexit
import functools
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ.get(
    "HEADRACE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
COMMAND = BUILD / "headrace"
PHOTOS = 24


@functools.cache
def folder():
    """A folder of generated pictures, which goes when the process does."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="headrace-core-"))
    owner = os.getpid()

    def remove():
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    subprocess.run([COMMAND, "samples", path, "-n", str(PHOTOS)], check=True,
                   stdout=subprocess.DEVNULL)
    return path


@functools.cache
def described():
    """Path -> what samples.json says of it."""
    lines = json.loads((folder() / "samples.json").read_text())
    return {str(folder() / line["path"]): line for line in lines}


@functools.cache
def photos():
    return sorted(p for p in described() if "/photos/" in p)


@functools.cache
def good():
    """All that can be decoded, of every kind."""
    return sorted(p for p, line in described().items()
                  if line["expect"] == "ok")


@functools.cache
def small():
    """The smallest file of all photos."""
    return min(photos(), key=os.path.getsize)


def read(path):
    return pathlib.Path(path).read_bytes()


def npy(path):
    """Shape and bytes of an array file."""
    data = read(path)
    assert data[:6] == b"\x93NUMPY" and data[6] == 1, data[:8]
    size = struct.unpack_from("<H", data, 8)[0]
    head = eval(data[10:10 + size])
    assert not head["fortran_order"]
    return head["shape"], data[10 + size:]


def of_command(paths, ops, *options):
    """Bytes of the array that the command makes of these files."""
    with tempfile.TemporaryDirectory() as place:
        names = pathlib.Path(place, "names")
        names.write_bytes(b"\0".join(os.fsencode(p) for p in paths) + b"\0")
        out = pathlib.Path(place, "out.npy")
        subprocess.run(
            [COMMAND, "run", "--list", names, "--null", "--out", out,
             "--quiet", "--backend", "cpu", "--ops", ops, *options],
            check=True)
        shape, data = npy(out)
    assert shape[0] == len(paths), shape
    return data
