# SPDX-License-Identifier: Apache-2.0
"""Tests of URLs share these: answers with ranges, and an epoch of a loader."""

import re

import headrace
import numpy


class Ranges:
    """Part of a request handler: it keeps connections, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def answer(self, data, **headers):
        """Sends data, or the range of it that was asked for."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        part = data
        self.send_response(206 if asked else 200)
        if asked:
            first = int(asked[1])
            part = data[first:int(asked[2]) + 1]
            self.send_header(
                "Content-Range",
                f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *unused):
        pass


def all_of(source, steps, **options):
    """Pixels and labels of an epoch."""
    with headrace.Loader(source, steps, batch=5, to="numpy", epochs=1,
                         **options) as loader:
        found = [(x.copy(), y.copy()) for x, y in loader]
    return tuple(numpy.concatenate(part) for part in zip(*found))
