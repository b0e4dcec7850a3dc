#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of gpu_report.sh, from the files it has made. Standard library
only. Exit code 1: a device is not exact, or did not make the pictures that were
measured."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "tests", "support"))
import made


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def text(*path):
    if not os.path.exists(os.path.join(*path)):
        return ""
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read().strip()


# What an item of a kernel writes, in bytes (kernels/layout.h): a block of
# samples or of pixels, 4 columns of 16 pixels, a tile of 16 x 16, 16 floats.
# Items that complete a group count, too; they are few.
WRITES = {"hr_reconstruct": 64, "hr_reconstruct_color": 192, "hr_color": 192,
          "hr_pixels": 192, "hr_resample": 256, "hr_store": 64}


# struct hr__sub, and the coefficients of a block (kernels/entropy.h).
SUB, BLOCK = 20, 128


def entropy_floors(kernels, up):
    """The same of stage entropy, which reads the scan twice. Which coefficients
    are not 0 is not known: they are left out."""
    blocks = kernels.get("hr_entropy_begin", 0)
    subs = kernels.get("hr_entropy_guess", 0)
    moved = {"hr_entropy_begin": blocks * BLOCK,
             "hr_entropy_guess": up + subs * SUB,
             "hr_entropy_check": 2 * subs * SUB,
             "hr_entropy_write": up + subs * SUB,
             "hr_entropy_dc": blocks * 4}
    return moved if blocks else {}


def floors(kernels, up):
    """Bytes that each kernel must move at least: it writes what it makes and
    reads what the one before has made, once. up: bytes of the pictures that
    come in."""
    made = {k: kernels.get(k, 0) * WRITES[k] for k in WRITES}
    planes = made["hr_reconstruct"]
    first = entropy_floors(kernels, up)
    if first:  # reconstruct reads what that has left
        up = kernels["hr_entropy_begin"] * BLOCK
    sources = ["hr_reconstruct", "hr_reconstruct_color", "hr_pixels"]
    blocks = sum(made[k] for k in sources)
    moved = dict(made)
    for k in sources:  # what came in, shared out among those who read it
        moved[k] += up * made[k] / blocks if blocks else 0
    moved["hr_color"] += planes if made["hr_color"] else 0
    window = (made["hr_color"] + made["hr_reconstruct_color"] +
              made["hr_pixels"])
    moved["hr_resample"] += window or planes
    moved["hr_store"] += made["hr_resample"]
    return first | {k: v for k, v in moved.items() if made[k]}


def bus_rows(moved, trace, bus, rate):
    if not any(moved.values()):
        return [("bytes moved", "none: it works in the host's memory")]
    rows = []
    for way, words in (("up", "to the device"), ("down", "back")):
        gbps = bus or trace[way + "_gbps"]
        rows.append((f"bytes per picture {words}", f"{moved[way]:.0f}"))
        if not gbps:
            continue
        which = "given" if bus else "measured"
        used = moved[way] * rate / (gbps * 1e9)
        rows.append((f"  share of a bus of {gbps:.1f} GB/s ({which})",
                     f"{used:.1%}"))
        rows.append(("  its floor, us per picture",
                     f"{moved[way] / gbps / 1e3:.2f}"))
    return rows


def trace_rows(folder, epochs, bus, rate):
    """(what, value) of bytes and kernels, per picture."""
    reason = text(folder, "no-trace")
    if reason:
        return [("kernels, bytes", "not measured: " + reason)]
    one, all_ = (load(folder, f"trace-{n}.json") for n in (1, epochs + 1))
    n = (load(folder, f"traced-{epochs + 1}.json")["images"] -
         load(folder, "traced-1.json")["images"])
    moved = {way: (all_[way + "_bytes"] - one[way + "_bytes"]) / n
             for way in ("up", "down")}
    rows = bus_rows(moved, all_, bus, rate)
    none = {"ns": 0, "items": 0}
    used = {name: {what: (k[what] - one["kernels"].get(name, none)[what]) / n
                   for what in none} for name, k in all_["kernels"].items()}
    least = floors({name: u["items"] for name, u in used.items()}, moved["up"])
    memory = all_["copy_gbps"]
    rows.append(("memory, when the device copies",
                 f"{memory:.1f} GB/s" if memory else "not measured"))
    total = floor = 0
    for name, u in used.items():
        # Only at the start, or the driver has no clock.
        if u["ns"] <= 0 or name not in least:
            continue
        us = u["ns"] / 1e3
        us_least = least[name] / memory / 1e3 if memory else 0
        total, floor = total + us, floor + us_least
        rows.append((f"  {name}, us per picture (memory floor, share)",
                     f"{us:.2f} ({us_least:.2f}, {us_least / us:.0%})"))
    rows.append(("kernels together, us per picture (memory floor, share)",
                 f"{total:.2f} ({floor:.2f}, {floor / total:.0%})" if total
                 else "not measured: the driver has no times"))
    return rows


def speed_rows(runs, cpu):
    rows = []
    for b, run in runs.items():
        rows.append((f"img/s, batches of {b} (and on the CPU)",
                     f"{run['img_per_s']:.0f} "
                     f"({cpu[b]['img_per_s']:.0f})"))
        rows.append(("  CPU-seconds per 1000 images",
                     f"{run['cpu_s_per_1000']:.2f} "
                     f"({cpu[b]['cpu_s_per_1000']:.2f})"))
    return rows


def entropy_rows(folder, epochs, bus, cpu):
    """All of it once more, with entropy coding on the device."""
    if not os.path.exists(os.path.join(folder, "run-256.json")):
        return [("entropy coding on the device",
                 "not measured: " + text(folder, "errors")[:200])]
    runs = {b: load(folder, f"run-{b}.json") for b in (1, 16, 256)}
    return ([("entropy coding on the device", "")] + speed_rows(runs, cpu) +
            trace_rows(folder, epochs, bus, runs[256]["img_per_s"]))


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
        # What was measured was not the device's work.
        left = [f"{n} samples: {why}" for run in runs.values()
                for why, n in run["fallbacks"].items()
                if why == made.REFUSED or why in made.LEFT]
        if left and not exact.startswith("NO"):
            exact = "NO: " + "; ".join(left)
        inexact += exact.startswith("NO")
        rows = [("device", name if name == runs[1]["device"] else
                 f"{name} ({runs[1]['device']})"),
                ("hardware, driver", device.get("description", "unknown")),
                ("exact (conformance suite)", exact)]
        rows += speed_rows(runs, cpu)
        left = ", ".join(f"{n} {why}" for why, n in
                         runs[256]["fallbacks"].items())
        rows.append(("left to the CPU", left or "nothing"))
        rows += trace_rows(folder, epochs, bus, runs[256]["img_per_s"])
        rows += entropy_rows(os.path.join(folder, "entropy"), epochs, bus, cpu)
        wide = max(len(what) for what, _ in rows)
        print()
        for what, value in rows:
            print(f"{what:{wide}}  {value}")
        if exact.startswith("NO"):
            print(text(folder, "conformance.log")[-2000:])
    return 1 if inexact else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]),
                  sys.argv[4:]))
