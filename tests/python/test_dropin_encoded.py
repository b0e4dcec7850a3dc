# SPDX-License-Identifier: Apache-2.0
"""Decoders of torchvision.io and torchcodec: stock against recorded.

Where there is no torchcodec, a module with its functions stands for it. (Its
release: codec.txt.) Values, strides and errors are stock's, whether a picture
is recorded or not.
"""

import copy
import importlib
import pathlib
import pickle
import random
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import dropin_case as case  # first: it may skip this file
import headrace
import torch
from dropin_case import KINDS, Samples, in_fetch, on, outcome
from headrace import dropin
from headrace.dropin.torch import encoded, images, tensor
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision import io
from torchvision.transforms import functional as F

try:
    from torchvision.transforms import v2
except ImportError:  # before 0.15
    v2 = None

MODES = io.ImageReadMode
NEWER = hasattr(io.image, "_warn_deprecated")  # takes paths and texts

warnings.filterwarnings("ignore", category=DeprecationWarning)
warnings.filterwarnings("ignore", message=".*num_workers.*")
warnings.filterwarnings("ignore", message=".*worker processes.*")


def as_tensor(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def is_small(path):
    """torchvision takes the memory of a header that asks for terabytes."""
    try:
        info = headrace.probe(path)
    except headrace.Error:
        return False
    return info.width * info.height < 1 << 20


def damaged():
    """A marker in the scan that there is not, near its end."""
    data = bytearray(KINDS["colour"])
    place = len(data) * 9 // 10
    data[place : place + 2] = b"\xff\x18"
    return bytes(data)


# A tag: the orientation, 6.
ENTRY = b"\x01\x12\0\3\0\0\0\1\0\6\0\0"


def exif(more=b"", entries=ENTRY):
    """A segment with these tags, and bytes behind them."""
    count = max(1, len(entries) // 12).to_bytes(2, "big")
    return (b"Exif\0\0MM\0*\0\0\0\x08" + count + entries + b"\0\0\0\0"
            + more)


class Map(Dataset):
    """run(), and whether a tensor of it was lazy."""

    def __init__(self, run):
        self.run = run
        self.was_lazy = None

    def __len__(self):
        return 1

    def __getitem__(self, index):
        self.was_lazy = False
        made = self.run()
        self.was_lazy = isinstance(made, tensor.Lazy)
        return made


class Stream(Map, IterableDataset):
    def __iter__(self):
        yield self[0]


class Compared(case.Case):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def file(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def compare(self, run, text, recorded=None):
        """Compares stock and drop-in in data sets of both kinds. recorded: a
        tensor was; None: maybe."""
        wanted = outcome(run)
        both = [Map(run), Stream(run)]
        with on():
            found = [outcome(lambda: next(iter(DataLoader(data, None))))
                     for data in both]
        for data, made in zip(both, found):
            with self.subTest(text, kind=type(data).__name__):
                if isinstance(wanted, torch.Tensor):
                    self.assertIs(type(made), torch.Tensor, made)
                    self.assert_same_tensor(made, wanted)
                else:
                    self.assertEqual(made, wanted)
                if recorded is not None:
                    self.assertIs(data.was_lazy, recorded)

    def batch(self, data, **how):
        with on():
            return next(iter(DataLoader(data, None, **how)))

    def turns(self, decode):
        """decode(file, mode) turns pictures as their EXIF says."""
        for kind, modes in (("RGB", ("RGB",)), ("L", ("UNCHANGED", "RGB"))):
            data = case.saved(case.noise(kind, (70, 90)), exif=exif())
            at = data.index(b"\x01\x12\0\x03") + 9
            for turn in range(10):
                file = as_tensor(data[:at] + bytes([turn]) + data[at + 1 :])
                for mode in modes:
                    self.turned(lambda: decode(file, MODES[mode]),
                                (kind, turn, mode), 0 < turn < 9)

    def turned(self, run, text, is_recorded):
        functional = v2.functional

        def used():
            made = run()
            yield made._version, made._is_view(), made.numpy().strides
            if made._base is not None:
                yield made._base.stride(), made._base.shape
            for more in (
                run().contiguous(),
                copy.deepcopy(run()),
                run()[..., ::2],
                functional.resize(run(), [20, 31]),
                functional.resize(run()[:, 1:, 2:], [1, 31]),
                functional.resized_crop(run(), 3, 4, 20, 31, [9, 8]),
                functional.crop(run(), -3, 4, 60, 31),
                functional.pad(run(), [3, 4, 5, 6]),
                functional.to_dtype(
                    functional.hflip(run()), torch.float32, scale=True),
            ):
                yield case.facts(more)

        self.compare(run, text, is_recorded)
        self.compare(lambda: run()[:, 3:30, 5:44].float(), text)
        self.compare(lambda: repr(list(used())), text)
        with self.subTest(text), on():
            self.batch(Map(lambda: functional.resize(run(), [20, 31])))
            if is_recorded and images.filters:
                self.assertNotIn("materialised", dropin.report())
        if text[1] in (3, 5, 6):  # by way of a worker, too
            want = next(iter(DataLoader(Map(run), None)))
            found = self.batch(Map(run), num_workers=1)
            self.assert_same_tensor(found, want)

    def tags(self, decode):
        """Bytes as the tag's are in thumbnails and tables, too."""
        picture = case.noise("RGB", (40, 30))
        thumbnail = exif(b"\0\0\x01\x12\xd8\x12\x01\x01\x12\0\3\0\0\0\1\0\3")
        for text, data, is_recorded in (
            ("thumbnail", thumbnail, True),
            ("no tag", thumbnail.replace(b"\x01\x12", b"\x01\x13", 1), True),
            ("two", exif(entries=2 * ENTRY), False),
            ("end of tags", exif(entries=b"\xff" * 12 + ENTRY), False),
            ("cut", exif(entries=ENTRY[:-5]), None),
            ("far", exif().replace(b"\0\0\0\x08", b"\0\0\x08\x08"), None),
        ):
            file = as_tensor(case.saved(picture, exif=data))
            self.compare(lambda: decode(file), text, is_recorded)
        data = case.saved(picture, exif=thumbnail)
        other = exif().replace(ENTRY, ENTRY[:9] + b"\3" + ENTRY[10:])
        segment = b"\xff\xe1" + (len(other) + 2).to_bytes(2, "big") + other
        for text, at in ("before", 2), ("behind", data.index(b"\xff\xdb")):
            file = as_tensor(data[:at] + segment + data[at:])
            self.compare(lambda: decode(file), text, False)
        random.seed(4)
        start = data.index(b"Exif")
        for _ in range(150):  # any byte may be another
            at = start + random.randrange(len(thumbnail))
            new = random.choice([0, 1, 2, 3, 6, 8, 0x12, 255])
            file = as_tensor(data[:at] + bytes([new]) + data[at + 1 :])
            self.compare(lambda: decode(file), (at - start, new))

    def corpus(self, decode):
        """Pictures of all formats, whole and damaged, in all modes."""
        if not case.CORPUS.is_dir():
            self.skipTest("there is no corpus")
        for path in sorted((case.CORPUS / "kinds").iterdir()):
            if path.is_file() and path.stat().st_size < 1 << 18:
                for mode in "UNCHANGED", "RGB", "GRAY", "RGB_ALPHA":
                    self.compare(lambda: decode(path, mode=mode),
                                 (path.name, mode))


class Encoded(Compared):
    def ways(self, data, path):
        file = as_tensor(data)
        yield "decode_image", lambda *a: io.decode_image(file, *a)
        yield "decode_jpeg", lambda *a: io.decode_jpeg(file, *a)
        yield "read_image", lambda *a: io.read_image(path, *a)
        if NEWER:
            yield "path", lambda *a: io.decode_image(pathlib.Path(path), *a)

    def test_modes(self):
        for kind, data in KINDS.items():
            three = kind != "cmyk"
            recorded = {
                (): three,
                (MODES.UNCHANGED,): three,
                (MODES.RGB,): three,
                (MODES.GRAY,): kind == "grey",
            }
            if NEWER:
                recorded["rgb",] = three
                recorded[MODES.RGBA,] = False
            for name, run in self.ways(data, self.file(kind, data)):
                for mode, is_recorded in recorded.items():
                    self.compare(
                        lambda: run(*mode),
                        "%s of %s, %s" % (name, kind, mode),
                        is_recorded,
                    )

    def test_wrong_modes(self):
        data = KINDS["colour"]
        for name, run in self.ways(data, self.file("a.jpg", data)):
            for wrong in 7, "no such", None:
                self.compare(lambda: run(wrong), "%s, %s" % (name, wrong))

    def test_what_is_not_a_file(self):
        png = self.folder / "a.png"
        Image.new("RGB", (9, 7), 3).save(png)
        path = self.file("a.jpg", KINDS["colour"])
        whole = as_tensor(KINDS["colour"])
        rows = {
            "png": lambda: io.read_image(str(png)),
            "no file": lambda: io.read_image(path + "x"),
            "a folder": lambda: io.read_image(str(self.folder)),
            "a surrogate": lambda: io.read_image(path + "\udc80"),
            "nothing": lambda: io.decode_image(whole[:0]),
            "text": lambda: io.decode_jpeg(as_tensor(b"text")),
            "half": lambda: io.decode_jpeg(whole[: len(whole) // 2]),
            "no end": lambda: io.decode_jpeg(whole[:-2]),
            "every second": lambda: io.decode_jpeg(whole.repeat_interleave(2)
                                                   [::2]),
            "a matrix": lambda: io.decode_jpeg(whole[None]),
            "floats": lambda: io.decode_jpeg(whole.float()),
            "damaged": lambda: io.decode_image(as_tensor(damaged())),
            "damaged file": lambda: io.read_image(
                self.file("d.jpg", damaged())),
        }
        if not NEWER:
            rows["a Path"] = lambda: io.read_image(pathlib.Path(path))
        else:
            rows["turned"] = lambda: io.read_image(
                self.file("t.jpg", KINDS["turned"]),
                apply_exif_orientation=True)
        for text, run in rows.items():
            self.compare(run, text)

    @unittest.skipUnless(NEWER, "needs a torchvision that turns pictures")
    def test_upright(self):
        self.turns(lambda file, mode: io.decode_image(
            file, mode, apply_exif_orientation=True))
        data = KINDS["turned"]
        for old, new in ((b"Exif", b"exif"), (b"MM\0", b"MN\0")):
            file = as_tensor(data.replace(old, new))
            self.compare(lambda: io.decode_image(
                file, apply_exif_orientation=True), new, False)

    @unittest.skipUnless(NEWER, "needs a torchvision that turns pictures")
    def test_tags_among_others(self):
        self.tags(lambda file: io.decode_image(
            file, apply_exif_orientation=True))

    def test_samples(self):
        """Samples of all kinds, and damaged ones."""
        for path in Samples.kinds() + Samples.bad():
            if is_small(path):
                self.compare(lambda: io.read_image(str(path)), path.name)
                if NEWER:
                    self.compare(lambda: io.read_image(
                        str(path), apply_exif_orientation=True), path.name)

    @unittest.skipUnless(NEWER, "needs a torchvision that takes texts")
    def test_corpus(self):
        self.corpus(lambda path, mode: io.decode_image(
            str(path), mode, apply_exif_orientation=True))

    def test_what_follows(self):
        """It is recorded as of a picture that became a tensor."""
        def run():
            x = io.decode_image(as_tensor(KINDS["colour"]))
            x = F.hflip(F.crop(x, 3, 4, 50, 60))
            return F.normalize(
                F.convert_image_dtype(x, torch.float32), [0.5], [0.25])

        self.compare(run, "normalize", True)

    def test_bytes_are_those_of_the_call(self):
        def run():
            file = as_tensor(KINDS["colour"])
            path = self.file("a.jpg", KINDS["grey"])
            made = io.decode_image(file), io.read_image(path)
            file.zero_()
            self.file("a.jpg", b"")
            return [each.clone() for each in made]

        self.assertEqual(*map(case.facts, (run(), self.batch(Map(run)))))

    def test_elsewhere_it_is_stock(self):
        file = as_tensor(KINDS["colour"])
        with on():
            self.assertIs(type(io.decode_image(file)), torch.Tensor)
            self.assertNotIn("recorded", dropin.report()["totals"])

    def test_another_decoder_is_not_recorded(self):
        file = as_tensor(KINDS["colour"])
        with on():
            self.assertIn(encoded.MODULE, encoded.agree)
            self.addCleanup(encoded.agree.add, encoded.MODULE)
            encoded.agree.remove(encoded.MODULE)
            kind = in_fetch(lambda: type(io.decode_image(file)))
            self.assertIs(kind, torch.Tensor)

    def test_the_report_says_why_once(self):
        path = self.file("a.jpg", KINDS["cmyk"])
        with on():
            in_fetch(lambda: io.read_image(path))
            self.assertEqual(
                dropin.report()["pillow"],
                {"torchvision.io: 4 components": 1},
            )

    def test_warnings_are_as_many(self):
        path = self.file("a.jpg", KINDS["colour"])
        for name, run in self.ways(KINDS["colour"], path):
            def heard():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    run()
                return [(w.category, str(w.message), w.filename, w.lineno)
                        for w in caught]

            with self.subTest(name):
                wanted = heard()
                with on():
                    self.assertEqual(in_fetch(heard), wanted)

    def test_a_decode_op_opens_as_torchvision_does(self):
        """As a job's pictures that failed are, in whatever process."""
        for (package, mode, upright), ops in encoded.OPS.items():
            if package != encoded.MODULE or upright and not NEWER:
                continue
            (op,) = pickle.loads(pickle.dumps(ops))
            for kind in "colour", "grey":
                data = KINDS[kind]
                wanted = io.decode_jpeg(
                    as_tensor(data),
                    MODES.RGB if mode == "RGB" else MODES.GRAY)
                with on():
                    made = in_fetch(lambda: op.open(data))
                self.assertEqual(made.mode, mode)
                self.assert_same_tensor(F.pil_to_tensor(made), wanted)
            wanted = outcome(lambda: io.decode_jpeg(as_tensor(damaged())))
            self.assertEqual(outcome(lambda: op.open(damaged())), wanted)


# torchcodec's functions, as far as these tests call them, of torchvision's.
STAND_IN = '''
import enum
import pathlib
import warnings
import torch
from torchvision import io
ImageReadMode = enum.Enum("ImageReadMode", {
    "UNCHANGED": 0, "GRAY": 1, "GRAY_ALPHA": 2, "RGB": 3, "RGB_ALPHA": 4})
def decode_jpeg(source, *, mode="RGB", output_dtype=torch.uint8, device="cpu"):
    if isinstance(source, (list, tuple)):
        return [decode_jpeg(each, mode=mode) for each in source]
    if not isinstance(mode, ImageReadMode):
        mode = ImageReadMode[mode.upper()]
    if isinstance(source, (str, pathlib.Path)):
        source = pathlib.Path(source).read_bytes()
    if isinstance(source, (bytes, bytearray)):
        source = torch.frombuffer(bytearray(source), dtype=torch.uint8)
    mode = io.ImageReadMode[mode.name].value
    made = torch.ops.image.decode_jpeg(source, mode, True)
    if output_dtype == torch.uint16:
        made = (made.to(torch.int32) * 257).to(torch.uint16)
    return made
def decode_image(source, *, mode="RGB", output_dtype=torch.uint8):
    return decode_jpeg(source, mode=mode, output_dtype=output_dtype)
'''


def forget():
    for name in [name for name in sys.modules if "torchcodec" in name]:
        del sys.modules[name]


def decoders(case):
    """torchcodec's module, or what stands for it in this class's tests."""
    try:
        return importlib.import_module(encoded.CODEC)
    except (ImportError, RuntimeError):
        print("not run: torchcodec: it is not installed")
    holder = tempfile.TemporaryDirectory()
    case.addClassCleanup(holder.cleanup)
    folder = pathlib.Path(holder.name, "torchcodec", "decoders")
    folder.mkdir(parents=True)
    (folder / "_image_decoders.py").write_text(STAND_IN)
    forget()
    case.addClassCleanup(forget)
    sys.path.insert(0, holder.name)
    try:
        return importlib.import_module(encoded.CODEC)
    finally:
        sys.path.remove(holder.name)


@unittest.skipUnless(NEWER, "needs a torchvision that turns pictures")
class Codec(Compared):
    @classmethod
    def setUpClass(cls):
        cls.codec = decoders(cls)

    def test_modes(self):
        for kind, data in KINDS.items():
            takes = kind != "cmyk"
            recorded = {"RGB": takes, "unchanged": takes,
                        "GRAY": takes and kind == "grey"}
            path = self.file(kind, data)
            sources = data, bytearray(data), path, pathlib.Path(path), \
                as_tensor(data)
            for mode, is_recorded in recorded.items():
                for source in sources:
                    self.compare(
                        lambda: self.codec.decode_image(source, mode=mode),
                        "%s, %s" % (kind, mode), is_recorded)
                    self.compare(
                        lambda: self.codec.decode_jpeg(source, mode=mode),
                        "%s, %s" % (kind, mode), is_recorded)

    def test_arguments(self):
        data = KINDS["colour"]
        decode, image = self.codec.decode_jpeg, self.codec.decode_image
        modes = self.codec.ImageReadMode
        for text, run, is_recorded in (
            ("no mode", lambda: image(data), True),
            ("an enum", lambda: image(data, mode=modes.UNCHANGED), True),
            ("auto", lambda: image(data, output_dtype="auto"), True),
            ("16", lambda: image(data, output_dtype=torch.uint16), False),
            ("a number", lambda: image(data, mode=3), None),
            ("no mode of it", lambda: image(data, mode="no"), None),
            ("a device", lambda: decode(data, device=torch.device("cpu")),
             True),
            ("half", lambda: image(data[:999]), False),
            ("text", lambda: image(b"text"), None),
            ("no file", lambda: image("there is none"), None),
            ("damaged", lambda: image(damaged()), None),
            ("with a mode in place", lambda: image(data, "RGB"), None),
        ):
            self.compare(run, text, is_recorded)

    def test_a_list(self):
        data = KINDS["colour"], KINDS["cmyk"], KINDS["grey"]
        for kind in list, tuple:
            def run():
                made = self.codec.decode_jpeg(kind(data), mode="UNCHANGED")
                return [each.clone() for each in made]

            made = self.batch(Map(run))
            self.assertEqual(case.facts(run()), case.facts(made))

    def test_upright(self):
        self.turns(lambda file, mode: self.codec.decode_image(
            file, mode=mode.name))

    def test_tags_among_others(self):
        self.tags(self.codec.decode_image)

    def test_two_orientations(self):
        """An orientation that EXIF readers disagree on is not recorded."""
        data = KINDS["turned"]
        at = data.index(b"\x01\x12\0\3\0\0\0\1\0\6")
        for turns, tag in (
            (False, b"\x01\x12\0\3\0\0\0\1\0\1"),
            (False, b"\x01\x12\0\3\0\0\0\1\0\2"),
            (True, b"\x01\x12\0\4\0\0\0\1\0\1"),  # a LONG
        ):
            turned = data[:at] + tag + data[at + len(tag) :]
            self.compare(lambda: self.codec.decode_image(turned), tag,
                         not turns)

    def test_samples(self):
        for path in Samples.kinds() + Samples.bad():
            if is_small(path):
                self.compare(lambda: self.codec.decode_image(path), path.name)

    def test_corpus(self):
        self.corpus(self.codec.decode_image)


class Resized(Dataset):
    """Files that are decoded and resized as tensors."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        x = io.read_image(self.paths[index], MODES.RGB)
        return v2.functional.resize(x, [20, 24])


class Loaders(case.Case):
    """Batches of two epochs, with a damaged file, which a data set replaces."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.paths = []
        for index in range(12):
            path = pathlib.Path(holder.name, "%02d.jpg" % index)
            picture = case.noise("RGB", (40 + index, 33 + index), index)
            path.write_bytes(case.saved(picture, quality=85))
            cls.paths.append(str(path))
        data = pathlib.Path(cls.paths[7])
        data.write_bytes(damaged())

    def run_all(self, catches, **how):
        paths = self.paths

        class Files(Dataset):
            def __len__(self):
                return len(paths)

            def __getitem__(self, index):
                try:
                    x = io.read_image(paths[index], MODES.RGB)
                except RuntimeError:
                    if not catches:
                        raise
                    x = torch.zeros(3, 60, 60, dtype=torch.uint8)
                top, left = torch.randint(0, 8, (2,)).tolist()
                return x[:, top : top + 24, left : left + 20], index

        case.seed()
        loader = DataLoader(Files(), 4, **how)
        return [[case.facts(x) for x in loader] for _ in range(2)]

    def test_damaged(self):
        """A data set meets damage as with stock, also with a cache."""
        self.addCleanup(headrace.set_cache, None)
        # (A file's ctime cannot be set: as if these were old.)
        with mock.patch("headrace.dropin.pillow.headers._SETTLED", -1):
            for workers in 0, 2:
                wanted = self.run_all(True, num_workers=workers)
                for cache in None, "20M":
                    headrace.set_cache(cache)
                    with self.subTest(workers=workers, cache=cache), on():
                        found = self.run_all(True, num_workers=workers)
                        self.assertEqual(found, wanted)
                        recorded = dropin.report()["totals"]["recorded"]
                        self.assertGreater(recorded, 20)

    @unittest.skipUnless(v2, "needs torchvision.transforms.v2")
    def test_a_spawned_worker_records(self):
        """It has no device that could try what torch and torchvision do."""
        data = Resized(self.paths[:6])

        wanted = [case.facts(x) for x in DataLoader(data, 3)]
        how = {"num_workers": 1, "multiprocessing_context": "spawn"}
        with on():
            made = [case.facts(x) for x in DataLoader(data, 3, **how)]
            self.assertEqual(made, wanted)
            found = dropin.report()
            self.assertEqual(found["totals"]["recorded"], 6)
            if images.filters:
                self.assertNotIn("materialised", found)

    def test_damaged_is_an_error(self):
        for workers in 0, 2:
            def run():
                try:
                    self.run_all(False, num_workers=workers)
                except RuntimeError as error:
                    return str(error).splitlines()[-1]

            wanted = run()
            self.assertIn("RuntimeError" if workers else "", wanted)
            with on():
                self.assertEqual(run(), wanted)
