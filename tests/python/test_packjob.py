# SPDX-License-Identifier: Apache-2.0
"""headrace.packjob: parts of a pack file, made and joined here. (In a cluster:
test_ray_pack.py.)"""

import contextlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import headrace
import headrace.ray
from headrace import packjob

import core_samples as samples


class Parts(unittest.TestCase):

    def setUp(self):
        self.place = samples.scratch() / self._testMethodName
        self.pictures = self.place / "pictures"
        self.pictures.mkdir(parents=True)
        for i, path in enumerate(samples.photos()[:6]):
            shutil.copy(path, self.pictures / f"{i}.jpg")
        self.out = self.place / "out.hrp"

    def job(self, source=None, split=1, part=2, strict=False):
        job = packjob.Job(source or self.pictures, self.out, split, part,
                          strict)
        job.prepare()
        return job

    def parts(self, job):
        return [packjob.pack_part(job, part) for part in job.parts]

    def join(self, job):
        for file in job.files:
            packjob.join_parts(job, file)
        return self.out.read_bytes()

    def of_command(self, *sources, **where):
        one = self.place / "one.hrp"
        subprocess.run([samples.COMMAND, "pack", *sources, "--out", one,
                        "-q"], check=True, stdout=subprocess.DEVNULL,
                       **where)
        return one.read_bytes() if one.exists() else None

    def test_parts_that_are_whole_are_not_made_again(self):
        self.parts(self.job())
        tallies = self.parts(self.job())
        self.assertEqual([t.again for t in tallies], [2, 2, 2])
        self.assertEqual(self.join(self.job()),
                         self.of_command(self.pictures))

    def test_a_picture_that_was_changed_meanwhile(self):
        self.parts(self.job())
        shutil.copy(samples.photos()[7], self.pictures / "3.jpg")
        tallies = self.parts(self.job())
        self.assertEqual([t.again for t in tallies], [2, 0, 2])
        self.assertEqual(self.join(self.job()),
                         self.of_command(self.pictures))

    def test_a_part_that_was_damaged_meanwhile(self):
        job = self.job()
        self.parts(job)
        path = pathlib.Path(job.path_of(job.parts[1]))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        with self.assertRaisesRegex(headrace.ReadError, "is damaged"):
            self.join(job)
        self.assertFalse(self.out.exists())
        self.assertEqual([t.again for t in self.parts(self.job())], [2, 0, 2])
        self.assertEqual(self.join(self.job()),
                         self.of_command(self.pictures))

    def test_a_part_of_another_order_of_pictures(self):
        """A writer's picture is not of this source: it goes."""
        job = self.job()
        writer = headrace._core.PackWriter(job.path_of(job.parts[0]))
        source = headrace._core.Source(paths=[str(self.pictures)])
        for i in 0, 2:
            self.assertEqual(writer.take(source, i), (None, None))
        writer.close()
        self.assertEqual(self.parts(job)[0].again, 1)
        self.assertEqual(self.join(job), self.of_command(self.pictures))

    def test_pictures_that_cannot_be_read_are_told_each_time(self):
        job = self.job()
        self.parts(job)
        (self.pictures / "3.jpg").unlink()
        os.mkfifo(self.pictures / "3.jpg")
        for again in [2, 0, 2], [2, 1, 2]:
            tallies = self.parts(job)
            self.assertEqual([t.again for t in tallies], again)
            self.assertEqual([len(t.failed) for t in tallies], [0, 1, 0])
            self.assertIn("3.jpg", tallies[1].failed[0])
        self.join(job)
        self.assertEqual(headrace.PackFile(self.out).names,
                         ("0.jpg", "1.jpg", "2.jpg", "4.jpg", "5.jpg"))

    def test_a_disk_that_is_full_is_no_bad_picture(self):
        import resource

        job = self.job()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
        try:
            with self.assertRaises(headrace.ReadError):
                packjob.pack_part(job, job.parts[0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)

    def test_labels_of_files_by_relative_paths(self):
        before = os.getcwd()
        os.chdir(self.pictures)
        try:
            for listed in (["0.jpg", "./1.jpg"], ["../pictures/2.jpg"], "."):
                with self.subTest(listed=listed):
                    job = self.job(listed)
                    os.chdir("/")
                    self.parts(job)
                    found = self.join(job)
                    os.chdir(self.pictures)
                    names = listed if isinstance(listed, list) else [listed]
                    self.assertEqual(found, self.of_command(*names))
        finally:
            os.chdir(before)

    def test_pack_files_are_sources(self):
        self.of_command(self.pictures)
        one = self.place / "one.hrp"
        job = self.job(one)
        self.parts(job)
        self.assertEqual(self.join(job), one.read_bytes())

    def test_what_is_refused(self):
        with self.assertRaisesRegex(headrace.ArgumentError, "end in .hrp"):
            packjob.Job(self.pictures, "x", 1, 1, False)
        (self.place / "more").mkdir()
        shutil.copy(self.pictures / "0.jpg", self.place / "more")
        with self.assertRaisesRegex(headrace.ArgumentError, "called '0.jpg'"):
            self.job([self.pictures, self.place / "more"])
        self.out.write_bytes(b"something else, of 64 bytes and more" * 4)
        with self.assertRaisesRegex(headrace.ArgumentError, "written over"):
            self.job()
        self.out.unlink()
        job = self.job()
        (self.pictures / "5.jpg").unlink()
        with self.assertRaisesRegex(headrace.ReadError, "other pictures"):
            self.parts(job)
        (self.place / "none").mkdir()
        with self.assertRaisesRegex(headrace.ArgumentError, "no pictures"):
            self.job(self.place / "none")

    def test_split(self):
        job = self.job(split=4, part=1)
        self.assertEqual([end - first for first, end in job.parts], [1] * 6)
        self.parts(job)
        for file in job.files:
            packjob.join_parts(job, file)
        self.of_command(self.pictures, "--split", "4")
        for i in range(4):
            end = f"-{i:05}-of-00004.hrp"
            self.assertEqual((self.place / f"out{end}").read_bytes(),
                             (self.place / f"one{end}").read_bytes())

    def test_fields_of_records(self):
        """As `headrace pack --fields`; also of tasks that go on, and of the
        files that they are joined to."""
        records = pathlib.Path(__file__).parent / "records" / "mds"
        usual = self.of_command(records)
        named = self.of_command(records, "--fields", "image,name")
        self.assertNotEqual(named, usual)
        for fields, want in ((("image", "name"), named),
                             ((None, "name"), named), (None, usual)):
            manifest = headrace.pack_folder(records, self.out, fields=fields)
            self.assertEqual(self.out.read_bytes(), want)
            self.assertEqual(manifest["packed"], 3)
        with self.assertRaisesRegex(headrace.ArgumentError, "columns are"):
            headrace.pack_folder(records, self.out, fields=("scan", None))

    def test_fields_in_a_cluster(self):
        """The arguments that the command of headrace.ray hands on."""
        for text, want in (("image,name", ("image", "name")),
                           (",name", (None, "name")),
                           ("image", ("image", None))):
            with mock.patch("headrace.ray.pack",
                            return_value={"failed": []}) as pack, \
                    mock.patch.object(sys, "argv", [
                        "x", "mds", "--out", "x.hrp", "--fields", text]), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(headrace.ray.main(), 0)
            self.assertEqual(pack.call_args.kwargs["fields"], want)

    def test_what_is_kept_as_it_is(self):
        (self.pictures / "3.jpg").write_bytes(b"no picture")
        job = self.job()
        tallies = self.parts(job)
        self.assertEqual([sum(t.kept.values()) for t in tallies], [0, 1, 0])
        self.assertEqual(self.join(job), self.of_command(self.pictures))
        manifest = job.finish(tallies, [
            packjob.join_parts(job, file) for file in job.files])
        self.assertEqual((manifest["pictures"], manifest["packed"],
                          manifest["kept"]), (6, 5, 1))

    def test_a_file_that_is_packed_already(self):
        path = self.pictures / "2.jpg"
        path.write_bytes(headrace.pack(path.read_bytes()))
        job = self.job()
        self.parts(job)
        self.assertEqual(self.join(job), self.of_command(self.pictures))
        self.assertTrue(headrace.PackFile(self.out)["2.jpg"].packed)

    def test_on_this_machine(self):
        (self.pictures / "3.jpg").write_bytes(b"no picture")
        for threads in (0, 1, 3):
            manifest = headrace.pack_folder(self.pictures, self.out,
                                            threads=threads)
            self.assertEqual(self.out.read_bytes(),
                             self.of_command(self.pictures))
            self.assertEqual((manifest["pictures"], manifest["packed"],
                              manifest["kept"]), (6, 5, 1))
        self.assertEqual(sorted(p.name for p in self.place.glob("out*")),
                         ["out.hrp", "out.hrp.json"])
        self.out.unlink()
        headrace.pack_folder([str(self.pictures)], str(self.out), split=2)
        self.of_command(self.pictures, "--split", "2")
        for i in range(2):
            end = f"-{i:05}-of-00002.hrp"
            self.assertEqual((self.place / f"out{end}").read_bytes(),
                             (self.place / f"one{end}").read_bytes())
        with self.assertRaisesRegex(headrace.ArgumentError, "threads: -1"):
            headrace.pack_folder(self.pictures, self.out, threads=-1)
        with self.assertRaisesRegex(headrace.ArgumentError, "end in .hrp"):
            headrace.pack_folder(self.pictures, self.place / "out")

    def test_what_cannot_be_read_on_this_machine(self):
        (self.pictures / "1.jpg").unlink()
        (self.pictures / "1.jpg").symlink_to("nowhere.jpg")
        source = [str(self.pictures), str(self.place / "gone.jpg")]
        with self.assertRaises(headrace.ReadError):
            headrace.pack_folder(source, self.out, strict=True)
        self.assertFalse(self.out.exists())

    def test_threads_take_turns(self):
        """Reading may ask for the interpreter, whichever thread has the
        turn."""
        class Asked:
            def __len__(self):
                return 40

            def __getitem__(self, i):
                return samples.read(samples.photos()[i % 6])

        source = headrace._core.Source(sequence=Asked())
        writer = headrace._core.PackWriter(str(self.out))

        def run(first):
            for i in range(first, 40, 4):
                self.assertEqual(writer.take(source, i), (None, None))

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for k in range(len(writer)):
                self.assertEqual(writer.entry(k)[1], "")
        writer.finish()
        self.assertEqual(len(headrace.PackFile(self.out)), 40)

    def test_two_writers(self):
        job = self.job()
        writer = headrace._core.PackWriter(job.path_of(job.parts[0]))
        threading.Timer(0.5, writer.close).start()
        self.assertEqual(self.parts(job)[0].again, 0)
        for call in (writer.finish, lambda: len(writer),
                     lambda: writer.entry(0), lambda: writer.cut(0)):
            self.assertRaisesRegex(headrace.ArgumentError, "closed", call)
