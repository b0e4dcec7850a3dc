#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of gpu_report.sh, from the files it has made. Standard library
only. Exit code 1: a device is not exact."""
import json
import os
import sys


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def text(*path):
    if not os.path.exists(os.path.join(*path)):
        return ""
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read().strip()


def trace_rows(folder, epochs, bus, rate):
    """(what, value) of bytes and kernels, per picture."""
    reason = text(folder, "no-trace")
    if reason:
        return [("kernels, bytes", "not measured: " + reason)]
    one, all_ = (load(folder, f"trace-{n}.json") for n in (1, epochs + 1))
    n = (load(folder, f"traced-{epochs + 1}.json")["images"] -
         load(folder, "traced-1.json")["images"])
    rows, moved = [], {}
    for way in ("up", "down"):
        moved[way] = (all_[way + "_bytes"] - one[way + "_bytes"]) / n
    if not any(moved.values()):
        rows.append(("bytes moved", "none: it works in the host's memory"))
    else:
        for way, words in (("up", "to the device"), ("down", "back")):
            rows.append((f"bytes per picture {words}", f"{moved[way]:.0f}"))
        if bus:
            used = max(moved.values()) * rate / (bus * 1e9)
            rows.append((f"share of a bus of {bus:g} GB/s", f"{used:.1%}"))
            floor = max(moved.values()) / (bus * 1e9) * 1e6
            rows.append(("  its floor, us per picture", f"{floor:.2f}"))
    total = 0
    for name, k in all_["kernels"].items():
        before = one["kernels"].get(name, {"ns": 0, "timed": 0})
        if k["ns"] == before["ns"]:  # not run, or the driver has no clock
            continue
        us = (k["ns"] - before["ns"]) / 1e3 / n
        total += us
        rows.append((f"  {name}, us per picture", f"{us:.2f}"))
    rows.append(("kernels together, us per picture",
                 f"{total:.2f}" if total else "not measured: the driver has no times"))
    return rows


def main(tmp, epochs, bus, names):
    devices = {d["name"]: d for d in load(tmp, "devices.json")["devices"]}
    cpu = {b: load(tmp, "cpu", f"run-{b}.json") for b in (1, 16, 256)}
    inexact = 0
    print(f"train transform to 224x224 f32; {cpu[256]['images'] // epochs} "
          f"pictures, {epochs} epochs; the CPU engine: "
          f"{devices['cpu']['description']}")
    for name in names:
        folder = os.path.join(tmp, name.replace(":", "-").replace("/", "-"))
        runs = {b: load(folder, f"run-{b}.json") for b in (1, 16, 256)}
        device = devices.get(runs[1]["device"], {})
        exact = text(folder, "exact")
        inexact += exact == "NO"
        rows = [("device", name if name == runs[1]["device"] else
                 f"{name} ({runs[1]['device']})"),
                ("hardware, driver", device.get("description", "unknown")),
                ("exact (conformance suite)", exact)]
        for b, run in runs.items():
            rows.append((f"img/s, batches of {b} (and on the CPU)",
                         f"{run['img_per_s']:.0f} "
                         f"({cpu[b]['img_per_s']:.0f})"))
            rows.append(("  CPU-seconds per 1000 images",
                         f"{run['cpu_s_per_1000']:.2f} "
                         f"({cpu[b]['cpu_s_per_1000']:.2f})"))
        left = ", ".join(f"{n} {why}" for why, n in
                         runs[256]["fallbacks"].items())
        rows.append(("left to the CPU", left or "nothing"))
        rows += trace_rows(folder, epochs, bus, runs[256]["img_per_s"])
        wide = max(len(what) for what, _ in rows)
        print()
        for what, value in rows:
            print(f"{what:{wide}}  {value}")
        if exact == "NO":
            print(text(folder, "conformance.log")[-2000:])
    return 1 if inexact else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]),
                  sys.argv[4:]))
