# SPDX-License-Identifier: Apache-2.0
"""The side channel alone: without torch, without pictures."""

import contextlib
import errno
import gc
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from unittest import mock

from headrace import _core
from headrace.dropin.workers import channel, message


class Handle:
    """Stands for a submitted job."""

    def __init__(self, value):
        self.value = value

    def wait(self):
        pass

    def result(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Device:
    """Remembers what was submitted; holds no handle itself."""

    def __init__(self):
        self.calls = []
        self.handles = []
        self.gate = threading.Event()
        self.gate.set()

    def submit(self, records):
        self.gate.wait(20)
        if records[0] == "refuse":
            raise OSError("the device is gone")
        self.calls.append(list(records))
        handles = [Handle(record) for record in records]
        self.handles += [weakref.ref(handle) for handle in handles]
        return handles

    def alive(self):
        return sum(ref() is not None for ref in self.handles)


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def wait_until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("not within %g s" % seconds)
        time.sleep(0.002)


def in_child(function):
    """Runs it in a forked child; returns how that exited."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            signal.alarm(20)
            code = function() or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class CannotLoad:
    """Pickles here and cannot be unpickled anywhere."""

    def __reduce__(self):
        return _explode, ()


def _explode():
    raise LookupError("does not unpickle")


@unittest.skipUnless(sys.platform == "linux", "counts descriptors in /proc")
class ChannelTest(unittest.TestCase):
    def setUp(self):
        signal.alarm(60)
        gc.collect()
        self.threads = threading.active_count()
        self.descriptors = descriptors()
        self.device = Device()
        self.heard = []
        self.channel = channel.Channel(self.device.submit, self.heard.append)

    def tearDown(self):
        # Closed, not only collected.
        self.channel.close()
        gc.collect()
        signal.alarm(0)
        self.assertEqual(threading.active_count(), self.threads)
        self.assertEqual(descriptors(), self.descriptors)

    def sender(self):
        sender = channel.Sender(self.channel.link)
        self.addCleanup(sender.close)
        return sender

    def claim(self, sender, number):
        return self.channel.claim(sender.name, number)

    def test_files_are_lent(self):
        """Files that a worker has read are lent; its other bytes are sent."""
        sizes = [100, 300_000, 5 << 20]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(size)) for size in sizes]
            for size, path in zip(sizes, paths):
                with open(path, "wb") as file:
                    file.write(size.to_bytes(4, "little") * (size // 4))

            def child():
                sender = channel.Sender(self.channel.link)
                sender.share_files()
                for _ in range(20):  # more than there is room for
                    read = [_core.read_file(path) for path in paths]
                    sender.ship([pickle.PickleBuffer(part) for part in
                                 [*read, b"x" * 70_000]])

            self.assertEqual(in_child(child), 0)
        wait_until(lambda: len(self.device.calls) == 20)
        kinds = []
        for (record,) in self.device.calls:
            *lent, sent = record
            self.assertEqual(bytes(sent), b"x" * 70_000)
            for size, part in zip(sizes, lent):
                kinds.append(type(part))
                self.assertEqual(bytes(part),
                                 size.to_bytes(4, "little") * (size // 4))
        self.assertEqual(set(kinds[:30]), {_core.FileBytes})
        del record, lent, sent, part
        self.device.calls.clear()

    def test_memory_is_used_again(self):
        """A new worker gets it. Before, its last worker must be gone, that
        one's messages read or lost, and none of its files in use."""
        rooms = channel.Rooms()
        (room,) = rooms.take(1)

        def again(gone, ended):
            owner = mock.Mock()
            owner.ended.return_value = ended
            rooms.give([room], [mock.Mock(exitcode=gone)], owner)
            return rooms.take(1)[0] is room

        with tempfile.TemporaryDirectory() as folder:
            for name in "ab":
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(name * 50_000)
                taken = self.lent([room], path)
                self.assertFalse(again(0, True))
                self.assertEqual(bytes(taken), name.encode() * 50_000)
                del taken
                self.assertFalse(again(None, True))
                self.assertFalse(again(0, False))
                self.assertTrue(again(-9, True))

    def lent(self, rooms, path):
        """The files that a channel takes from a child that reads there."""
        device = Device()
        owner = channel.Channel(device.submit, rooms=rooms)

        def child():
            sender = channel.Sender(owner.link)
            sender.share_files(0, rooms[0])
            left = _core.read_file(path)  # and is never given back
            sender.ship([pickle.PickleBuffer(_core.read_file(path))])
            os._exit(len(left) != 50_000)

        self.assertEqual(in_child(child), 0)
        wait_until(lambda: device.calls)
        self.assertFalse(owner.ended())
        owner.close()
        self.assertTrue(owner.ended())
        ((taken,),) = device.calls[0]
        self.assertIs(type(taken), _core.FileBytes)
        return taken

    def test_memory_of_no_number(self):
        """A sender that names memory that is not there is cut off."""
        sender = self.sender()
        message.share(sender._sock, 7)
        self.assertEqual(sender._sock.recv(1), b"")
        sender.close()

    def test_memory_that_is_none(self):
        """Its sender is cut off; the others are heard."""
        def child(fd):
            sender = channel.Sender(self.channel.link)
            with contextlib.suppress(OSError):
                message.share(sender._sock, 0, fd)
                sender._sock.recv(1)  # until it is closed

        with tempfile.TemporaryFile() as file:
            self.assertEqual(in_child(lambda: child(file.fileno())), 0)
        sender = self.sender()
        sender.ship("still there")
        wait_until(lambda: self.device.calls == [["still there"]])
        sender.close()

    def test_claim_before_and_after_arrival(self):
        sender = self.sender()
        early = self.claim(sender, 1)
        self.assertFalse(early._there.is_set())
        self.assertEqual(sender.ship("a"), 1)
        self.assertEqual(early.result(), "a")
        self.assertEqual(sender.ship("b"), 2)
        wait_until(lambda: len(self.device.calls) == 2)
        self.assertEqual(self.claim(sender, 2).result(), "b")
        sender.close()

    def test_submitted_before_it_is_asked_for(self):
        sender = self.sender()
        for number in range(4):
            sender.ship(number)
        wait_until(lambda: self.device.calls == [[0], [1], [2], [3]])
        sender.close()

    def test_buffers_inline_and_mapped(self):
        sender = self.sender()
        self.claim(sender, sender.ship("it is accepted")).result()
        before = descriptors()
        for size in (0, 1, 5000, 70_000, 3_000_000):
            data = [os.urandom(size), b"x" * 17, os.urandom(size)]
            record = [pickle.PickleBuffer(part) for part in data]
            number = sender.ship(record)
            got = self.claim(sender, number).result()
            for view, part in zip(got, data):
                self.assertIs(type(view), memoryview)
                self.assertTrue(view.readonly)
                self.assertEqual(view, part)
            del got, view
            self.device.calls.clear()
            self.assertEqual(descriptors(), before)
        sender.close()

    def test_a_wrong_key_is_not_heard(self):
        link = channel.Link(self.channel.link.address, b"k" * 32, 0)
        stranger = channel.Sender(link)
        with self.assertRaises(OSError):
            for _ in range(1000):
                stranger.ship("evil")
                time.sleep(0.001)
        stranger.close()
        silent = socket.socket(socket.AF_UNIX)
        silent.connect(self.channel.link.address)
        short = socket.socket(socket.AF_UNIX)
        short.connect(self.channel.link.address)
        short.send(b"hello")
        sender = self.sender()
        number = sender.ship("good")
        self.assertEqual(self.claim(sender, number).result(), "good")
        self.assertEqual(self.device.calls, [["good"]])
        for sock in (silent, short, sender):
            sock.close()

    def test_a_killed_worker_loses_only_what_it_did_not_send(self):
        read, write = os.pipe()

        def work():
            sender = channel.Sender(self.channel.link)
            os.write(write, sender.name)
            sender.ship("whole")
            # A header, and then nothing.
            sender._sock.sendall(b"\0" * 10)
            os._exit(7)

        self.assertEqual(in_child(work), 7)
        name = os.read(read, 16)
        os.close(read)
        os.close(write)
        self.assertEqual(self.channel.claim(name, 1).result(), "whole")
        with self.assertRaises(channel.ChannelError):
            self.channel.claim(name, 2).result()

    def test_a_claim_fails_when_its_worker_goes(self):
        sender = self.sender()
        sender.ship("a")
        pending = self.claim(sender, 2)
        self.assertEqual(self.claim(sender, 1).result(), "a")
        sender.close()
        self.assertRaises(channel.ChannelError, pending.result)

    def test_close_cancels_unclaimed_jobs(self):
        sender = self.sender()
        for number in range(3):
            sender.ship(number)
        wait_until(lambda: len(self.device.calls) == 3)
        kept = self.claim(sender, 2)
        waiting = self.claim(sender, 9)
        self.assertEqual(self.device.alive(), 3)
        self.channel.close()
        self.assertEqual(self.device.alive(), 1)
        self.assertEqual(kept.result(), 1)
        self.assertRaises(channel.ChannelError, waiting.result)
        with self.assertRaises(channel.ChannelError):
            self.claim(sender, 3).result()
        self.assertRaises(OSError, sender.ship, "late")
        sender.close()

    def test_a_dropped_claim_is_not_submitted(self):
        sender = self.sender()
        pending = self.claim(sender, 1)
        del pending
        sender.ship("unwanted")
        sender.ship("wanted")
        self.assertEqual(self.claim(sender, 2).result(), "wanted")
        self.assertEqual(self.device.calls, [["wanted"]])
        sender.close()

    def test_singles_run_together_and_batches_alone(self):
        sender = self.sender()
        self.device.gate.clear()
        sender.ship("batch")
        time.sleep(0.02)
        numbers = [sender.ship(n, single=True) for n in range(50)]
        sender.ship("next")
        self.device.gate.set()
        values = [self.claim(sender, n).result() for n in numbers]
        self.assertEqual(values, list(range(50)))
        self.assertEqual(
            self.device.calls, [["batch"], list(range(50)), ["next"]]
        )
        sender.ship("alone", single=True)
        self.assertEqual(self.claim(sender, 53).result(), "alone")
        sender.close()

    def test_what_cannot_be_submitted_fails_alone(self):
        sender = self.sender()
        bad = sender.ship("refuse")
        broken = sender.ship(CannotLoad())
        good = sender.ship("good")
        with self.assertRaisesRegex(OSError, "device is gone"):
            self.claim(sender, bad).result()
        with self.assertRaisesRegex(LookupError, "does not unpickle"):
            self.claim(sender, broken).result()
        self.assertEqual(self.claim(sender, good).result(), "good")
        sender.close()

    def test_news_arrive(self):
        sender = self.sender()
        sender.tell({"recorded": 3})
        sender.ship("a")
        self.assertEqual(self.claim(sender, 1).result(), "a")
        self.assertEqual(self.heard, [{"recorded": 3}])
        sender.close()

    def test_the_last_news_arrive(self):
        """Closed at once, as by a loader whose workers have just ended."""
        for number in range(20):
            heard = []
            owner = channel.Channel(self.device.submit, heard.append)
            sender = channel.Sender(owner.link)
            sender.tell(number)
            sender.close()
            owner.close()
            self.assertEqual(heard, [number])

    def test_fork_leaves_the_parents_channel_alone(self):
        sender = self.sender()
        number = sender.ship("mine")
        pending = self.claim(sender, number)
        address = self.channel.link.address
        shut = set(descriptors()) - set(self.descriptors)

        def child():
            if channel.channel_at(address) is not None:
                return 1
            sender.close()
            if set(descriptors()) - set(self.descriptors):
                return 2
            try:
                pending.result()
                return 3
            except channel.ChannelError:
                pass
            self.channel.close()
            other = channel.Channel(lambda records: map(Handle, records))
            mine = channel.Sender(other.link)
            own = other.claim(mine.name, mine.ship("child's"))
            right = own.result() == "child's"
            mine.close()
            other.close()
            return 0 if right else 4

        self.assertTrue(shut)
        for _ in range(20):
            self.assertEqual(in_child(child), 0)
        self.assertEqual(pending.result(), "mine")
        self.assertEqual(
            self.claim(sender, sender.ship("still")).result(), "still"
        )
        sender.close()

    def test_a_collector_may_close_it_on_its_own_thread(self):
        done = threading.Event()

        def news(value):
            with self.channel._lock:
                self.channel.close()
            done.set()

        self.channel.close()
        self.channel = channel.Channel(self.device.submit, news)
        sender = self.sender()
        sender.tell(1)
        self.assertTrue(done.wait(10))
        wait_until(lambda: not self.channel._thread.is_alive())
        sender.close()

    def test_it_ends_with_its_owner_without_close(self):
        class Owner:
            pass

        owner = Owner()
        self.channel.close()
        self.channel = channel.Channel(self.device.submit, None, owner)
        sender = self.sender()
        self.assertEqual(self.claim(sender, sender.ship(1)).result(), 1)
        del owner
        wait_until(lambda: not self.channel._thread.is_alive())
        sender.close()

    def test_no_more_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.channel.close()
        most = max(map(int, descriptors()))
        for more in range(0, 5):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most + more, hard))
            try:
                with self.assertRaises(OSError):
                    for _ in range(3):
                        self.channel = channel.Channel(self.device.submit)
                        self.channel.close()
                        raise OSError  # there was room
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_silent_connections_are_few(self):
        """A silent connection does not hold a descriptor for long."""
        silent = []
        for _ in range(3 * channel._MOST_STRANGERS):
            sock = socket.socket(socket.AF_UNIX)
            self.addCleanup(sock.close)
            sock.connect(self.channel.link.address)
            silent.append(sock)
        sender = self.sender()  # comes behind them
        number = sender.ship("a")
        self.assertEqual(self.claim(sender, number).result(), "a")
        self.assertLessEqual(
            len(self.channel._names), channel._MOST_STRANGERS + 1
        )
        sender.close()
        for sock in silent:
            sock.close()

    def test_late_hellos_are_dropped(self):
        with mock.patch.object(channel, "_HELLO_SECONDS", 0.0):
            with socket.socket(socket.AF_UNIX) as silent:
                silent.settimeout(10)
                silent.connect(self.channel.link.address)
                wait_until(lambda: self.channel._strangers)
                sender = self.sender()
                number = sender.ship("a")
                self.assertEqual(self.claim(sender, number).result(), "a")
                self.assertEqual(silent.recv(1), b"")  # was closed
                sender.close()

    @unittest.skipIf(os.geteuid() != 0, "needs to be another user")
    def test_other_users_are_refused(self):
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(20)
                sock.connect(self.channel.link.address)
                os._exit(sock.recv(1) != b"")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.channel._names, {})

    def test_without_descriptors_it_waits(self):
        """accept() fails: the thread sleeps, and goes on when there are."""
        calls = []

        def accept(listener):
            calls.append(1)
            raise OSError(errno.EMFILE, "no more descriptors")

        with socket.socket(socket.AF_UNIX) as sock:
            with mock.patch.object(socket.socket, "accept", accept):
                sock.connect(self.channel.link.address)
                wait_until(lambda: self.channel._full_until)
                self.assertEqual(len(calls), 1)
            wait_until(lambda: self.channel._strangers)
        wait_until(lambda: not self.channel._strangers)

    def test_started_later(self):
        """Workers may connect and send before the thread runs."""
        self.channel.close()
        self.channel = channel.Channel(self.device.submit, start=False)
        sender = self.sender()
        number = sender.ship("a")
        pending = self.claim(sender, number)
        self.assertFalse(self.channel._thread.is_alive())
        self.channel.start()
        self.channel.start()
        self.assertEqual(pending.result(), "a")
        sender.close()
        self.channel.close()
        self.channel = channel.Channel(self.device.submit, start=False)

    def test_many_workers_at_once(self):
        senders = [self.sender() for _ in range(8)]
        wrong = []

        def work(sender, first):
            for n in range(100):
                number = sender.ship((first, n), single=n % 3 == 0)
                got = self.claim(sender, number).result()
                if got != (first, n):
                    wrong.append(got)

        threads = [
            threading.Thread(target=work, args=(sender, i))
            for i, sender in enumerate(senders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        for sender in senders:
            sender.close()

    def test_exit_with_work_in_flight(self):
        code = (
            "import time\n"
            "from headrace.dropin.workers import channel\n"
            "def slow(records):\n"
            "    time.sleep(0.2)\n"
            "    return records\n"
            "c = channel.Channel(slow)\n"
            "s = channel.Sender(c.link)\n"
            "for n in range(50): s.ship(n)\n"
            "p = c.claim(s.name, 49)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], timeout=30, capture_output=True
        )
        self.assertEqual((done.returncode, done.stderr), (0, b""))
