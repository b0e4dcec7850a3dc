#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentences without a subject, and people's words for engines and threads.

Counts, in comments, docstrings and pages, sentences that begin with a word of
HEADLESS and are no question, and the words of WORDS. MOST is the count that
is allowed: the project has come down to it, and it does not rise.

  check_words.py [ROOT]        the count by folder; complains if it is over MOST
  check_words.py --list [PART] prints each, of paths that contain PART
  check_words.py --self-test
"""
import ast
import pathlib
import re
import subprocess
import sys
import tempfile

MOST = 0
HEADLESS = re.compile(r"(What|Whether|Of|Those|Who|Which|Whoever)\b[^?]*$")
WORDS = re.compile(r"\b(nobody|somebody|anybody|whoever|who|those that|what it has)\b", re.I)
# Between sentences, and between a heading or cell and the next.
ENDS = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`(*])|\n\s*\n|\s\|\s")


def without_licence(block):
    """The block without its SPDX line, which is no sentence."""
    return re.sub(r"SPDX-License-Identifier: .*\n?", "", block)


def blocks_of_c(text):
    """(line, text) of runs of // comments and of each /* comment */."""
    for found in re.finditer(r"(?:^[ \t]*//.*\n)+|//.*|/\*[\s\S]*?\*/", text,
                             re.MULTILINE):
        words = re.sub(r"(?m)^\s*(//|/?\*+/?)\s?|\*/", "", found[0])
        yield text.count("\n", 0, found.start()) + 1, without_licence(words)


def blocks_of_script(text):
    for found in re.finditer(r"(?:^[ \t]*#.*\n)+|(?<=\s{2})# .*", text,
                             re.MULTILINE):
        yield (text.count("\n", 0, found.start()) + 1,
               without_licence(re.sub(r"(?m)^#!.*\n|^\s*#+\s?", "", found[0])))


def blocks_of_python(text):
    yield from blocks_of_script(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef,
                             ast.AsyncFunctionDef)):
            words = ast.get_docstring(node)
            if words:
                yield node.body[0].lineno, words


def blocks_of_page(text):
    text = re.sub(r"^```[\s\S]*?^```", lambda code: "\n" * code[0].count("\n"),
                  text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "`code`", text)
    line = 1
    for block in re.split(r"(\n\s*\n)", text):
        yield line, re.sub(r"(?m)^\s*(#+|[-*|]|\d+\.)\s+", "\n\n", block)
        line += block.count("\n")


def blocks_of_manual(text):
    yield 1, re.sub(r"(?m)^\..*", "\n\n", text)


READERS = {".c": blocks_of_c, ".h": blocks_of_c, ".cl": blocks_of_c,
           ".py": blocks_of_python, ".pyi": blocks_of_python,
           ".sh": blocks_of_script, ".toml": blocks_of_script,
           ".cmake": blocks_of_script, ".md": blocks_of_page,
           ".1": blocks_of_manual, ".7": blocks_of_manual}


def complaints(path, text):
    """(line, sentence) of what is counted in a file."""
    for line, block in READERS[path.suffix](text):
        for sentence in ENDS.split(block):
            sentence = " ".join(sentence.split())
            if HEADLESS.match(sentence):
                yield line, sentence
            for _ in WORDS.findall(sentence):
                yield line, sentence


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "hal" else (
        parts[0] if len(parts) > 1 else "pages")


def counted(root):
    """name -> complaints of each file that git knows, or that is there."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-z"],
                          capture_output=True, text=True)
    names = list(filter(None, done.stdout.split("\0"))) or [
        name for name in (str(path.relative_to(root))
                          for path in sorted(root.rglob("*.*")))
        if not name.startswith(("build", "."))]
    for name in names:
        path = root / name
        if path.suffix in READERS and path.is_file() and "corpus" not in name:
            yield name, list(complaints(path, path.read_text("utf-8")))


def totals(root):
    found = {}
    for name, wrong in counted(root):
        folder = folder_of(name)
        found[folder] = found.get(folder, 0) + len(wrong)
    return {folder: n for folder, n in sorted(found.items()) if n}


def check(root, most):
    """Complaints, and the count by folder."""
    found = totals(root)
    n = sum(found.values())
    wrong = ["%d sentences without a subject, or with \"who\" and the like, at "
             "most %d are allowed: --list PART prints them" % (n, most)]
    return wrong[: n > most], found


BAD = {"a.c": "// Of the result.\nint x;\n",
       "b.h": "/* Whoever calls it waits. */\n",
       "c.py": "def f():\n    \"\"\"Those that wait.\"\"\"\n",
       "d.md": "It ends.\nWhat is left goes.\n",
       "e.sh": "# An engine that nobody uses.\n",
       "f.c": "// SPDX-License-Identifier: Apache-2.0\n// What it reads.\n",
       "g.h": "/* SPDX-License-Identifier: Apache-2.0\n * Of it. */\n",
       "h.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"
               "# Which it runs.\n"}
GOOD = {"a.c": "// What is it? The result of the call.\nint who;\n",
        "c.py": "who = 'Of nobody'  # a name\n",
        "d.md": "```\n# Of code\n```\nThe engine ends.\n"}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**GOOD, **BAD}.items():
            for other in (GOOD.get(name), text):
                (root / name).write_text(other or "")
                if bool(check(root, 0)[0]) != (other == BAD.get(name)):
                    sys.exit("self-test: wrong about %s: %r" % (name, other))
            (root / name).unlink()
    print("self-test: %d sentences were found" % len(BAD))


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if args[:1] == ["--list"]:
        for name, wrong in counted(pathlib.Path(".")):
            for line, sentence in wrong if "".join(args[1:]) in name else ():
                print("%s:%d: %s" % (name, line, sentence))
        return 0
    wrong, found = check(pathlib.Path(args[0] if args else "."), MOST)
    for folder, n in found.items():
        print("%5d %s" % (n, folder))
    print("\n".join([*wrong, "%d sentences in all" % sum(found.values())]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
