# SPDX-License-Identifier: Apache-2.0
"""The roofline of gpu_report.sh: what kernels must move at least, from what
they were launched for, and how long that takes at a bandwidth. Standard library
only."""

# Bytes that an item of a kernel writes (kernels/layout.h): a block of samples,
# 4 columns of 16 pixels, a tile of 16 x 16, the same of floats; in the form for
# GPUs a row of 8 samples or pixels, 4 pixels, 16 floats. Items that complete a
# group count, too; they are few.
WRITES = {"hr_reconstruct": 64, "hr_color": 192, "hr_pixels": 192,
          "hr_resample": 256, "hr_store": 1024, "hr_reconstruct_gpu": 8,
          "hr_reconstruct_color_gpu": 24, "hr_color_gpu": 12,
          "hr_resize_gpu": 64}
# struct hr__sub, the marks of a subsequence, and the coefficients of a block
# (kernels/entropy.h).
SUB, MARKS, BLOCK = 48, 64, 128
STAGES = {"hr_index": "reconstruct", "hr_reconstruct": "reconstruct",
          "hr_reconstruct_gpu": "reconstruct",
          "hr_reconstruct_color_gpu": "reconstruct", "hr_planes": "color",
          "hr_color": "color", "hr_color_gpu": "color", "hr_pixels": "color",
          "hr_resample": "resample", "hr_store": "store",
          "hr_resize_gpu": "store", "hr_augment": "augment", "hr_erase": "store"}
ORDER = ("entropy", "reconstruct", "color", "resample", "augment", "store",
         "other")

# The device whose times the model predicts: 10^9 bytes per second of memory,
# and of the bus each way. An H200's memory has 4.8 TB/s; PCIe 5.0 x16 carries
# 63 GB/s, of which some 55 arrive.
PAPER = {"name": "H200, PCIe 5.0 x16", "memory": 4800.0, "bus": 55.0}


def entropy_floors(items, up):
    """Bytes that stage entropy moves at least; it reads the scan once. The
    nonzero coefficients and how far decoders go on are unknown: left out."""
    blocks = items.get("hr_entropy_begin", 0)
    subs = items.get("hr_entropy_guess", 0)
    moved = {"hr_entropy_begin": blocks * BLOCK,
             "hr_entropy_guess": up + subs * (SUB + MARKS),
             "hr_entropy_again": 2 * items.get("hr_entropy_again", 0) *
                                 (SUB + MARKS),
             "hr_entropy_check": 2 * subs * SUB,
             "hr_entropy_write": subs * SUB,
             "hr_entropy_dc": blocks * 4}
    return moved if blocks else {}


def floors(items, up):
    """Bytes that each kernel must move at least: it writes what it makes and
    reads what the one before has made, once. up: bytes of the pictures that
    come in."""
    made = {k: items.get(k, 0) * WRITES[k] for k in WRITES}
    planes = made["hr_reconstruct"] + made["hr_reconstruct_gpu"]
    first = entropy_floors(items, up)
    if first:  # reconstruct reads what that has left
        up = items["hr_entropy_begin"] * BLOCK
    sources = ["hr_reconstruct", "hr_reconstruct_gpu",
               "hr_reconstruct_color_gpu", "hr_pixels"]
    blocks = sum(made[k] for k in sources)
    moved = dict(made)
    for k in sources:  # the uploaded bytes, shared among the kernels
        moved[k] += up * made[k] / blocks if blocks else 0
    moved["hr_color"] += planes
    moved["hr_color_gpu"] += made["hr_reconstruct_gpu"]
    window = (made["hr_color"] + made["hr_color_gpu"] + made["hr_pixels"] +
              made["hr_reconstruct_color_gpu"])
    moved["hr_resample"] += window or planes
    moved["hr_resize_gpu"] += window or planes
    moved["hr_store"] += made["hr_resample"]
    return first | {k: v for k, v in moved.items() if made[k]}


def us(bytes_, gbps):
    return bytes_ / gbps / 1e3 if gbps else None


def stages(kernels):
    """Sums of a trace's kernels by stage, in the order of the stages. us is
    None for untimed kernels. (hr_index has no floor: it is small.)"""
    sums = {}
    for name, k in kernels.items():
        stage = "entropy" if name.startswith("hr_entropy") else "other"
        s = sums.setdefault(STAGES.get(name, stage),
                            {"us": 0, "launches": 0, "floor_bytes": 0})
        s["us"] = None if None in (s["us"], k["us"]) else s["us"] + k["us"]
        s["launches"] += k["launches"]
        s["floor_bytes"] += k["floor_bytes"] or 0
    return {name: sums[name] for name in ORDER if name in sums}


def predicted(trace, paper):
    """Microseconds per picture if each stage did nothing but move its bytes:
    what the first run on silicon is held against."""
    rows = {name: us(s["floor_bytes"], paper["memory"])
            for name, s in trace["stages"].items()}
    bus = {way: us(trace[way + "_bytes"], paper["bus"])
           for way in ("up", "down")}
    return {"stages_us": rows, "kernels_us": sum(rows.values()),
            "up_us": bus["up"], "down_us": bus["down"],
            "most_img_per_s": 1e6 / max(sum(rows.values()), bus["up"],
                                        bus["down"])}
