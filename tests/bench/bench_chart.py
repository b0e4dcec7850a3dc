#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The chart of README.md, from what bench.py has measured.

    ./dev bench --json >bench.json
    tests/bench/bench_chart.py bench.json

A bar is three characters long for what the peer does; | is where that is.
"""
import json
import sys

BARS = (("train_transform", "train transform (crop, flip)"),
        ("later_epochs_best", "  again, from a cache"),
        ("eval_transform", "evaluation transform"),
        ("resize_bilinear", "resize to 224, bilinear"),
        ("normalize", "ToTensor, Normalize"),
        ("two_threads", "train transform, 2 threads"))
UNIT = 3
REMARKS = {"two_threads": "(peer: our engine, 1 thread)"}


def chart(rows):
    """Lines, of the rows that were measured. A key with _best is that of the
    last, which is the best, instruction set."""
    ratios = {}
    for row in rows:
        if row["ratio"] is not None:
            ratios[row["key"]] = row["ratio"]
            ratios[row["key"].rpartition("_")[0] + "_best"] = row["ratio"]
    for key, text in BARS:
        if key in ratios:
            bar = "#" * max(0, round(ratios[key] * UNIT) - UNIT)
            line = f"{text:<29}{ratios[key]:6.2f}  {'#' * UNIT}|{bar}"
            yield f"{line}    {REMARKS[key]}" if key in REMARKS else line


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        rows = json.load(f)["rows"]
    print("\n".join(chart(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
