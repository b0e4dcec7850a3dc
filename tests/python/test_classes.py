# SPDX-License-Identifier: Apache-2.0
"""Classes are what was named, not what was left: random folders against the
rule of torchvision's ImageFolder, and against it where there is one."""

import inspect
import io
import json
import os
import pathlib
import random
import subprocess
import tarfile
import tempfile
import unittest
import warnings

import core_samples as samples
import headrace
from headrace import ops
from made_samples import COMMAND

try:
    from torchvision.datasets import ImageFolder
except ImportError:
    ImageFolder = None

STOCK = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff",
         ".webp")
MORE = (".jpe", ".jfif", ".mpo")  # ImageFolder does not take them
CLASSES = ["cat", "cat-big", "cat big", "cat.1", "cat0", "10", "2", "9",
           "Zebra", ".hidden", "\u00e9", "\ud7ff", "\udc80x", "\udcc3A",
           "\udcff", "\ue000", "\uffff", "\U00010000", "x.jpg"]
FILES = ["1", "10", "2", "a b", "a-b", "\u00e9", "\udcff", "\U0001f600", "-"]
BELOW = ["sub", "sub-1", "sub 1", "\udc80", "\ue000"]
STEPS = (ops.decode(), ops.resize(8, 8))


def picture():
    return samples.read(samples.photos()[0])


def stock(root, taken):
    """ImageFolder's rule (allow_empty): classes, and (path, class)."""
    classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
    found = []
    for number, name in enumerate(classes):
        walk = os.walk(os.path.join(root, name), followlinks=True)
        for folder, _, files in sorted(walk):
            found += [(os.path.join(folder, file), number)
                      for file in sorted(files)
                      if file.lower().endswith(taken)]
    return classes, found


def put(path, data=b""):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def grow(root, draw, data):
    """A tree with all that a class's folder may have, but for loops."""
    classes = draw.sample(CLASSES, draw.randint(1, 6))
    for name in classes:
        (root / name).mkdir()
        for _ in range(draw.choice((0, 0, 1, 3, 6))):
            below = root / name
            for _ in range(draw.choice((0, 0, 0, 1, 2))):
                below = below / draw.choice(BELOW)
            ending = draw.choice([*STOCK, *MORE, ".txt", ".tar", ""])
            ending = draw.choice((ending, ending.upper(), ending.title()))
            put(below / (draw.choice(FILES) + ending), data)
    if draw.random() < 0.4:
        put(root / "beside.jpg", data)
    if draw.random() < 0.4:
        os.symlink(draw.choice(classes), root / "a link")
        os.symlink(draw.choice(classes), root / "other link")
    if draw.random() < 0.4:
        other = root.parent / (root.name + " other")
        put(other / "in" / "y.jpg", data)
        for link in "one", "two":
            os.symlink(other, root / classes[0] / link)
        os.symlink(other / "in" / "y.jpg", root / classes[-1] / "file.png")
    if draw.random() < 0.3:
        os.symlink("nowhere", root / classes[0] / "gone.jpg")
        os.symlink("nowhere", root / "gone")


