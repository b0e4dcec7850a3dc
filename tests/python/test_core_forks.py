# SPDX-License-Identifier: Apache-2.0
"""Locks of the package, found locked by a fork or a signal handler."""

import importlib
import itertools
import os
import pkgutil
import signal
import threading
import time
import unittest

import headrace
from headrace import _forks

report = importlib.import_module("headrace.dropin.base.report")
LOCKS = (type(threading.Lock()), type(threading.RLock()))


def modules():
    """Every module of the package that can be imported here."""
    for found in pkgutil.walk_packages(headrace.__path__, "headrace."):
        if found.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except (ImportError, SystemExit):
            pass


def locks_of(owner):
    return [value for value in vars(owner).values() if type(value) in LOCKS]


def in_child():
    """Are all locks free, and do functions work that take them?"""
    try:
        locks = list(_forks._locks)
        if not all(lock.acquire(timeout=5) for lock in locks):
            return False
        for lock in locks:
            lock.release()
        report.count("pillow", "in a child")
        report.take()
        return True
    except BaseException:
        return False


class Locks(unittest.TestCase):
    def test_each_lock_of_a_module_is_renewed(self):
        known = list(map(id, _forks._locks))
        seen = 0
        for module in modules():
            for lock in locks_of(module):
                seen += 1
                self.assertIn(id(lock), known, module.__name__)
        self.assertGreaterEqual(seen, 2)

    def test_a_child_finds_them_free(self):
        list(modules())
        held, go = threading.Event(), threading.Event()

        def hold():
            for lock in list(_forks._locks):
                lock.acquire()
            held.set()
            go.wait()
            for lock in list(_forks._locks):
                lock.release()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(not in_child())
        _, status = os.waitpid(child, 0)
        go.set()
        thread.join()
        self.assertEqual(status, 0)

    def test_objects_made_later_count(self):
        lock = _forks.renewed(threading.Lock())
        lock.acquire()
        child = os.fork()
        if child == 0:
            os._exit(lock.locked())
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        lock.release()


class Signals(unittest.TestCase):
    def test_a_handler_asks_for_the_report(self):
        """While its own thread is inside each function that counts."""

        groups = itertools.count()

        def handler(*_):
            str(headrace.report())
            report.count("group %d" % next(groups), "in a handler")
            # Not before: on a busy machine handlers would interrupt handlers.
            signal.setitimer(signal.ITIMER_REAL, 0.001)

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        end = time.monotonic() + 0.5
        try:
            while time.monotonic() < end:
                report.total("jobs")
                report.count("devices", "cpu")
                headrace.report()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            headrace.report(reset=True)

    def test_a_handler_needs_memory(self):
        try:
            from headrace import _memory
        except ImportError as error:
            self.skipTest(str(error))
        import torch

        with _memory._lock:
            made = _memory.empty((_memory.SMALLEST,), torch.uint8)
        self.assertEqual(len(made), _memory.SMALLEST)
