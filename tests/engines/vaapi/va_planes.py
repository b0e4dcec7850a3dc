#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares raw pictures of two programs, plane by plane.

va_planes.py WxH FILE:FORMAT FILE:FORMAT [LIMIT]

LIMIT: the greatest difference of a sample that passes (default 0), or mean=X,
the greatest mean difference of a plane. Formats are FFmpeg's. Prints the
difference; exit code 1 if it is over the limit."""
import sys

import numpy as np

# Subsampling of chroma: width, height.
FFMPEG = {"yuv420p": (2, 2), "yuv422p": (2, 1), "yuv440p": (1, 2),
          "yuv444p": (1, 1), "yuv411p": (4, 1)}


def up(value, to):
    return (value + to - 1) // to * to


class Reader:
    def __init__(self, path):
        self.data = np.fromfile(path, np.uint8)
        self.at = 0

    def plane(self, pitch, rows, w, h, bytes_per=1):
        """h rows of w samples out of `rows` rows of `pitch` bytes."""
        size = pitch * rows
        part = self.data[self.at:self.at + size]
        self.at += size
        if part.size != size:
            raise ValueError("too short")
        part = part.reshape(rows, pitch)[:h, :w * bytes_per]
        return part.reshape(h, w, bytes_per)


def planes_of(r, name, w, h):
    if name == "gray":
        return [r.plane(w, h, w, h)[..., 0]]
    if name == "rgba":
        both = r.plane(4 * w, h, w, h, 4)
        return [both[..., i] for i in range(4)]
    sub_w, sub_h = FFMPEG.get(name, (2, 2))
    cw, ch = up(w, sub_w) // sub_w, up(h, sub_h) // sub_h
    luma = r.plane(w, h, w, h)[..., 0]
    if name == "nv12":
        both = r.plane(2 * cw, ch, cw, ch, 2)
        return [luma, both[..., 0], both[..., 1]]
    return [luma] + [r.plane(cw, ch, cw, ch)[..., 0] for _ in range(2)]


def planes(text, w, h):
    path, name = text.rsplit(":", 1)
    r = Reader(path)
    found = planes_of(r, name, w, h)
    if r.at != r.data.size:
        raise ValueError(f"{path}: {r.data.size} bytes, not {r.at}")
    return found


def main():
    w, h = map(int, sys.argv[1].split("x"))
    a, b = planes(sys.argv[2], w, h), planes(sys.argv[3], w, h)
    limit = sys.argv[4] if len(sys.argv) > 4 else "0"
    if [p.shape for p in a] != [p.shape for p in b]:
        sys.exit(f"planes {[p.shape for p in a]}, {[p.shape for p in b]}")
    off = [np.abs(x.astype(int) - y.astype(int)) for x, y in zip(a, b)]
    most, mean = max(o.max() for o in off), max(o.mean() for o in off)
    print(f"at most {most}, mean {mean:.3f}")
    if limit.startswith("mean="):
        return int(mean > float(limit[5:]))
    return int(most > int(limit))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"{error}")
