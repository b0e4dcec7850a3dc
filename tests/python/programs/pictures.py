# SPDX-License-Identifier: Apache-2.0
"""Programs that use pictures that were opened and not decoded."""

from __future__ import annotations

from .program import blocks, lines_of, listed, named, rows

# im is such a picture.
USES = listed("picture_uses")

SOURCES = named("picture_sources")

WHOLE = ("loaded", "converted", "resized")

for source, before in SOURCES.items():
    each = 1 if source in WHOLE else 5
    rows(source, USES, before, each, quick=1 if source == "converted" else 4)
    rows("%s, fetch" % source, USES, before, 5, quick=4, place="fetch")
    rows("%s, worker" % source, USES, before, 20 * each, place="worker")

# Calls that read: what comes behind them is on the picture im.
READS = listed("picture_reads")
ODD = """
cmyk.jpg progressive.jpg turned.jpg one.jpg thin.jpg dpi.jpg icc.jpg comment.jpg
tail.jpg two.jpg rgb.jpg cut.jpg large_cut.jpg no_end.jpg marker.jpg
large_marker.jpg table.jpg early_end.jpg stuffed.jpg zeros.jpg short_jfif.jpg
short_adobe.jpg tem.jpg fill.jpg html.jpg empty.jpg rgb.png l.png p.png rgba.png
la.png one.png i16.png cut.png moving.gif x.bmp x.tif x.ppm named_png.jpg
mpo.jpg x.webp gray.jpg
""".split()

_SKIP = """
try: %s
except Exception as error: see(error); im = Image.new("RGB", (9, 9))
T.ToTensor()(im) if isinstance(im, Image.Image) else im
"""
_THEN = """
%s
T.ToTensor()(im).mean() if isinstance(im, Image.Image) else im
"""
for name in ODD:
    before = "N = %r\n" % name
    damaged = name in ("marker.jpg", "table.jpg", "cut.jpg", "short_jfif.jpg")
    rows(name, "\n".join(read + "; im" for read in lines_of(READS)), before,
         1 if damaged else 2, quick=5 if damaged else 20)
    texts = [_SKIP % read for read in lines_of(READS)]
    for number, (text, read) in enumerate(zip(texts, lines_of(READS)),
                                          len(name)):
        for place in ("plain", "fetch", "worker", "iterable"):
            number += 1
            if number % 2 if damaged else number % 8:
                continue
            blocks("except, " + place, "# %s: %s\n%s%s" % (
                name, read, before, text.strip()), place=place,
                slow=not damaged or number % 10 != 0)
        if damaged or number % 4 == 0:
            blocks("used in a fetch", "# %s: %s\n%s%s" % (
                name, read, before, (_THEN % read).strip()), place="fetch",
                slow=number % 20 != 0)
