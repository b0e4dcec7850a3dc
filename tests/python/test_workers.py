# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers of the drop-in, against stock torchvision.

Each case runs twice with the same seed, without and with the drop-in, and
every tensor must be equal to the bit, with one job per batch.
"""
# Long: workers start, and mostly wait.

import os
import tempfile
import time
import weakref
from unittest import mock

import workers_case as case  # first: it may skip this file
import headrace
import torch
from headrace.dropin.workers import channel
from torch.utils.data import DataLoader
from workers_case import (
    BATCH,
    BATCHES,
    PICTURES,
    WORKERS,
    Bytes,
    Case,
    Pictures,
    jobs_run,
    make_pictures,
    names_in,
    seeded,
)



class StartMethods(Case):
    def test_no_workers(self):
        self.compare(Pictures(self.folder), BATCHES, num_workers=0,
                     shuffle=True)

    def test_fork(self):
        self.start_method("fork")

    def test_spawn(self):
        self.start_method("spawn")

    def test_forkserver(self):
        self.start_method("forkserver")

    def start_method(self, name):
        self.compare(
            case.Mixed(self.folder),
            BATCHES * 2,
            epochs=2,
            shuffle=True,
            persistent_workers=True,
            multiprocessing_context=name,
        )


class Samples(Case):
    def test_bytes(self):
        self.compare(Bytes(self.folder), BATCHES, shuffle=True)

    def test_transforms_v2(self):
        try:
            from torchvision import tv_tensors  # noqa: F401
        except ImportError:
            self.skipTest("this torchvision has no tv_tensors")
        for method in ("fork", "spawn"):
            self.compare(
                case.V2(self.folder), BATCHES, multiprocessing_context=method
            )
        ran = self.compare(case.V2(self.folder), collate_fn=case.as_list)
        self.assertLess(ran, PICTURES // 2)

    def test_no_channel_can_be_had(self):
        """Then workers decode with stock Pillow, and open no device."""
        refused = mock.patch.object(channel.Channel, "_listen")
        with refused as listen:
            listen.side_effect = OSError("no descriptors")
            self.compare(Pictures(self.folder), 0)
            self.compare(case.Nested(self.folder), 0, persistent_workers=True)
            self.compare(
                Pictures(self.folder), 0, multiprocessing_context="spawn"
            )
            self.assertTrue(listen.called)
            self.check_threads("fork")

    def test_nested(self):
        self.compare(case.Nested(self.folder), BATCHES)

    def test_batches_fetched_at_once(self):
        self.compare(case.Fetched(self.folder), BATCHES)

    def test_iterable(self):
        self.compare(case.Stream(self.folder), batch_size=3)
        self.compare(
            case.Stream(self.folder),
            batch_size=3,
            persistent_workers=True,
            epochs=2,
        )

    def test_single_samples(self):
        ran = self.compare(Pictures(self.folder), batch_size=None)
        self.assertLessEqual(ran, PICTURES)
        self.compare(Pictures(self.folder), batch_size=None, num_workers=0)

    def test_a_list_of_samples_is_not_as_many_jobs(self):
        ran = self.compare(Pictures(self.folder), collate_fn=case.as_list)
        self.assertLess(ran, PICTURES // 2)
        self.compare(
            Pictures(self.folder), collate_fn=case.as_list, num_workers=0
        )

    def test_own_batch(self):
        self.compare(Pictures(self.folder), BATCHES, collate_fn=case.own_batch)

    def test_slotted_batch(self):
        self.compare(
            Pictures(self.folder), BATCHES, collate_fn=case.slotted_batch
        )

    def test_used_in_the_worker(self):
        headrace.report(reset=True)
        self.compare(
            Pictures(self.folder), 2 * BATCHES, collate_fn=case.mixed_up
        )
        made = set(headrace.report()["devices"])
        self.assertEqual(made, {"cpu, in workers"})

    def test_persistent_workers(self):
        self.compare(
            Pictures(self.folder),
            3 * BATCHES,
            epochs=3,
            shuffle=True,
            persistent_workers=True,
        )

    def test_more_workers_than_batches(self):
        self.compare(Pictures(self.folder), BATCHES, num_workers=5)

    def test_a_loader_in_the_worker(self):
        self.compare(case.Inner(self.folder), BATCHES)

    def test_any_order(self):
        try:
            DataLoader([0], in_order=False)
        except TypeError:
            self.skipTest("this torch has no in_order")
        loader = {"batch_size": BATCH, "num_workers": WORKERS}
        torch.manual_seed(3)
        stock = list(DataLoader(Pictures(self.folder), **loader))
        torch.manual_seed(3)
        with headrace.image_backend("cpu"):
            mine = list(
                DataLoader(Pictures(self.folder), in_order=False, **loader)
            )
        mine.sort(key=lambda batch: int(batch[1][0]))
        self.assert_same(mine, stock)

    def test_backend_switched_off_while_batches_are_under_way(self):
        dataset = Pictures(self.folder)
        stock = seeded(DataLoader(dataset, batch_size=BATCH,
                                  num_workers=WORKERS))
        torch.manual_seed(11)
        with headrace.image_backend("cpu"):
            iterator = iter(DataLoader(dataset, batch_size=BATCH,
                                       num_workers=WORKERS))
            mine = [next(iterator)]
        for pictures, numbers in iterator:
            mine.append([pictures + 0, numbers])
        self.assert_same(mine, stock)

    def test_counts_of_workers_reach_the_report(self):
        with headrace.image_backend("cpu"):
            seeded(DataLoader(Pictures(self.folder)))
            before = headrace.report()["totals"].get("recorded", 0)
            seeded(DataLoader(Pictures(self.folder), batch_size=BATCH,
                              num_workers=WORKERS))
            after = headrace.report()["totals"].get("recorded", 0)
        self.assertEqual(after - before, PICTURES)

    def test_workers_open_no_device(self):
        """A device has threads: a worker has no more than stock's."""
        for method in ("fork", "spawn"):
            self.check_threads(method)

    def check_threads(self, method):
        loader = DataLoader(
            case.Threads(self.folder),
            batch_size=BATCH // 2,
            num_workers=WORKERS,
            multiprocessing_context=method,
        )
        stock = seeded(loader)
        with headrace.image_backend("cpu"):
            mine = seeded(loader)
        most = max(int(numbers.max()) for _, numbers in stock)
        for _, numbers in mine:
            self.assertLessEqual(int(numbers.max()), most)

    def test_submitted_before_it_is_asked_for(self):
        with headrace.image_backend("cpu"):
            before = jobs_run()
            iterator = iter(DataLoader(Pictures(self.folder),
                                       batch_size=BATCH,
                                       num_workers=WORKERS))
            end = time.monotonic() + 30
            while jobs_run() - before < BATCHES:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual(len(list(iterator)), BATCHES)


