#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a copy of a report's page that checks itself: see selfcheck.js.

    selfcheck.py PAGE COPY
"""

import pathlib
import sys

SCRIPT = pathlib.Path(__file__).with_suffix(".js")


def checked(page):
    """The check is the last part of the page's last script."""
    head, tail = page.rsplit("})();", 1)
    head = head.replace(
        '<html lang="en"', '<html lang="en" data-selfcheck="not finished"', 1)
    return head + SCRIPT.read_text(encoding="utf-8") + "})();" + tail


def main():
    how = {"encoding": "utf-8", "errors": "surrogateescape"}
    page = pathlib.Path(sys.argv[1]).read_text(**how)
    pathlib.Path(sys.argv[2]).write_text(checked(page), **how)


if __name__ == "__main__":
    main()
