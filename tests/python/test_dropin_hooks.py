# SPDX-License-Identifier: Apache-2.0
"""install() and uninstall(): what is replaced, what comes back, the report."""

import importlib.util
import io
import subprocess
import sys
from unittest import mock

import dropin_case as case  # first: it may skip this file
import headrace
import torch
import torchvision
from dropin_case import KINDS, on
from headrace import dropin
from headrace.dropin import hooks
from headrace.dropin.pillow import originals, pictures
from PIL import Image
from torchvision.transforms import functional as F

# A finder that changes a word of a module's source while it is imported.
CHANGED = """
import importlib.abc, importlib.machinery, sys, warnings

class Changed(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        place = spec.loader.path

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname):
                text = self.get_source(fullname).replace(OLD, NEW)
                return compile(text, self.path, "exec")

        spec.loader = Loader(name, place)
        return spec

sys.meta_path.insert(0, Changed())
import headrace
headrace.set_image_backend("cpu")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    import torch.utils.data
    import PIL.Image
    import torchvision.transforms.functional
texts = [str(w.message) for w in caught if "headrace" in str(w.message)]
assert len(texts) == 1, texts
from headrace.dropin import hooks
assert not hooks.hooks() and not hooks.installed()
assert hooks._watch not in sys.meta_path
assert "switched off" in str(headrace.report()), str(headrace.report())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert headrace.get_image_backend() == "cpu"
assert len(caught) == 1, caught
"""


class Imports(case.Case):
    """Modules are imported after switching on, in any order."""

    def check(self, code):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        )
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_release_that_is_not_known_can_be_imported(self):
        for module, old, new in (
            (
                "torch.utils.data._utils.collate",
                "default_collate_fn_map",
                "default_collate_functions",
            ),
            ("torchvision.transforms.functional", "pil_to_tensor", "pil_to"),
        ):
            with self.subTest(module):
                values = f"MODULE, OLD, NEW = {module!r}, {old!r}, {new!r}\n"
                self.check(values + CHANGED)

    def test_orders(self):
        names = [
            "PIL.ImageOps",
            "torch.utils.data",
            "torchvision.transforms.functional",
            "torchdata.stateful_dataloader.stateful_dataloader",
        ]
        have = [name for name in names if self.exists(name)]
        for first in have[-2:]:
            order = [first] + [name for name in have if name != first]
            with self.subTest(first):
                lines = "".join(f"import {name}\n" for name in order)
                self.check(
                    "import headrace, sys, warnings\n"
                    "warnings.simplefilter('error', RuntimeWarning)\n"
                    "headrace.set_image_backend('cpu')\n"
                    + lines
                    + "from headrace.dropin import hooks\n"
                    "left = {n for n in hooks.SETS if n in sys.modules}\n"
                    "assert left <= hooks._done, left - hooks._done\n"
                )

    @staticmethod
    def exists(name):
        return importlib.util.find_spec(name.split(".")[0]) is not None


class Backend(case.Case):
    def test_with_puts_the_device_back(self):
        names = [d["name"] for d in headrace.devices() if d["available"]]
        if len(names) < 2:
            self.skipTest("needs two devices")
        for outer in names:
            for inner in names:
                with headrace.image_backend(outer):
                    with headrace.image_backend(inner) as name:
                        self.assertEqual(name, inner)
                    self.assertEqual(headrace.get_image_backend(), outer)
        # And where the drop-in was off before.
        headrace.set_image_backend(names[0])
        headrace.reset_image_backend()
        before = headrace.get_image_backend()
        with headrace.image_backend(names[1]):
            pass
        self.assertEqual(headrace.get_image_backend(), before)


