# SPDX-License-Identifier: Apache-2.0
"""Programs that change a picture's file between any two calls on it."""

from __future__ import annotations

import itertools

from .program import blocks, lines_of, listed, named

# N is the file's name, im the picture.
CALLS = listed("file_calls")
CHANGES = named("file_changes")
USES = {
    "kept": "im",
    "used": "im.resize((9, 9)) if isinstance(im, Image.Image) else im + 0",
}

numbers = itertools.count()
for call in lines_of(CALLS):
    for name, change in CHANGES.items():
        for how, use in USES.items():
            number = next(numbers)
            text = "# %s, %s, %s\nN = 'a.jpg'; 'c.jpg'\n%s\n%s\n%s" % (
                call, name, how, call, change.strip(), use)
            if how == "kept" or number % 9 == 0:
                blocks("changed", text, slow=number % 6 != 0)
            if number % 5 == 0:
                blocks("changed, fetch", text, place="fetch",
                       slow=number % 30 != 0)
            if number % 20 == 0:
                blocks("changed, worker", text, place="worker",
                       slow=number % 200 != 0)

blocks("files", listed("files"))
