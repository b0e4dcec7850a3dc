#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Size of the sources: lines by area, exported functions, what is long.

Usage: figures.py [-v], from a folder of the tree. Lines are all lines of files
that git knows, without pictures and corpora. -v names long files and functions.
"""
import ast
import pathlib
import re
import subprocess
import sys

AREAS = {
    "product": ("hal", "backends", "kernels", "cpu_fallback", "loader",
                "tools", "python"),
    "tests": ("tests",),
    "dev, docs": ("dev", "docs", "README.md", "CONTRIBUTING.md",
                  "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
}
MOST_LINES, MOST_OF_FUNCTION = 700, 45


def texts(paths):
    """(path, text) of files under these, as far as they are text."""
    names = subprocess.run(["git", "ls-files", "-z", "--", *paths], check=True,
                           capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        try:
            if "/corpus/" not in name:
                yield name, pathlib.Path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            pass


def functions(name, text):
    """(lines, name) of each function."""
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                doc = ast.get_docstring(node, clean=False)
                yield (node.end_lineno - node.lineno + 1 -
                       (doc.count("\n") + 1 if doc else 0)), node.name
    elif name.endswith((".c", ".h", ".cl")):
        for found in re.finditer(r"^\w.*\n(?:\w.*\n|\s+\S.*\n){0,9}?"
                                 r"\{\n(?:.*\n)*?\}", text, re.MULTILINE):
            called = re.search(r"(\w+)\(", found[0])
            if called and not found[0].startswith(("struct ", "enum ")):
                yield found[0].count("\n") + 1, called[1]


def main():
    verbose = sys.argv[1:] == ["-v"]
    for area, paths in AREAS.items():
        found = list(texts(paths))
        files = sorted(((text.count("\n"), name) for name, text in found),
                       reverse=True)
        long = sorted(((n, name, of) for name, text in found
                       for n, of in functions(name, text)), reverse=True)
        print(f"{area:10} {sum(n for n, _ in files):7} lines, "
              f"{sum(n > MOST_LINES for n, _ in files):3} files above "
              f"{MOST_LINES}, {sum(n > MOST_OF_FUNCTION for n, *_ in long):3} "
              f"functions above {MOST_OF_FUNCTION}")
        if verbose:
            for line in [f for f in files if f[0] > MOST_LINES] + [
                    f for f in long if f[0] > MOST_OF_FUNCTION]:
                print("   ", *line)
    public = "".join(text for _, text in texts(["hal/include/headrace"]))
    print(f"{len(set(re.findall(r'HR_API[^;{]*?(hr_[a-z0-9_]+)[(]', public)))} "
          "exported functions")


if __name__ == "__main__":
    main()
