# SPDX-License-Identifier: Apache-2.0
"""python3 -m headrace.validate: finds nothing where nothing is wrong, and what
is wrong where a fault is planted."""

import base64
import contextlib
import io
import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import PIL.Image
except ImportError as error:
    raise unittest.SkipTest("needs Pillow: %s" % error)

import core_samples as samples
import headrace
from headrace import _core, _oracle
from headrace.validate import (
    cases,
    command,
    files,
    findings,
    options,
    ours,
    run,
    stacks,
    stock,
    text,
)
from headrace.validate.compare import compare

BUILD = os.environ["HEADRACE_BUILD"]
KINDS = (
    "baseline-420,progressive-420,gray,cmyk,exif-6,png-rgba,png-palette,"
    "tiny-5x7,thin-1x297,bad-truncated-scan-50,bad-bomb-190-scans"
)
MODULE = [sys.executable, "-m", "headrace.validate"]
INSTALLED = stock.installed_reference()


def have_torchvision():
    return not stacks.transforms(["v1-eval"])[1]


class Outcome:
    """The command's exit code, its output and its files."""

    def __init__(self, folder, arguments):
        self.page_path = os.path.join(folder, "report.html")
        path = os.path.join(folder, "found.json")
        arguments = [*arguments, "--json", path, "--report", self.page_path]
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out):
            with contextlib.redirect_stderr(errors):
                self.code = command.main(arguments)
        self.text, self.errors = out.getvalue(), errors.getvalue()
        with open(path, encoding="utf-8") as file:
            self.json = json.load(file)
        with open(self.page_path, encoding="utf-8") as file:
            self.page = file.read()

    def different(self):
        return sorted({d["file"] for d in self.json["differing"]})


