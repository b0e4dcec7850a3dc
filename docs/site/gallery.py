#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the gallery of the site: every op of the library, applied to one photo.

    gallery.py BUILD PHOTO FOLDER

BUILD has the Python package; FOLDER gets pictures of each row, and gallery.md,
a table of them. An op of the library that no row shows is an error.
"""

import pathlib
import sys

# Rows of `--ops`, behind decode. Random ops are drawn three times.
ROWS = """
crop=60,40,120,90
center_crop=120
resize=96x160
resize=64:nearest
fit=128
hflip
vflip
transpose
rotate=20:bilinear
affine=1,.3,-30,0,1,0:bicubic
perspective=1,.2,0,.1,1,0,.0005,.0005:bilinear
pad=16,16,16,16:reflect
invert
adjust_brightness=1.5
adjust_contrast=1.8
adjust_saturation=0.3
adjust_hue=0.25
adjust_sharpness=3
adjust_gamma=0.6
grayscale
posterize=2
solarize=128
solarize_add=60
equalize
autocontrast=2
lut
gaussian_blur=3
box_blur=3
kernel3=smooth
permute_channels=2,0,1
erase=40,40,60,60
random_crop=120
random_resized_crop=128
random_hflip
random_apply=.5:1,invert
random_choice=2,hflip,vflip
color_jitter=.4:.4:.4:.1
random_grayscale=.5
random_solarize=128:.5
random_gaussian_blur=1:.1,4
random_erasing=1
random_rotation=30
random_affine:degrees=20
random_perspective=.4
trivial_augment_wide
rand_augment
auto_augment
""".split()
DRAWS = 3
UNSEEN = {"decode", "normalize", "table"}  # they make no other picture


def ops_of(headrace, row):
    """The ops of a row, and its caption. A table of bytes has no text."""
    ops = headrace.ops
    if row == "lut":
        table = bytes(3 * x % 256 for x in range(256))
        return (*ops.parse("decode"), ops.lut(table)), "lut: 3 x modulo 256"
    return ops.parse("decode," + row), row


def made(headrace, photo, ops, draw):
    """Height, width and bytes of the photo after the ops, as RGB."""
    info = headrace.probe(photo.read_bytes())
    size = info.width, info.height
    key = (draw, 0, 0)
    width, height = headrace.output_size(
        headrace.draw_ops(ops, key, *size), *size)
    batch = headrace.Batch(1, 3, height, width, dtype="u8", layout="nhwc")
    headrace.submit([(str(photo), ops, key)], batch).wait()
    return (width, height), bytes(memoryview(batch))


def main():
    build, photo, folder = map(pathlib.Path, sys.argv[1:])
    sys.path.insert(0, str(build / "python"))
    import headrace
    from PIL import Image

    known = {number: name
             for name, (number, *_) in headrace._core.OPS.items()}
    missing = set(known.values()) - UNSEEN
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["| `--ops decode,` | pictures |", "|---|---|"]
    for number, row in enumerate(["center_crop=240x180", *ROWS]):
        ops, caption = ops_of(headrace, row)
        used = {known[op[0]] for op in ops}
        missing -= used
        shown = []
        for draw in range(DRAWS if any("random" in x or "aug" in x or "jitter"
                                       in x for x in used) else 1):
            file = f"{number:02}-{draw}.jpg"
            Image.frombytes("RGB", *made(headrace, photo, ops, draw)).save(
                folder / file, quality=92)
            shown.append(f'<img src="../../_static/gallery/{file}"'
                         f' alt="{caption}" loading="lazy">')
        lines.append(f"| `{caption}` | {' '.join(shown)} |")
    if missing:
        sys.exit("gallery.py: no row shows " + ", ".join(sorted(missing)))
    (folder / "gallery.md").write_text("\n".join(lines) + "\n")


main()
