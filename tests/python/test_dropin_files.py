# SPDX-License-Identifier: Apache-2.0
"""A recorded picture whose file the program writes, moves or removes."""

import io
import os
import pathlib
import random
import shutil
import tempfile
import unittest
import warnings
import zipfile

import dropin_case as case  # first: it may skip this file
import torch
from dropin_case import KINDS, facts, on
from headrace.dropin.pillow import files
from PIL import Image, ImageFile, ImageOps, JpegImagePlugin
from torchvision import datasets
from torchvision.transforms import functional as F


def loaded(path):
    image = Image.open(path)
    image.load()
    return image


def with_block(path):
    with Image.open(path) as image:
        image.load()
    return image


# Ways to come by a picture of a file.
MADE = {
    "open": Image.open,
    "load": loaded,
    "with": with_block,
    "resize": lambda path: Image.open(path).resize((45, 40)),
    "convert": lambda path: Image.open(path).convert("L"),
    "crop": lambda path: Image.open(path).crop((1, 2, 30, 40)),
    "crop outside": lambda path: Image.open(path).crop((-9, 2, 30, 40)),
    "copy": lambda path: Image.open(path).copy(),
    "transpose": lambda path: Image.open(path).transpose(0),
    "rotate": lambda path: Image.open(path).rotate(90),
    "fit": lambda path: ImageOps.fit(Image.open(path), (30, 40)),
    "exif": lambda path: ImageOps.exif_transpose(Image.open(path)),
    "expand": lambda path: ImageOps.expand(Image.open(path), 3),
}


def save_into(image, path):
    with open(path, "r+b") as file:
        image.save(file, "JPEG")
        file.truncate()


def save_by_link(link):
    def save(image, path):
        other = path + ".other.jpg"
        link(path, other)
        image.save(other, quality=60)

    return save


# Ways to write it over that file.
SAVED = {
    "save": lambda image, path: image.save(path, quality=60),
    "bytes": lambda image, path: image.save(os.fsencode(path)),
    "format": lambda image, path: image.save(path, "PNG"),
    "another name of it": lambda image, path: image.save(
        os.path.join(os.path.dirname(path), ".", os.path.basename(path))
    ),
    "hard link": save_by_link(os.link),
    "symbolic link": save_by_link(os.symlink),
    "file": save_into,
}


def write(data):
    def change(path):
        with open(path, "wb") as file:
            file.write(data)

    return change


def replaced(path):
    write(KINDS["grey"])(path + ".new")
    os.rename(path + ".new", path)