def shown(page):
    """Pictures of the report."""
    return [
        PIL.Image.open(io.BytesIO(base64.b64decode(
            p["src"].removeprefix("data:image/png;base64,"), validate=True)))
        for item in samples.page_data(page)["items"] if item["is"] == "pictures"
        for p in item["list"]
    ]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def setUp(self):
        self.addCleanup(headrace.set_reference, None)

    def validate(self, *arguments):
        out = self.enterContext(tempfile.TemporaryDirectory())
        return Outcome(out, ["--backend", "cpu", *arguments])

    def pictures(self, *sizes):
        """A folder of its own with JPEG files of these sizes."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for number, (w, h) in enumerate(sizes):
            with mock.patch.object(
                files, "_KINDS", [("%d.jpg" % number, w, h, "RGB", {})]
            ):
                files.make(folder, 1)
        return folder


class Equal(Case):
    """Nothing is wrong."""

    def test_made_pictures(self):
        found = self.validate("--limit", "6")
        self.assertEqual(found.code, 0, found.text)
        self.assertIs(found.json["equal"], True)
        self.assertRegex(found.text, "verdict: equal: 0 of [0-9,]+ elements")
        self.assertEqual(set(found.json["pipelines"]), set(options.PIPELINES))
        for name, row in found.json["pipelines"].items():
            if name in options.CASES:
                self.assertEqual(row["pictures"], 6, name)
                self.assertGreater(row["elements"], 6 * 100, name)
            elif row["not_run"] is None:
                self.assertGreater(row["elements"], 0, name)
        self.assertEqual(shown(found.page), [])
        self.assertIn("Nothing differs", found.page)
        table = samples.page_data(found.page)["items"][0]
        self.assertEqual(
            [tuple(table["cells"][i:i + 5])
             for i in range(0, len(table["cells"]), 6)],
            [(name, *(row[k] for k in ("pictures", "results", "elements",
                                       "differing")))
             for name, row in found.json["pipelines"].items()
             if row["not_run"] is None])

    def test_a_list_of_ops(self):
        for steps in ("decode=gray:exif,adjust_hue=0.1,random_resized_crop=64,"
                     "color_jitter=0.4,equalize,random_hflip,normalize=0.5/0.2",
                     "decode=exif,adjust_hue=0.1,resize=70,gaussian_blur=1",
                     "resize=64x64,to_tensor,erase=1,2,3,40:0.5,"
                     "random_erasing:p=1:noise",
                     "decode=gray,random_erasing=1",
                     "decode"):
            found = self.validate("--limit", "7", "--ops", steps)
            self.assertEqual(found.code, 0, found.text)
            self.assertEqual(list(found.json["pipelines"]), ["ops"])
            row = found.json["pipelines"]["ops"]
            self.assertEqual((row["results"], row["differing"]), (7, 0))

    def test_samples(self):
        """Every kind; what is refused is told and stops nothing."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        subprocess.run(
            [os.path.join(BUILD, "headrace"), "samples", folder, "--count",
             "3", "--kinds", KINDS],
            check=True, stdout=subprocess.DEVNULL,
        )
        found = self.validate(folder)
        self.assertEqual(found.code, 0, found.text)
        names = {name: {r["file"].split("/")[-1].split(".")[0]
                        for r in found.json[name]}
                 for name in ("left", "refused_by_both", "refused_by_one")}
        self.assertIn("bomb-190-scans", str(names["left"]))
        self.assertIn("truncated", str(names["refused_by_both"]))
        self.assertEqual(names["refused_by_one"], set())
        self.assertEqual(found.json["done"], found.json["pictures"])

    def test_damage_in_the_last_rows(self):
        """Both refuse such a file, though few of our ops need those rows."""
        folder = self.pictures((200, 300), (40, 30))
        path = os.path.join(folder, "0.jpg")
        with open(path, "r+b") as file:
            file.seek(-12, os.SEEK_END)
            file.write(b"\xff\x28")
        found = self.validate(folder, "--pipelines", "crop-pad,v1")
        self.assertEqual(found.code, 0, found.text)
        (item,) = found.json["refused_by_both"]
        self.assertEqual(item["file"], "0.jpg")
        self.assertIn("HR_ECORRUPT", item["ours"])
        self.assertIn("broken data", item["theirs"])

    def test_every_reference(self):
        """Pillow, one axis at a time, makes the pixels of each."""
        folder = self.pictures((300, 1300), (300, 120))
        for name in options.REFERENCES:
            found = self.validate(folder, "--reference", name)
            self.assertEqual(found.code, 0, found.text)
            self.assertEqual(found.json["reference"], name)
            self.assertEqual(found.json["installed_reference"], INSTALLED)
            rows = found.json["pipelines"]
            if name == stock.TORCH:
                self.assertIn("Pillow", rows["v1-eval"]["not_run"])
                self.assertIn("filter", rows["resize-box"]["not_run"])
                self.assertEqual(rows["resize-lanczos"]["not_run"],
                                 stock.torch_lacks())
            elif have_torchvision():
                row = rows["v1-eval"]
                self.assertEqual((row["not_run"], row["pictures"]), (None, 2))

    @unittest.skipUnless(have_torchvision(), "needs torchvision")
    def test_torchvision_is_recorded(self):
        found = self.validate("--pipelines", "v1", "--limit", "4")
        self.assertEqual(found.code, 0, found.text)
        for row in found.json["pipelines"].values():
            left = sum(row["left"].values())
            self.assertEqual(row["pictures"] + left, 4)
            self.assertGreater(row["pictures"], 1)
        self.assertFalse(headrace.dropin.installed())

    def test_opencl(self):
        names = {d["backend"] for d in headrace.devices() if d["available"]}
        if "opencl" not in names:
            self.skipTest("no OpenCL device")
        self.addCleanup(headrace.validate.run._core.set_image_backend, "cpu")
        found = self.validate("--limit", "3", "--backend", "opencl")
        self.assertEqual(found.code, 0, found.text)
        self.assertGreater(found.json["by_device"], 0)

    def test_chosen_by_seed(self):
        def names(*more):
            every = [files.File("/a/%d" % i, "%d" % i) for i in range(50)]
            return [f.name for f in files.choose(every, *more)]

        self.assertEqual(len(names(5, 1)), 5)
        self.assertEqual(names(5, 1), names(5, 1))
        self.assertNotEqual(names(5, 1), names(5, 2))
        self.assertEqual(names(0, 1), names(99, 1))


    def test_any_name(self):
        folder = self.pictures((30, 40))
        name = os.fsencode(folder) + b"/\xff<b>\n.jpg"
        os.rename(os.path.join(folder, "0.jpg"), name)
        with open(os.path.join(folder, "bad\udcfe.jpg"), "wb") as file:
            file.write(b"no picture")
        report = os.path.join(folder, "r.html")
        done = subprocess.run(
            [*MODULE, folder, "--backend", "cpu", "--report", report,
             "--pipelines", "decode,v1"],
            capture_output=True, text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bad\\udcfe.jpg: headrace: HR_EFORMAT", done.stdout)
        with open(report, encoding="utf-8") as file:
            page = file.read()
        self.assertNotIn("<b>", page)
        self.assertEqual(samples.page_data(page)["verdict"]["tone"], "good")


class Different(Case):
    """A fault is planted; it must be found, and the right file named."""

    def planted_order(self, folder, ours_is, theirs_is, *more):
        def wrong(_):
            return stock.Stock(theirs_is)

        with mock.patch.object(run, "Stock", wrong):
            return self.validate(folder, "--reference", ours_is, *more)

    def test_order_of_passes(self):
        """Between pillow-12 and pillow-13 only tall pictures differ."""
        folder = self.pictures((300, 200), (90, 600), (200, 201))
        found = self.planted_order(
            folder, "pillow-12", "pillow-13", "--pipelines", "resize-bicubic"
        )
        self.assertEqual(found.code, 1, found.text)
        self.assertIn("1.jpg", found.different())
        named = {(d["file"], d["what"]) for d in found.json["differing"]}
        for name, what in named:
            index = int(name[0])
            w, h = ((300, 200), (90, 600), (200, 201))[index]
            size = tuple(map(int, re.findall(r"\d+", what)))
            self.assertEqual(
                headrace.resize_order("pillow-13", w, h, *size), 2, named
            )
        self.assertIn("1.jpg", found.text)
        self.assertIs(found.json["equal"], False)

    @unittest.skipUnless(have_torchvision(), "needs torchvision")
    def test_order_of_passes_in_torchvision(self):
        folder = self.pictures((300, 1300))
        stock_theirs = stacks.Recorder._theirs

        def theirs(self, name, picture):
            # Not before: the drop-in would refuse to be switched on.
            with mock.patch.object(self, "_stock", stock.Stock("pillow-13")):
                return stock_theirs(self, name, picture)

        with mock.patch.object(stacks.Recorder, "_theirs", theirs):
            found = self.validate(folder, "--reference", "pillow-12",
                                  "--pipelines", "v1-eval")
        self.assertEqual(found.code, 1, found.text)
        self.assertEqual(found.different(), ["0.jpg"])
        row = found.json["pipelines"]["v1-eval"]
        self.assertLess(row["largest"], 2.0)
        self.assertEqual(len(shown(found.page)), 3)

    def test_one_level(self):
        """One byte of one picture is off by one; the page shows where."""
        folder = self.pictures((40, 30), (50, 60), (500, 400))
        stock_init = cases.Picture.__init__

        def init(self, file, index):
            stock_init(self, file, index)
            if file.name == "2.jpg":
                r, g, b = self.rgb.getpixel((450, 350))
                g += 1 if g < 255 else -1
                self.rgb.putpixel((450, 350), (r, g, b))

        with mock.patch.object(cases.Picture, "__init__", init):
            found = self.validate(folder, "--pipelines", "decode")
        self.assertEqual(found.code, 1)
        self.assertEqual(found.different(), ["2.jpg"])
        (item,) = found.json["differing"]
        self.assertEqual((item["differing"], item["largest"]), (1, 1))
        theirs, mine, difference = shown(found.page)
        self.assertEqual(theirs.size, (256, 256))
        self.assertEqual(difference.getbbox()[2] - difference.getbbox()[0], 1)
        self.assertEqual(sorted(difference.getextrema()),
                         [(0, 0), (0, 0), (0, 255)])
        pixels = headrace.decode(os.path.join(folder, "2.jpg"))
        whole = PIL.Image.frombytes("RGB", (500, 400), bytes(pixels.pixels()))
        x, y = map(int, re.search(r"from \((\d+), (\d+)\)",
                                  found.page).groups())
        self.assertEqual(whole.crop((x, y, x + 256, y + 256)).tobytes(),
                         mine.tobytes())
        self.assertNotEqual(theirs.tobytes(), mine.tobytes())

    @unittest.skipUnless(have_torchvision(), "needs torchvision")
    def test_other_numbers(self):
        """Their tensors are normalized by another number."""
        folder = self.pictures((80, 70))
        stock_run = stacks.Recorder._run
        runs = []

        def other(self, name, picture):
            runs.append(name)
            value = stock_run(self, name, picture)
            # Recording comes first, stock after it.
            return value if len(runs) == 1 else value * 1.0000001

        with mock.patch.object(stacks.Recorder, "_run", other):
            found = self.validate(folder, "--pipelines", "v1-eval")
        self.assertEqual(found.code, 1, found.text)
        row = found.json["pipelines"]["v1-eval"]
        self.assertGreater(row["differing"], 1000)
        self.assertLess(row["largest"], 1e-5)

    def test_known_reason(self):
        """The report says of a picture that scans are missing."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        subprocess.run(
            [os.path.join(BUILD, "headrace"), "samples", folder, "--count",
             "1", "--kinds", "progressive-dc-only,progressive-420"],
            check=True, stdout=subprocess.DEVNULL,
        )
        with mock.patch.object(run, "compare",
                               lambda *_: compare(b"ab", b"aa", "u8")):
            found = self.validate(folder, "--pipelines", "decode,flip")
        self.assertEqual(found.code, 1)
        lines = [line for line in found.text.split("\n")
                 if "scans are missing" in line]
        self.assertEqual(len(lines), 1, found.text)
        self.assertIn("progressive-dc-only", lines[0])
        self.assertIn("decode: 2 of 4 differ, by 1 at most", lines[0])

    def test_made_by_one_side_only(self):
        folder = self.pictures((40, 30), (50, 60))
        stock_init = cases.Picture.__init__

        def init(self, file, index):
            if file.name == "1.jpg":
                raise OSError("image file is truncated")
            stock_init(self, file, index)

        with mock.patch.object(cases.Picture, "__init__", init):
            found = self.validate(folder)
        self.assertEqual(found.code, 1)
        (item,) = found.json["refused_by_one"]
        self.assertEqual(item["file"], "1.jpg")
        self.assertIsNone(item["ours"])
        self.assertIn("truncated", item["theirs"])
        self.assertIn("1.jpg: Pillow: OSError", found.text)

    def test_failed_in_a_pipeline(self):
        folder = self.pictures((40, 30))

        def bad(_, *rest):
            raise ValueError("not today")

        with mock.patch.dict(_oracle.STEPS, {_core.FLIP: bad}):
            found = self.validate(folder, "--pipelines", "flip,decode")
        self.assertEqual(found.code, 1)
        self.assertEqual(found.json["pipelines"]["flip"]["results"], 0)
        self.assertGreater(found.json["pipelines"]["decode"]["results"], 0)
        self.assertIn("ValueError: not today", found.text)

    def test_unread(self):
        folder = self.pictures((40, 30))
        lost = files.File(os.path.join(folder, "lost.jpg"), "lost.jpg")
        find = files.find

        def and_lost(arguments):
            found = find(arguments)
            return files.Found(found.files + [lost], found.faults)

        with mock.patch.object(files, "find", and_lost):
            found = self.validate(folder, "--pipelines", "decode")
        self.assertEqual(found.code, 1, found.text)
        self.assertIn("lost.jpg", found.json["unread"][0])
        self.assertGreater(found.json["pipelines"]["decode"]["results"], 0)

    @unittest.skipUnless(have_torchvision(), "needs torchvision")
    def test_drop_in_that_refuses(self):
        folder = self.pictures((40, 30))
        refuse = mock.Mock(side_effect=headrace.Error("it is not itself"))
        with mock.patch("headrace.dropin.install", refuse):
            found = self.validate(folder, "--pipelines", "decode,v1")
        self.assertEqual(found.code, 1)
        self.assertEqual(found.json["pipelines"]["v1-eval"]["not_run"],
                         "it is not itself")
        self.assertGreater(found.json["pipelines"]["decode"]["results"], 0)
        self.assertIn("it is not itself", found.json["verdict"])

    @unittest.skipUnless(have_torchvision(), "needs torchvision")
    def test_transform_that_fails(self):
        """A failure with the drop-in only is told; one on both sides is no
        difference."""
        folder = self.pictures((40, 30))
        stock_run = stacks.Recorder._run
        for every, key in ((False, "refused_by_one"),
                           (True, "refused_by_both")):
            def bad(self, name, picture, every=every):
                if every or headrace.dropin.installed():
                    raise ValueError("not with this one")
                return stock_run(self, name, picture)

            with mock.patch.object(stacks.Recorder, "_run", bad):
                found = self.validate(folder, "--pipelines", "decode,v1-eval")
            self.assertEqual(found.code, 0 if every else 1)
            (item,) = found.json[key]
            self.assertEqual(item["pipeline"], "v1-eval")
            self.assertIn("not with this one", item["ours"])

    def test_idle_device(self):
        """Equal pixels say nothing of a device that made none of them."""
        folder = self.pictures((40, 30))
        with mock.patch.object(
            headrace._core, "get_image_backend", lambda: "opencl:0"
        ):
            found = self.validate(folder, "--pipelines", "decode")
        self.assertEqual(found.code, 2)
        self.assertIn("nothing shown of opencl:0", found.text)
        self.assertIsNone(found.json["equal"])


class Ending(Case):
    """Signals, wrong arguments, what is not installed."""

    def interrupted(self, number):
        count = []
        stock_compare = run.compare

        def slow(*arguments):
            count.append(1)
            if len(count) == 5:
                os.kill(os.getpid(), number)
            return stock_compare(*arguments)

        with mock.patch.object(run, "compare", slow):
            return self.validate("--pipelines", "decode,resize-box")

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            found = self.interrupted(number)
            self.assertEqual(found.code, 128 + number)
            self.assertIn("ended early", found.text)
            results = found.json["pipelines"]["decode"]["results"]
            self.assertIn(results, (4, 5))
            self.assertIs(signal.getsignal(number), before)

    def test_wrong_arguments(self):
        empty = self.enterContext(tempfile.TemporaryDirectory())
        for arguments, word in (
            (["--pipelines", "no-such"], "no-such"),
            (["--pipelines", ","], "--pipelines"),
            (["--ops", "resize=-1"], "--ops: character 8"),
            (["--ops", "invert", "--pipelines", "flip"], "only one"),
            (["--nonsense"], "--nonsense"),
            (["--seed", "-1"], "--seed"),
            (["--limit", "0"], "--limit"),
            (["--reference", "pillow-9"], "pillow-9"),
            (["--backend", "nothing"], "nothing"),
            (["/no/such/folder"], "/no/such/folder"),
            (["--report", "/no/such/folder/x.html"], "/no/such/folder"),
            ([empty], "no JPEG or PNG"),
        ):
            errors, out = io.StringIO(), io.StringIO()
            with contextlib.redirect_stderr(errors):
                with contextlib.redirect_stdout(out):
                    code = command.main(arguments)
            text = errors.getvalue()
            self.assertEqual(code, 2, arguments)
            self.assertEqual(text.count("\n"), 1, text)
            self.assertIn(word, text)
            self.assertEqual(out.getvalue(), "")

    def command(self, *arguments, without=()):
        block = "".join("sys.modules[%r] = None; " % n for n in without)
        code = ("import sys, runpy; " + block + "sys.argv[1:] = %r; "
                "runpy.run_module('headrace.validate', run_name='__main__', "
                "alter_sys=True)" % list(arguments))
        return subprocess.run([sys.executable, "-c", code],
                              capture_output=True, text=True)

    def test_without_pillow(self):
        done = self.command(without=["PIL"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("needs Pillow", done.stderr)
        done = self.command("--help", without=["PIL"])
        self.assertEqual(done.returncode, 0)
        self.assertIn("exit status", done.stdout)

    def test_without_torch_and_numpy(self):
        done = self.command(
            "--backend", "cpu", "--limit", "2", "--json", "-",
            "--pipelines", "decode,v1,v2",
            without=["torch", "torchvision", "numpy"],
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["pipelines"]
        self.assertIn("not installed", rows["v1-train"]["not_run"])
        self.assertIn("not installed", rows["v2-eval"]["not_run"])
        self.assertGreater(rows["decode"]["elements"], 0)

    def test_as_a_module(self):
        done = subprocess.run(
            [*MODULE, "--backend", "cpu", "--limit", "1", "-q",
             "--pipelines", "flip"],
            capture_output=True, text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^verdict: equal: 0 of [^\n]*\n$")


class Oracle(unittest.TestCase):
    def test_a_row_for_each_op(self):
        kinds = {number for number, draws, _ in _core.OPS.values() if not draws}
        self.assertEqual(set(_oracle.STEPS), kinds)


class Compare(unittest.TestCase):
    """compare(), which all of the above rely on."""

    def test_bytes(self):
        a = bytes(range(256)) * 1000
        self.assertEqual(compare(a, a, "u8"), (256000, 0, 0))
        b = bytearray(a)
        b[200000] ^= 0x80
        b[7] += 2
        self.assertEqual(compare(b, a, "u8"), (256000, 2, 128))
        self.assertEqual(compare(a[:-1], a, "u8")[:2], (256000, 256000))

    def floats(self, *numbers):
        return struct.pack("%df" % len(numbers), *numbers)

    def test_floats(self):
        a = self.floats(0.0, 1.0, 2.0, math.nan, math.inf)
        self.assertEqual(compare(a, a, "f32"), (5, 0, 0))
        b = self.floats(-0.0, 1.0, 2.5, math.nan, math.inf)
        self.assertEqual(compare(b, a, "f32"), (5, 2, 0.5))
        b = self.floats(0.0, math.nan, 2.0, math.nan, math.inf)
        self.assertEqual(compare(b, a, "f32"), (5, 1, math.inf))

    def test_largest_in_words(self):
        for x, said in ((3.0, "3"), (0.0, "0"), (0.017429, "0.0174"),
                        (1.5, "1.5"), (math.inf, "not a number")):
            self.assertEqual(text.number(x), said)

    def test_one_bit_of_many_floats(self):
        a = bytearray(self.floats(*range(100000)))
        b = bytearray(a)
        b[4 * 77777] ^= 1
        elements, differing, largest = compare(a, b, "f32")
        self.assertEqual((elements, differing), (100000, 1))
        self.assertTrue(0 < largest < 0.01)


class Counted(unittest.TestCase):
    def test_groups_keep_order(self):
        """Flights return their results in the order of the requests."""
        with tempfile.TemporaryDirectory() as folder:
            every = files.make(folder, 3)[:5]
            asked = [
                case
                for index, file in enumerate(every)
                for case in cases.PIPELINES["resize-box"](
                    cases.Picture(file, index), stock.Stock(None), 0
                )
            ]
            with mock.patch.object(ours, "_SLOTS", 2):
                made = ours.Flight(asked).wait()
        self.assertEqual(len(made), len(asked))
        for case, one in zip(asked, made):
            w, h = case.size
            self.assertEqual(len(one.pixels), w * h * case.channels)

    def test_worst_of_different_files(self):
        found = findings.Findings({}, True, 9, {}, [], shown=2)
        for score, name in ((1, "a"), (3, "a"), (2, "b"), (0.5, "c")):
            found.show(findings.Worst(score, name, None, None, b"", b""))
        self.assertEqual([(w.score, w.file) for w in found.worst],
                         [(3, "a"), (2, "b")])
