# SPDX-License-Identifier: Apache-2.0
"""Order "torch", and the reference torch-2, against torch's resize of bytes."""

import random
import unittest

import numpy as np
import torch  # noqa: F401, which may be missing

import headrace
import torch_draws
from headrace import _core, ops

if torch_draws.why_not():
    raise unittest.SkipTest(torch_draws.why_not())


def made(source, steps, size, device):
    h, w, c = source.shape
    pixels = headrace.Pixels(w, h, c, data=source)
    out = headrace.Pixels(*size, c)
    _core.submit([(pixels, tuple(steps))], [out], device=device).wait()
    return np.asarray(memoryview(out)).reshape(*size[::-1], c)


class SameAsTorch(unittest.TestCase):
    def check(self, device, order):
        for number in range(40):
            rnd = random.Random(number)
            name, source, steps, want = torch_draws.draw(rnd)
            steps = [(*step[:4], None, order) if step[0] == _core.RESIZE
                     else step for step in steps]
            got = made(source, steps, want.shape[1::-1], device)
            self.assertTrue(np.array_equal(got, want), f"{number}: {name}")

    def test_order(self):
        with headrace.Device("cpu", threads=1) as device:
            self.check(device, _core.ORDER_TORCH)

    def test_reference(self):
        with headrace.Device(
                "cpu", threads=1, reference="torch-2") as device:
            self.assertEqual(device.reference, "torch-2")
            self.check(device, 0)

    def test_what_torch_has_not(self):
        source = np.zeros((9, 9, 3), np.uint8)
        for step in (ops.resize(4, 4, filter="box", order="torch"),
                     ops.fit(4, 4, filter="hamming", order="torch"),
                     ops.resize(4, 4, box=(0, 0, 3, 3), order="torch")):
            with self.assertRaisesRegex(headrace.Error, "torch's resize has"):
                made(source, [step], (4, 4), None)


if __name__ == "__main__":
    unittest.main()
