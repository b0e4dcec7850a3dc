#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a public header with its comments as Doxygen reads them.

    comments.py HEADER

The comments of the headers are plain text: indented lines are code or a
drawing, and a comment behind a member describes that member. This filter marks
them so, and quotes what would be a command to Doxygen.
"""

import re
import sys

def quoted(text):
    """The text, with what Doxygen would read as a command taken literally."""
    return re.sub(r"([\\@<>&%#])", r"\\\1", text)


def marked(lines):
    """A comment's lines: an indented run behind an empty line is code."""
    code, empty = False, True
    for line in lines:
        indented = line.startswith("  ")
        if code and line and not indented or not code and empty and indented:
            code = not code
            yield "@verbatim" if code else "@endverbatim"
        yield line if code else quoted(line)
        empty = not line
    if code:
        yield "@endverbatim"


def block(lines, first):
    """One comment above a declaration; of a file its first one."""
    head = ["@file"] if first else []
    body = [line for line in lines if not line.startswith("SPDX")]
    return ["/**", *head, *marked(body), "*/"]


def apart(found):
    """Members of one declaration, each with a declaration of its own."""
    return "".join(f"{found[1]} {name};" for name in found[2].split(","))


def translated(text):
    text = re.sub(r"((?:struct|enum) \w+) (\w+(?:,\s+\w+)+);", apart, text)
    comment, first, column = [], True, -1
    for line in text.splitlines():
        at = line.find("//")
        if at >= 0 and not line[:at].strip() and at != column:
            comment.append(line[at + 3:])
            continue
        if comment:
            yield from block(comment, first)
            comment, first = [], False
        # A comment behind a member goes on in the lines below, in its column.
        column = at
        yield line if at < 0 else f"{line[:at]}///< {quoted(line[at + 3:])}"
    if comment:
        yield from block(comment, first)


print("\n".join(translated(open(sys.argv[1], encoding="utf-8").read())))
