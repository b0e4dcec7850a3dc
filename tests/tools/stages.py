#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the stages and engines that pages name with the tables.

Usage: stages.py JSON ROOT: what `headrace devices --json` printed, the sources.
"""
import json
import pathlib
import sys

ENGINES = ("cpu", "opencl", "vaapi")  # columns behind stage, does


def rows(text):
    """The table of stages in architecture.md."""
    lines = text[text.index("| stage | does |"):].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines[2:]]


def differences(found, readme, architecture):
    names = [stage["stage"] for stage in found["stages"]]
    for page, text in (("README.md", readme),
                       ("architecture.md", architecture)):
        if names not in [line.split() for line in text.splitlines()]:
            yield f"{page}: no drawing with {' '.join(names)}"
    table = rows(architecture)
    if [row[0] for row in table] != names:
        yield f"architecture.md: stages {[row[0] for row in table]}"
    for stage, row in zip(found["stages"], table):
        for device in found["devices"]:
            cell = dict(zip(ENGINES, row[2:]))[device["backend"]]
            done = device["name"] in stage["devices"]
            # (Another word than yes and no: it depends on the device.)
            if device["available"] and cell == ("no" if done else "yes"):
                yield f"architecture.md: {row[0]} by {device['name']}: {cell}"


def main():
    found = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    root = pathlib.Path(sys.argv[2])
    readme = (root / "README.md").read_text(encoding="utf-8")
    architecture = (root / "docs/architecture.md").read_text(encoding="utf-8")
    bad = list(differences(found, readme, architecture))
    print(*bad, sep="\n")
    # It can fail: another stage, an engine that does none.
    for text in (architecture.replace("| color |", "| colour |", 1),
                 architecture.replace("filters, 8 bits to 8 bits | yes |",
                                      "filters, 8 bits to 8 bits | no |", 1)):
        if not list(differences(found, readme, text)):
            bad.append("not noticed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
