# SPDX-License-Identifier: Apache-2.0
"""Pictures for the programs, made by stock Pillow: name -> bytes."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np
from PIL import Image, features


def smooth(w: int, h: int, bands: int = 3, seed: int = 1) -> Any:
    draw = np.random.default_rng(seed)
    shape = (max(2, h // 6 + 2), max(2, w // 6 + 2), 3)
    coarse = draw.integers(0, 256, shape, np.uint8)
    image = np.asarray(Image.fromarray(coarse).resize((w, h), 3), int)
    noisy = image + draw.integers(-20, 20, (h, w, 3))
    image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
    return image if bands == 3 else image.convert("L")


def file(image: Any, form: str = "JPEG", **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def segment(marker: int, payload: bytes) -> bytes:
    return bytes((255, marker)) + (len(payload) + 2).to_bytes(2, "big") + (
        payload)


def behind_start(data: bytes, more: bytes) -> bytes:
    return data[:2] + more + data[2:]


def changed(data: bytes, part: float, by: bytes) -> bytes:
    place = int(len(data) * part)
    return data[:place] + by + data[place + len(by):]


def orientation(number: int) -> bytes:
    return b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c" % (
        number) + b"\0\0\0\0\0\0"


def jpegs() -> dict[str, bytes]:
    plain = file(smooth(91, 81), quality=85)
    large = file(smooth(400, 300, seed=6), quality=95, subsampling=0)
    bare = plain[:2] + plain[20:]
    return {
        "a.jpg": plain,
        "b.jpg": file(smooth(64, 48, seed=2), quality=70, subsampling=0),
        "c.jpg": file(smooth(80, 90, seed=3), quality=90, subsampling=1),
        "large.jpg": large,
        "gray.jpg": file(smooth(83, 77, 1), quality=80),
        "cmyk.jpg": file(smooth(70, 61, seed=5).convert("CMYK")),
        "progressive.jpg": file(smooth(95, 67, seed=4), progressive=True),
        "turned.jpg": file(smooth(61, 47, seed=7), exif=orientation(6)),
        "one.jpg": file(smooth(1, 1, seed=9)),
        "thin.jpg": file(smooth(1, 300, seed=9)),
        "dpi.jpg": file(smooth(50, 40, seed=8), dpi=(72, 90)),
        "icc.jpg": file(smooth(50, 40, seed=8), icc_profile=b"x" * 3000),
        "comment.jpg": behind_start(plain, segment(0xFE, b"caf\xe9 \xff")),
        "tail.jpg": plain + bytes(range(256)) * 400,
        "two.jpg": plain + large,
        "rgb.jpg": behind_start(
            bare, segment(0xEE, b"Adobe\0\x64\0\0\0\0\0")),
        # Damage of all kinds.
        "cut.jpg": plain[:len(plain) // 2],
        "large_cut.jpg": large[:len(large) * 2 // 3],
        "no_end.jpg": plain[:-2],
        "marker.jpg": changed(plain, .66, b"\x55\xff\x55\xaa"),
        "large_marker.jpg": changed(large, .9, b"\x55\xff\x55\xaa"),
        "table.jpg": changed(plain, .66, b"\xff\xc4\0\x04\0\0"),
        "early_end.jpg": changed(plain, .66, b"\xff\xd9\xff\xd8\xff\xd9"),
        "stuffed.jpg": changed(plain, .66, b"\xff\0" * 20),
        "zeros.jpg": changed(plain, .5, bytes(200)),
        "short_jfif.jpg": behind_start(bare, segment(0xE0, b"JFIF\0")),
        "short_adobe.jpg": behind_start(bare, segment(0xEE, b"Adobe")),
        "tem.jpg": behind_start(plain, b"\xff\x01"),
        "fill.jpg": behind_start(plain, b"\xff" * 9),
        "html.jpg": b"<html>not found</html>\n",
        "empty.jpg": b"",
    }


def others() -> dict[str, bytes]:
    image = smooth(40, 30, seed=11)
    alpha = image.copy()
    alpha.putalpha(image.convert("L"))
    frames = [smooth(32, 24, seed=n).convert("P") for n in range(3)]
    made = {
        "rgb.png": file(image, "PNG"),
        "l.png": file(image.convert("L"), "PNG"),
        "p.png": file(image.convert("P"), "PNG"),
        "rgba.png": file(alpha, "PNG"),
        "la.png": file(alpha.convert("LA"), "PNG"),
        "one.png": file(image.convert("1"), "PNG"),
        "i16.png": file(
            Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30)
                            * 100), "PNG"),
        "cut.png": file(image, "PNG")[:1500],
        "low.png": changed(file(image, "PNG"), .9, b"\xff\0\xff"),
        "moving.gif": file(frames[0], "GIF", save_all=True,
                           append_images=frames[1:]),
        "x.bmp": file(image, "BMP"),
        "x.tif": file(image, "TIFF"),
        "x.ppm": file(image, "PPM"),
        "named_png.jpg": file(image, "PNG"),
        "mpo.jpg": file(image, "MPO", save_all=True,
                        append_images=[smooth(40, 30, seed=12)]),
    }
    if features.check("webp"):
        made["x.webp"] = file(image, "WEBP")
    return made


@functools.cache
def all_files() -> dict[str, bytes]:
    return {**jpegs(), **others()}
