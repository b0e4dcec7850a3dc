#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cpu.* and device.* of a folder, as va_pictures.sh makes them: the same bytes,
and every picture's way decided before it was submitted.
va_pictures.py FOLDER TITLE LEAST: so many per cent must be the device's."""
import json
import os
import sys

# Reasons that come up on the way only.
LATE = ("the device failed", "the device did not", "the device is gone",
        "the device gave wrong", "memory that")


def load(folder, name):
    def text(end):
        with open(os.path.join(folder, name + end), encoding="utf-8") as f:
            return json.load(f)
    with open(os.path.join(folder, name + ".npy"), "rb") as f:
        return text(".json"), text(".summary"), f.read()


def main(folder, title, least):
    faults = []
    cpu, _, want = load(folder, "cpu")
    device, summary, got = load(folder, "device")
    differing = abs(len(want) - len(got))
    if want != got:
        differing += sum(a != b for a, b in zip(want, got))
        faults.append(f"{differing} bytes differ")
    if len(cpu["pictures"]) != len(device["pictures"]):
        faults.append("not as many pictures")
    mine = made = 0
    for a, b in zip(cpu["pictures"], device["pictures"]):
        name = os.path.basename(b["path"])
        if a["path"] != b["path"] or a["status"] != b["status"]:
            faults.append(f"{name}: {b['status']}, on the CPU {a['status']}")
        late = [r for r in b["fallback_reasons"]
                if any(word in r for word in LATE)]
        if late:
            faults.append(f"{name}: not planned: {late}")
        if b["status"] != "HR_OK":
            continue
        made += 1
        by_device = any(s["device"] != "cpu" for s in b["spans"])
        mine += by_device
        if not by_device and not b["fallback_reasons"]:
            faults.append(f"{name}: left to the CPU without a reason")
    if summary["mismatches"] or not summary["checked"]:
        faults.append(f"{summary['mismatches']} mismatches of {summary['checked']} checked")
    if mine * 100 < made * int(least):
        faults.append(f"only {mine} of {made} by the device")
    print(f"  {title}: {len(device['pictures'])} pictures, {made} made, {mine} "
          f"by the device, {len(got)} bytes, {differing} differ, all ways "
          "planned; the CPU's: " + (", ".join(
              f"{n} {why}" for why, n in summary["fallbacks"].items())
              or "none"))
    for fault in faults[:12]:
        print("  FAILED", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
