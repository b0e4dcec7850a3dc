# SPDX-License-Identifier: Apache-2.0
"""Faults of the C files that a change touches, drawn and forgotten again.

`./dev mutants --changed [REV]` swaps operators, adds one to constants and
turns conditions around, one at a time: first in the lines that differ from
REV, then in the rest of those files, MOST in all. Each is built and run
against the tests of its folder (or with a label of --labels). Survivors are
printed for a reader to judge: there are always some that change nothing.
"""

import json
import random
import re
import subprocess

CODE = (".c", ".h", ".cl")
# The labels of the tests for a folder, or a step of mutants.py: the first that
# fits.
TESTS = (
    ("hal/facts/", "labels facts"), ("hal/shape/", "labels pixels|core"),
    ("hal/", "labels core"), ("cpu_fallback/", "labels pixels"),
    ("backends/cpu/", "labels pixels|engines"), ("kernels/", "labels pixels"),
    ("backends/opencl/", "labels opencl"), ("backends/vaapi/", "labels vaapi"),
    ("loader/", "labels loader"), ("tools/", "labels tools"),
    ("python/core/", "python 'core*' loader loader_arguments"),
)

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
         "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "+", "/": "*",
         "<<": ">>", ">>": "<<", "++": "--", "--": "++", "+=": "-=",
         "-=": "+=", "&": "|", "|": "&", "true": "false", "false": "true"}
# Text that is no code, then tokens that may be swapped. A lone + - * & has a
# blank on either side when it has two operands.
TOKENS = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|"
    r"^[ \t]*#(?:\\\n|[^\n])*|->)|"
    r"(?P<number>(?<![\w.])\d+(?![\w.]))|"
    r"(?P<word>\b(?:true|false)\b)|"
    r"(?P<both>(?<= )(?:<<|>>|[<>=!]=|&&|\|\||[-+]=|[-<>+*/&|])(?=\s))|"
    r"(?P<step>\+\+|--)|"
    r"(?P<condition>\bif \()", re.S | re.M)


def closing(text, start):
    """Where the parenthesis that opens at START is closed."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return None


def faults_of(text):
    """(offset, old, new) of each fault of a C text."""
    for m in TOKENS.finditer(text):
        at, old = m.start(), m.group()
        if m["number"]:
            yield at, old, str(int(old, 8 if old[0] == "0" else 10) + 1)
        elif m["condition"]:
            end = closing(text, m.end() - 1)
            if end:
                old = text[m.end() - 1:end + 1]
                yield m.end() - 1, old, f"(!{old})"
        elif not m["skip"]:
            yield at, old, SWAPS[old]


def git(root, *words):
    return subprocess.run(["git", *words], cwd=root, check=True,
                          capture_output=True, text=True).stdout


def touched(root, rev):
    """{file: its lines that differ from REV}; all of one that git has not."""
    new = git(root, "ls-files", "-o", "--exclude-standard").splitlines()
    lines = {name: range(1 << 30) for name in new if name.endswith(CODE)}
    file = None
    for line in git(root, "diff", "-U0", "--no-prefix", rev).splitlines():
        if line.startswith("+++ "):
            file = line[4:]
        hunk = re.match(r"@@ \S+ \+(\d+)(?:,(\d+))?", line)
        if hunk and file.endswith(CODE):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return lines


def draw(root, rev, labels, most, seed):
    """Faults as mutants.py takes them, those of changed lines first."""
    faults = []
    for file, lines in touched(root, rev).items():
        test = next((b for a, b in TESTS if file.startswith(a)), None)
        if not test or not (root / file).is_file():
            continue
        text = (root / file).read_text()
        for at, old, new in faults_of(text):
            line = text.count("\n", 0, at) + 1
            what = " ".join(f"{old} -> {new}".split())
            faults.append({"name": f"{file}:{line}", "area": "changed",
                           "file": file, "old": old, "new": new, "at": at,
                           "what": what if len(what) < 60 else "if (!..)",
                           "tests": [f"labels {labels}" if labels else test],
                           "first": line in lines})
    random.Random(seed).shuffle(faults)
    faults.sort(key=lambda f: not f["first"])
    return faults[:most]


def targets(build, label):
    """The programs that the tests with that label run.

    (ctest lists no command of a program that is not built yet.)
    """
    listed = json.loads(subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1", "-L", label,
         "-LE", "long"], check=True, capture_output=True, text=True).stdout)
    commands = dict(re.findall(
        rf'add_test\((\w+) "{re.escape(str(build))}/tests/(\w+)"',
        (build / "tests/CTestTestfile.cmake").read_text()))
    tests = {test["name"] for test in listed["tests"]}
    return sorted({"headrace"} | {commands[t] for t in tests & set(commands)})
