# SPDX-License-Identifier: Apache-2.0
"""headrace.ray.pack in a real Ray cluster: the file of `headrace pack`, byte
for byte, while workers are killed."""
# Long: a cluster of two nodes starts in 10 s.

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import headrace
from headrace.ray import pack

import core_samples as samples

try:
    import ray
    from ray.cluster_utils import Cluster
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None

COUNT, PART = 2000, 250
KILLS = 20 if os.environ.get("HEADRACE_TEST_LONG") else 3


def command(*words):
    subprocess.run([samples.COMMAND, *words], check=True,
                   stdout=subprocess.DEVNULL)


def writers(folder):
    """{pid: bytes} of processes that have an unfinished part of it open."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if not (process / "cmdline").read_bytes().startswith(b"ray::"):
                continue
            for link in (process / "fd").iterdir():
                to = os.readlink(link)
                if to.startswith(f"{folder}/") and to.endswith(".hrp.part"):
                    found[int(process.name)] = link.stat().st_size
        except OSError:
            pass  # it was closed, or its process has ended
    return found


class Killer(threading.Thread):
    """Kills workers in the middle of a part, several times."""

    def __init__(self, folder, times):
        super().__init__()
        self.folder, self.times = folder, times
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
        # A file that cannot be packed is kept as it is.
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
        self.assertEqual(manifest["failed"], [])
        if again is not None:
            self.assertGreaterEqual(manifest["from_earlier_run"], again)
        if again == 0:
            self.assertEqual(list(manifest["kept_reasons"].values()), [1])
        self.assertFalse(self.folder.exists())

    def test_the_file_of_one_process(self):
        self.check(pack(self.pictures, self.out, workers=2, part=PART))

    def test_killed_workers(self):
        with Killer(self.folder, KILLS) as killer:
            while len(killer.killed) < KILLS:
                self.check(pack(self.pictures, self.out, workers=2,
                                part=PART), again=None)

    def test_a_killed_job(self):
        """The user begins it again."""
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
        done = subprocess.run(
            [sys.executable, "-m", "headrace.ray", "nothing", "--out",
             self.out], text=True, stderr=subprocess.PIPE,
            env=dict(os.environ, RAY_ADDRESS=self.cluster.address))
        self.assertEqual(done.returncode, 2)
        self.assertIn("headrace.ray: ", done.stderr.splitlines()[-1])

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
        with self.assertRaisesRegex(headrace.ReadError,
                                    "^[^\n]*b.jpg[^\n]*$") as met:
            pack(two, self.out, strict=True)
        self.assertEqual(met.exception.status, "HR_EIO")
        self.assertFalse(self.out.exists())
        manifest = pack(two, self.out)
        self.assertEqual(headrace.PackFile(self.out).names, ("a.jpg",))
        self.assertEqual(len(manifest["failed"]), 1)
        self.assertIn("b.jpg", manifest["failed"][0])
