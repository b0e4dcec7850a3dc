# SPDX-License-Identifier: Apache-2.0
"""The numbers that a sample's values become, by channel and by table."""

import array
import unittest

import core_samples as samples
import headrace
from headrace import _core, ops


def values_of(lists):
    """One job with a sample for each list of ops: their float32, by sample."""
    out = headrace.Batch(len(lists), 3, 4, 4)
    headrace.submit([(samples.small(), steps) for steps in lists], out).wait()
    flat = memoryview(out).cast("B").cast("f").tolist()
    return [flat[i:i + 48] for i in range(0, len(flat), 48)]


def table(value):
    """All bytes of channel c become value + c."""
    numbers = [value + c for c in range(3) for _ in range(256)]
    return ops.table(array.array("f", numbers))


class Numbers(unittest.TestCase):
    start = (ops.decode(), ops.resize(4, 4))

    def test_one_number_is_for_all_channels(self):
        one = (_core.NORMALIZE, (0.5,), (0.25,), 0)
        three = (_core.NORMALIZE, (0.5,) * 3, (0.25,) * 3, 0)
        a, b = values_of([(*self.start, one), (*self.start, three)])
        self.assertEqual(a, b)
        self.assertGreater(len(set(a)), 3)

    def test_each_sample_has_its_table(self):
        lists = [(*self.start, table(10 * i)) for i in range(12)]
        for i, values in enumerate(values_of(lists)):
            wanted = [10 * i + c for c in range(3) for _ in range(16)]
            self.assertEqual(values, wanted)
