# SPDX-License-Identifier: Apache-2.0
"""python3 -m headrace.bench: which pictures, what is counted, what is told."""

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import numpy  # noqa: F401  the loader's batches are its arrays

import headrace
from headrace.bench import children, command, figures, options, pictures, \
    programs, text

import core_samples as samples

PHOTOS = str(samples.folder() / "photos")
# Some of them are grey.
TAKEN = sum(headrace.probe(p).components == 3 for p in samples.photos())
TORCH = all(map(importlib.util.find_spec, ("torch", "torchvision", "PIL")))
MODULE = [sys.executable, "-m", "headrace.bench"]


def run(*arguments):
    """(exit code, what it printed, what it said)"""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = command.main(list(map(str, arguments)))
    return code, out.getvalue(), said.getvalue()


def script(name, body):
    """An interpreter: it is called with -P PROGRAM NAME CONFIG."""
    path = samples.scratch() / name
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


class Measuring(unittest.TestCase):
    def test_the_loader(self):
        page = samples.scratch() / "bench.html"
        code, out, said = run(PHOTOS, "--only", "loader", "--rounds", 2,
                              "--batch", 5, "--size", 32, "--json", "-",
                              "--report", page)
        self.assertEqual((code, said), (0, ""))
        told = json.loads(out)
        self.assertEqual(told["pictures"], TAKEN)
        self.assertEqual((told["batch"], told["rounds"], told["left_out"]),
                         (5, 2, len(samples.photos()) - TAKEN))
        row, = told["rows"]
        self.assertEqual((row["key"], row["pixels"]), ("loader", "stock"))
        self.assertEqual(len(row["rounds"]), 2)
        for one in row["rounds"]:
            self.assertEqual([e["pictures"] for e in
                              (one["first"], *one["later"])],
                             [TAKEN] * 3)
            self.assertLess(0, one["first_batch_s"])
            self.assertLess(one["first_batch_s"], one["first"]["wall_s"])
            self.assertGreater(one["memory_bytes"], 1 << 20)
        self.assertGreater(row["import_bytes"], 1 << 20)
        self.assertEqual(row["beside_bytes"],
                         row["memory_bytes"] - row["import_bytes"])
        for which in "first", "later":
            self.assertGreater(row[which]["img_per_s"], 0)
            self.assertGreater(row[which]["cpu_s_per_1000"], 0)
            self.assertIsNone(row[which]["stock_ratio"])
        self.check_page(page.read_text(), row)

    def test_without_a_cache(self):
        code, out, said = run(PHOTOS, "--only", "loader", "--rounds", 1,
                              "--batch", 5, "--size", 32, "--cache", 0,
                              "--later", 1, "--json", "-")
        self.assertEqual((code, said), (0, ""))
        row, = json.loads(out)["rows"]
        self.assertIn("no cache", row["name"])
        self.assertEqual(row["rounds"][0]["first"]["pictures"], TAKEN)

    def check_page(self, page, row):
        data = samples.page_data(page)
        first, later, table = (i for i in data["items"] if i["is"] != "text")
        for which, chart in (("first", first), ("later", later)):
            self.assertEqual(chart["labels"], [row["name"]])
            series, = chart["series"]
            self.assertEqual(series["values"], [row[which]["img_per_s"]])
            self.assertEqual(series["groups"], [1])
        cells = table["cells"]
        self.assertEqual(len(cells), len(table["columns"]))
        self.assertEqual((cells[0], cells[-1]), (row["name"], "stock's"))
        self.assertEqual(cells[7:10],
                         [row["first_batch_s"], row["memory_bytes"] / 1e6,
                          row["beside_bytes"] / 1e6])

    @unittest.skipUnless(TORCH, "needs torch, torchvision and Pillow")
    def test_stock_and_drop_in(self):
        code, out, _ = run(PHOTOS, "--only", "drop-in,stock,tensors",
                           "--rounds", 1, "--later", 1, "--workers", 2,
                           "--batch", 8, "--size", 32, "--json", "-")
        told = json.loads(out)
        rows = {row["key"]: row for row in told["rows"]}
        # torchvision 0.14 has no v2.
        self.assertEqual(list(rows)[:1], ["stock"])
        self.assertIn("drop-in", rows)
        self.assertEqual(set(rows) | set(told["not_run"]),
                         {"stock", "tensors", "drop-in"})
        self.assertEqual(rows["stock"]["first"]["stock_ratio"], 1)
        for row in rows.values():
            one, = row["rounds"]
            self.assertEqual(one["first"]["pictures"], TAKEN)
            # The CPU time of worker processes counts, too.
            self.assertGreater(one["first"]["cpu_s"], 0.005)
        self.assertEqual(code, 0)

    @unittest.skipUnless(TORCH, "needs torch, torchvision and Pillow")
    def test_a_recipe(self):
        code, out, _ = run(PHOTOS, "--recipe", "moco", "--rounds", 1, "--later",
                           1, "--workers", 0, "--batch", 8, "--size", 32,
                           "--json", "-")
        told = json.loads(out)
        rows = told["rows"]
        self.assertEqual((code, told["not_run"]), (0, {}))
        self.assertEqual([row["key"] for row in rows],
                         ["stock", "drop-in", "cached", "loader"])
        self.assertEqual({row["pixels"] for row in rows}, {"stock"})
        bits = [row["rounds"][0]["bits"] for row in rows]
        self.assertEqual(len({*bits[:3]}), 1)
        self.assertIsNone(bits[3])  # it draws its own numbers
        self.assertIsNotNone(bits[0])
        self.assertIn(f"{2 * TAKEN} recorded", rows[1]["rounds"][0]["made"])

    @unittest.skipUnless(TORCH, "needs torch, torchvision and Pillow")
    def test_without_the_recipes_package(self):
        if importlib.util.find_spec("timm"):
            self.skipTest("timm is there")
        code, out, _ = run(PHOTOS, "--recipe", "timm", "--only", "stock")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"\nnot run: stock: .*No module named 'timm' "
                         r"\(it needs .* timm\)\n")

    def test_what_is_not_there_is_named(self):
        failing = script("not_there", """
            echo '{"not_run": "ModuleNotFoundError: of the test"}'\n""")
        broken = script("broken", "exit 3\n")
        half = script("half", """
            echo '{"name": "half", "import_s": 0}'
            read line
            kill -9 $$\n""")
        for python, why in ((failing, "of the test"),
                            (broken, "exit code 3"),
                            (half, "signal 9"),
                            ("/nowhere/python", "No such file")):
            with self.subTest(why):
                self.check_absent(python, why)

    def needs_no_dali(self):
        with contextlib.suppress(ImportError):
            importlib.import_module("nvidia.dali")
            self.skipTest("DALI is there")

    def check_absent(self, python, why):
        self.needs_no_dali()
        code, out, _ = run(PHOTOS, "--only", "dali", "--python", python)
        self.assertEqual(code, 1)
        line, = (x for x in out.splitlines() if x.startswith("not run"))
        self.assertTrue(line.startswith("not run: dali: "), line)
        self.assertIn(why, line)

    def test_fewer_rounds_than_the_others_are_none(self):
        self.needs_no_dali()
        second = script("second", """
            echo '{"name": "second", "import_s": 0}'
            epoch='{"pictures": 10, "wall_s": 2, "cpu_s": 3}'
            read line
            echo '{"first_batch_s": 1, "first": '$epoch', "later": []}'
            read line\n""")
        code, out, _ = run(PHOTOS, "--only", "dali", "--rounds", 2,
                           "--python", second, "--json", "-")
        told = json.loads(out)
        self.assertEqual((code, told["rows"]), (1, []))
        self.assertIn("exit code 0", told["not_run"]["dali"])

    def test_the_interpreter_that_has_it_is_taken(self):
        other = script("other", """
            echo '{"name": "of another", "import_s": 0.5}'
            epoch='{"pictures": 10, "wall_s": 2, "cpu_s": 3}'
            while read line; do
                echo '{"first_batch_s": 1, "first": '$epoch', "later": []}'
            done\n""")
        self.needs_no_dali()
        code, out, _ = run(PHOTOS, "--only", "dali", "--rounds", 2,
                           "--python", "/nowhere/python", "--python", other)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\nof another +5 +- +300\.00 +- +- +- +1\.00")

    def test_it_can_be_stopped(self):
        waiting = script("waiting", "echo $$ >$0.pid; sleep 600 & wait\n")
        with subprocess.Popen(
            [*MODULE, PHOTOS, "--only", "spdl", "--python", waiting],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            pid = pathlib.Path(f"{waiting}.pid")
            while not (pid.exists() and pid.read_text().endswith("\n")):
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 143)
        self.assertFalse(os.path.exists(f"/proc/{pid.read_text().strip()}"))


