# SPDX-License-Identifier: Apache-2.0
"""headrace.ray in a real Ray cluster: the bits of one process, once each."""
# Long: a cluster of two nodes starts in 10 s.

import logging
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

import numpy

import headrace
from headrace.ray import Preprocess, count

import core_samples as samples

try:
    import ray
    from ray.cluster_utils import Cluster
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None

SEED, EPOCH = 11, 3
KILLS = 20 if os.environ.get("HEADRACE_TEST_LONG") else 3
BAD = (5, 17)


class Slow(Preprocess):
    """Says which process it is, and gives time to kill it."""

    def __init__(self, *args, pids, **options):
        super().__init__(*args, **options)
        pathlib.Path(pids, str(os.getpid())).touch()

    def __call__(self, batch):
        time.sleep(0.05)
        return super().__call__(batch)


def rows(times):
    """Bytes and paths of pictures, two of them bad, and their numbers."""
    paths = samples.photos() * times
    found = []
    for i, path in enumerate(paths):
        data = b"no picture" if i in BAD else samples.read(path)
        found.append({"bytes": data, "index": i, "label": i % 7})
    return found


def by_one_process(found):
    make = headrace.Pipeline(samples.TRAIN, seed=SEED, device="cpu")
    return make([row["bytes"] for row in found],
                indices=[row["index"] for row in found], epoch=EPOCH)


class Clusters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "include_dashboard": False})
        cls.cluster.add_node(num_cpus=2)
        ray.init(address=cls.cluster.address, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        cls.rows = rows(2)
        cls.want = by_one_process(cls.rows)
        cls.pixels = cls.want.numpy()

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()
        cls.cluster.shutdown()

    def tensors(self, kind=Preprocess, actors=2, batch_format="numpy",
                size=8, shuffled=False, **options):
        found = list(self.rows)
        if shuffled:
            random.Random(1).shuffle(found)
        return ray.data.from_items(found, override_num_blocks=16).map_batches(
            kind, fn_constructor_args=(samples.TRAIN,),
            fn_constructor_kwargs={"seed": SEED, "epoch": EPOCH,
                                   "device": "cpu", "threads": 1,
                                   "index": "index"} | options,
            batch_size=size, batch_format=batch_format,
            compute=ray.data.ActorPoolStrategy(size=actors), num_cpus=1)

    def check(self, dataset):
        """Every row once, and each what one process makes of it."""
        met = {}
        for row in dataset.iter_rows():
            self.assertNotIn(row["index"], met)
            met[row["index"]] = True
            want = self.pixels[row["index"]]
            self.assertEqual(row["image"].dtype, want.dtype)
            self.assertEqual(row["image"].tobytes(), want.tobytes())
            self.assertEqual(row["ok"], row["index"] not in BAD)
            self.assertEqual(bool(row["error"]), row["index"] in BAD)
            self.assertEqual(row["label"], row["index"] % 7)
        self.assertEqual(len(met), len(self.rows))

    def test_any_number_of_actors_and_any_order(self):
        for actors, size, shuffled in (1, 64, False), (2, 7, True), (3, 1,
                                                                     True):
            with self.subTest(actors=actors, size=size):
                self.check(self.tensors(actors=actors, size=size,
                                        shuffled=shuffled))

    def test_arrow_batches(self):
        self.check(self.tensors(batch_format="pyarrow"))

    def test_counters(self):
        self.assertEqual(
            count(self.tensors()),
            {"pictures": len(self.rows), "failed": len(BAD),
             "devices": {"cpu": len(self.rows) - len(BAD)}})

    def test_columns(self):
        names = set(self.tensors(keep=True, out="x").schema().names)
        self.assertEqual(names, {"bytes", "index", "label", "x", "ok",
                                 "error", "device"})

    def test_a_batch_of_no_rows(self):
        empty = Preprocess(samples.TRAIN)({"bytes": numpy.empty(0, object)})
        self.assertEqual(empty["image"].shape, (0, 3, 64, 96))
        self.assertEqual(empty["image"].dtype, numpy.float32)
        self.assertEqual(set(empty), {"image", "ok", "error", "device"})

    def test_killed_actors(self):
        with tempfile.TemporaryDirectory() as pids:
            done = threading.Event()
            killed = []
            killer = threading.Thread(target=kill_some,
                                      args=(pids, killed, done))
            killer.start()
            try:
                while len(killed) < KILLS:
                    self.check(self.tensors(Slow, size=2, pids=pids))
            finally:
                done.set()
                killer.join()
        self.assertGreaterEqual(len(killed), KILLS)


def kill_some(pids, killed, done):
    """Kills workers that have come up, at random times, KILLS in all."""
    when = random.Random(2)
    while len(killed) < KILLS and not done.is_set():
        time.sleep(when.uniform(0.05, 0.8))
        there = sorted(pathlib.Path(pids).iterdir())
        if not there:
            continue
        actor = when.choice(there)
        actor.unlink()
        try:
            os.kill(int(actor.name), signal.SIGKILL)
            killed.append(actor.name)
        except ProcessLookupError:
            pass  # its data set was done
