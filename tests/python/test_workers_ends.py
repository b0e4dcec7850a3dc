# SPDX-License-Identifier: Apache-2.0
"""How iterators with workers end, and what is left: nothing."""
# Long: workers start, and mostly wait.

import copy
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import workers_case  # noqa: F401  first: it may skip this file
import headrace
import torch
from headrace.dropin.base import worker
from made_samples import allowed
from torch.utils.data import DataLoader
from workers_case import (
    BATCH,
    BATCHES,
    PICTURES,
    STOCK_LEAVES,
    WORKERS,
    Bytes,
    Case,
    Killed,
    Pictures,
    Plain,
    Traces,
    seeded,
)

ROUNDS = 20


class Ends(Case):
    """Nothing is left behind, whatever way an iterator ends."""


    def loader(self, kind=Pictures, **params):
        params = {"batch_size": 2, "num_workers": WORKERS, **params}
        return DataLoader(kind(self.folder), **params)

    def warm_up(self):
        """The default device and its threads stay; they are no leak."""
        seeded(self.loader())

    def test_whole_epochs(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                seeded(self.loader())
            traces.check(self)

    def test_an_iterator_at_its_end_holds_nothing(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            iterator = iter(self.loader())
            for _ in iterator:
                pass
            names = [thread.name for thread in threading.enumerate()]
            self.assertNotIn("headrace-channel", names)
            del iterator

    def test_early_break(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for round_ in range(ROUNDS):
                start = time.monotonic()
                for count, _ in enumerate(self.loader()):
                    if count == round_ % 5:
                        break
                del _
                self.assertLess(time.monotonic() - start, allowed(20))
            traces.check(self)

    def test_nothing_was_asked_for(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                iter(self.loader())
            traces.check(self)

    def test_early_break_with_persistent_workers(self):
        want = seeded(self.loader(Plain))
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            loader = self.loader(Plain, persistent_workers=True)
            for _ in range(5):
                for _ in loader:
                    break
            self.assert_same(seeded(loader), want)
            del loader, _
            traces.check(self)

    def test_killed_worker(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(ROUNDS):
                start = time.monotonic()
                self.assert_dies(lambda: list(self.loader(Killed)))
                self.assertLess(time.monotonic() - start, allowed(20))
            gc.collect()
            traces.check(self, STOCK_LEAVES)
            self.assertEqual(len(seeded(self.loader())), PICTURES // 2)

    def assert_dies(self, action):
        """Stock says that a worker died by its handler of signals, or by what
        came of the worker's descriptors, or first by these and then by the
        handler, which raises wherever the main thread is by then, but no more
        when the iterator is gone: action() must hold it alone."""
        errors = (RuntimeError, OSError, EOFError)
        died = False
        try:
            try:
                action()
            except errors:
                died = True
        except errors:
            died = True
        self.assertTrue(died)

    def test_epochs_after_a_killed_worker(self):
        """Its memory goes on to the next one; what it left is not seen."""
        loader = self.loader(Killed)
        want = seeded(self.loader())
        with headrace.image_backend("cpu"):
            for _ in range(3):
                self.assert_dies(lambda: list(loader))
                loader.dataset.__class__ = Pictures
                self.assert_same(seeded(loader), want)
                loader.dataset.__class__ = Killed

    def test_a_used_loader_is_copied(self):
        """The memory that it keeps for its workers stays its own."""
        loader = self.loader(Plain)
        want = seeded(loader)
        with headrace.image_backend("cpu"):
            self.assert_same(seeded(loader), want)
            for other in copy.deepcopy(loader), pickle.loads(
                pickle.dumps(loader)
            ):
                self.assert_same(seeded(other), want)
            self.assert_same(seeded(loader), want)

    def test_two_iterators_at_once(self):
        loader = self.loader()
        want = seeded(loader)
        with headrace.image_backend("cpu"):
            self.warm_up()
            for _ in range(3):
                torch.manual_seed(11)
                random.seed(11)
                first = iter(loader)
                head = [next(first)]
                self.assert_same(seeded(loader), want)
                head += first
                self.assert_same(head, want)

    def kill_a_worker(self):
        iterator = iter(self.loader())
        next(iterator)
        os.kill(iterator._workers[1].pid, signal.SIGKILL)
        while True:
            next(iterator)
            time.sleep(0.01)

    def test_killed_from_outside(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                self.assert_dies(self.kill_a_worker)
            traces.check(self, STOCK_LEAVES)

    def test_exception_in_the_consumer(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            for _ in range(5):
                with self.assertRaises(ZeroDivisionError):
                    self.fail_at_once(self.loader())
            traces.check(self)

    def fail_at_once(self, loader):
        for _ in loader:
            raise ZeroDivisionError

    def test_two_loaders_at_once(self):
        dataset, others = Pictures(self.folder), Bytes(self.folder)
        params = {"batch_size": 6, "num_workers": 1}

        def both():
            torch.manual_seed(1)
            outer = []
            for a in DataLoader(dataset, **params):
                outer.append([a, list(DataLoader(others, **params))])
            pairs = list(
                zip(DataLoader(dataset, **params),
                    DataLoader(others, **params))
            )
            return [outer, pairs]

        stock = both()
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            self.assert_same(both(), stock)
            traces.check(self)

    def test_loaders_in_threads(self):
        dataset = Pictures(self.folder)
        names = [set() for _ in range(3)]

        def work(found):
            for _, numbers in DataLoader(dataset, batch_size=5,
                                         num_workers=1):
                found.update(numbers.tolist())

        with headrace.image_backend("cpu"):
            threads = [
                threading.Thread(target=work, args=(found,))
                for found in names
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(names, [set(range(PICTURES))] * 3)

    def test_tickets_that_are_never_read(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            iterator = iter(self.loader(prefetch_factor=6))
            time.sleep(1.0)
            next(iterator)
            del iterator
            traces.check(self)

    def test_collected_in_a_circle(self):
        with headrace.image_backend("cpu"):
            self.warm_up()
            traces = Traces()
            iterator = iter(self.loader())
            next(iterator)
            iterator.itself = [iterator]
            del iterator
            # Stock waits this long for each worker (5 s), and leaves its own
            # pipes.
            stock = torch.utils.data._utils
            with mock.patch.object(stock, "MP_STATUS_CHECK_INTERVAL", 0.5):
                traces.check(self, STOCK_LEAVES)


class Fork(Case):
    def run_child(self, function):
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(60)
                function()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_child_after_the_device_was_used(self):
        dataset = Pictures(self.folder)
        params = {"batch_size": BATCH, "num_workers": 1}
        with headrace.image_backend("cpu"):
            mine = seeded(DataLoader(dataset, **params))
            held = iter(DataLoader(dataset, **params))
            next(held)

            def child():
                start = time.monotonic()
                self.assertFalse(worker.in_worker())
                self.assert_same(seeded(DataLoader(dataset, **params)), mine)
                self.assert_same(
                    seeded(DataLoader(dataset, batch_size=BATCH))[0][1],
                    mine[0][1],
                )
                self.assertLess(time.monotonic() - start, allowed(30))

            for _ in range(5):
                self.run_child(child)
            self.assertEqual(len(list(held)), BATCHES - 1)

    def test_exit_with_work_in_flight(self):
        script = (
            "import sys, os\n"
            "sys.path.insert(0, %r)\n"
            "import workers_case as t, headrace\n"
            "headrace.set_image_backend('cpu')\n"
            "if __name__ == '__main__':\n"
            "    loader = t.DataLoader(t.Pictures(%r), batch_size=2,\n"
            "        num_workers=2, persistent_workers=True)\n"
            "    iterator = iter(loader)\n"
            "    next(iterator)\n"
        ) % (os.path.dirname(os.path.abspath(__file__)), self.folder)
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                timeout=90,
                text=True,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
