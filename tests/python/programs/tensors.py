# SPDX-License-Identifier: Apache-2.0
"""What programs do with tensors that transforms have made of pictures."""

from __future__ import annotations

from .program import blocks, listed, named, rows

# x is such a tensor, C x H x W.
USES = listed("tensor_uses")

SOURCES = named("tensor_sources")
WHOLE = ("float", "normalized", "v2 image", "v2 float")

for name, before in SOURCES.items():
    each = 1 if name in WHOLE else 5
    rows(name, USES, before, each, quick=15)
    if "batch" not in name:
        rows("%s, fetch" % name, USES, before, each, quick=15, place="fetch")
        rows("%s, worker" % name, USES, before, 6 * each, place="worker")
        rows("%s, iterable" % name, USES, before, 6 * each, quick=30,
             place="iterable")

blocks("tensors", listed("tensors"))
