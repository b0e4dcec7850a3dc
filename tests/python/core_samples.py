# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of headrace._core: pictures, lists of ops, a job that is
waited for, and the command's bytes."""

import functools
import json
import os
import pathlib
import struct
import subprocess
import tempfile

import headrace
from headrace import _core, ops
from made_samples import COMMAND, folder, scratch  # noqa: F401

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
EVAL = (ops.decode(), ops.resize_short(256), ops.center_crop(224, 224),
        ops.normalize(MEAN, STD))
EVAL_TEXT = "decode,resize=256,center_crop=224,normalize=imagenet"
TRAIN = (ops.decode(), ops.random_resized_crop(96, 64),
         ops.random_flip(horizontal=0.5), ops.normalize(MEAN, STD))
TRAIN_TEXT = ("decode,random_resized_crop=96x64,random_hflip,"
              "normalize=imagenet")

_core.set_image_backend("cpu")  # in every file that imports this


def run(samples, out, **options):
    job = headrace.submit(samples, out, **options)
    job.wait()
    return job


def pixels_of(source, steps, w, h, c=3, **form):
    out = headrace.Pixels(w, h, c, **form)
    run([(source, steps)], [out])
    return out


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


def page_data(page):
    """The data that a report's script shows; the page loads nothing."""
    head, _, rest = page.partition('<script type="application/json" id="data">')
    text, end, tail = rest.partition("</script>")
    assert end and "src=\"http" not in head + tail and "@DATA@" not in page
    return json.loads(text)
