# SPDX-License-Identifier: Apache-2.0
"""Pack files as sources: PackFile, PackEntry, and jobs of them."""

import gc
import os
import pathlib
import pickle
import shutil
import subprocess
import tempfile
import unittest

import core_samples as samples
import headrace
import headrace.packs

OPS = samples.TRAIN


def pack(source, out, *options):
    subprocess.run([samples.COMMAND, "pack", source, "--out", out, *options],
                   check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return str(out)


def is_mapped(path):
    return os.path.realpath(path) in pathlib.Path("/proc/self/maps").read_text()


def damage(path, number):
    """Another byte in the middle of a picture, and the old time."""
    entry = headrace.PackFile(path)[number]
    data = bytes(memoryview(entry)[:64])
    whole = pathlib.Path(path).read_bytes()
    place = whole.index(data) + memoryview(entry).nbytes * 3 // 4
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes([whole[place] ^ 0x55]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


class Packs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.place = pathlib.Path(cls.temporary.name)
        cls.path = pack(samples.folder() / "photos", cls.place / "photos.hrp")
        cls.kinds = pack(samples.folder() / "kinds", cls.place / "kinds.hrp")

    def file_of(self, entry, kind="photos"):
        return samples.folder() / kind / entry.name


class Opening(Packs):
    def test_what_is_in_it(self):
        pictures = headrace.PackFile(self.path)
        self.assertEqual(pictures.path, self.path)
        self.assertEqual(len(pictures), len(pictures.names))
        self.assertEqual(len(pictures), pictures.packed)
        self.assertEqual(pictures.bytes, os.path.getsize(self.path))
        self.assertGreater(pictures.data_bytes, pictures.source_bytes)
        self.assertEqual(
            pictures.source_bytes,
            sum(os.path.getsize(self.file_of(each)) for each in pictures))
        for number, entry in enumerate(pictures):
            self.assertEqual(entry.index, number)
            self.assertEqual(entry.name, pictures.names[number])
            self.assertEqual(entry.label, pictures.labels[number])
            self.assertEqual(entry.label, os.path.dirname(entry.name))
            self.assertEqual(entry.file, self.path + "/" + entry.name)
            self.assertTrue(entry.packed)
            self.assertEqual(entry.source_bytes,
                             os.path.getsize(self.file_of(entry)))
            self.assertIs(entry.pack, pictures)
            self.assertEqual(pictures[entry.name], entry)
            self.assertEqual(hash(pictures[entry.name]), hash(entry))
            self.assertIn(entry.name, pictures)
            entry.check()
        self.assertEqual(pictures[-1].index, len(pictures) - 1)
        self.assertNotEqual(pictures[0], pictures[1])
        self.assertNotEqual(pictures[0], headrace.PackFile(self.path)[0])
        self.assertNotIn("nothing", pictures)
        self.assertNotIn(0, pictures)
        self.assertIn(self.path, repr(pictures))
        self.assertIn(pictures.names[0], repr(pictures[0]))

    def test_what_is_not_in_it(self):
        pictures = headrace.PackFile(pathlib.Path(self.path))
        for number in len(pictures), -len(pictures) - 1, 1 << 70:
            with self.assertRaises(IndexError):
                pictures[number]
        with self.assertRaisesRegex(KeyError, "no/such"):
            pictures["no/such"]
        for wrong in None, 1.5, b"name":
            with self.assertRaises(TypeError):
                pictures[wrong]
        with self.assertRaises(TypeError):
            type(pictures[0])()
        with self.assertRaises(AttributeError):
            pictures[0].label = "x"

    def test_files_that_are_none(self):
        other = self.place / "other.hrp"
        with self.assertRaises(headrace.ReadError) as met:
            headrace.PackFile(other)
        self.assertIn(str(other), str(met.exception))
        other.write_bytes(b"HRPACK, no")
        with self.assertRaisesRegex(headrace.PictureError, "other.hrp"):
            headrace.PackFile(other)
        whole = pathlib.Path(self.path).read_bytes()
        for size in (0, 63, 64, len(whole) // 2, len(whole) - 1):
            other.write_bytes(whole[:size])
            with self.assertRaisesRegex(headrace.PictureError, "other.hrp"):
                headrace.PackFile(other)
        self.assertRaises(TypeError, headrace.PackFile, 7)
        self.assertRaises(ValueError, headrace.PackFile, "a\0b")

    def test_it_closes_when_unreferenced(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        pictures = headrace.PackFile(copy)
        self.assertTrue(is_mapped(copy))
        entry = pictures[1]
        del pictures
        gc.collect()
        self.assertTrue(is_mapped(copy))
        wanted = samples.read(self.file_of(entry))
        wanted = headrace.decode(wanted).pixels()
        view = memoryview(entry)
        image = headrace.decode(entry)
        del entry
        gc.collect()
        self.assertEqual(bytes(image.pixels()), bytes(wanted))
        del image
        gc.collect()
        self.assertTrue(is_mapped(copy))
        self.assertTrue(view.readonly)
        del view
        gc.collect()
        self.assertFalse(is_mapped(copy))

    def test_a_job_keeps_it(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        entry = headrace.PackFile(copy)[0]
        out = headrace.Batch(1, 3, 64, 96)
        job = headrace.submit([(entry, OPS, (1, 2, 3))], out)
        del entry
        job.wait()
        gc.collect()
        self.assertFalse(is_mapped(copy))


class Jobs(Packs):
    def test_as_their_files(self):
        """Every kind, also the kinds that are kept as they are."""
        pictures = headrace.PackFile(self.kinds)
        self.assertLess(pictures.packed, len(pictures))
        seen = set()
        for entry in pictures:
            file = str(self.file_of(entry, "kinds"))
            with self.subTest(entry.name):
                if file not in samples.good():
                    continue
                seen.add(entry.packed)
                wanted = headrace.decode(file)
                found = headrace.decode(entry)
                self.assertEqual(found.size, wanted.size)
                self.assertEqual(bytes(found.pixels()), bytes(wanted.pixels()))
        self.assertEqual(seen, {True, False})

    def test_a_batch(self):
        pictures = headrace.PackFile(self.path)
        both = []
        for source in (lambda e: e, lambda e: str(self.file_of(e))):
            out = headrace.Batch(len(pictures), 3, 64, 96)
            job = samples.run([(source(e), OPS, (5, i, 0))
                               for i, e in enumerate(pictures)], out)
            both.append(bytes(out))
        self.assertEqual(*both)
        self.assertEqual(job.results[0].status, 0)

    def test_a_picture_is_checked_once(self):
        """A picture is checked once for all readers, until the file is
        written to."""
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        pictures = headrace.PackFile(copy)
        out = headrace.Batch(1, 3, 64, 96)
        samples.run([(pictures[0], OPS, (5, 0, 0))], out)
        again = headrace.PackFile(copy)
        damage(copy, 0)
        damage(copy, 1)
        with self.assertRaisesRegex(headrace.PictureError, "is damaged"):
            again[0].check()
        for entry in pictures[0], pictures[1]:
            with self.assertRaisesRegex(headrace.PictureError, "is damaged"):
                entry.check()
            self.assertRaises(headrace.PictureError, bytes, entry)

    def test_a_damaged_one_is_one_sample(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        damage(copy, 2)
        pictures = headrace.PackFile(copy)
        batch = headrace.Batch(4, 3, 64, 96)
        list_of = [(pictures[i], OPS, (5, i, 0)) for i in range(4)]
        job = samples.run(list_of, batch, on_error="zero")
        self.assertEqual([bool(r.status) for r in job.results],
                         [False, False, True, False])
        self.assertEqual(job.results[2].file, pictures[2].file)
        self.assertIn(pictures.names[2], job.results[2].message)
        with self.assertRaises(headrace.PictureError) as met:
            samples.run(list_of, batch)
        self.assertEqual(met.exception.file, pictures[2].file)
        self.assertIn(pictures.names[2], str(met.exception))

    def test_a_file_that_was_changed(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        pictures = headrace.PackFile(copy)
        os.utime(copy, (1, 1))
        out = headrace.Batch(1, 3, 64, 96)
        with self.assertRaisesRegex(headrace.ReadError, "changed"):
            headrace.submit([(pictures[0], OPS, (5, 0, 0))], out)
        with self.assertRaisesRegex(headrace.ReadError, "changed"):
            headrace.decode(pictures[0])


class Travelling(Packs):
    def test_in_one_process(self):
        pictures = headrace.PackFile(self.path)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps((pictures, pictures[3]), protocol)
            self.assertLess(len(data), 400 + len(self.path))
            other, entry = pickle.loads(data)
            self.assertIs(other, pictures)
            self.assertEqual(entry, pictures[3])

    def test_an_unreferenced_file_is_not_kept(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        data = pickle.dumps(headrace.PackFile(copy)[3])
        gc.collect()
        self.assertFalse(is_mapped(copy))
        entry = pickle.loads(data)
        self.assertEqual(entry.index, 3)
        self.assertTrue(is_mapped(copy))

    def test_from_another_folder(self):
        before = os.getcwd()
        os.chdir(self.place)
        try:
            pictures = headrace.PackFile("photos.hrp")
        finally:
            os.chdir(before)
        data = pickle.dumps(pictures[1])
        del pictures
        gc.collect()
        self.assertEqual(pickle.loads(data).file[:len(self.path)], self.path)

    def test_it_is_another_file(self):
        copy = shutil.copy(self.path, self.place / "copy.hrp")
        data = pickle.dumps(headrace.PackFile(copy)[0])
        os.replace(shutil.copy(self.kinds, self.place / "new.hrp"), copy)
        gc.collect()
        with self.assertRaisesRegex(headrace.ReadError, "another"):
            pickle.loads(data)
        kept = headrace.PackFile(self.path)
        data = pickle.dumps(kept[0])
        self.assertEqual(pickle.loads(data), kept[0])

    def test_an_image(self):
        pictures = headrace.PackFile(self.path)
        image = headrace.decode(pictures[0]).resize(20, 30)
        other = pickle.loads(pickle.dumps(image))
        self.assertEqual(bytes(other.pixels()), bytes(image.pixels()))