class Stopping(unittest.TestCase):
    def test_a_signal_waits_until_it_can_end_the_process(self):
        stops, steps = command.Stops(), []
        with self.assertRaises(command.Stopped) as caught:
            with stops:
                stops.take(signal.SIGTERM, None)
                steps.append("behind it")
        self.assertEqual((caught.exception.number, steps),
                         (signal.SIGTERM, ["behind it"]))
        stops.take(signal.SIGINT, None)  # all is being ended

    def test_elsewhere_it_does_not(self):
        stops = command.Stops()
        with stops:
            pass
        with self.assertRaises(command.Stopped):
            stops.take(signal.SIGINT, None)


class Pictures(unittest.TestCase):
    def test_only_pictures_that_all_frameworks_take(self):
        found = pictures.find([str(samples.folder())], 0)
        self.assertEqual(len(found.paths) + found.left_out,
                         len(samples.described()))
        names = {os.path.basename(p) for p in found.paths}
        self.assertTrue({"baseline-420.jpg", "progressive-420.jpg"} <= names)
        self.assertFalse({"gray.jpg", "cmyk.jpg", "png-rgba.png"} & names)
        # Files that are made with a warning are left out: Pillow takes some
        # of them only when it is told to.
        expected = {samples.described()[p]["expect"] for p in found.paths}
        self.assertEqual(expected, {"ok"})
        for path, size in zip(found.paths, found.sizes):
            info = headrace.probe(path)
            self.assertEqual((info.components, size),
                             (3, (info.width, info.height)))

    def test_a_limit_and_files(self):
        files = samples.photos()[:3]
        self.assertEqual(pictures.find(files, 2).paths, files[:2])

    def test_no_picture(self):
        place = samples.scratch() / "nothing"
        place.mkdir(exist_ok=True)
        (place / "a.jpg").write_bytes(b"no picture")
        code, _, said = run(place)
        self.assertEqual(code, 2)
        self.assertRegex(said, f"^headrace.bench: {place}: no JPEG file.*: 1$")
        code, _, said = run(place / "missing")
        self.assertEqual(code, 2)
        self.assertIn("missing: No such file", said)
        (place / "a.jpg").unlink()
        code, out, said = run(place)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(said, f"^headrace.bench: source: .*{place}")


