# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader: what cannot be is refused, and the argument is named."""

import os
import subprocess
import unittest

import headrace
from headrace import _core, ops

import core_samples as samples
from test_loader import loader


class Arguments(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")

    def test_arguments(self):
        for options in ({"shard": (4, 4)}, {"batch": 0}, {"epochs": 0},
                        {"samples": -1}, {"threads": -4}, {"reads": -1},
                        {"budget": -1}, {"threads": 10 ** 12},
                        {"threads": 4097}, {"cpu_share": 2.0},
                        {"cpu_share": float("nan")}):
            name, = options
            with self.assertRaisesRegex(headrace.ArgumentError, f"^{name}: "):
                loader(self.root, **options)
        for seed in -1, 1 << 64:
            with self.assertRaisesRegex(headrace.ArgumentError, "^seed: "):
                loader(self.root, seed=seed)
            with self.assertRaisesRegex(ValueError, "^seed: "):
                _core.Loader(_core.Source(paths=[self.root]),
                             (ops.decode(),), seed=seed)
        for options in {"reads": 257}, {"epochs": 1 << 32}:
            name, = options
            with self.assertRaisesRegex(headrace.ArgumentError, f"^{name}: "):
                next(iter(loader(self.root, **options)))
        for options in ({"memory": "device"}, {"to": "list"},
                        {"on_error": "x"}):
            with self.assertRaises(ValueError):
                next(iter(loader(self.root, **options)))
        with self.assertRaisesRegex(ValueError, "fail, zero, skip"):
            next(iter(loader(self.root, on_error="x")))
        for options in ({"http": 7}, {"http": {"headers": ["a: b"]}},
                        {"classes": 7}):
            name, = options
            with self.assertRaisesRegex(TypeError, f"^{name}: "):
                loader(self.root, **options)
        with self.assertRaisesRegex(TypeError, "steps"):
            loader(self.root, ops.decode())
        for steps, text in (
            ((ops.decode(),), "different sizes"),
            ((ops.decode(), ops.normalize(samples.MEAN, samples.STD),
              ops.center_crop(8, 8)), "normalize must be the last op"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, text):
                next(iter(loader(self.root, steps)))
        with self.assertRaisesRegex(ValueError, "weights"):
            next(iter(loader(self.root, weights=[1.0])))

    def test_what_cannot_be_a_source(self):
        for source, error in (
            ("missing/", headrace.ReadError),
            (b"bytes", TypeError),
            (7, TypeError),
            ([(samples.photos()[0], 1, 2)], TypeError),
            ([(samples.photos()[0], 1.5)], TypeError),
            ([(samples.photos()[0], "x"), (7, "y")], TypeError),
            ([(samples.photos()[0], "x"), (samples.photos()[1], 1)], TypeError),
            ([(samples.photos()[0], "x"), samples.photos()[1]], TypeError),
            ([(samples.photos()[0], "x"), "ab"], TypeError),
        ):
            with self.subTest(source=source), self.assertRaises(error):
                loader(source)
        for source in None, 7, iter(samples.photos()):
            self.assertRaisesRegex(TypeError, "source", loader, source)
        with self.assertRaises(headrace.ArgumentError):
            next(iter(loader([])))
        path = samples.scratch() / "loader-arguments.hrp"
        subprocess.run([samples.COMMAND, "pack", self.root, "--out", path],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        for option in "transform", "target_transform":
            with self.assertRaisesRegex(headrace.ArgumentError, "PackFolder"):
                loader(headrace.PackFolder(path, **{option: lambda x: x}))

    def test_a_path_has_attributes_of_its_own(self):
        class Inside(os.PathLike):
            path = "elsewhere"

            def __fspath__(self):
                return samples.photos()[0]

        found = loader([Inside()])._source
        self.assertEqual(found.path(0), samples.photos()[0])


class States(unittest.TestCase):
    def setUp(self):
        self.root = str(samples.folder() / "photos")

    def test_of_something_else(self):
        a = loader(self.root)
        next(iter(a))
        for other in (loader(self.root, seed=1),
                      loader(self.root, shuffle=True),
                      loader(samples.photos()[1:])):
            other.load_state_dict(a.state_dict())
            with self.assertRaises(headrace.ArgumentError):
                next(iter(other))
        for state in b"nothing", bytes(96):
            b = loader(self.root)
            b.load_state_dict(a.state_dict() | {"state": state})
            with self.assertRaisesRegex(headrace.ArgumentError, "state"):
                next(iter(b))

    def test_a_state_of_no_loader(self):
        a = loader(self.root)
        next(iter(a))
        state = a.state_dict()
        for other in (None, {}, {"epoch": 1}, state | {"epoch": "one"},
                      state | {"epoch": -1}, state | {"state": "text"}):
            with self.subTest(state=other), self.assertRaisesRegex(
                    headrace.ArgumentError, "^state: "):
                a.load_state_dict(other)
        self.assertEqual(a.state_dict(), state)

    def test_of_pictures_that_are_named_otherwise(self):
        data = [(samples.read(p), i) for i, p in enumerate(samples.photos())]
        a = loader(data)
        next(iter(a))
        data[3] = data[3][0], 99
        b = loader(data)
        b.load_state_dict(a.state_dict())
        with self.assertRaises(headrace.ArgumentError):
            next(iter(b))
