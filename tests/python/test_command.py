# SPDX-License-Identifier: Apache-2.0
"""python3 -m headrace is the command headrace; and what an import of the
package without its extension module says."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest
from unittest import mock

import core_samples as samples
import headrace
import headrace.__main__ as entry

PACKAGE = pathlib.Path(headrace.__file__).parent
OPS = "resize=40,center_crop=32,normalize=imagenet"


def command(*arguments, program=(sys.executable, "-m", "headrace"), **how):
    env = dict(os.environ, PYTHONPATH=str(PACKAGE.parent))
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.run([*program, *arguments], env=env, timeout=120, **how)


class Command(unittest.TestCase):

    def setUp(self):
        self.place = samples.scratch() / self._testMethodName
        self.place.mkdir(exist_ok=True)
        os.chdir(self.place)

    def test_it_is_the_command(self):
        for arguments in (["--version"], ["-V"], ["--help"], ["help", "run"],
                          ["run", "--help"], ["pack", "-h"], [], ["nope"],
                          ["run", "nowhere/", "--out", "x.npy"], ["help"],
                          [b"\xff"], ["run", "-V"]):
            with self.subTest(arguments):
                mine = command(*arguments)
                its = command(*arguments, program=[samples.COMMAND])
                self.assertEqual((mine.returncode, mine.stdout, mine.stderr),
                                 (its.returncode, its.stdout, its.stderr))

    def test_what_it_makes(self):
        pictures = self.place / "pictures"
        pictures.mkdir()
        for path in samples.photos()[:5]:
            shutil.copy(path, pictures)
        (pictures / "bad.jpg").write_bytes(b"\xff\xd8\xff")
        for program, out in (((sys.executable, "-m", "headrace"), "mine"),
                             ([samples.COMMAND], "its")):
            done = command("run", pictures, "--out", f"{out}.npy", "--ops", OPS,
                           program=program)
            self.assertEqual(done.returncode, 1, done.stderr)
            done = command("pack", pictures, "--out", f"{out}.hrp",
                           program=program)
            self.assertEqual(done.returncode, 0, done.stderr)
        for end in "npy", "hrp":
            self.assertEqual(pathlib.Path(f"mine.{end}").read_bytes(),
                             pathlib.Path(f"its.{end}").read_bytes())
        # It forks.
        done = command("profile", pictures, "--backends", "cpu", "--seconds",
                       "1", "-q", "--ops", OPS)
        self.assertIn(b"cpu", done.stdout, done.stderr)

    def test_a_reader_that_has_gone(self):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            done = command("--help", stdout=pipe)
        self.assertEqual((done.returncode, done.stderr),
                         (-signal.SIGPIPE, b""))

    def test_a_build_without_it(self):
        with mock.patch.object(entry, "_core", object()), \
                mock.patch.object(sys, "stderr") as stderr:
            self.assertEqual(entry.main(), 2)
        said = "".join(call.args[0] for call in stderr.write.call_args_list)
        self.assertIn("libpopt-dev", said)

    def test_import_without_the_extension(self):
        shutil.copytree(PACKAGE, self.place / "headrace",
                        ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        done = subprocess.run(
            [sys.executable, "-c", "import headrace"], cwd=self.place,
            env=dict(os.environ, PYTHONPATH=str(self.place)),
            stderr=subprocess.PIPE, text=True)
        last = done.stderr.splitlines()[-1]
        for words in ("ImportError: headrace is not built in", "./dev build",
                      "pip install ./python", str(self.place)):
            self.assertIn(words, last)
        # One that cannot be loaded is another thing.
        (self.place / "headrace" / "_core.abi3.so").write_bytes(b"no library")
        done = subprocess.run(
            [sys.executable, "-c", "import headrace"], cwd=self.place,
            env=dict(os.environ, PYTHONPATH=str(self.place)),
            stderr=subprocess.PIPE, text=True)
        self.assertIn("_core.abi3.so", done.stderr.splitlines()[-1])
        self.assertNotIn("not built", done.stderr)
