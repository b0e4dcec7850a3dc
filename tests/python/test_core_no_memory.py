# SPDX-License-Identifier: Apache-2.0
"""Each allocation of Python's that a call makes fails in turn: the call raises
MemoryError, and the next one is as ever. Only calls that no other thread works
for: CPython ends a process whose new thread finds no memory for its state."""

import os
import unittest

import core_samples as samples
import headrace
from headrace import _core, ops

try:
    import _testcapi
except ImportError:
    raise unittest.SkipTest("this Python has no _testcapi") from None

STEPS = (ops.decode(), ops.resize(8, 6))
ENOUGH = 12  # calls in a row that nothing failed in: it came behind the last


class NoMemory(unittest.TestCase):
    def setUp(self):
        self.path = samples.small()
        self.data = samples.read(self.path)

    def fails_in_turn(self, call):
        want = call()
        failed = through = number = 0
        while through < ENOUGH:
            try:
                _testcapi.set_nomemory(number, number + 1)
                try:
                    got = call()
                finally:
                    _testcapi.remove_mem_hooks()
            except MemoryError:
                failed, through = failed + 1, 0
            else:
                self.assertEqual(got, want)
                through += 1
            number += 1
        self.assertGreater(failed, 0)
        self.assertEqual(call(), want)

    def test_jobs(self):
        device = _core.Device("cpu", threads=-1)
        pictures = [(self.path, STEPS), (self.data, STEPS)]

        def make():
            out = headrace.Batch(2, 3, 6, 8)
            job = headrace.submit(pictures, out, device=device)
            job.wait()
            return [result.ok for result in job.results], bytes(out)

        self.fails_in_turn(make)

    def test_what_fails(self):
        device = _core.Device("cpu", threads=-1)
        pictures = [(self.path + ".none", STEPS)]

        def make():
            out = headrace.Batch(1, 3, 6, 8)
            job = headrace.submit(pictures, out, device=device)
            try:
                job.wait()
            except headrace.ReadError as error:
                return error.file

        self.fails_in_turn(make)

    def test_sources(self):
        items = [(self.path, 1), (self.data, 2)]
        for form in ({"items": items}, {"items": items[:1]},
                     {"sequence": items},
                     {"paths": (os.path.dirname(self.path),)}):
            with self.subTest(*form):
                self.fails_in_turn(lambda: bool(_core.Source(**form)))

    def test_files_and_memory(self):
        memory = bytearray(192)

        def lend():
            batch = headrace.Batch(1, 3, 4, 4, data=memory)
            batch.__dlpack__()
            return memoryview(batch).shape

        for call in (lend, lambda: _core.probe(self.path).width,
                     lambda: _core.probe(self.data).width,
                     lambda: _core.pack(self.data),
                     lambda: _core.Cache(1 << 20).bytes,
                     lambda: bytes(_core.read_file(self.path))):
            self.fails_in_turn(call)
