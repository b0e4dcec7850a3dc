#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of `headrace run --out`: a few good and damaged pictures, the
manifest and the array read with nothing of ours, each number against a plain
count.   manifest_numbers.py HEADRACE"""

import ast
import glob
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

bad = []


def check(holds, text):
    if not holds:
        bad.append(text)
        print("FAILED:", text)


def size_of(path):
    """Width and height by the frame header or IHDR; None: there is none."""
    data = open(path, "rb").read()
    if data.startswith(b"\x89PNG"):
        return struct.unpack(">II", data[16:24])
    at = 2
    while at + 9 < len(data):
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2:at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return struct.unpack(">HH", data[at + 5:at + 9])[::-1]
        at += 2 + length[0]
    return None


def npy(path):
    data = open(path, "rb").read()
    length = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + length].decode().strip())
    return head["shape"], len(data) - 10 - length


def run(headrace, folder, policy, epochs=1):
    done = subprocess.run(
        [headrace, "run", folder, "--backend", "cpu", "--out", "o.npy",
         "--dtype", "u8", "--ops", "decode,resize=32x24", "--on-error", policy,
         "--epochs", str(epochs), "--json", "-q"], capture_output=True)
    return json.loads(done.stdout), json.load(open("o.json")), npy("o.npy")


def look(summary, manifest, array, good, policy):
    pictures = manifest["pictures"]
    made = [p for p in pictures if p["status"] == "HR_OK"]
    rows = [p["index"] for p in pictures if p.get("index") is not None]
    shape, size = array

    for p in pictures:
        least = 2 if "skipped" in p["path"] else 0
        check(p["warnings"] >= least and (least or not p["warnings"]),
              f"{p['path']}: {p['warnings']} warnings")
    check({os.path.basename(p["path"]) for p in made} == good,
          f"{policy}: made {sorted(p['path'] for p in made)}")
    check(rows == list(range(len(rows))), f"{policy}: rows {rows}")
    check(list(shape) == [len(rows), 3, 24, 32], f"{policy}: shape {shape}")
    check(size == len(rows) * 3 * 24 * 32, f"{policy}: {size} bytes")
    for holder in (summary, manifest):
        check(holder["images"] == len(made) and
              holder["failed"] == len(pictures) - len(made),
              f"{policy}: {holder['images']} made, {holder['failed']} failed")
    for p in pictures:
        size = size_of(p["path"])
        check(size is None or p["width"] == 0 or
              tuple(size) == (p["width"], p["height"]),
              f"{p['path']}: {p['width']} x {p['height']}, not {size}")
        said = re.search(r" at byte (\d+)", p.get("reason", ""))
        check("offset" not in p or
              p["offset"] == (int(said[1]) if said else None),
              f"{p['path']}: offset {p.get('offset')}: {p.get('reason')}")


def full_disk(headrace):
    """Nothing gets its name if the last byte could not be written."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    done = subprocess.run([headrace, "run", "few", "--backend", "cpu", "--out",
                           "full.npy", "--ops", "decode,resize=32x24",
                           "--on-error", "skip", "-q"], capture_output=True,
                          preexec_fn=limit)
    check(done.returncode == 2, f"a full disk ends with {done.returncode}")
    check(not glob.glob("full*") and not glob.glob(".headrace*"),
          f"left: {glob.glob('full*')} {glob.glob('.headrace*')}")


def main():
    headrace = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    subprocess.run([headrace, "samples", "--count", "3", "all"], check=True,
                   stdout=subprocess.DEVNULL)
    os.mkdir("few")
    good = sorted(glob.glob("all/photos/**/*.jpg", recursive=True))[:3]
    wrong = ["all/bad/" + n for n in ("bomb-190-scans.jpg", "empty.jpg",
                                      "height-0.jpg", "dqt-number-9.jpg")]
    for path in good + wrong:
        shutil.copy(path, "few")
    mended = "all/bad/restart-skipped.jpg"  # four warnings of libjpeg's
    good.append(mended)
    shutil.copy(mended, "few")
    names = {os.path.basename(p) for p in good}
    for policy in ("zero", "skip"):
        look(*run(headrace, "few", policy), names, policy)
    # The last of several epochs is kept, and nothing of the others.
    _, manifest, array = run(headrace, "few", "skip", 2)
    check(len(manifest["pictures"]) == len(good) + len(wrong) and
          manifest["epoch"] == 1 and array[0][0] == len(good), "two epochs")
    full_disk(headrace)
    shutil.rmtree(os.getcwd())
    print(f"{len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
