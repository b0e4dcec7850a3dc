#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cpu.npy and opencl.npy of a folder, as opencl_platforms.sh makes them: checks
that they are the same bytes, that the device made them (made.py), and that each
picture names its engine and the reason."""
import collections
import json
import os
import sys

sys.path.append(os.path.dirname(__file__) + "/../../support")
import made

# The reason for a picture of a kind that stays on the CPU, by the beginning of
# its file's name (as in headrace samples and in the corpus).
REASONS = {"progressive": "progressive", "arithmetic": "arithmetic",
           "cmyk": "CMYK", "ycck": "CMYK"}


def load(folder, name):
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as f:
        manifest = json.load(f)
    with open(os.path.join(folder, name + ".summary"), encoding="utf-8") as f:
        summary = json.load(f)
    with open(os.path.join(folder, name + ".npy"), "rb") as f:
        return manifest, summary, f.read()


def main(folder):
    faults = []
    cpu, _, want = load(folder, "cpu")
    ocl, summary, got = load(folder, "opencl")
    differing = (abs(len(want) - len(got)) +
                 sum(a != b for a, b in zip(want, got))
                 if want != got else 0)
    if differing:
        faults.append(f"{differing} bytes differ")
    count, failed = made.Count(), collections.Counter()
    for a, b in zip(cpu["pictures"], ocl["pictures"]):
        name = os.path.basename(b["path"])
        if a["path"] != b["path"] or a["status"] != b["status"]:
            faults.append(f"{b['path']}: {b['status']}, on the CPU "
                          f"{a['status']}")
        if b["status"] != "HR_OK":
            failed[b["status"]] += 1
            continue
        stages = made.stages_of(b["spans"])
        count.add(stages, b["fallback_reasons"], 0,
                  "not a JPEG" not in b["fallback_reasons"])
        kind = next((k for k in REASONS if name.startswith(k)), None)
        if not stages and not b["fallback_reasons"]:
            faults.append(f"{name}: left to the CPU without a reason")
        if kind and not any(REASONS[kind] in w for w in b["fallback_reasons"]):
            faults.append(f"{name}: {b['fallback_reasons']} is no reason for {kind}")
    print(f"  made by the device: {count.words(summary['device'])}; "
          f"{len(got)} bytes, {differing} differ; refused by both: "
          f"{sum(failed.values())}; left to the CPU: " +
          (", ".join(f"{v} {k}" for k, v in summary["fallbacks"].items())
           or "none"))
    faults += count.faults(summary["device"], 1 / 3)
    for fault in faults[:12]:
        print("  FAILED", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
