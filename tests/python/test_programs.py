# SPDX-License-Identifier: Apache-2.0
"""Programs that use Pillow, torch and torchvision, without the drop-in and with
it: a choice of programs/run.py. All of them are a step of ./dev test --long."""

# Long: some hundred programs, and each of them twice.

import subprocess
import sys
import unittest

import dropin_case  # noqa: F401  what is not there is skipped
from programs import program, run


class Programs(unittest.TestCase):
    def test_pages_say_what_differs(self):
        for sentence in program.KNOWN.values():
            self.assertTrue(run.stands(sentence), sentence)

    def test_as_stock(self):
        found = subprocess.run(
            [sys.executable, "-m", "programs.run", "--quick", "--jobs", "2"],
            stdout=subprocess.PIPE, text=True)
        print(found.stdout, flush=True)
        self.assertEqual(found.returncode, 0, found.stdout[-2000:])
