# SPDX-License-Identifier: Apache-2.0
"""Run by wheel_test.sh in an environment with nothing but the wheel.

  wheel_smoke.py [--alone] PICTURES DECODED.npy TENSOR.npy

DECODED: the pictures, u8, n x h x w x c; TENSOR: f32, n x 3 x 112 x 112, by
`headrace run`. --alone: a machine without OpenCL and libva.
"""

import ast
import importlib.util
import pathlib
import re
import struct
import sys


def check(fact, *what):
    if not fact:
        print("wheel_smoke:", *what)
        sys.exit(1)


def read_npy(path):
    """Its shape and its bytes: NumPy is not here."""
    data = pathlib.Path(path).read_bytes()
    check(data[:6] == b"\x93NUMPY", path, "is not .npy")
    wide = data[6] > 1
    length, = struct.unpack_from("<I" if wide else "<H", data, 8)
    start = 12 if wide else 10
    head = ast.literal_eval(data[start:start + length].decode())
    check(not head["fortran_order"], path, "in Fortran's order")
    return head["shape"], data[start + length:]


def libraries():
    """Files of code that this process has mapped."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {path for line in lines if " r-xp " in line
            for path in line.split()[5:6] if path.startswith("/")}


def check_libraries(before):
    """Checks the imported libraries: only the wheel's own files and libc's."""
    mine = str(pathlib.Path(sys.prefix))
    of_libc = re.compile(r"/(lib(c|m|dl|pthread|rt|z)|ld-linux[^/]*)"
                         r"(-[\d.]+)?\.so[\d.]*$")
    for path in libraries() - before:
        check(path.startswith(mine) or of_libc.search(path)
              or "lib-dynload" in path, "loads", path)


def run(core, pictures, ops, batch):
    job = core.submit([(str(p), ops) for p in pictures], batch, device="cpu")
    job.wait(60)
    for result in job.results:
        check(result.status == 0, result.status_name, result.message)
    return bytes(memoryview(batch).cast("B"))


def main():
    alone = "--alone" in sys.argv
    folder, decoded, tensor = sys.argv[-3:]
    for name in ("numpy", "PIL", "torch", "pip"):
        check(importlib.util.find_spec(name) is None, name, "is installed")

    before = libraries()
    import headrace
    from headrace import _core as core
    check(pathlib.Path(headrace.__file__).is_relative_to(sys.prefix),
          "imported", headrace.__file__)
    check_libraries(before)

    pictures = sorted(pathlib.Path(folder).rglob("*.jpg"))
    shape, want = read_npy(decoded)
    n, h, w, c = shape
    check(len(pictures) == n and c == 3, "pictures", len(pictures), shape)
    batch = core.Batch(n, c, h, w, dtype="u8", layout="nhwc")
    ops = ((core.DECODE, 0, True),)
    check(run(core, pictures, ops, batch) == want, "other pixels")

    shape, want = read_npy(tensor)
    check(shape == (n, 3, 112, 112), "tensor", shape)
    batch = core.Batch(*shape)
    ops += ((core.RESIZE_SHORT, 128, core.PIL_FILTER[2], 0),
            (core.CENTER_CROP, 112, 112, False),
            (core.NORMALIZE, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 0))
    check(run(core, pictures, ops, batch) == want, "other tensor")

    devices = headrace.devices()
    engines = {d["backend"] for d in devices if d["available"]}
    check("cpu" in engines, "devices", devices)
    check(not alone or engines == {"cpu"}, "devices without drivers", devices)
    print(f"Python {sys.version.split()[0]}, {core.jpeg_library()},"
          f" engines: {', '.join(sorted(engines))}")


main()