class Windows(unittest.TestCase):
    def test_they_lie_inside_and_are_of_all_sizes(self):
        rng = random.Random(1)
        shares, flips = [], 0
        for _ in range(500):
            top, left, h, w, mirror = programs.draw_window(rng, 300, 200)
            self.assertTrue(0 <= top <= 200 - h and 0 <= left <= 300 - w)
            self.assertTrue(0.7 < w / h < 1.4)
            shares.append(w * h / 60000)
            flips += mirror
        self.assertTrue(0.07 < min(shares) < 0.12, min(shares))
        self.assertGreater(max(shares), 0.7)
        self.assertTrue(200 < flips < 300, flips)

    def test_thin_pictures_are_taken_whole(self):
        self.assertEqual(
            programs.draw_window(random.Random(1), 300, 1)[:4],
            (0, 0, 1, 300))


def epoch(pictures, wall_s, cpu_s):
    return {"pictures": pictures, "wall_s": wall_s, "cpu_s": cpu_s}


def row_of(key, rounds):
    return figures.Row(key, key + " 1.0", "stock", 0.5, 600_000, [
        {"first_batch_s": wait, "first": epoch(100, *first),
         "later": [epoch(100, *e) for e in later], "memory_bytes": memory}
        for wait, memory, first, later in rounds])


