#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that our trace and torch.profiler's lie on one time axis.

    tests/tools/trace_torch.py --build build

One process runs under torch.profiler and our trace at once. Spans that are
known to overlap, to enclose or to be apart must do so in the file that
check_trace.py --merge makes of both: a span of ours around one of torch's, one
of torch's without any of ours, and pictures that are decoded within a span of
torch's. Once with marks of our clock, and once by wall time if this torch has
Kineto. Exit code 77: not run.
"""
import argparse
import ctypes as C
import json
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function
except ImportError as e:
    print(f"not run: {e}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
AROUND_MS, INSIDE_MS = 60, 20
MAY_BE_OFF_MS = 2  # of clocks; a machine that is busy only makes spans longer


class Params(C.Structure):
    _fields_ = [("thread_bytes", C.c_size_t), ("wall_time", C.c_bool)]


class Sample(C.Structure):  # struct hr_sample; the rest is 0
    _fields_ = [("data", C.c_char_p), ("size", C.c_size_t),
                ("path", C.c_char_p), ("image", C.c_void_p),
                ("ops", C.c_void_p), ("num_ops", C.c_int),
                ("rest", C.c_char * 256)]


def library(build):
    lib = C.CDLL(os.path.join(build, "libheadrace.so"))
    lib.hr_trace_span.argtypes = [C.c_char_p, C.c_int64, C.c_int64]
    lib.hr_device_open.restype = lib.hr_apply.restype = C.c_void_p
    lib.hr_image_wait.argtypes = [C.c_void_p, C.c_int64]
    return lib


def decode(lib, dev, jpeg):
    ops, n = C.create_string_buffer(1 << 16), C.c_int()
    assert lib.hr_ops_parse(b"decode", ops, C.byref(n)) == 0
    sample = Sample(jpeg, len(jpeg), None, None, C.addressof(ops), n.value)
    image = C.c_void_p(lib.hr_apply(C.c_void_p(dev), C.byref(sample), None))
    assert image and lib.hr_image_wait(image, -1) == 0
    lib.hr_image_release(C.byref(image))


def sleep_ms(ms):
    time.sleep(ms / 1000)


def run(lib, dev, jpeg, where, wall):
    """Writes both traces."""
    assert lib.hr_trace_start(C.byref(Params(0, wall))) == 0
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            with record_function(f"headrace clock {time.monotonic_ns()}"):
                pass
        begin = time.monotonic_ns()
        sleep_ms(AROUND_MS / 3)
        with record_function("inside"):
            sleep_ms(INSIDE_MS)
        sleep_ms(AROUND_MS / 3)
        lib.hr_trace_span(b"around", begin, time.monotonic_ns())
        sleep_ms(INSIDE_MS)
        with record_function("alone"):
            sleep_ms(INSIDE_MS)
        sleep_ms(INSIDE_MS)
        with record_function("making"):
            sleep_ms(INSIDE_MS)
            decode(lib, dev, jpeg)
            sleep_ms(INSIDE_MS)
    lib.hr_trace_stop()
    assert lib.hr_trace_write(os.fsencode(f"{where}/ours.json")) == 0
    prof.export_chrome_trace(f"{where}/torch.json")


def spans(events, name):
    """[(begin, end)] in ms."""
    return [(e["ts"] / 1000, (e["ts"] + e["dur"]) / 1000) for e in events
            if e.get("ph") == "X" and e.get("name") == name]


def one(events, name):
    found = spans(events, name)
    assert len(found) == 1, f"{len(found)} spans named {name}"
    return found[0]


def check(where, mark):
    """Returns the faults in the merged file."""
    with open(f"{where}/torch.json") as f:
        theirs = json.load(f)
    if not mark:
        theirs["traceEvents"] = [
            e for e in theirs["traceEvents"]
            if not str(e.get("name")).startswith("headrace clock")]
        with open(f"{where}/torch.json", "w") as f:
            json.dump(theirs, f)
    subprocess.run([sys.executable, f"{HERE}/check_trace.py", "--merge",
                    f"{where}/ours.json", f"{where}/torch.json",
                    f"{where}/both.json"], check=True)
    with open(f"{where}/both.json") as f:
        events = json.load(f)["traceEvents"]
    around, inside = one(events, "around"), one(events, "inside")
    alone, making = one(events, "alone"), one(events, "making")
    margin = AROUND_MS / 3 - MAY_BE_OFF_MS
    off = [inside[0] - around[0], around[1] - inside[1]]
    if min(off) < margin:
        yield f"'inside' begins {off[0]:.1f} ms after 'around' and ends " \
              f"{off[1]:.1f} ms before it: {margin} each at least"
    if alone[0] - around[1] < INSIDE_MS - MAY_BE_OFF_MS:
        yield f"'alone' begins {alone[0] - around[1]:.1f} ms after 'around'"
    decodes = spans(events, "entropy..store")
    if len(decodes) != 1:
        yield f"{len(decodes)} pictures were decoded"
    for begin, end in decodes:
        if min(begin - making[0], making[1] - end) < INSIDE_MS - MAY_BE_OFF_MS:
            yield (f"decoded {begin:.1f} .. {end:.1f} ms, not within 'making',"
                   f" {making[0]:.1f} .. {making[1]:.1f}")
    rows = {(e.get("pid"), e.get("tid")) for e in events
            if e.get("ph") == "X" and e["name"] in ("inside", "around")}
    if len(rows) != 2:
        yield "torch's row and ours are one"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    o = p.parse_args()
    lib, wrong = library(o.build), []
    dev = lib.hr_device_open(b"cpu", None)
    kineto = torch.profiler.kineto_available()
    with tempfile.TemporaryDirectory(prefix="headrace-torch-") as where:
        subprocess.run([os.path.join(o.build, "headrace"), "samples",
                        "--photos-only", "--count", "1", f"{where}/in"],
                       check=True, stdout=subprocess.DEVNULL)
        (path,) = (os.path.join(folder, name) for folder, _, names
                   in os.walk(f"{where}/in") for name in names
                   if name.endswith(".jpg"))
        with open(path, "rb") as f:
            jpeg = f.read()
        decode(lib, dev, jpeg)
        for mark in (True, False) if kineto else (True,):
            for wall in (False, True):
                run(lib, dev, jpeg, where, wall)
                wrong += [f"{'mark' if mark else 'wall time'}, wall_time="
                          f"{wall}: {text}" for text in check(where, mark)]
    lib.hr_device_close(C.byref(C.c_void_p(dev)))
    for text in wrong:
        print(text)
    print(f"torch {torch.__version__}, "
          f"{'Kineto' if kineto else 'no Kineto: by the mark only'}: "
          f"{len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