def same_size_and_time(path):
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(status.st_size // 2)
        file.write(bytes(200))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# What becomes of the file.
CHANGED = {
    "unlinked": os.unlink,
    "renamed": lambda path: os.rename(path, path + ".old"),
    "replaced": replaced,
    "written": write(KINDS["grey"]),
    "no picture": write(b"nothing"),
    "emptied": write(b""),
    "other bytes": same_size_and_time,
    "chmod": lambda path: os.chmod(path, 0),
    "touched": os.utime,
    "linked": lambda path: os.link(path, path + ".link"),
    "folder": lambda path: shutil.rmtree(os.path.dirname(path)),
}


def from_folder(path):
    return datasets.folder.pil_loader(path)


def from_file(path):
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def temporary(path):
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        with open(path, "rb") as other:
            file.write(other.read())
        file.flush()
        return Image.open(file.name).convert("RGB")


def relative(path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        return Image.open(os.path.basename(path)).convert("RGB")
    finally:
        os.chdir(here)


READ = {
    **{name: make for name, make in MADE.items() if name != "open"},
    "folder": from_folder,
    "file": from_file,
    "temporary": temporary,
    "relative": relative,
}


class Changing(torch.utils.data.Dataset):
    """Its files change as soon as they have been read."""

    def __init__(self, paths, read, change):
        self.paths, self.read, self.change = paths, read, change

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        picture = self.read(path)
        self.change(path)
        return F.to_tensor(picture.resize((20, 30)))


class Files(case.Case):
    """What is left of the file, and of the picture."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.where = held.name

    def fresh(self, data):
        path = os.path.join(tempfile.mkdtemp(dir=self.where), "a.jpg")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def compare(self, run):
        wanted = case.outcome(run)
        with on():
            self.assertEqual(case.outcome(run), wanted)

    def test_saved_over_its_file(self):
        for way, make in MADE.items():
            for how, save in SAVED.items():

                def run():
                    path = self.fresh(KINDS["turned"])
                    image = make(path)
                    save(image, path)
                    with open(path, "rb") as file:
                        return facts(image)[1:], facts(file.read())

                with self.subTest("%s, %s" % (way, how)):
                    self.compare(run)

    def test_changed_behind_the_call_that_reads(self):
        for way, read in READ.items():
            for how, change in CHANGED.items():

                def run():
                    path = self.fresh(KINDS["colour"])
                    picture = read(path)
                    change(path)
                    lazy = F.to_tensor(picture).contiguous()
                    return lazy.numpy().tobytes(), facts(picture)

                with self.subTest("%s, %s" % (way, how)):
                    self.compare(run)

    def test_changed_in_a_fetch(self):
        for way, read in READ.items():
            for how in "unlinked", "written", "chmod":
                change = CHANGED[how]

                def run():
                    paths = [self.fresh(KINDS["colour"]) for _ in range(3)]
                    data = Changing(paths, read, change)
                    batches = torch.utils.data.DataLoader(data, 2)
                    return [facts(batch) for batch in batches]

                with self.subTest("%s, %s" % (way, how)):
                    self.compare(run)

    def test_changed_in_a_worker(self):
        ways = [(r, c) for r in READ.values() for c in CHANGED.values()]

        def run():
            sets = []
            for read, change in ways:
                paths = [self.fresh(KINDS["colour"]) for _ in range(2)]
                sets.append(Changing(paths, read, change))
            data = torch.utils.data.ConcatDataset(sets)
            batches = torch.utils.data.DataLoader(data, 2, num_workers=2)
            return [facts(batch) for batch in batches]

        self.compare(run)

    def test_damaged_raises_where_it_is_read(self):
        """And nothing is saved over by a picture that cannot be made."""
        data = KINDS["colour"]
        at = data.index(b"\xff\xda") + 400
        data = data[:at] + b"\xff\xd8" + data[at:]
        for way, read in READ.items():
            for where in lambda run: run(), case.in_fetch:

                def run():
                    path = self.fresh(data)
                    try:
                        picture = read(path)
                    except OSError as error:
                        return str(error)
                    return where(lambda: facts(picture))

                if where is case.in_fetch and way not in ("load", "with"):
                    continue  # there it is asked for again
                with self.subTest("%s, %s" % (way, where)):
                    wanted = run()
                    with on():
                        self.assertEqual(where(run), wanted)

    def test_loaded_again(self):
        """load() of a damaged picture raises each time, until it may not."""
        data = KINDS["colour"]
        data = data[: len(data) // 2] + b"\xff\xd8" + data[len(data) // 2 :]

        def run():
            image = Image.open(self.fresh(data))
            first = case.outcome(image.load)
            case.outcome(image.load)
            ImageFile.LOAD_TRUNCATED_IMAGES = True
            try:
                image.load()
            finally:
                ImageFile.LOAD_TRUNCATED_IMAGES = False
            return first, facts(image)

        self.compare(run)

    def test_where_a_file_object_stands(self):
        data = KINDS["colour"]
        tail = bytes(100_000)

        def positions(open_file):
            def run():
                found = []
                for content in data, data + tail, data * 3, data + b"x":
                    with open_file(self.fresh(content)) as file:
                        Image.open(file).load()
                        found.append(file.tell())
                        file.seek(0)
                        image = Image.open(file)
                        found.append(case.in_fetch(image.copy).size)
                        found.append(file.tell())
                return found

            return run

        def zipped(path):
            with zipfile.ZipFile(path + ".zip", "w") as archive:
                archive.write(path, "a")
            return zipfile.ZipFile(path + ".zip").open("a")

        for open_file in (
            lambda path: open(path, "rb"),
            lambda path: io.BytesIO(pathlib.Path(path).read_bytes()),
            zipped,
        ):
            self.compare(positions(open_file))


# Segments of which Pillow makes something: marker, content.
ODD = (
    (0xE0, b"JFIF"),
    (0xE0, b"JFXX" + bytes(20)),
    (0xE1, b"Exif\0\0II*\0\x08\0\0\0\xff\xff"),
    (0xE1, b"http://ns.adobe.com/xap/1.0/\0x"),
    (0xE2, b"MPF\0II*\0\x08\0\0\0\xff\xff"),
    (0xE2, b"ICC_PROFILE\0"),
    (0xE2, b"FPXR\0" + bytes(20)),
    (0xED, b"Photoshop 3.0\0" + b"8BIM\x03\xed\0\0\0\0\0\1"),
    (0xEE, b"Adobe"),
    (0xDB, b"\0" + bytes(30)),
    (0xDB, b"\x10" + bytes(64)),
)


def random_headers(seed, number):
    """Of JPEGs, with bytes that were changed, cut, or put there."""
    draw = random.Random(seed)
    seeds = [KINDS["colour"], KINDS["grey"]]
    picture = Image.open(io.BytesIO(seeds[0]))
    for how in {"icc_profile": bytes(90000)}, {"comment": b"x" * 9}, {
            "progressive": True}, {"dpi": (72, 72)}, {"exif": b"Exif\0\0II*\0"}:
        seeds.append(case.saved(picture, **how))
    for _ in range(number):
        data = bytearray(draw.choice(seeds))
        if draw.random() < 0.3:
            marker, body = draw.choice(ODD)
            size = (len(body) + 2).to_bytes(2, "big")
            data[2:2] = bytes((0xFF, marker)) + size + body
        scan = data.index(b"\xff\xda")
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(2, scan + 12)
            kind = draw.randrange(4)
            if kind == 0:
                data[at] = draw.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del data[at : at + draw.randrange(1, 20)]
            else:
                data[at:at] = data[2 : 2 + draw.randrange(1, 80)]
        yield bytes(data)


class Headers(unittest.TestCase):
    """Pillow is not asked about plain ones: it must say nothing of them."""

    def test_plain(self):
        plain = 0
        for data in random_headers(
                int(os.environ.get("HEADRACE_SEED", 1)), 4000):
            try:
                info = files.probe(data)
            except Exception:
                continue
            if not info.plain or files.objection(info):
                continue
            plain += 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                stock = JpegImagePlugin.jpeg_factory(io.BytesIO(data))
            self.assertIs(type(stock), JpegImagePlugin.JpegImageFile)
            self.assertEqual(stock.size, (info.width, info.height))
            self.assertEqual(stock.mode,
                             "L" if info.components == 1 else "RGB")
        self.assertGreater(plain, 200)

    def test_info(self):
        """What the loader's picture says, and what is derived of it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.jpg")
            picture = Image.open(io.BytesIO(KINDS["colour"]))
            for how in {}, {"comment": b"x", "dpi": (99, 99)}, {
                    "icc_profile": b"profile"}:
                with open(path, "wb") as file:
                    file.write(case.saved(picture, **how))

                def run():
                    found = []
                    for mode in "RGB", "L":
                        picture = datasets.folder.pil_loader(path)
                        other = picture.convert(mode).crop((1, 2, 30, 40))
                        found.append(dict(other.info))
                        found.append(dict(picture.info))
                        picture.info["mine"] = 1
                        found.append(dict(picture.crop((0, 0, 9, 9)).info))
                        found.append(dict(other.resize((9, 8)).info))
                        picture.load()
                        found.append(dict(picture.info))
                    return found

                wanted = run()
                with on():
                    self.assertEqual(case.in_fetch(run), wanted)


if __name__ == "__main__":
    unittest.main()
