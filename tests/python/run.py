#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package, each file in a process of its own.

  run.py --build BUILD [--python INTERPRETER] [FILE...]

A file is test_NAME.py in this folder, given by NAME, which may be a pattern, as
core*; all of them if none is given. It holds unittest cases and imports what it
needs. A file is not run that raises unittest.SkipTest while it is imported, or
finds that a package is missing which ours can do without. The package is that
of BUILD/python, or of the folder --package. HEADRACE_BUILD is BUILD, whose
command makes pictures.

Files run side by side, those with a line "# Long: REASON." first; but those
with a line "# Alone: REASON." run after the others, one by one: they measure
time.
All find the pictures that the command makes in one folder: made_samples.py.

Exit code: 0 all passed; 1 something failed, crashed, took longer than --limit
seconds, or a file has no tests; 77 nothing was run. Prints "not run: PART:
REASON" for what was skipped, and last a line with the numbers.
"""

import argparse
import concurrent.futures
import faulthandler
import importlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ABSENT = 77
OPTIONAL = ("numpy", "PIL", "torch", "torchvision")  # packages of others
COUNTS = re.compile(r"^tests: (\d+) run, (\d+) not run$", re.M)


class Result(unittest.TextTestResult):
    """Says of each test how long it took, and of skipped ones why."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # testsRun counts skipped tests, or not: releases differ.
        self.started, self.left_out = set(), set()

    def startTest(self, test):
        self.began = time.monotonic()
        self.started.add(test.id())
        super().startTest(test)

    def addSuccess(self, test):
        took = time.monotonic() - self.began
        unittest.TestResult.addSuccess(self, test)
        if self.showAll:
            self.stream.writeln(f"ok, {took:.2f} s")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.left_out.add(test.id())  # of a part of a test, that part's
        print(f"not run: {name_of(test)}: {' '.join(reason.split())}",
              flush=True)


def name_of(test):
    # An error of a whole class or file is "setUpClass (test_x.Case)".
    return re.sub(r"^\w+ \((.*)\)$", r"\1", test.id())


def chosen(suite, options):
    """The suite without what the options leave out, and ids of what was left
    out by --without."""
    kept, left_out = unittest.TestSuite(), set()
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            part, more = chosen(part, options)
            left_out |= more
        elif not re.search(options.only, part.id()):
            continue
        elif options.without and re.search(options.without, part.id()):
            left_out.add(part.id())
            continue
        kept.addTest(part)
    return kept, left_out


def run_file(name, options):
    """Runs the file's tests in this process; returns its exit code."""
    faulthandler.enable()
    # Says where it hangs, before the parent process ends this one.
    faulthandler.dump_traceback_later(max(options.limit - 5, 1))
    import made_samples
    made_samples.shared = options.samples
    try:
        module = importlib.import_module(name)
    except (unittest.SkipTest, ModuleNotFoundError) as skip:
        if getattr(skip, "name", "torch") not in OPTIONAL:
            raise
        print(f"not run: {name}: {skip}")
        print("tests: 0 run, 1 not run")
        return ABSENT
    suite, left_out = chosen(
        unittest.defaultTestLoader.loadTestsFromModule(module), options)
    for test in left_out:
        print(f"not run: {test}: left out here")
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2,
                                     resultclass=Result)
    result = runner.run(suite)
    ran = result.started - result.left_out
    skipped = result.left_out | left_out
    print(f"tests: {len(ran)} run, {len(skipped)} not run")
    if not ran and not skipped:
        print(f"{name} has no tests")
        return 1
    if not result.wasSuccessful():
        return 1
    return 0 if ran else ABSENT


def environment(options):
    env = dict(os.environ)
    package = options.package or options.build / "python"
    env["PYTHONPATH"] = f"{package.resolve()}{os.pathsep}{HERE}"
    env["HEADRACE_BUILD"] = str(options.build)
    return env


def end(process):
    """Kills the process, if it still runs, and the processes it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def spawn(options, name):
    """Runs a file; returns its output, exit code and seconds."""
    start = time.monotonic()
    process = subprocess.Popen(
        [options.python, str(HERE / "run.py"), "--file", name, "--limit",
         str(options.limit), "--only", options.only,
         "--without", options.without, "--samples", options.samples],
        env=environment(options), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True)
    try:
        text = process.communicate(timeout=options.limit)[0]
        code = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        text, code = process.communicate()[0], None
    end(process)  # workers that it has forgotten
    return text, code, time.monotonic() - start


def verdict(code):
    if code is None:
        return "FAILED: no end"
    if code < 0:
        return f"FAILED: {signal.Signals(-code).name}"
    return {0: "passed", ABSENT: "not run"}.get(code, "FAILED")


def says(name, word):
    text = (HERE / f"{name}.py").read_text()
    return re.search(rf"^# {word}: ", text, re.M) is not None


def run_all(options, names):
    beside = [n for n in names if not says(n, "Alone")]
    beside.sort(key=lambda n: not says(n, "Long"))
    results, failed = [], []

    def run(name):
        text, code, took = spawn(options, name)
        text = (f"==== {name}\n{text.rstrip()}\n"
                f"{name}: {verdict(code)}, {took:.1f} s\n")
        print(text, flush=True)
        if code not in (0, ABSENT):
            failed.append(text)
        results.append((name, code, COUNTS.search(text)))

    with tempfile.TemporaryDirectory(prefix="headrace-samples-") as folder:
        options.samples = options.samples or folder
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run, beside))
        for name in names:
            if name not in beside:
                run(name)
    # Once more at the end, where a reader of a long log looks first.
    print("".join(text + "\n" for text in failed), end="")
    return results


def summary(results):
    counts = [c for _, _, c in results if c]
    ran = sum(int(c[1]) for c in counts)
    skipped = sum(int(c[2]) for c in counts)
    bad = sorted(n for n, code, _ in results if code not in (0, ABSENT))
    if bad:
        print(f"failed: {', '.join(bad)}")
    print(f"{len(results)} files, {ran} tests run, {skipped} not run")
    if bad:
        return 1
    return 0 if ran else ABSENT


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=HERE.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--jobs", type=int,
                        default=int(os.environ.get("HEADRACE_JOBS") or
                                    os.cpu_count()))
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="tests whose id matches")
    parser.add_argument("--without", default="", metavar="REGEX",
                        help="leave out tests whose id matches")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--samples", metavar="FOLDER",
                        help="where the command's pictures are kept")
    parser.add_argument("names", nargs="*", metavar="FILE")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.file:
        sys.exit(run_file(options.file, options))
    names = []
    for pattern in options.names or ["*"]:
        found = sorted(p.stem for p in HERE.glob(f"test_{pattern}.py"))
        if not found:
            sys.exit(f"run.py: there is no test_{pattern}.py")
        names += [name for name in found if name not in names]
    sys.exit(summary(run_all(options, names)))


if __name__ == "__main__":
    main()
