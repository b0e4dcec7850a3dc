#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of ./dev test, from what ctest has written.

  summary.py FILE                what a run did, and why not all of it
  summary.py FILE --slowest N    the tests that took most processor time

Prints a line for each step and one for each kind of small tests, the parts that
were not run, and the end of what each failed test said; last "N passed, N
failed, N skipped". Exit code 1: a test failed, or none has passed.
"""

import argparse
import collections
import re
import sys
import xml.etree.ElementTree

CPU = re.compile(r"^(?:([\d.]+) \+ )?([\d.]+) s of processor time$", re.M)
NOT_RUN = re.compile(r"^ *not run: (.*)$", re.M)
NOTE = re.compile(r"^note: (.*)$", re.M)
KINDS = [("unit", r"(test|check|fuzz)_"), ("rules", r"(rule|header)_"),
         ("python", r"python_")]


class Test:
    def __init__(self, case):
        self.name = case.get("name")
        self.seconds = float(case.get("time"))
        self.said = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        why = "" if skipped is None else skipped.get("message", "")
        self.result = ("passed" if case.get("status") == "run" else
                       "skipped" if "SKIP_RETURN_CODE" in why else "FAILED")
        took = CPU.findall(self.said)
        self.cpu = sum(float(t or 0) for t in took[-1]) if took else 0
        self.parts = sorted(set(NOT_RUN.findall(self.said)))
        if self.result == "skipped":
            self.parts = self.parts[-1:] or ["says so itself"]
        self.notes = NOTE.findall(self.said)
        if self.result == "FAILED" and not self.said:
            self.said = why or "no output"
        self.kind = next((kind for kind, pattern in KINDS
                          if re.match(pattern, self.name)), self.name)


def table(tests):
    kinds = collections.defaultdict(list)
    for test in tests:
        kinds[test.kind].append(test)
    print(f"\n{'step':16} {'result':8} {'seconds':>7} {'CPU s':>6}  remark")
    for kind, some in kinds.items():
        count = collections.Counter(test.result for test in some)
        result = next(r for r in ("FAILED", "passed", "skipped") if count[r])
        remarks = [n for test in some for n in test.notes]
        if kind != some[0].name or len(some) > 1:
            remarks.append(f"{len(some)} tests" + "".join(
                f", {count[r]} {r}" for r in ("FAILED", "skipped") if count[r]))
        elif result == "skipped":
            remarks += some[0].parts
        elif some[0].parts:
            remarks.append(f"{len(some[0].parts)} parts not run, see below")
        print(f"{kind:16} {result:8} {sum(t.seconds for t in some):7.0f} "
              f"{sum(t.cpu for t in some):6.0f}  {'; '.join(remarks)}")


def not_run(tests):
    """By reason: how many parts, and the first of them by name."""
    reasons = collections.defaultdict(list)
    for test in tests:
        for part in test.parts:
            name, colon, why = part.partition(": ")
            if test.result == "skipped" or not colon:
                name, why = test.name, part
            reasons[test.kind, why].append(name)
    if reasons:
        print("\nparts not run:")
    for (kind, why), names in reasons.items():
        more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"{kind:16} {why} ({'; '.join(names[:3])}{more})")


def failed(tests):
    for test in tests:
        if test.result == "FAILED":
            print(f"\n==== {test.name} failed")
            print("\n".join(test.said.rstrip().split("\n")[-60:]))


def slowest(tests, most):
    print("   CPU s  clock s  test")
    for test in sorted(tests, key=lambda t: -t.cpu)[:most]:
        print(f"{test.cpu:8.2f} {test.seconds:8.2f}  {test.name}")
    print(f"{sum(t.cpu for t in tests):8.2f} "
          f"{sum(t.seconds for t in tests):8.2f}  all")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--slowest", type=int, metavar="N")
    options = parser.parse_args()
    root = xml.etree.ElementTree.parse(options.file).getroot()
    tests = [Test(case) for case in root.iter("testcase")]
    if options.slowest:
        slowest(tests, options.slowest)
        return 0
    table(tests)
    not_run(tests)
    failed(tests)
    count = collections.Counter(test.result for test in tests)
    print(f"\n{count['passed']} passed, {count['FAILED']} failed, "
          f"{count['skipped']} skipped")
    return 0 if count["passed"] and not count["FAILED"] else 1


if __name__ == "__main__":
    sys.exit(main())