class Damage(Case):
    """One bad picture costs its batch, as in stock, and nothing else."""

    def setUp(self):
        super().setUp()
        self.own = tempfile.TemporaryDirectory()
        self.addCleanup(self.own.cleanup)
        make_pictures(self.own.name)
        self.names = names_in(self.own.name)

    def rewrite(self, index, change):
        with open(self.names[index], "rb") as file:
            data = bytearray(file.read())
        with open(self.names[index], "wb") as file:
            file.write(change(data))

    def test_gone(self):
        names = Pictures(self.own.name)
        os.unlink(self.names[10])
        self.compare(names, num_workers=2)

    def test_what_a_worker_without_a_channel_meets_last(self):
        """While the batch is pickled: no error may be lost there."""
        refused = mock.patch.object(channel.Channel, "_listen")
        with refused as listen, headrace.image_backend("cpu"):
            listen.side_effect = OSError("no descriptors")
            self.check_damaged()

    def test_what_only_the_job_can_see(self):
        """The error is as if the worker had met it, and the next batch
        comes."""
        with headrace.image_backend("cpu"):
            for params in ({}, {"persistent_workers": True}):
                iterator = self.check_damaged(**params)
                # It is freed: no error keeps its frame.
                self.assertIsNone(iterator())

    def check_damaged(self, **params):
        def damage(data):  # a second start of image, within the scan
            at = data.index(b"\xff\xda") + 40
            return data[:at] + b"\xff\xd8" + data[at:]

        make_pictures(self.own.name)
        self.rewrite(10, damage)
        iterator = iter(
            DataLoader(
                Pictures(self.own.name), BATCH, num_workers=2, **params
            )
        )
        next(iterator)
        with self.assertRaises(OSError) as caught:
            next(iterator)
        lines = case.text_of(case.bare(caught.exception))
        self.assertEqual(
            lines[:2],
            [
                "Caught OSError in DataLoader worker process 1.",
                "Original Traceback (most recent call last):",
            ],
        )
        self.assertIn("broken data stream", lines[-1])
        self.assertEqual(iterator._num_yielded, 1)
        _, numbers = next(iterator)
        self.assertEqual(int(numbers[0]), 2 * BATCH)
        self.assertEqual(iterator._num_yielded, 2)
        self.assertEqual(list(iterator), [])
        return weakref.ref(iterator)

    def test_the_data_set_raises(self):
        self.compare(case.Raises(self.folder), BATCHES - 1)