def quiet(made, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(*args, **options)


def given(loader):
    """(path, class) of each sample."""
    found = []
    for _, y in loader:
        found += zip(map(loader.path, loader.last.indices), map(int, y))
    return found


class Trees(unittest.TestCase):
    def check_loader(self, root, classes, want):
        with quiet(headrace.Loader, root, STEPS, to="numpy",
                   epochs=1) as loader:
            self.assertEqual(loader.classes, tuple(classes))
            self.assertEqual(given(loader), want)
            return {text.rpartition(": ")[0] for text in loader.skipped}

    def check_packed(self, root, classes, want):
        file = root + ".hrp"
        made = subprocess.run([COMMAND, "pack", root, "--out", file],
                              capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        labels = [number for _, number in want]
        data = headrace.PackFolder(file)
        names = [os.path.relpath(path, root) for path, _ in want]
        self.assertEqual(data.classes, classes)
        self.assertEqual(data.samples, list(zip(names, labels)))
        with headrace.Loader(file, STEPS, to="numpy", epochs=1) as loader:
            self.assertEqual(loader.classes, tuple(classes))
            self.assertEqual([number for _, number in given(loader)], labels)
        os.unlink(file)

    def check_run(self, root, classes, want, skipped):
        made = subprocess.run(
            [COMMAND, "run", root, "--out", root + ".npy", "--ops",
             "decode,resize=8x8", "--backend", "cpu"], capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(b"left out" in made.stderr, bool(skipped))
        manifest = json.loads(pathlib.Path(root + ".json").read_text())
        self.assertEqual(len(manifest["classes"]), len(classes))
        self.assertEqual([p["class"] for p in manifest["pictures"]],
                         [number for _, number in want])

    def check_stock(self, root, classes, found):
        if ImageFolder is None:
            return
        options = {}
        if "allow_empty" in inspect.signature(ImageFolder).parameters:
            options["allow_empty"] = True
        elif {n for _, n in found} != set(range(len(classes))):
            return
        data = ImageFolder(root, **options)
        self.assertEqual((data.classes, data.samples), (classes, found))

    def check(self, root):
        classes, found = stock(root, STOCK)
        self.check_stock(root, classes, found)
        there = [x for x in stock(root, STOCK + MORE)[1]
                 if os.path.exists(x[0])]
        self.assertEqual(
            [x for x in there if x in found],
            [x for x in found if x[0].lower().endswith(STOCK) and x in there])
        if not there:
            with self.assertRaisesRegex(headrace.ArgumentError,
                                        "no pictures in "):
                headrace.Loader(root, STEPS)
            return
        skipped = self.check_loader(root, classes, there)
        self.assertLessEqual({path for path, _ in found} - skipped,
                             {path for path, _ in there})
        empty = set(range(len(classes))) - {
            n for _, n in stock(root, STOCK + MORE)[1]}
        self.assertLessEqual({os.path.join(root, classes[n]) for n in empty},
                             skipped)
        self.check_packed(root, classes, there)
        self.check_run(root, classes, there, skipped)

    def test_random_trees(self):
        seed = int(os.environ.get("HEADRACE_SEED", 1))
        data = picture()
        for k in range(24):
            with (self.subTest(seed=seed, tree=k),
                  tempfile.TemporaryDirectory() as place):
                root = pathlib.Path(place) / "root"
                root.mkdir()
                grow(root, random.Random(f"{seed} {k}"), data)
                self.check(str(root))


class Told(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name) / "root"
        self.root.mkdir()

    def tree(self, *files):
        for name in files:
            put(self.root / name, picture())
        return str(self.root)

    def tar(self, members):
        path = str(self.root / "x.tar")
        with tarfile.open(path, "w") as file:
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
        return path

    def labels(self, *labels):
        members = []
        for i, label in enumerate(labels):
            members += [(f"{i}.jpg", picture()), (f"{i}.cls", label.encode())]
        loader = quiet(headrace.Loader, self.tar(members), STEPS, epochs=1,
                       to="numpy")
        return [number for _, number in given(loader)], loader

    def test_one_warning(self):
        root = self.tree("a/1.jpg", "b/1.txt", "c/1.jpg", "p.png", "q.png")
        with self.assertWarns(UserWarning) as told:
            loader = headrace.Loader(root, STEPS)
        self.assertEqual(len(told.warnings), 1)
        self.assertEqual(told.filename, __file__)
        self.assertIn(root, str(told.warning))
        self.assertIn("left out 2: a picture beside", str(told.warning))
        self.assertEqual(loader.skipped, (
            f"{root}/p.png: a picture beside the folders of classes",
            f"{root}/q.png: a picture beside the folders of classes",
            f"{root}/b: a folder of a class without pictures"))
        with self.assertRaisesRegex(headrace.ReadError, "left out"):
            headrace.Loader(root, STEPS, strict=True)

    def test_nothing_to_tell(self):
        root = self.tree("a/1.jpg", "a/readme.txt", "b/1.jpg", "list.txt")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loader = headrace.Loader(root, STEPS, strict=True)
        self.assertEqual(loader.skipped, ())

    def test_what_could_not_be_read(self):
        path = pathlib.Path(self.tar([("a.jpg", picture()), ("a.cls", b"1"),
                                      ("b.jpg", picture()), ("b.cls", b"2")]))
        data = path.read_bytes()
        path.write_bytes(data[:2 * (len(data) // 3)])
        with self.assertWarnsRegex(UserWarning, "could not be read"):
            headrace.Loader(path, STEPS)
        with self.assertRaisesRegex(headrace.ReadError, "could not be read"):
            headrace.Loader(path, STEPS, strict=True)

    def test_no_pictures(self):
        root = self.tree("a/1.txt")
        with self.assertRaisesRegex(headrace.ArgumentError,
                                    f"no pictures in {root}: {root}/a"):
            headrace.Loader(root, STEPS)
        with self.assertRaisesRegex(headrace.ArgumentError, "no pictures"):
            headrace.Loader([], STEPS)

    def test_loops(self):
        root = self.tree("a/1.jpg", "b/1.jpg")
        os.symlink("..", self.root / "a" / "up")
        os.symlink(".", self.root / "self")
        loader = quiet(headrace.Loader, root, STEPS, to="numpy", epochs=1)
        self.assertEqual(loader.classes, ("a", "b", "self"))
        self.assertEqual([n for _, n in given(loader)], [0, 1])
        self.assertEqual(len(loader.skipped), 2)

    def test_numbers_stay(self):
        for odd, number in (("5", 5), ("-1", -1), ("1.0", 1), ("+3", 3),
                            ("007", 7), ("5822654", 5822654)):
            with self.subTest(odd):
                y, loader = self.labels("10", "2", odd)
                self.assertEqual(y, [10, 2, number])
                self.assertEqual(loader.skipped, ())
        for odd in "cat", "0.5", "1e3":
            with self.subTest(odd):
                y, loader = self.labels("10", "2", odd)
                self.assertEqual(y, [10, 2, -1])
                self.assertEqual(len(loader.skipped), 1)
        self.assertEqual(self.labels("b", "a", "c")[0], [1, 0, 2])

    def test_numbers_of_pairs_stay(self):
        path = samples.photos()[0]
        for labels, want in ((("10", "2", "-1"), [10, 2, -1]),
                             (("10", "x", "007"), [10, -1, 7]),
                             (("b", "a", "b"), [1, 0, 1])):
            pairs = [(path, label) for label in labels]
            loader = quiet(headrace.Loader, pairs, STEPS, to="numpy", epochs=1)
            self.assertEqual([n for _, n in given(loader)], want)
            self.assertEqual(len(loader.skipped), "x" in labels)

    def test_formats_of_a_tar(self):
        y = [("a.jpg", picture()), ("a.cls", b"dog"), ("b.json", b"{}"),
             ("b.cls", b"ant"), ("c.cls", b"bee"), ("d.tif", b"II*"),
             ("d.jpg", picture()), ("d.bmp", b"BM"), ("d.cls", b"cat"),
             ("e.tif", b"II*"), ("e.cls", b"dog")]
        with self.assertWarns(UserWarning):
            loader = headrace.Loader(self.tar(y), STEPS, to="numpy", epochs=1,
                                     on_error="zero")
        self.assertEqual(loader.classes, ("ant", "bee", "cat", "dog"))
        self.assertEqual([n for _, n in given(loader)], [3, 2, 3])
        self.assertEqual(len(loader.skipped), 2)

    def test_classes_that_are_given(self):
        root = self.tree("a/1.jpg", "b/1.jpg", "c/1.jpg")
        path = samples.photos()[0]
        words = [(path, "a"), (path, "b"), (path, "c")]
        for source in root, words:
            for classes, y, listed in (
                    (["c", "x", "a"], [2, 0], ("c", "x", "a")),
                    ({"c": 1, "a": 1, "z": 3}, [1, 1], ("", "a", "", "z"))):
                loader = quiet(headrace.Loader, source, STEPS, classes=classes,
                               to="numpy", epochs=1)
                self.assertEqual([n for _, n in given(loader)], y)
                self.assertEqual(loader.classes, listed)
                self.assertEqual(len(loader.skipped), 1)
        whole = quiet(headrace.Loader, root, STEPS, classes="abc".split("x")
                      + ["a", "b", "c"], strict=True)
        self.assertEqual(whole.skipped, ())
        for classes, error in ((["a", "a"], ValueError), ([], ValueError),
                               ("ab", TypeError), ([1], ValueError)):
            with self.assertRaises(error):
                headrace.Loader(root, STEPS, classes=classes)

    def test_a_label_that_is_missing(self):
        root = self.tree("list/1.jpg", "list/2.jpg", "list/3.jpg")
        put(self.root / "list.txt", b"list/1.jpg\tb\nlist/2.jpg\n"
                                    b"list/3.jpg\ta\n")
        file = root + ".hrp"
        subprocess.run([COMMAND, "pack", "--list", root + "/list.txt",
                        "--out", file, "-q"], check=True)
        with self.assertWarnsRegex(UserWarning, "without a label"):
            data = headrace.PackFolder(file)
        self.assertEqual((data.classes, data.targets), (["a", "b"], [0, 1]))
        self.assertEqual(len(data.skipped), 1)
        with self.assertRaises(headrace.ReadError):
            headrace.PackFolder(file, strict=True)

    def test_every_part_has_all_classes(self):
        root = self.tree("a/1.jpg", "b/1.txt", "c/1.jpg", "d/1.jpg")
        out = root + ".hrp"
        subprocess.run([COMMAND, "pack", root, "--out", out, "-q",
                        "--split", "3"], check=True)
        with self.assertWarnsRegex(UserWarning, "left out 1") as told:
            manifest = headrace.pack_folder(root, root + "py.hrp", split=3)
        self.assertEqual(told.filename, __file__)
        self.assertEqual(manifest["left_out"],
                         [f"{root}/b: a folder of a class without pictures"])
        with self.assertRaises(headrace.ReadError):
            headrace.pack_folder(root, root + "s.hrp", strict=True)
        for i, number in enumerate((0, 2, 3)):
            self.assertEqual(
                pathlib.Path(f"{root}py-{i:05}-of-00003.hrp").read_bytes(),
                pathlib.Path(f"{root}-{i:05}-of-00003.hrp").read_bytes())
            file = f"{root}-{i:05}-of-00003.hrp"
            data = headrace.PackFolder(file)
            self.assertEqual(data.classes, ["a", "b", "c", "d"])
            self.assertEqual(data.targets, [number])
            loader = headrace.Loader(file, STEPS, to="numpy", epochs=1)
            self.assertEqual([n for _, n in given(loader)], [number])
