#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Circles between objects, by what the linker sees.

The file that uses a symbol stands above the file that has it. A folder without
folders is a room; a file beside folders is a room by itself. Between rooms
there is no circle; inside a room up to MOST files may know each other. The
table of backends names the engines, which stand above it: that arrow does not
count.

check_circles.py BUILD      check_circles.py --self-test
"""

import os
import pathlib
import subprocess
import sys
import tempfile

MOST = 3
OBJECTS = ("CMakeFiles/headrace_objects.dir",
           "CMakeFiles/headrace_tool_objects.dir",
           "python/CMakeFiles/python_core.dir")


def arrows(root, folders):
    """{file: the files that it uses}; objects whose source is gone are old."""
    home, used, names = {}, [], {}
    for folder, prefix in folders:
        for path in sorted(folder.rglob("*.o")):
            name = prefix + str(path.relative_to(folder))[:-2]
            if (root / name).exists():
                names[str(path)] = name
    if not names:
        return {}
    nm = subprocess.run(["nm", "-A", "-P", *names], check=True, text=True,
                        capture_output=True).stdout
    for line in nm.splitlines():
        path, _, rest = line.partition(": ")
        symbol, kind = rest.split()[:2]
        if kind in "TDBR":
            home[symbol] = names[path]
        elif kind == "U":
            used.append((names[path], symbol))
    found = {}
    for name, symbol in used:
        to = home.get(symbol, name)
        if to != name and not (name.endswith("/registry.c") and
                               to.startswith("backends/")):
            found.setdefault(name, set()).add(to)
    return found


def circles(graph):
    """The sets of nodes that reach each other, of two nodes or more."""
    def reached(node):
        seen, left = set(), [node]
        while left:
            for to in graph.get(left.pop(), ()):
                if to not in seen:
                    seen.add(to)
                    left.append(to)
        return seen

    reach = {node: reached(node) for node in graph}
    found = {frozenset(to for to in reach[node] if node in reach.get(to, ()))
             for node in graph if node in reach[node]}
    return [sorted(circle) for circle in found if len(circle) > 1]


def check(found):
    """Prints what is wrong; whether nothing is."""
    files = set(found).union(*found.values())
    folders = {os.path.dirname(f) for f in files}

    def room(file):
        folder = os.path.dirname(file)
        inner = any(f.startswith(folder + "/") for f in folders)
        return file if inner or not folder else folder

    rooms, inside = {}, {}
    for file, uses in found.items():
        for to in uses:
            if room(file) == room(to):
                graph = inside.setdefault(room(file), {})
                graph.setdefault(file, set()).add(to)
            else:
                rooms.setdefault(room(file), set()).add(room(to))
    bad = [f"rooms in a circle: {' '.join(circle)}"
           for circle in circles(rooms)]
    for name, graph in inside.items():
        bad += [f"{name}: {len(circle)} files in a circle: {' '.join(circle)}"
                for circle in circles(graph) if len(circle) > MOST]
    print("\n".join(bad) or f"{len(files)} files, no circle is too large")
    return not bad


def self_test():
    def chain(*files):
        return {a: {b} for a, b in zip(files, files[1:])}

    assert check(chain("a/x.c", "a/y.c", "b/z.c"))
    assert check(chain("a/x.c", "a/y.c", "a/z.c", "a/x.c"))
    assert not check(chain("a/w.c", "a/x.c", "a/y.c", "a/z.c", "a/w.c"))
    assert not check(chain("a/x.c", "b/y.c", "a/x.c"))
    assert not check(chain("a/x.c", "b/y.c", "c/z.c", "a/w.c"))
    # Files beside rooms are no room together.
    assert check(chain("a/roof.c", "a/b/x.c", "a/floor.c"))
    assert not check(chain("a/roof.c", "a/b/x.c", "a/roof.c"))
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name, text in (("a.c", "int b(void); int a(void) { return b(); }"),
                           ("b.c", "int a(void); int b(void) { return a(); }")):
            (tmp / name).write_text(text)
            subprocess.run([os.environ.get("CC", "cc"), "-c", "-o",
                            f"{tmp / name}.o", tmp / name], check=True)
        assert arrows(tmp, [(tmp, "")]) == {"a.c": {"b.c"}, "b.c": {"a.c"}}
        (tmp / "b.c").unlink()
        assert not arrows(tmp, [(tmp, "")])
    print("self-test passed")


def check_build(build):
    root = pathlib.Path(__file__).resolve().parents[2]
    folders = [(build / f, "python/" if f.startswith("python") else "")
               for f in OBJECTS if (build / f).is_dir()]
    if not folders:
        sys.exit(f"{build} holds no objects of the library")
    return check(arrows(root, folders))


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif not check_build(pathlib.Path(sys.argv[1])):
        sys.exit(1)