class Pinned(Damage):
    """With an accelerator that is not there."""

    def setUp(self):
        super().setUp()
        self.pinned = []

        def pin(tensor, device=None):
            self.pinned.append(tensor)
            return torch.clone(tensor)

        self.patch(torch.Tensor, "pin_memory", pin)
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is None:
            self.patch(torch.cuda, "is_available", lambda: True)
            self.patch(torch.cuda, "set_device", lambda _: None)
            self.patch(torch.cuda, "current_device", lambda: 0)
            return
        for name, value in (
            ("is_available", True),
            ("current_accelerator", torch.device("cuda", 0)),
            ("current_device_index", 0),
            ("set_device_index", None),
        ):
            self.patch(accelerator, name, lambda *_, value=value: value)

    def patch(self, owner, name, value):
        patch = mock.patch.object(owner, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def compare(self, dataset, jobs=None, **params):
        return super().compare(dataset, jobs, pin_memory=True, **params)

    def check_vanished(self, **params):
        return super().check_vanished(pin_memory=True, **params)

    def compare_pinned(self, dataset, pins, **params):
        self.compare(dataset, **params)
        self.assertEqual(len(self.pinned), 2 * pins)

    def test_tensors(self):
        # Pictures and numbers of each batch.
        self.compare_pinned(Pictures(self.folder), 2 * BATCHES)

    def test_no_workers(self):
        self.compare_pinned(
            Pictures(self.folder), 2 * BATCHES, num_workers=0
        )

    def test_dictionaries_and_persistent_workers(self):
        self.compare_pinned(
            case.Nested(self.folder),
            3 * 2 * BATCHES,
            epochs=2,
            persistent_workers=True,
        )


class Stateful(Case):
    def setUp(self):
        super().setUp()
        try:
            from torchdata.stateful_dataloader import StatefulDataLoader
        except ImportError as error:
            self.skipTest("needs torchdata: %s" % error)
        self.kind = StatefulDataLoader

    def params(self, method):
        return {
            "batch_size": BATCH,
            "num_workers": WORKERS,
            "multiprocessing_context": method,
        }

    def whole(self):
        return seeded(self.kind(Pictures(self.folder), **self.params("spawn")))

    def in_two_parts(self):
        loader = self.kind(Pictures(self.folder), **self.params("fork"))
        torch.manual_seed(11)
        iterator = iter(loader)
        first = next(iterator)
        state = loader.state_dict()
        del iterator
        loader = self.kind(Pictures(self.folder), **self.params("fork"))
        loader.load_state_dict(state)
        return [first, *seeded(loader)]

    def check(self, run):
        stock = run()
        with headrace.image_backend("cpu"):
            before = jobs_run()
            mine = run()
            ran = jobs_run() - before
        self.assert_same(mine, stock)
        self.assertEqual(len(mine), BATCHES)
        self.assertGreaterEqual(ran, BATCHES)

    def test_spawn(self):
        self.check(self.whole)

    def test_state(self):
        self.check(self.in_two_parts)
