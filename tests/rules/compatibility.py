#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The releases that Headrace is tested with, as a page: docs/compatibility.md.

  compatibility.py                 prints the page
  compatibility.py --check         complains if the page is another
  compatibility.py --self-test

The releases come from the pins in tests/python/*.txt, the interpreters from the
list in tests/steps/lib.sh. Debian's are below, and compared with the installed
ones where this is Debian 12.
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/compatibility.md"
COLUMNS = ("pillow", "torch", "torchvision", "numpy")
DEBIAN = {"python3": "3.11", "python3-pil": "9.4", "python3-torch": "1.13",
          "python3-torchvision": "0.14", "python3-numpy": "1.24",
          "libjpeg62-turbo": "2.1", "pocl-opencl-icd": "3.1",
          "mesa-opencl-icd": "22.3"}
# File of pins: (packages that it is beside, what tests it).
FILES = {"pillow-12": ("", "exact-pillow12"),
         "pillow-13": ("", "exact-pillow13"),
         "torch": ("", "python-current, exact-torch"),
         "processors": ("torch", "python-processors"),
         "codec": ("torch", "python-codec"),
         "records": ("", "python-records"),
         "timm": ("torch", "exact-recipes-torch"),
         "neighbours": ("torch", "python-neighbours"),
         "mindspore": ("", "python-mindspore")}
DEVICES = (
    ("opencl", "PoCL {pocl-opencl-icd} on a CPU", "opencl, opencl-exact"),
    ("opencl", "rusticl and llvmpipe of Mesa {mesa-opencl-icd}",
     "opencl-rusticl"),
    ("opencl", "NVIDIA 580.159.04, an H200", "`tools/gpu_report.sh`, by hand"),
    ("vaapi", "a driver in software, `tests/va_driver`",
     "va-clients, va-pictures"),
)
HEAD = """\
# Tested releases

`./dev versions` prints this page; a rule of `./dev check` compares. A step is run
by `./dev test NAME`. Other releases are expected to work: what the drop-in
records is found by trying it, never by a version.

## Python

The module is for CPython 3.11 and newer, one file for all. Tests run on {python3}; the
wheel and the module on {others} as well, where they are installed.

| environment | Pillow | torch | torchvision | NumPy | besides | step |
|---|---|---|---|---|---|---|
"""
DEVICE_HEAD = """
## Drivers and libraries

| engine | driver | step |
|---|---|---|
"""
TAIL = """\
| `cpu` | libjpeg-turbo {libjpeg62-turbo} of Debian 12 | exact |
| `cpu` | libjpeg-turbo 3, Pillow's own | jpeg3 |
"""


def pins(name, root):
    text = (root / "tests/python" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([\w.\[\]-]+)==(\S+)", text, re.MULTILINE))


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def environment(name, beside, step, root):
    found = pins(name, root)
    named = {**(pins(beside, root) if beside else {}), **found}
    rest = [f"{each} {version}" for each, version in found.items()
            if each not in COLUMNS]
    return row(f"`{name}.txt`", *(named.get(each, "") for each in COLUMNS),
               ", ".join(rest), step)


def page(root=ROOT):
    others = re.search(r"for version in ([\d. ]+); do",
                       (root / "tests/steps/lib.sh").read_text())[1].split()
    others = ", ".join(others[:-1]) + " and " + others[-1]
    text = HEAD.format(others=others, **DEBIAN)
    debian = [DEBIAN["python3-" + each] for each in
              ("pil", "torch", "torchvision", "numpy")]
    text += row("Debian 12", *debian, "", "exact, test_python_*")
    for name, (beside, step) in FILES.items():
        text += environment(name, beside, step, root)
    text += DEVICE_HEAD
    for engine, driver, step in DEVICES:
        text += row(f"`{engine}`", driver.format(**DEBIAN), step)
    return text + TAIL.format(**DEBIAN)


def steps_missing(text, root=ROOT):
    """Steps of tests/steps that the page names and that are not there."""
    steps = (root / "tests/steps/CMakeLists.txt").read_text()
    known = set(re.findall(r"^\s*step\(([\w-]+)", steps, re.MULTILINE))
    for loop in re.finditer(r"foreach\(what ([\w -]+)\)\s+step\(([\w-]+-)\$",
                            steps):
        known |= {loop[2] + each for each in loop[1].split()}
    named = {each.strip() for line in text.splitlines()
             if line.startswith("|")
             for each in line.rstrip("| ").rpartition("|")[2].split(",")}
    return {each for each in named if re.fullmatch(r"[a-z][\w-]+", each)
            and each not in known and each != "step"}


def installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          capture_output=True, text=True)
    return re.sub(r"^\d+:", "", done.stdout)


def debian_differs():
    try:
        release = pathlib.Path("/etc/debian_version").read_text()
        if not release.startswith("12."):
            return
        for package, version in DEBIAN.items():
            found = installed(package)
            if found and not re.match(re.escape(version) + r"\b", found):
                yield f"{package} is {found} here, not {version}"
    except OSError:
        return


def check(have, root=ROOT):
    want = page(root)
    wrong = list(difflib.unified_diff(
        have.splitlines(), want.splitlines(), PAGE, "./dev versions",
        lineterm=""))
    wrong += [f"there is no step {each}"
              for each in sorted(steps_missing(want, root))]
    return wrong + list(debian_differs())


def self_test():
    text = page()
    if not check(text.replace("13.0.0", "13.0.1")):
        sys.exit("self-test: another version was not found")
    if not steps_missing("| a | b | no-such-step |"):
        sys.exit("self-test: a step that is not there was not found")
    if check(text):
        sys.exit("self-test: the page itself: %s" % check(text))
    print("self-test: what differs is found")


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if args != ["--check"]:
        print(page(), end="")
        return 0
    wrong = check((ROOT / PAGE).read_text())
    print("\n".join([*wrong, f"{PAGE} compared"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
