# SPDX-License-Identifier: Apache-2.0
"""Where a thread is: inside a DataLoader's fetch, or anywhere else."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading

import dropin_case as case  # first: it may skip this file
from dropin_case import on
from headrace.dropin.base import fetch
from torch.utils.data import DataLoader, Dataset, IterableDataset

OUTSIDE = (False, False)
MAP = (True, True)
ITERABLE = (False, True)


def place():
    return fetch.can_ask_again(), fetch.is_lazy() != 0


class Map(Dataset):
    def __init__(self, ask=place):
        self.ask = ask

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.ask()


class Stream(IterableDataset):
    def __init__(self, ask=place):
        self.ask = ask

    def __iter__(self):
        yield self.ask()


def first(data, workers):
    """The first sample, as it is."""
    loader = DataLoader(data, None, num_workers=workers, collate_fn=as_is)
    return next(iter(loader))


def as_is(sample):
    return sample


def in_map(ask=place, workers=0):
    return first(Map(ask), workers)


def in_stream(ask=place, workers=0):
    return first(Stream(ask), workers)


def in_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(place()))
    thread.start()
    thread.join()
    return found[0]


def in_child():
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(there, b"%d%d" % place())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(here, 2)
    os.close(here)
    os.close(there)
    return text == b"11", text[-1:] == b"1"


class Places(case.Case):
    def test_outside(self):
        with on():
            self.assertEqual(place(), OUTSIDE)
            self.assertFalse(fetch.is_off())

    def test_inside(self):
        for workers in (0, 1):
            with self.subTest(workers=workers), on():
                self.assertEqual(in_map(workers=workers), MAP)
                self.assertEqual(in_stream(workers=workers), ITERABLE)
                self.assertEqual(place(), OUTSIDE)

    def test_nested(self):
        def both(inner):
            return inner(), place()

        with on():
            self.assertEqual(in_map(lambda: both(in_map)), (MAP, MAP))
            self.assertEqual(in_map(lambda: both(in_stream)), (ITERABLE, MAP))
            self.assertEqual(
                in_stream(lambda: both(in_map)), (ITERABLE, ITERABLE)
            )

    def test_files_that_change(self):
        """No second fetch would find them, also of a fetch around it."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        folder = holder.name
        path = os.path.join(folder, "file")

        def around(inner, change):
            return inner(lambda: (change(), place())[1]), place()

        for change, after in (
            (lambda: open(path, "w").close(), ITERABLE),
            (lambda: open(path).close(), MAP),
            (lambda: os.close(os.open(path, os.O_RDWR)), ITERABLE),
            (lambda: os.close(os.open(path, os.O_RDONLY)), MAP),
            (lambda: os.listdir(folder), MAP),
            (lambda: os.chmod(path, 0o600), ITERABLE),
            (lambda: os.truncate(path, 0), ITERABLE),
            (lambda: shutil.copy(path, path + "1"), ITERABLE),
            (lambda: os.link(path, path + "2"), ITERABLE),
            (lambda: os.symlink(path, path + "3"), ITERABLE),
            (lambda: os.rename(path + "3", path + "4"), ITERABLE),
            (lambda: os.unlink(path + "4"), ITERABLE),
            (lambda: os.chdir("."), ITERABLE),
            (lambda: subprocess.run(["true"]), ITERABLE),
            (lambda: os.system("true"), ITERABLE),
        ):
            with on():
                found = in_map(lambda: around(in_map, change))
                self.assertEqual(found, (after, after))
                self.assertEqual(place(), OUTSIDE)

    def test_errors_leave(self):
        def fail():
            raise KeyError

        for run in (in_map, in_stream):
            with on(), self.assertRaises(KeyError):
                run(fail)
            self.assertEqual(place(), OUTSIDE)

    def test_other_threads_and_children_are_outside(self):
        with on():
            for run in (in_map, in_stream):
                self.assertEqual(run(in_thread), OUTSIDE)
                self.assertEqual(run(in_child), OUTSIDE)

    def test_off(self):
        self.assertEqual(in_map(), OUTSIDE)

    def test_without_torch(self):
        code = (
            "import sys, headrace\n"
            "headrace.set_image_backend('cpu')\n"
            "from headrace.dropin.base import fetch\n"
            "assert 'torch' not in sys.modules\n"
            "assert not fetch.can_ask_again() and not fetch.is_lazy()\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
