# SPDX-License-Identifier: Apache-2.0
"""The files that gpu_report.sh measures with, and facts about them. Standard
library only."""
import json
import os
import subprocess


def scan_bytes(data):
    """About the bytes of Huffman codes of a JPEG: all behind the first SOS. 0
    if the file is no JPEG."""
    at = 2
    while data[:2] == b"\xff\xd8" and at + 4 <= len(data) and data[at] == 255:
        size = 2 + int.from_bytes(data[at + 2:at + 4], "big")
        if data[at + 1] == 0xda:
            return len(data) - at - size
        at += 1 if data[at + 1] == 255 else size
    return 0


def is_picture(path):
    with open(path, "rb") as f:
        return f.read(4)[:2] in (b"\xff\xd8", b"\x89P")


def files_of(places):
    """Pictures, sorted."""
    found = []
    for place in places:
        if os.path.isdir(place):
            found += (os.path.join(d, f) for d, _, fs in os.walk(place)
                      for f in fs)
        else:
            found.append(place)
    return sorted(p for p in found if is_picture(p))


def count(build, paths):
    """Means per picture, over the JPEGs among the files."""
    files = [d for d in (open(p, "rb").read() for p in paths) if scan_bytes(d)]
    n = len(files)
    facts = {"pictures": n, "file_bytes": sum(map(len, files)) / max(n, 1),
             "huffman_bytes": sum(map(scan_bytes, files)) / max(n, 1)}
    core = os.path.join(build, "tests", "bench_core")
    if not n or not os.path.exists(core):
        return facts
    paths = [p for p in paths if scan_bytes(open(p, "rb").read())]
    done = subprocess.run([core, "symbols", *paths], capture_output=True)
    if not done.returncode:
        blocks, symbols, values = json.loads(done.stdout)
        facts |= {"blocks": blocks / n, "symbols": symbols / n,
                  "values": values / n}
    return facts
