#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of the Python package import only the modules that they may.

Modules stand in rooms, and rooms in a row: a module imports its own room and
those before it. An import inside a function counts like one at the top. At most
three modules of a room may import each other in a circle.

Imports that Python adds itself do not count: the packages above a module.

  check_imports.py [ROOT]      check_imports.py --self-test
"""

import ast
import collections
import pathlib
import sys
import tempfile

# Room: its modules, or the folder that is named like it. The lowest is first.
ROOMS = {
    "foundation": """_aio _arguments _command _core _forks _html _left_out
                     _memory _oracle _others _processors errors ops""".split(),
    "dropin.base": [],
    "dropin.pillow": [],
    "dropin.torch": [],
    "dropin.workers": [],
    "dropin": [],
    "package": [""],  # all others beside __init__.py
    "bench": [],
    "validate": [],
}
MOST_IN_A_CIRCLE = 3


def read(root):
    """Module name ("" is the package itself) -> its syntax tree."""
    top = root / "python/headrace"
    trees = {"_core": ast.parse("")}
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        trees[name] = ast.parse(path.read_text(), str(path))
    return trees


def room_of(name):
    for room, modules in ROOMS.items():
        if name in modules or name == room or name.startswith(room + "."):
            return room
    return "package"


def imported(name, is_package, node):
    """Full names that an import statement may mean, headrace's own only."""
    if isinstance(node, ast.Import):
        found = [alias.name.split(".") for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = []
        if node.level:
            base = ["headrace", *filter(None, name.split("."))]
            base = base[: len(base) + is_package - node.level]
        base += node.module.split(".") if node.module else []
        found = [[*base, alias.name] for alias in node.names]
    else:
        return
    for parts in found:
        if parts[0] == "headrace":
            yield parts[1:]


def arrows(trees):
    """(module, line, module that it imports)"""
    packages = {name.rpartition(".")[0] for name in trees} | {""}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            for parts in imported(name, name in packages, node):
                target = ".".join(parts)
                if target not in trees:  # a name in a module
                    target = ".".join(parts[:-1])
                if target != name and target in trees:
                    yield name, node.lineno, target


def circles(names, edges):
    """Sets of modules that reach each other."""
    reach = {name: {name} for name in names}
    for name in names:
        todo = [name]
        while todo:
            new = edges[todo.pop()] - reach[name]
            reach[name] |= new
            todo += new
    found = {
        frozenset(m for m in reach[name] if name in reach[m]) for name in names
    }
    return [circle for circle in found if len(circle) > MOST_IN_A_CIRCLE]


def check(root):
    """Complaints about the tree, and how many imports were looked at."""
    trees = read(root)
    order = list(ROOMS)
    wrong, count = [], 0
    edges = collections.defaultdict(set)
    for name, line, target in arrows(trees):
        count += 1
        here, there = room_of(name), room_of(target)
        if here == there:
            edges[name].add(target)
        elif order.index(there) > order.index(here):
            wrong.append(
                "%s:%d: %s may not import %s" % (name, line, here, target)
            )
    for circle in circles(trees, edges):
        wrong.append("a circle: " + ", ".join(sorted(circle)))
    return wrong, count


CLEAN = {
    "errors": "",
    "ops": "from . import _core\nfrom .errors import Error\n",
    "dropin/__init__": "def on():\n    from . import hooks\n",
    "dropin/base/fetch": "from ...errors import Error\n",
    "dropin/pillow/a": "from . import b\nfrom ..base.fetch import at\n",
    "dropin/pillow/b": "def f():\n    from . import c\n",
    "dropin/pillow/c": "from .a import name\n",
    "dropin/pillow/d": "from .a import name\n",
    "dropin/hooks": "from .pillow import a\nfrom .. import ops\n",
    "backend": "from . import dropin\n",
    "__init__": "from .backend import on\n",
    "validate/run": "import headrace\nfrom headrace.ops import crop\n",
}
BAD = {
    "errors": "from .backend import on\n",
    "ops": "def f():\n    from . import dropin\n",
    "dropin/base/fetch": "def f():\n    from ..pillow import a\n",
    "dropin/pillow/b": "import headrace.dropin.hooks\n",
    "dropin/pillow/c": "from . import d\n",
    "dropin/hooks": "from headrace import backend\n",
    "dropin/torch/t": "from ... import decode\n",
    "backend": "from .validate import run\n",
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in CLEAN.items():
            path = root / "python/headrace" / (name + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if check(root)[0]:
            sys.exit("self-test: the clean tree: %s" % check(root)[0])
        for name, text in BAD.items():
            path = root / "python/headrace" / (name + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(CLEAN.get(name, "") + text)
            if not check(root)[0]:
                sys.exit("self-test: not found in %s: %s" % (name, text))
            path.write_text(CLEAN.get(name, ""))
    print("self-test: %d forbidden imports were found" % len(BAD))


def main(args):
    if args == ["--self-test"]:
        return self_test()
    root = pathlib.Path(args[0] if args else ".")
    wrong, count = check(root)
    print("\n".join([*wrong, "%d imports checked" % count]))
    return bool(wrong) or not count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
