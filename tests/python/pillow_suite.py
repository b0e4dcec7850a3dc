# SPDX-License-Identifier: Apache-2.0
"""Runs Pillow's own test-suite without and with headrace.set_image_backend().

  pillow_suite.py --build BUILD [--package FOLDER] SUITE

SUITE: the unpacked source archive of the Pillow that this interpreter has.
Fails if a test fails, is left out or is missing with the switch that is not so
without it, or if with the switch no picture was recorded. As a plug-in of
pytest it is the switch itself.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
WORST = ("passed", "skipped", "failed", "error", "missing")


def pytest_addoption(parser):
    parser.addoption("--headrace-report")


def pytest_configure(config):
    import headrace
    headrace.set_image_backend("cpu")
    config.headrace = headrace


def pytest_unconfigure(config):
    report = config.headrace.report()
    with open(config.getoption("--headrace-report"), "w") as file:
        json.dump({"text": str(report), "recorded": recorded(report)}, file)


def recorded(report):
    """Pictures that were opened as recording ones."""
    return report["totals"].get("recorded", 0)


def run(options, name, *switch):
    """The outcome of each test: its name -> one of WORST."""
    where = options.build / "pillow-suite"
    where.mkdir(exist_ok=True)
    results = where / f"{name}.xml"
    results.unlink(missing_ok=True)
    package = options.package or options.build / "python"
    env = dict(os.environ, PYTHONPATH=f"{package.resolve()}{os.pathsep}{HERE}")
    # In folders of its own: tests write beside their pictures.
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--timeout", "300", f"--basetemp={where / name}",
         f"--junitxml={results}", *switch, "Tests"],
        cwd=options.suite, env=env, stdout=open(where / f"{name}.log", "w"),
        stderr=subprocess.STDOUT).returncode
    if code not in (0, 1):
        print((where / f"{name}.log").read_text()[-4000:])
        sys.exit(f"{name}: pytest ended with {code}")
    return outcomes(results)


def outcomes(results):
    found = {}
    for case in xml.parse(results).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        kinds = [child.tag.replace("failure", "failed") for child in case
                 if child.tag in ("failure", "error", "skipped")]
        found[test] = max(kinds, key=WORST.index, default="passed")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("suite", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    report = options.build / "pillow-suite" / "report.json"
    report.unlink(missing_ok=True)
    without = run(options, "without")
    with_it = run(options, "with", "-p", "pillow_suite",
                  f"--headrace-report={report}")
    worse = [(test, how, with_it.get(test, "missing"))
             for test, how in without.items()
             if WORST.index(with_it.get(test, "missing")) > WORST.index(how)]
    for test, before, after in worse:
        print(f"{test}: {before} without, {after} with")
    said = json.loads(report.read_text())
    print(said["text"])
    passed = list(without.values()).count("passed")
    print(f"{len(without)} tests, {passed} passed without,"
          f" {len(worse)} worse with; {said['recorded']} pictures recorded")
    sys.exit(bool(worse) or passed < 1000 or said["recorded"] < 100)


if __name__ == "__main__":
    main()
