# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python*.md, run as they are written.

Blocks of one page run in order in one process, in a folder with cat.jpg,
photos/CLASS/, and photos.hrp, made of these. A line <!-- needs: MODULE --> in
front of a block names a module that is not always installed: without it only
that block is skipped. In sh blocks, lines that begin with python3 are run.
Lists of ops that a page names and that flip at random do flip, half the time.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ["HEADRACE_BUILD"]).resolve() / "headrace"
BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>\S+) -->\n)?```(?P<kind>python|sh)\n"
    r"(?P<text>.*?)```",
    re.S,
)


# Runs behind a page that says random_flip: its lists must really flip.
FLIPS = """
from headrace import _core
lists = [ops for ops in names.values() if isinstance(ops, (list, tuple))
         and any(op[:1] == (_core.RANDOM_FLIP,) for op in ops
                 if isinstance(op, tuple))]
assert lists, 'no list of ops with a random flip'
for ops in lists:
    drawn = [_core.draw_ops(tuple(ops), (7, i, 0), 300, 300)
             for i in range(1000)]
    flips = sum(op[0] == _core.FLIP and op[1] for d in drawn for op in d)
    assert 400 < flips < 600, f'{flips} of 1000 pictures are flipped'
"""


def there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def make_pictures(folder):
    """photos/CLASS/, as an ImageFolder reads it, photos.hrp, cat.jpg."""
    subprocess.run(
        [COMMAND, "samples", folder, "--photos-only", "--count", "12",
         "--size", "160x120"],
        check=True, stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [COMMAND, "pack", folder / "photos", "--out", folder / "photos.hrp"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    shutil.copy(next((folder / "photos").rglob("*.jp*g")), folder / "cat.jpg")


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        make_pictures(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def run_page(self, name):
        text = (ROOT / "docs" / name).read_text()
        program, number, flips = [], 0, False
        for block in BLOCK.finditer(text):
            number += 1
            needs = block["needs"]
            if needs and not there(needs):
                with self.subTest(block=number):
                    self.skipTest(f"block {number} needs {needs}")
            elif block["kind"] == "python":
                # Line numbers of messages are those of the page.
                line = text.count("\n", 0, block.start("text"))
                body = "\n" * line + block["text"]
                flips = flips or "random_flip" in body
                program.append(
                    f"exec(compile({body!r}, {name!r}, 'exec'), names)")
            else:
                self.run_commands(block["text"])
        self.assertTrue(number, f"{name} has no examples")
        if flips:
            program.append(FLIPS)
        if program:
            self.run_python("names = {'__name__': '__main__'}\n"
                            + "\n".join(program))

    def run_commands(self, text):
        for line in text.splitlines():
            if line.startswith("python3 "):
                self.check([sys.executable] + line.split()[1:])

    def run_python(self, program):
        # A file: children of spawn import it.
        file = self.folder / "page.py"
        file.write_text("if __name__ == '__main__':\n"
                        + "".join(f"    {line}\n"
                                  for line in program.splitlines()))
        self.check([sys.executable, str(file)])

    def check(self, command):
        # A page begins a cluster of its own, whatever runs beside it.
        env = dict(os.environ, RAY_ADDRESS="local")
        done = subprocess.run(command, cwd=self.folder, text=True, timeout=240,
                              env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


def add_pages():
    pages = sorted(p.name for p in (ROOT / "docs").glob("python*.md"))
    assert pages, "no pages"
    for page in pages:
        def test(self, page=page):
            self.run_page(page)
        setattr(Pages, "test_" + re.sub(r"\W", "_", page[:-3]), test)


add_pages()