class Hooks(case.Case):
    """install() and uninstall()."""

    def everything(self):
        """All that could be replaced: (owner, name) -> value."""
        with on():
            found = [(hook.owner, hook.name) for hook in hooks.hooks()]
        return found

    def values(self, places):
        return [hooks.look(owner, name) for owner, name in places]

    def test_undo_leaves_everything_identical(self):
        places = self.everything()
        self.assertGreater(len(places), 8)
        before = self.values(places)
        path = list(sys.meta_path)
        for _ in range(3):
            with on():
                for old, (owner, name) in zip(before, places):
                    self.assertIsNot(hooks.look(owner, name), old)
            for old, new in zip(before, self.values(places)):
                self.assertIs(new, old)
            self.assertEqual(sys.meta_path, path)

    def test_twice_is_harmless(self):
        with on():
            first = hooks.hooks()
            dropin.install()
            self.assertEqual(hooks.hooks(), first)
        dropin.uninstall()

    def test_exception_in_with(self):
        places = self.everything()
        before = self.values(places)
        with self.assertRaises(KeyError):
            with headrace.image_backend("cpu"):
                self.assertTrue(dropin.installed())
                raise KeyError
        self.assertFalse(dropin.installed())
        for old, new in zip(before, self.values(places)):
            self.assertIs(new, old)

    def test_missing_hooks_are_named(self):
        places = self.everything()
        before = self.values(places)
        from torch.utils.data._utils import collate

        v2 = sys.modules.get("torchvision.transforms.v2")
        for owner, name, value in (
            (F, "to_tensor", None),
            (F, "pil_to_tensor", print),
            (torchvision.datasets.folder, "pil_loader", None),
            (collate, "default_collate_fn_map", {}),
            (Image, "OPEN", {**Image.OPEN, "JPEG": None}),
            *((v2.functional._utils, "_KERNEL_REGISTRY", x)
              for x in (None, []) if v2),
        ):
            with mock.patch.object(owner, name, value):
                with self.assertRaises(headrace.Error) as caught:
                    dropin.install()
                self.assertIn(name, str(caught.exception))
                self.assertFalse(dropin.installed())
            for old, new in zip(before, self.values(places)):
                self.assertIs(new, old)

    def test_a_patch_that_came_before(self):
        calls, stock = [], Image.Image.resize

        def resize(*args, **kwargs):
            calls.append(1)
            return stock(*args, **kwargs)

        Image.Image.resize = resize
        try:
            headrace.set_image_backend("cpu")
            small = Image.new("RGB", (9, 8)).resize((3, 2))
            self.assertEqual((small.size, len(calls)), ((3, 2), 1))
        finally:
            Image.Image.resize = stock
            headrace.set_image_backend(None)

    def test_self_test_refuses_what_differs(self):
        """Stock code that does something else than the recording."""
        stock = Image.Image.transpose

        def transpose(self, method):
            return stock(self, method + 1)

        places = self.everything()
        before = self.values(places)
        with (
            mock.patch.object(Image.Image, "transpose", transpose),
            originals.counts_as_stock("transpose"),
            self.assertRaisesRegex(headrace.Error, "16 x 24"),
        ):
            dropin.install()
        self.assertFalse(dropin.installed())
        for old, new in zip(before, self.values(places)):
            self.assertIs(new, old)

    def test_resize_of_unknown_order(self):
        """Pillow resizes itself if its order of passes is unknown."""
        stock = Image.Image.resize

        def resize(self, size, resample=None, box=None, reducing_gap=None):
            image = stock(self, size, resample, box, reducing_gap)
            return image.point(lambda value: value ^ 1)

        with (
            mock.patch.object(Image.Image, "resize", resize),
            originals.counts_as_stock("resize"),
        ):
            wanted = Image.open(io.BytesIO(KINDS["colour"])).resize((20, 30))
            with on():
                self.assertIsNone(pictures.reference)
                image = Image.open(io.BytesIO(KINDS["colour"]))
                image = image.resize((20, 30))
                self.assertEqual(image.tobytes(), wanted.tobytes())

    def test_wrapped_by_another_library(self):
        """A wrapper around ours stays, passes on, and a warning says so."""
        calls = []
        stock = vars(torch.nn.Parameter)["__new__"]
        dropin.install()
        ours = torch.nn.Parameter.__new__

        def tracer(cls, *args):
            calls.append(args)
            return ours(cls, *args)

        torch.nn.Parameter.__new__ = tracer
        try:
            with self.assertWarnsRegex(RuntimeWarning, "__new__"):
                dropin.uninstall()
            self.assertIs(torch.nn.Parameter.__new__, tracer)
            self.assertEqual(len(torch.nn.Parameter(torch.ones(3))), 3)
            self.assertEqual(len(calls), 1)
        finally:
            torch.nn.Parameter.__new__ = stock

    def script(self, text):
        """Runs it in an interpreter that has imported nothing yet."""
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            input=self.photo(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def photo():
        return str(case.Samples.photo())

    def test_plain_import(self):
        self.script(
            "import sys, headrace\n"
            "headrace.report\n"
            "import headrace.dropin\n"
            "bad = {'PIL', 'torch', 'torchvision', 'numpy'} & {*sys.modules}\n"
            "assert not bad, bad\n"
            "headrace.dropin.install()\n"
            "bad = {'PIL', 'torch', 'torchvision', 'numpy'} & {*sys.modules}\n"
            "assert not bad, bad\n"
            "path = list(sys.meta_path)\n"
            "headrace.dropin.uninstall()\n"
            "assert len(sys.meta_path) == len(path) - 1\n"
        )

    def test_modules_that_come_later(self):
        """Each is hooked when it is imported."""
        self.script(
            "import sys\n"
            "from headrace import dropin\n"
            "dropin.install()\n"
            "from PIL import Image\n"
            "path = sys.stdin.read()\n"
            "image = Image.open(path)\n"
            "kinds = sys.modules['headrace.dropin.pillow.pictures'].RECORDERS\n"
            "assert type(image) is kinds[1]\n"
            "assert 'torch' not in sys.modules\n"
            "loader = Image.__spec__.loader\n"
            "assert type(loader).__module__ != 'headrace.dropin.hooks'\n"
            "from torchvision import datasets, transforms\n"
            "import torch.utils.data\n"
            "image = datasets.folder.pil_loader(path)\n"
            "assert type(image) is kinds[0]\n"
            "lazy = transforms.ToTensor()(image)\n"
            "assert type(lazy) is torch.Tensor\n"
            "assert dropin.report()['totals']['jobs'] == 1\n"
            "batch = torch.utils.data.default_collate([lazy, lazy])\n"
            "assert type(batch) is torch.Tensor\n"
            "assert torch.equal(batch[0], lazy + 0)\n"
            "try:\n"
            "    from torchvision.transforms import v2\n"
            "except ImportError:\n"
            "    pass\n"
            "else:\n"
            "    lazy = v2.ToImage()(image)\n"
            "    assert type(lazy).__name__ == 'Image', type(lazy)\n"
            "    assert dropin.report()['totals']['jobs'] == 2\n"
            "dropin.uninstall()\n"
            "assert type(Image.open(path)) not in kinds\n"
        )

    def test_the_package_imports_torch(self):
        """A spawned process may unpickle a name of it first."""
        for name in ("torch.speculate", "torch.wrappers", "pillow.asked",
                     "workers.loader"):
            run = subprocess.run(
                [sys.executable, "-c",
                 "import headrace, sys, warnings\n"
                 "warnings.simplefilter('error', RuntimeWarning)\n"
                 "headrace.set_image_backend('cpu')\n"
                 "import headrace.dropin.%s\n"
                 "assert 'pillow' in %r or 'torch' in sys.modules\n"
                 "from headrace.dropin import hooks\n"
                 "assert hooks.hooks()\n" % (name, name)],
                capture_output=True, text=True, timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_report(self):
        with on():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            image.resize((20, 30)).getpixel((0, 0))
            Image.open(io.BytesIO(KINDS["cmyk"])).load()
            report = headrace.report()
        self.assertEqual(report["totals"]["jobs"], 1)
        self.assertEqual(report["pillow"], {"mode CMYK": 1})
        (name,) = report["materialised"]
        self.assertIn("test_report", name)
        text = str(report)
        for part in ("1 pictures in 1 jobs", "mode CMYK", "test_report"):
            self.assertIn(part, text)