class Figures(unittest.TestCase):
    def setUp(self):
        # Wall and CPU seconds of the first epoch, and of two later ones.
        self.stock = row_of("stock", [
            (1.0, 10 ** 9, (2, 3), [(1, 3), (3, 5)]),
            (3.0, 10 ** 6, (4, 5), [(4, 4), (4, 4)]),
            (1.5, 10 ** 6, (1, 1), [(1, 1), (1, 1)])])
        self.ours = row_of("loader", [
            (0.1, 10 ** 6, (1, 1), [(0.1, 0.2), (0.1, 0.2)]),
            (0.3, 10 ** 6, (1, 1), [(0.1, 0.2), (0.1, 0.2)]),
            (0.2, 10 ** 6, (1, 1), [(0.1, 0.2), (0.1, 0.2)])])
        self.figures = figures.Figures(
            {"machine": "a machine", "cores": 2, "pictures": 100,
             "left_out": 3, "mean_bytes": 1000, "mean_pixels": 10 ** 6,
             "size": 224, "batch": 64, "workers": 2, "rounds": 3,
             "recipe": "plain", "v2": False, "others": 0.25},
            [self.stock, self.ours], {"dali": "it is not there"})

    def test_medians_of_rounds(self):
        self.assertEqual(self.stock.rates("first"), [50, 25, 100])
        self.assertEqual(self.stock.rates("later"), [50, 25, 100])
        self.assertEqual(self.stock.cpu("first"), [30, 50, 10])
        self.assertEqual(self.stock.cpu("later"), [40, 40, 10])
        self.assertEqual(self.stock.first_batch(), 1.5)
        self.assertEqual(self.stock.memory(), 10 ** 9)

    def test_ratios_are_those_of_a_round(self):
        self.assertEqual(self.figures.ratio(self.stock, "first"), 1)
        self.assertEqual(self.figures.ratio(self.ours, "first"), 2)
        self.assertAlmostEqual(self.figures.ratio(self.ours, "later"), 20)

    def test_text(self):
        lines = list(text.lines(self.figures))
        self.assertRegex(lines[-4], r"^stock 1\.0 +50 +1\.00 +30\.00 +50 +1\.00"
                         r" +40\.00 +1\.50 +1000 +999  stock's$")
        self.assertRegex(lines[-3], r"^loader 1\.0 +100 +2\.00 +10\.00 +1000"
                         r" +20\.00 +2\.00 +0\.20 +1 +0  stock's$")
        self.assertEqual(lines[-1], "not run: dali: it is not there")
        self.assertRegex("\n".join(lines), "left out.* damaged: 3\n")
        self.assertIn("25 %", "\n".join(lines))

    def test_other_bits_than_stocks(self):
        self.stock.rounds[0]["bits"] = "a"
        self.ours.rounds[0]["bits"] = "a"
        self.assertEqual(self.figures.pixels(self.ours), "stock")
        self.ours.rounds[0]["bits"] = "b"
        self.assertEqual(self.figures.pixels(self.ours), "differ")
        self.assertEqual(self.figures.pixels(self.stock), "stock")
        self.assertIn("DIFFER", list(text.lines(self.figures))[-3])

    def test_one_epoch_only(self):
        for row in self.figures.rows:
            for one in row.rounds:
                one["later"] = []
        self.assertIsNone(self.figures.ratio(self.ours, "later"))
        self.assertRegex("\n".join(text.lines(self.figures)),
                         r"\nloader 1\.0 +100 +2\.00 +10\.00 +- +- +- +0\.20")


def hold(megabytes, ready, done):
    kept = bytearray(megabytes << 20)
    kept[::4096] = b"x" * len(kept[::4096])
    ready.set()
    done.wait()


