#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test of the tests: puts deliberate faults into copies of the tree.

Each fault of tests/mutants/*.toml is built into a copy and the tests that it
names are run there. A fault is noticed when one of them fails, crashes or
hangs; one that is not noticed is a survivor, and a survivor fails this
program. A list states what the product promises, one or a few faults for each
promise, and is no longer than MOST.

A fault:  [name]    one word, unique
          file      relative to the root
          old, new  the text and what replaces it; old occurs exactly once
          tests     what must notice, cheapest first:
                    "PROGRAM [CASE...]"       a test program
                    "asan:PROGRAM [CASE...]"  the same with AddressSanitizer
                    "STEP [ARGUMENT...]"      one of STEPS below
          fast      true: also in `./dev test --full`

--changed [REV] draws faults instead: mutants_changed.py.
"""

import argparse
import concurrent.futures
import os
import pathlib
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

import mutants_changed

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 200   # faults in the lists
ABSENT = 77  # the exit code of a test that was not run
TRIES = 3    # of a test that does not do what it should

# Tests that are no single program: their targets, and the command.
STEPS = {
    "manifest": (["headrace"], "/usr/bin/python3 $ROOT/tests/tools/"
                 "manifest_numbers.py $BUILD/headrace"),
    "pack": (["headrace"],
             "bash $ROOT/tests/tools/pack_test.sh $BUILD/headrace"),
    "compare": (["headrace", "python"],
                "/usr/bin/python3 $ROOT/tests/compare/compare.py "
                "--build $BUILD"),
    "opencl": (["headrace", "test_conformance", "test_device_memory"],
               "bash $ROOT/tests/engines/opencl/opencl_platforms.sh $BUILD"),
    "python": (["headrace", "python"], "env PYTHONDONTWRITEBYTECODE=1 "
               "/usr/bin/python3 $ROOT/tests/python/run.py --build $BUILD "
               "--jobs 1"),
    # The other steps see PoCL alone.
    "rusticl": (["headrace", "test_conformance", "test_device_memory"],
                "env OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd bash "
                "$ROOT/tests/engines/opencl/opencl_platforms.sh $BUILD rusticl"),
    "races": (["fuzz_kernels_replay"], "bash $ROOT/tests/engines/opencl/"
              "opencl_platforms.sh $BUILD races"),
    "engine-races": (["headrace"], "bash $ROOT/tests/engines/opencl/"
                     "opencl_platforms.sh $BUILD engine-races"),
    # Both must say that the device made nothing, or nothing right.
    "validate": (["headrace"], "bash -c '$BUILD/headrace samples --photos-only "
                 "--count 4 photos && $BUILD/headrace validate photos "
                 "--backend opencl:pocl --tier exact'"),
    "gpu_report": (["headrace", "test_conformance", "bench_trace",
                    "bench_core", "null_opencl"],
                   "/usr/bin/python3 $ROOT/tests/tools/gpu_report_test.py "
                   "$BUILD"),
}

# A fault in these files says nothing on a processor that cannot run them.
PROCESSOR = {"_avx2.c": "avx2", "_avx512.c": "avx512vbmi"}

# Options of cmake beside those for all. "build" has the flags that `./dev test`
# builds with, and lies in its tree as that does: what ccache has of the one, it
# has of the other.
BUILDS = {
    "build": ["-DCMAKE_BUILD_TYPE=Release", "-DHEADRACE_WERROR=ON"],
    "asan": ["-DCMAKE_BUILD_TYPE=Mutant", "-DCMAKE_C_FLAGS=-O1 -g1",
             "-DHEADRACE_SANITIZE=address,undefined"],
}

# Before the compiler's name. A warning that a fault causes is no error.
LAUNCHER = '#!/bin/sh\nexec {} "$@" $MUTANT_FLAGS\n'


def ccache_folder():
    """ccache's folder now, wherever XDG_CACHE_HOME will point."""
    if not shutil.which("ccache"):
        return ""
    return subprocess.run(["ccache", "--get-config", "cache_dir"], check=True,
                          capture_output=True, text=True).stdout.strip()


def linker():
    return "-fuse-ld=lld" if shutil.which("ld.lld") else ""


class Rotten(Exception):
    """The list is wrong, or the tree: neither noticed nor survived."""


def load(folder):
    faults, names = [], set()
    for path in sorted(folder.glob("*.toml")):
        with open(path, "rb") as file:
            listed = tomllib.load(file)
        for name, fault in listed.items():
            unknown = set(fault) - {"file", "old", "new", "tests", "fast"}
            missing = {"file", "old", "new", "tests"} - set(fault)
            if unknown or missing or not fault["tests"]:
                raise Rotten(f"{path.name}: {name}: unknown {sorted(unknown)}, "
                             f"missing {sorted(missing)}")
            fault |= {"name": name, "area": path.stem}
            if fault["name"] in names:
                raise Rotten(f"{path.name}: {fault['name']} stands twice")
            names.add(fault["name"])
            faults.append(fault)
    if len(faults) > MOST:
        raise Rotten(f"{len(faults)} faults: {MOST} are the most, so a new one "
                     "takes the place of one that says less")
    return faults


def changed(fault, text):
    if "at" in fault:
        before, after = text[:fault["at"]], text[fault["at"]:]
        return before + after.replace(fault["old"], fault["new"], 1)
    count = text.count(fault["old"])
    if count != 1:
        raise Rotten(f"its text occurs {count} times in {fault['file']}")
    return text.replace(fault["old"], fault["new"])


def place(test):
    """The build folder of a test, its targets, its command."""
    build, _, rest = test.partition(":")
    if build != "asan":
        build, rest = "build", test
    word, *arguments = shlex.split(rest)
    if word == "labels":  # Tree.build() knows whose they are
        return build, [rest], [
            "ctest", "--test-dir", "$BUILD", "--no-tests=error", "-j8",
            "--stop-on-failure", "-LE", "long", "-L", *arguments]
    if word in STEPS:
        targets, command = STEPS[word]
        return build, targets, shlex.split(command) + arguments
    return build, [word], [f"$BUILD/tests/{word}"] + arguments


class Tree:
    """A copy of the tree with its builds; one thread works in it."""

    def __init__(self, where):
        self.where = where
        self.source = where / "tree"
        self.log = where / "log"
        self.launcher = where / "launcher"
        self.pocl = where.parent.parent / "opencl-cache" / "pocl"
        self.ccache = ccache_folder()
        self.configured = set()
        self.harmed = False
        self.copy()
        self.launcher.write_text(LAUNCHER.format(shutil.which("ccache") or ""))
        self.launcher.chmod(0o755)

    def copy(self):
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
            check=True, capture_output=True).stdout.decode().split("\0")
        names = {n for n in listed if n and (ROOT / n).is_file()}
        for path in list(self.source.rglob("*")):
            name = path.relative_to(self.source)
            if path.is_file() and str(name) not in names and \
                    name.parts[0] not in BUILDS:
                path.unlink()
        for name in names:
            data, to = (ROOT / name).read_bytes(), self.source / name
            if not to.is_file() or to.read_bytes() != data:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(data)
                shutil.copymode(ROOT / name, to)

    def environment(self, build):
        private = self.where / "private"
        extra = {
            "ROOT": self.source, "BUILD": self.source / build,
            "HEADRACE_SEED": "1", "HEADRACE_TEST_ALARM": "100",
            "OCL_ICD_VENDORS": "/etc/OpenCL/vendors/pocl.icd",
            # PoCL's cache goes by the kernels' text: all share that of ./dev
            # test. The engine's own would hide faults of what it is made
            # from, so each run has a new one.
            "POCL_CACHE_DIR": self.pocl,
            "XDG_CACHE_HOME": private / "cache", "TMPDIR": private,
            "LSAN_OPTIONS": "print_suppressions=0:suppressions="
                            f"{self.source}/tests/support/leaks.supp",
            "HEADRACE_TEST_LEAKS": "1",
            "HEADRACE_CORPUS": os.environ.get("HEADRACE_CORPUS") or
                               ROOT.parent / "shared" / "corpus",
            # So that all copies share what was compiled, with ./dev, too.
            "CCACHE_BASEDIR": self.source, "CCACHE_NOHASHDIR": "1",
            "CCACHE_DEPEND": "1", "CCACHE_DIR": self.ccache,
            "MUTANT_FLAGS": "-Wno-error" if self.harmed else "",
        }
        return os.environ | {k: str(v) for k, v in extra.items()}

    def command(self, build, words, limit):
        """Exit code of a command, None if it had to be killed."""
        private = self.where / "private"
        shutil.rmtree(private, ignore_errors=True)
        for folder in (private / "cache", self.pocl):
            folder.mkdir(parents=True, exist_ok=True)
        env = self.environment(build)
        words = [w.replace("$BUILD", env["BUILD"]).replace("$ROOT", env["ROOT"])
                 for w in words]
        with open(self.log, "wb") as log, subprocess.Popen(
                words, cwd=private, env=env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True) as process:
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:  # it may have left children behind
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def build(self, build, targets, jobs=1):
        if not targets:
            return
        if build not in self.configured:
            if self.command(build, ["cmake", "-S", "$ROOT", "-B", "$BUILD",
                                    "-GNinja", "-DHEADRACE_TESTS=ON",
                                    "-DHEADRACE_FUZZ=OFF",
                                    "-DCMAKE_C_COMPILER_LAUNCHER="
                                    f"{self.launcher}",
                                    f"-DCMAKE_EXE_LINKER_FLAGS={linker()}",
                                    f"-DCMAKE_SHARED_LINKER_FLAGS={linker()}",
                                    *BUILDS[build]], 300):
                raise Rotten("does not configure: " + self.tail())
            self.configured.add(build)
        folder = self.source / build
        targets = [name for target in targets
                   for name in (mutants_changed.targets(folder, target[7:])
                                if target.startswith("labels ") else [target])]
        if self.command(build, ["ninja", "-C", "$BUILD", f"-j{jobs}", "-k0",
                                *targets], 1800) != 0:
            raise Rotten("does not build: " + self.tail())

    def tail(self):
        lines = self.log.read_text(errors="replace").split("\n")
        errors = [line for line in lines if "error" in line]
        return (errors or lines[-2:])[0].strip()[-200:]

    def asserts_nothing(self):
        """A test program whose driver is missing says so, and passes."""
        return ", 0 asserts, 0 failed" in self.log.read_text(errors="replace")

    def run(self, test, limit):
        """'passed', 'absent' or how it failed, and the seconds."""
        build, targets, words = place(test)
        self.build(build, targets)
        start = time.monotonic()
        code = self.command(build, words, limit)
        took = time.monotonic() - start
        if code is None:
            return f"no end in {limit:.0f} s", took
        if code == ABSENT or (code == 0 and self.asserts_nothing()):
            return "absent", took
        if code < 0:
            return signal.Signals(-code).name, took
        return ("failed" if code else "passed"), took


class Runner:
    def __init__(self, where, jobs):
        self.where = where
        self.trees = queue.Queue()
        self.jobs = jobs
        self.plain = {}  # test -> (how it ends without a fault, seconds)
        self.lock = threading.Lock()

    def start(self, faults):
        """Makes the trees, and builds what the faults need."""
        self.where.mkdir(parents=True, exist_ok=True)
        tests = sorted({t for f in faults if not self.lacking(f)
                        for t in f["tests"]})
        for i in range(self.jobs):
            tree = Tree(self.where / f"tree-{i}")
            # One after the other: the next tree finds compiled files in
            # ccache. Targets that do not build are reported test by test.
            for build in BUILDS:
                targets = {t for test in tests if place(test)[0] == build
                           for t in place(test)[1]}
                try:
                    tree.build(build, sorted(targets), self.jobs)
                except Rotten as error:
                    say(f"tree {i}: {error}")
            self.trees.put(tree)

    def spread(self, function, items):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            running = [pool.submit(self.in_tree, function, i) for i in items]
            return [r.result() for r in running]

    def in_tree(self, function, item):
        tree = self.trees.get()
        try:
            return function(tree, item)
        finally:
            self.trees.put(tree)

    def unharmed(self, tree, test):
        # Tests of time fail now and then while all cores are busy.
        for _ in range(TRIES):
            try:
                how, took = tree.run(test, 600)
            except Rotten as error:
                how, took = str(error), 0
            if how in ("passed", "absent"):
                break
        # Not before: threads that judge in other trees go by it.
        self.plain[test] = how, took
        if how != "passed":
            log = self.where / f"unharmed-{test.split()[0].replace(':', '-')}"
            if tree.log.exists():
                shutil.copy(tree.log, log)
            say(f"without a fault: {test}: {how}, {took:.0f} s, see {log}")

    @staticmethod
    def lacking(fault):
        cpu = pathlib.Path("/proc/cpuinfo").read_text(errors="replace").split()
        for end, flag in PROCESSOR.items():
            if fault["file"].endswith(end) and flag not in cpu:
                return f"the processor has no {flag}"
        return None

    def judge(self, tree, fault):
        start = time.monotonic()
        try:
            lacking = self.lacking(fault)
            if lacking:
                return self.tell(fault, "not run", lacking, start)
            return self.tell(fault, *self.noticed(tree, fault), start)
        except (Rotten, OSError) as error:
            return self.tell(fault, "error", str(error), start)

    def harmed(self, tree, fault, test):
        """How the test ends with the fault in the tree."""
        path = tree.source / fault["file"]
        whole = path.read_text()
        # A driver that has to compile anew does not hang.
        least = 60 if "opencl" in test or "kernels" in test else 30
        path.write_text(changed(fault, whole))
        tree.harmed = True
        try:
            return tree.run(test, max(least, 5 * self.plain[test][1]))[0]
        finally:
            tree.harmed = False
            path.write_text(whole)

    def noticed(self, tree, fault):
        absent = []
        for test in fault["tests"]:
            if test not in self.plain:
                self.unharmed(tree, test)
            how = self.plain[test][0]
            if how == "absent":
                absent.append(test)
                continue
            if how != "passed":
                raise Rotten(f"{test}, without the fault: {how}")
            # .. or a fault of time passes by chance.
            for _ in range(1 if "at" in fault else TRIES):
                how = self.harmed(tree, fault, test)
                if how not in ("passed", "absent"):
                    return "noticed", f"{test}: {how}"
        if len(absent) == len(fault["tests"]):
            return "not run", f"not here: {', '.join(absent)}"
        return "survived", ""

    def tell(self, fault, result, remark, start):
        with self.lock:
            say(f"{fault['name']:<34} {fault['area']:<12} {result:<9}"
                f" {time.monotonic() - start:5.1f}  {remark}"
                f"  {fault.get('what', '')}")
        return fault, result, remark


def say(text):
    print(text, flush=True)


def summary(results):
    kinds = {k: [r for r in results if r[1] == k]
             for k in ("noticed", "survived", "error", "not run")}
    for title, rows in (("survived", kinds["survived"]),
                        ("error", kinds["error"]),
                        ("not run", kinds["not run"])):
        for fault, _, remark in rows:
            say(f"{title}: {fault['area']}/{fault['name']}"
                f" ({', '.join(fault['tests'])}) {fault.get('what', remark)}")
    judged = len(kinds["noticed"]) + len(kinds["survived"])
    say(f"{len(results)} faults, {len(kinds['noticed'])} noticed"
        f" ({100 * len(kinds['noticed']) / max(judged, 1):.1f} %),"
        f" {len(kinds['survived'])} survived, {len(kinds['error'])} errors,"
        f" {len(kinds['not run'])} not run")
    return int(not kinds["noticed"] or
               bool(kinds["survived"] or kinds["error"]))


class BusyTree:
    """A test fails once: that is not seen before it has been tried again."""
    log = pathlib.Path(os.devnull)

    def __init__(self, runner):
        self.runner = runner
        self.ends = ["failed", "passed"]
        self.seen = False

    def run(self, test, limit):
        self.seen |= test in self.runner.plain
        return self.ends.pop(0), limit


def self_test(runner):
    """Each way to end comes out as itself."""
    def fault(name, old, new, tests, file="hal/shape/table.c"):
        return {"name": name, "area": "self-test", "file": file, "old": old,
                "new": new, "tests": tests}

    first = "// SPDX-License-Identifier: Apache-2.0\n"
    table = ["test_table"]
    cases = [
        (fault("comment", first, first + "// nothing\n", table), "survived"),
        (fault("wrong", "return v;", "return v + 1;", table), "noticed"),
        (fault("no-build", first, "#error broken\n", table), "error"),
        (fault("no-such-text", "no such text", "", table), "error"),
        (fault("often", "return", "", table), "error"),
        (fault("no-such-case", first, "", ["test_table nosuchcase"]),
         "error"),
        (fault("no-such-test", first, "", ["test_nosuch"]), "error"),
    ]
    # (ninja builds nothing if it is told to build what is not there.)
    runner.start([c[0] for c in cases if c[0]["tests"] != ["test_nosuch"]])
    results = runner.spread(runner.judge, [c[0] for c in cases])
    wrong = [r[0]["name"] for r, c in zip(results, cases) if r[1] != c[1]]
    busy = BusyTree(runner)
    runner.unharmed(busy, "test_busy")
    if busy.seen or busy.ends or runner.plain["test_busy"][0] != "passed":
        wrong.append("busy")
    say(f"self-test: {len(cases) + 1} cases, wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--fast", action="store_true",
                        help="those marked as fast")
    parser.add_argument("--name", action="append", help="these faults")
    parser.add_argument("--list", action="store_true",
                        help="print what would run; says what has rotted")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="REV",
                        help="faults drawn in the files that differ from it")
    parser.add_argument("--labels", help="of --changed: run tests with these")
    parser.add_argument("--most", type=int, default=40,
                        help="of --changed: faults in all (40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    runner = Runner(options.build.resolve() / "mutants", options.jobs)
    if options.self_test:
        return self_test(runner)
    if options.changed:
        faults = mutants_changed.draw(ROOT, options.changed, options.labels,
                                      options.most, options.seed)
        runner.start(faults)
        summary(runner.spread(runner.judge, faults))
        return 0  # some change nothing
    faults = [f for f in load(ROOT / "tests" / "mutants")
              if (not options.fast or f.get("fast"))
              and (not options.name or f["name"] in options.name)]
    if options.list:
        return list_faults(faults)
    faults.sort(key=lambda f: f["tests"])  # so that little is linked anew
    runner.start(faults)
    return summary(runner.spread(runner.judge, faults))


def list_faults(faults):
    rotten = 0
    for fault in faults:
        try:
            changed(fault, (ROOT / fault["file"]).read_text())
            state = "fast" if fault.get("fast") else ""
        except (Rotten, OSError) as error:
            state, rotten = f"ROTTEN: {error}", rotten + 1
        say(f"{fault['name']:<34} {fault['area']:<12}"
            f" {', '.join(fault['tests'])}  {state}")
    say(f"{len(faults)} faults, {rotten} have rotted")
    return 1 if rotten else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Rotten as error:
        sys.exit(f"mutants: {error}")
