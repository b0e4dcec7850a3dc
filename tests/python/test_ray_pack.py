# SPDX-License-Identifier: Apache-2.0
"""headrace.ray.pack in a real Ray cluster: the file of `headrace pack`, byte
for byte, whoever is killed meanwhile."""
# Long: a cluster of two nodes starts in 10 s.

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import headrace
from headrace import packjob
from headrace.ray import pack

import core_samples as samples

try:
    import ray
    from ray.cluster_utils import Cluster
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None

COUNT, PART = 2000, 250
KILLS = 3


def command(*words):
    subprocess.run([samples.COMMAND, *words], check=True,
                   stdout=subprocess.DEVNULL)


def writers(folder):
    """{pid: bytes} of who has a part of it open that is not whole."""
    found = {}
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if (os.readlink(link).startswith(f"{folder}/")
                    and os.readlink(link).endswith(".hrp.part")):
                found[int(link.parts[2])] = link.stat().st_size
        except OSError:
            pass  # it was closed, or its process has ended
    return found


class Killer(threading.Thread):
    """Kills who is in the middle of a part, several times."""

    def __init__(self, folder, times, whole=0):
        super().__init__()
        self.folder, self.times, self.whole = folder, times, whole
        self.killed, self.done = [], threading.Event()

    def run(self):
        while len(self.killed) < self.times and not self.done.is_set():
            time.sleep(0.005)
            for pid, size in writers(self.folder).items():
                if size > 20000 and pid not in self.killed:
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(pid)
                    break

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        self.done.set()
        self.join()


class Packing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False})
        cls.cluster.add_node(num_cpus=1)
        ray.init(address=cls.cluster.address, log_to_driver=False)
        cls.place = samples.scratch()
        cls.pictures = cls.place / "pictures"
        command("samples", cls.pictures, "--photos-only", "--count",
                str(COUNT), "--size", "64x48")
        cls.pictures = cls.pictures / "photos"
        # What cannot be packed is kept as it is.
        (cls.pictures / "fruit" / "x.jpg").write_bytes(b"no picture")
        cls.one = cls.place / "one.hrp"
        command("pack", cls.pictures, "--out", cls.one, "-q")

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()
        cls.cluster.shutdown()

    def setUp(self):
        self.out = self.place / f"{self._testMethodName}.hrp"
        self.folder = pathlib.Path(f"{self.out}.parts")

    def check(self, manifest, again=0):
        """The file, what is said of it, and that nothing else is left."""
        self.assertEqual(self.out.read_bytes(), self.one.read_bytes())
        with open(f"{self.out}.json") as file:
            self.assertEqual(json.load(file), manifest)
        file = headrace.PackFile(self.out)
        self.assertEqual(manifest["files"], [{
            "path": str(self.out), "pictures": len(file),
            "bytes": file.bytes, "header": file._fingerprint.hex()}])
        self.assertEqual(
            (manifest["pictures"], manifest["packed"], manifest["kept"]),
            (COUNT + 1, COUNT, 1))
        if not again:
            self.assertEqual(list(manifest["kept_reasons"].values()), [1])
        self.assertEqual(manifest["failed"], [])
        self.assertGreaterEqual(manifest["from_earlier_run"], again)
        self.assertFalse(self.folder.exists())

    def test_the_file_of_one_process(self):
        self.check(pack(self.pictures, self.out, workers=2, part=PART))

    def test_killed_workers(self):
        with Killer(self.folder, KILLS) as killer:
            manifest = pack(self.pictures, self.out, workers=2, part=PART)
        self.assertEqual(len(killer.killed), KILLS)
        self.check(manifest, again=1)

    def test_a_killed_job(self):
        """Somebody begins it again."""
        program = subprocess.Popen(
            [sys.executable, "-m", "headrace.ray", self.pictures, "--out",
             self.out, "--workers", "1", "--part", str(PART)],
            env=dict(os.environ, RAY_ADDRESS=self.cluster.address),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(list(self.folder.glob("*.hrp"))) < 2:
            self.assertIsNone(program.poll())
            time.sleep(0.005)
        program.kill()
        program.wait()
        self.assertFalse(self.out.exists())
        self.check(pack(self.pictures, self.out, part=PART), again=2 * PART)

    def test_the_command(self):
        done = subprocess.run(
            [sys.executable, "-m", "headrace.ray", self.pictures, "--out",
             self.out], text=True, stdout=subprocess.PIPE,
            env=dict(os.environ, RAY_ADDRESS=self.cluster.address))
        self.assertEqual(done.returncode, 0)
        self.check(json.loads(done.stdout))

    def test_split(self):
        command("pack", self.pictures, "--out", self.place / "many.hrp",
                "--split", "3", "-q")
        manifest = pack(self.pictures, self.out, split=3, part=PART)
        self.assertEqual(len(manifest["files"]), 3)
        for i, file in enumerate(manifest["files"]):
            end = f"-{i:05}-of-00003.hrp"
            self.assertEqual(file["path"], str(self.out)[:-4] + end)
            self.assertEqual(
                pathlib.Path(file["path"]).read_bytes(),
                (self.place / f"many{end}").read_bytes())

    def test_what_is_wrong_in_a_task_comes_back(self):
        """Too large a file, which is noticed when it is read."""
        two = self.place / "two"
        two.mkdir()
        (two / "a.jpg").write_bytes(samples.read(samples.small()))
        with open(two / "b.jpg", "wb") as large:
            large.truncate(257 << 20)
        with self.assertRaisesRegex(headrace.ReadError, "b.jpg"):
            pack(two, self.out, strict=True)
        self.assertFalse(self.out.exists())
        manifest = pack(two, self.out)
        self.assertEqual(headrace.PackFile(self.out).names, ("a.jpg",))
        self.assertEqual(len(manifest["failed"]), 1)
        self.assertIn("b.jpg", manifest["failed"][0])


class Alone(unittest.TestCase):
    """Parts and joints, without a cluster."""

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
        return one.read_bytes()

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

    def test_two_writers(self):
        job = self.job()
        writer = headrace._core.PackWriter(job.path_of(job.parts[0]))
        threading.Timer(0.5, writer.close).start()
        self.assertEqual(self.parts(job)[0].again, 0)
        for call in (writer.finish, lambda: len(writer),
                     lambda: writer.entry(0), lambda: writer.cut(0)):
            with self.assertRaisesRegex(headrace.ArgumentError, "closed"):
                call()


if __name__ == "__main__":
    unittest.main()
