# SPDX-License-Identifier: Apache-2.0
"""read_file()'s result, and the memory that it lies in."""

import os
import pathlib
import pickle
import resource
import socket
import tempfile
import unittest

from headrace import _core

ROOM = 64 << 20  # of one process


def content(number, size):
    return number.to_bytes(4, "little") * (size // 4)


class Case(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def path(self, number, size):
        path = self.folder / ("%d.bin" % number)
        if not path.exists():
            path.write_bytes(content(number, size))
        return str(path)


class Reading(Case):
    def test_what_is_read(self):
        for size in 0, 4, 16000, 16384 - 192, 16384, 1 << 20:
            path = self.path(size, size)
            with open(path, "rb") as file:
                file.read(3)
                place = file.tell()
                found = [_core.read_file(path), _core.read_file(
                    os.fsencode(path)), _core.read_file(file.fileno())]
                self.assertEqual(file.tell(), place)
            status = os.stat(path)
            for read in found:
                self.assertEqual(bytes(read), content(size, size))
                self.assertEqual(len(read), size)
                self.assertTrue(memoryview(read).readonly)
                self.assertEqual(pickle.loads(pickle.dumps(read)), bytes(read))
                self.assertEqual(read.identity, (
                    status.st_dev, status.st_ino, status.st_size,
                    status.st_mtime_ns, status.st_ctime_ns))

    def test_no_regular_file(self):
        pipe = str(self.folder / "pipe")
        os.mkfifo(pipe)
        for path in pipe, str(self.folder), "/dev/null":
            self.assertIsNone(_core.read_file(path))
        with self.assertRaises(FileNotFoundError) as caught:
            _core.read_file(str(self.folder / "none"))
        self.assertEqual(caught.exception.filename, str(self.folder / "none"))
        reader, writer = os.pipe()
        self.assertIsNone(_core.read_file(reader))
        os.close(reader)
        os.close(writer)
        self.assertRaises(OSError, _core.read_file, reader)

    def test_memory_is_used_again(self):
        paths = [self.path(n, 1 << 20) for n in range(8)]
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(20):
                read = [_core.read_file(path) for path in paths]
                del read
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        self.assertLess(faults, 20 * 8 * 256 // 10)

    def test_what_is_kept_stays(self):
        """Also where more is kept than there is room for."""
        sizes = [ROOM // 3, 5 << 20, 40000, ROOM // 3, ROOM // 3, 16384, 12]
        kept = {}
        for step in range(60):
            number = step * 7 % len(sizes)
            read = _core.read_file(self.path(number, sizes[number]))
            if step % 3:
                kept[step % 11] = number, read
            for number, read in kept.values():
                self.assertEqual(bytes(memoryview(read)[-12:]),
                                 content(number, 12))
        for number, read in kept.values():
            self.assertEqual(bytes(read), content(number, sizes[number]))


class Worker:
    """A process that reads, and lends the bytes to this one."""

    def __init__(self, run):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            code = 1
            try:
                fd = _core.share_files()
                socket.send_fds(theirs, [b"x"], [fd])
                run(theirs)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self.sock = ours
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        self.files = _core.SharedFiles(fds[0])
        os.close(fds[0])

    def take(self):
        return self.files.take(int(self.sock.recv(16)))

    def go_on(self):
        self.sock.send(b"x")

    def end(self):
        self.sock.close()
        return os.waitpid(self.pid, 0)[1]


class Lending(Case):
    SIZE = 5 << 20

    def lend(self, sock, number):
        read = _core.read_file(self.path(number, self.SIZE))
        sock.send(b"%d" % read.lend())
        sock.recv(1)

    def worker(self, run):
        for number in range(40):
            self.path(number, self.SIZE)
        return Worker(run)

    def test_it_stays_while_either_has_it(self):
        def run(sock):
            self.lend(sock, 1)
            for number in range(2, 40):  # more than there is room for
                read = _core.read_file(self.path(number, self.SIZE))
                assert bytes(read) == content(number, self.SIZE)
                del read
            self.lend(sock, 3)

        worker = self.worker(run)
        first = worker.take()
        identity = os.stat(self.path(1, self.SIZE)).st_ino
        self.assertEqual(first.identity[1], identity)
        worker.go_on()
        second = worker.take()
        self.assertEqual(bytes(first), content(1, self.SIZE))
        self.assertEqual(bytes(second), content(3, self.SIZE))
        worker.go_on()
        self.assertEqual(worker.end(), 0)
        del worker
        self.assertEqual(bytes(first), content(1, self.SIZE))

    def test_what_comes_back_is_used_again(self):
        def run(sock):
            for number in range(40):
                self.lend(sock, number)

        worker = self.worker(run)
        for number in range(40):
            taken = worker.take()
            self.assertEqual(bytes(taken), content(number, self.SIZE))
            del taken
            worker.go_on()
        self.assertEqual(worker.end(), 0)

    def test_children_give_nothing_back(self):
        def run(sock):
            kept = _core.read_file(self.path(1, self.SIZE))
            pid = os.fork()
            if not pid:
                del kept
                read = _core.read_file(self.path(2, self.SIZE))
                os._exit(read.lend() is not None)
            assert os.waitpid(pid, 0)[1] == 0
            sock.send(b"%d" % kept.lend())
            sock.recv(1)
            del kept
            self.lend(sock, 3)

        worker = self.worker(run)
        taken = worker.take()
        pid = os.fork()
        if not pid:
            del taken
            os._exit(0)
        os.waitpid(pid, 0)
        worker.go_on()
        other = worker.take()
        self.assertEqual(bytes(taken), content(1, self.SIZE))
        self.assertEqual(bytes(other), content(3, self.SIZE))
        worker.go_on()
        self.assertEqual(worker.end(), 0)

    def test_children_have_a_copy(self):
        def run(sock):
            kept = _core.read_file(self.path(1, self.SIZE))
            reader, writer = os.pipe()
            pid = os.fork()
            if not pid:
                os.read(reader, 1)
                os._exit(bytes(kept) != content(1, self.SIZE))
            del kept
            read = _core.read_file(self.path(2, self.SIZE))  # where it was
            os.write(writer, b"x")
            assert os.waitpid(pid, 0)[1] == 0
            sock.send(b"%d" % read.lend())
            sock.recv(1)

        worker = self.worker(run)
        self.assertEqual(bytes(worker.take()), content(2, self.SIZE))
        worker.go_on()
        self.assertEqual(worker.end(), 0)

    def test_nothing_else_is_taken(self):
        def run(sock):
            self.lend(sock, 1)

        worker = self.worker(run)
        taken = worker.take()
        for wrong in -1, 2000, 4096, 1 << 40:
            self.assertRaises(ValueError, worker.files.take, wrong)
        with tempfile.TemporaryFile() as file:
            with self.assertRaises(ValueError):
                _core.SharedFiles(file.fileno())
        self.assertIsNone(_core.read_file(self.path(1, 4)).lend())
        worker.go_on()
        self.assertEqual(worker.end(), 0)
        del taken