class Processes(unittest.TestCase):
    def test_memory_of_children_counts(self):
        context = multiprocessing.get_context("spawn")
        ready, done = context.Event(), context.Event()
        child = context.Process(target=hold, args=(200, ready, done))
        child.start()
        try:
            self.assertTrue(ready.wait(60))
            self.assertIn(child.pid, list(children.family(os.getpid())))
            with children.Watch(os.getpid(), interval=60) as watch:
                pass
            self.assertGreater(watch.most, children.memory_of([os.getpid()])
                               + (200 << 20))
        finally:
            done.set()
            child.join()
        self.assertEqual(children.memory_of([child.pid]), 0)

    def test_shared_memory_that_is_not_mapped_counts_once(self):
        # As a DataLoader's batches do.
        before = children.memory_of([os.getpid()])
        files = [os.memfd_create("batch")]
        try:
            os.posix_fallocate(files[0], 0, 64 << 20)
            files.append(os.dup(files[0]))
            held = children.memory_of([os.getpid()]) - before
        finally:
            for file in files:
                os.close(file)
        self.assertGreater(held, 60 << 20)
        self.assertLess(held, 100 << 20)

    def test_what_was_held_meanwhile_is_seen(self):
        with children.Watch(os.getpid(), interval=3600) as watch:
            file = os.memfd_create("batch")
            os.posix_fallocate(file, 0, 64 << 20)
            seen, end = watch.looks, time.monotonic() + 20
            while watch.looks < seen + 2 and time.monotonic() < end:
                time.sleep(0.01)
            os.close(file)
        self.assertGreater(watch.most - children.memory_of([os.getpid()]),
                           50 << 20)

    def test_libraries_count_once(self):
        one, two = (children.memory_of([os.getpid()] * n) for n in (1, 2))
        with open("/proc/self/status") as file:
            mapped, = (int(line.split()[1]) << 10 for line in file
                       if line.startswith("RssFile:"))
        self.assertGreater(mapped, 2 << 20)
        self.assertAlmostEqual(2 * one - two, mapped, delta=1 << 20)

    def test_cpu_time_of_ended_children_counts(self):
        before = programs.cpu_seconds()
        subprocess.run([sys.executable, "-c", "import time\n"
                        "while time.process_time() < 0.3: pass"], check=True)
        self.assertGreater(programs.cpu_seconds() - before, 0.3)

    def test_what_the_program_prints_does_not_disturb(self):
        body = ("import sys; sys.path[:0] = [%r]\n"
                "import programs\n"
                "def make():\n"
                "    print('noise')\n"
                "    return 'x', lambda: (print('more'), {'n': 1})[1]\n"
                "programs.serve(make)\n"
                % os.path.dirname(programs.__file__))
        child = children.Child("x", [sys.executable, "-c", body])
        try:
            child.begin()
            self.assertEqual((child.name, child.round(), child.round()),
                             ("x", {"n": 1}, {"n": 1}))
        finally:
            child.end()
        self.assertRaises(Exception, child.round)


class CommandLine(unittest.TestCase):
    def test_what_is_wrong_is_said(self):
        for arguments, why in (
            ([], "INPUT"),
            (["a", "--only", "dali,nothing"], "--only nothing"),
            (["a", "--rounds", "0"], "--rounds 0"),
            (["a", "--workers", "-1"], "--workers"),
            (["a", "--what"], "--what"),
            (["a", "--recipe", "no"], "--recipe no: there are plain, "),
            (["a", "--recipe", "moco", "--only", "dali"], "--only dali"),
            (["a", "--v2", "--only", "spdl"], "--v2"),
        ):
            with self.subTest(why):
                code, out, said = run(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(why, said.replace("input", "INPUT"))

    def test_defaults(self):
        read = options.parse(["a"])
        self.assertEqual(read.only, list(programs.PROGRAMS))
        self.assertEqual(options.parse(["a", "--recipe", "moco"]).only,
                         ["stock", "drop-in", "cached", "loader"])
        self.assertEqual(read.pythons, [sys.executable])
        self.assertEqual(read.workers, len(os.sched_getaffinity(0)))


class Peers(unittest.TestCase):
    """tests/bench/bench_peers.py, which measures with the library alone."""

    def test_without_numpy(self):
        program = pathlib.Path(__file__).parents[1] / "bench/bench_peers.py"
        done = subprocess.run(
            [sys.executable, "-c", "import runpy, sys\n"
             "sys.modules['numpy'] = None\n"
             "sys.argv[1:] = ['--build', 'nowhere']\n"
             f"runpy.run_path({str(program)!r}, run_name='__main__')"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stdout, "^not run: .*numpy.*\n$")
