# SPDX-License-Identifier: Apache-2.0
"""headrace._core holds the objects that it uses while other code runs: Python
code that it calls, other threads, the collector. Each case is a process of its
own, since a fault here ends a process, or never ends."""

import subprocess
import sys
import textwrap
import unittest

import core_samples as samples

try:
    import numpy
except ImportError:
    numpy = None

# Loaders deliver arrays.
needs_numpy = unittest.skipUnless(numpy, "needs NumPy")

HEAD = """
import faulthandler, gc, os, signal, sys, threading, time
faulthandler.enable()
sys.setswitchinterval(1e-5)
import headrace
from headrace import _core, ops

picture = sys.argv[1]
with open(picture, "rb") as file:
    data = file.read()
steps = (ops.decode(), ops.resize(8, 6))
_core.set_image_backend("cpu")

def batch(n=1):
    return headrace.Batch(n, 3, 6, 8)

def together(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
"""


class Child(unittest.TestCase):
    def child(self, text, *arguments, code=0):
        """Returns a program's output; it must end, with this code."""
        done = subprocess.run(
            [sys.executable, "-c", HEAD + textwrap.dedent(text),
             samples.small(), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=240)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout


class Paths(Child):
    def test_looked_at_again(self):
        self.child("""
            class Path:
                job = None
                def __init__(self, path):
                    self.path = path
                def __fspath__(self):
                    job, self.job = self.job, None
                    if job:
                        job.poll()
                    return self.path
            paths = [Path(f"/nowhere/{i}.jpg") for i in range(4)]
            job = headrace.submit([(path, steps) for path in paths], batch(4),
                                  on_error="zero")
            paths[0].job = job
            assert until(job.poll)
            assert [r.file for r in job.results] == [p.path for p in paths]
            """)

    def test_only_where_it_is_submitted(self):
        self.child("""
            class Path:
                asked = 0
                def __fspath__(self):
                    self.asked += 1
                    return "/nowhere/a.jpg"
            path = Path()
            job = headrace.submit([(path, steps)], batch(), on_error="zero")
            asked = path.asked
            assert until(job.poll)
            assert job.results[0].file == "/nowhere/a.jpg"
            assert path.asked == asked == 1, path.asked
            """)

    def test_by_threads(self):
        self.child("""
            import pathlib
            paths = [pathlib.Path(f"/nowhere/{i}.jpg") for i in range(200)]
            for _ in range(20):
                job = headrace.submit([(path, steps) for path in paths],
                                      batch(200), on_error="zero")
                def look():
                    while not job.poll():
                        pass
                    assert job.results[7].file == "/nowhere/7.jpg"
                together(look, look, look)
            """)

    @needs_numpy
    def test_an_item_that_its_path_changes(self):
        # A list is changed by the code that is run for what is in it.
        self.child("""
            class Path:
                def __fspath__(self):
                    item.clear()
                    gc.collect()
                    return picture
            class Number:
                def __index__(self):
                    item.clear()
                    return 3
            class Items:
                def __len__(self):
                    return 1
                def __getitem__(self, i):
                    return item
            for kind in (Path, lambda: bytes(bytearray(data))):
                for number in (5, Number()):
                    item = [kind(), number]
                    loader = headrace.Loader(Items(), steps, batch=1,
                                             to="numpy", epochs=1)
                    (x, y), = loader
                    assert y.tolist() == [int(number.__index__())], y
                    item = [kind(), number]
                    try:
                        headrace.Loader([item], steps)
                    except TypeError as error:  # it is looked at twice
                        assert "must be a picture" in str(error)
            """)


class Devices(Child):
    def test_closed_by_what_is_asked(self):
        self.child("""
            class Path:
                def __fspath__(self):
                    device.close()
                    return picture
            class Dtype:
                def __str__(self):
                    device.close()
                    return "f32"
            device = headrace.Device("cpu", threads=1)
            headrace.submit([(Path(), steps)], batch(), device=device).wait(60)
            for make in (headrace.Batch, headrace.Pixels):
                device = headrace.Device("cpu", threads=1)
                sizes = (1, 3, 6, 8) if make is headrace.Batch else (8, 6, 3)
                made = make(*sizes, Dtype(), device=device)
                assert made.dtype == "f32"
            """)

    def test_closed_by_another_thread(self):
        self.child("""
            for _ in range(20):
                device = headrace.Device("cpu", threads=1, budget=200_000)
                def work():
                    try:
                        headrace.submit([(data, steps)] * 16, batch(16),
                                        device=device).wait()
                    except headrace.ArgumentError as error:
                        assert "closed" in str(error), error
                together(work, work, work, device.close)
            """)

    def test_named_by_threads(self):
        self.child("""
            class Path:
                def __fspath__(self):
                    time.sleep(0.05)
                    return picture
            start = threading.Barrier(3)
            def work():
                out = batch()
                start.wait()
                headrace.submit([(Path(), steps)], out, device="cpu").wait()
            together(work, work, work)
            """)

    def test_a_name_that_runs_code(self):
        self.child("""
            class Name(str):
                def __hash__(self):
                    raise AssertionError("of a str")
                __eq__ = None
            headrace.submit([(data, steps)], batch(),
                            device=Name("cpu")).wait()
            """)

    def test_facts_while_it_is_closed(self):
        self.child("""
            names = ("name", "backend", "description", "exact", "reference")
            gc.set_threshold(1)
            class Closes:
                def __del__(self):
                    device.close()
            for name in (*names, "stats"):
                device = headrace.Device("cpu", threads=1)
                cycle = [Closes()]
                cycle.append(cycle)
                del cycle
                try:
                    value = getattr(device, name)
                    assert name != "stats" or value()["engines"]
                except headrace.ArgumentError as error:
                    assert "closed" in str(error)
            """)

    def test_the_name_of_the_default(self):
        self.child("""
            others = []
            def sets():
                for _ in range(1000):
                    _core.set_image_backend("cpu")
                others.append(None)
            def gets():
                while not others:
                    assert _core.get_image_backend() == "cpu"
            together(sets, gets, gets)
            """)


class Images(Child):
    def test_two_begin_it(self):
        self.child("""
            image = headrace.decode(data)
            slow = headrace.Device("cpu", threads=1, budget=1 << 20)
            big = (ops.decode(), ops.resize(3000, 3000), ops.normalize())
            job = headrace.submit([(data, big)] * 2,
                                  headrace.Batch(2, 3, 3000, 3000),
                                  device=slow)
            thread = threading.Thread(target=image.start,
                                      kwargs=dict(device=slow))
            thread.start()
            time.sleep(0.05)
            first = image.__array_interface__["data"]
            pixels = image.pixels()
            job.cancel()
            thread.join()
            assert image.pixels() is pixels
            assert image.__array_interface__["data"] == first
            assert image.start().poll()
            """)


@needs_numpy
class Sequences(Child):
    def test_endless(self):
        for number in ("sys.maxsize", "2**62", "2**61 + 3", "10**9"):
            with self.subTest(number=number):
                self.child("""
                    class Endless:
                        def __len__(self):
                            return eval(sys.argv[2])
                        def __getitem__(self, i):
                            return data, i % 7
                    def resident():
                        with open("/proc/self/statm") as file:
                            return int(file.read().split()[1]) * 4096
                    before = resident()
                    for shuffle in (False, True):
                        loader = headrace.Loader(
                            Endless(), steps, batch=4, to="numpy",
                            shuffle=shuffle, budget=1 << 20)
                        x, y = next(iter(loader))
                        indices = loader.last.indices
                        assert y.tolist() == [i % 7 for i in indices], y
                        loader.close()
                    assert resident() < before + (256 << 20)
                    """, number)

    def test_weights_of_another_number(self):
        self.child("""
            class Endless:
                def __len__(self):
                    return 2**61 + 1
                def __getitem__(self, i):
                    return data
            import array
            source = _core.Source(sequence=Endless())
            try:
                _core.Loader(source, steps, weights=array.array("d", [1.0]))
            except ValueError as error:
                assert "weights" in str(error)
            else:
                raise AssertionError
            """)

    def test_classes_go_with_pictures(self):
        self.child("""
            import itertools
            turn = itertools.count()
            class Items:
                def __len__(self):
                    return 8
                def __getitem__(self, i):
                    k = next(turn) % len(files)
                    return files[k], k
            files = [data, data[:200]]   # the second one is damaged
            loader = headrace.Loader(Items(), steps, batch=4, to="numpy",
                                     on_error="zero", epochs=20)
            for _ in range(20):
                for x, y in loader:
                    ok = [r.ok for r in loader.last.results]
                    assert [k == 0 for k in y.tolist()] == ok, (y, ok)
            """)

    def test_what_is_local_to_a_thread(self):
        self.child("""
            local = threading.local()
            made, gone, threads = [], [], set()
            class Connection:
                def __init__(self):
                    made.append(None)
                def __del__(self):
                    gone.append(None)
            class Items:
                def __len__(self):
                    return 300
                def __getitem__(self, i):
                    if not hasattr(local, "connection"):
                        local.connection = Connection()
                    threads.add(threading.get_ident())
                    return data
            loader = headrace.Loader(Items(), steps, batch=8, to="numpy")
            for x, y in loader:
                pass
            loader.close()
            assert len(made) == len(threads) <= 8, (len(made), len(threads))
            assert len(gone) == len(made)
            """)


@needs_numpy
class Waits(Child):
    BLOCKED = """
        class Items:
            def __len__(self):
                return 64
            def __getitem__(self, i):
                if i >= 8:
                    blocked.set()
                    threading.Event().wait()
                return data
        blocked = threading.Event()
        loader = headrace.Loader(Items(), steps, batch=8, to="numpy")
        numbers = iter(loader)
        next(numbers)
        assert blocked.wait(60)
        """

    def test_close_hears_signals(self):
        said = self.child(textwrap.dedent(self.BLOCKED) + textwrap.dedent("""
            def handler(number, frame):
                raise ZeroDivisionError
            signal.signal(signal.SIGUSR1, handler)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            try:
                loader.close()
            except ZeroDivisionError:
                print("heard", flush=True)
            loader.close()
            os._exit(0)
            """))
        self.assertIn("heard", said)

    def test_what_is_dropped_does_not_wait_for_ever(self):
        said = self.child(textwrap.dedent(self.BLOCKED) + textwrap.dedent("""
            del numbers, loader
            print("goes on", flush=True)
            os._exit(0)
            """))
        self.assertIn("goes on", said)

    def test_the_end_of_the_program(self):
        said = self.child(textwrap.dedent(self.BLOCKED) + 'print("the end")')
        self.assertIn("the end", said)

    def test_left_behind_it_ends(self):
        # The item comes in the end: what was left behind is given back.
        self.child("""
            import weakref
            class Items:
                def __len__(self):
                    return 64
                def __getitem__(self, i):
                    if i >= 8:
                        blocked.set()
                        go.wait()
                    return data
            blocked, go = threading.Event(), threading.Event()
            items = Items()
            gone = weakref.ref(items)
            loader = headrace.Loader(items, steps, batch=8, to="numpy")
            next(iter(loader))
            assert blocked.wait(60)
            del loader, items
            assert gone() is not None
            go.set()
            assert until(lambda: gone() is None)
            """)

    def interrupted(self, text, call, still="True"):
        said = self.child(textwrap.dedent(text) + textwrap.dedent(f"""
            try:
                {call}
            except KeyboardInterrupt:
                assert {still}
                print("heard", flush=True)
            os._exit(0)
            """))
        self.assertIn("heard", said)

    def test_a_server_that_is_silent(self):
        self.interrupted("""
            import socket
            server = socket.create_server(("127.0.0.1", 0))
            def ask():
                server.accept()
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(120)
            threading.Thread(target=ask, daemon=True).start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tar"
            """, "headrace.Loader([url], steps)")

    def test_reads(self):
        for call in ("out.read()", "out.read(timeout=100)", "pixels.read()",
                     "pixels.wait()"):
            with self.subTest(call=call):
                self.interrupted("""
                    slow = (ops.decode(), ops.resize(3000, 2000),
                            ops.resize(8, 6))
                    device = headrace.Device("cpu", threads=1)
                    out = headrace.Batch(300, 3, 6, 8, device=device)
                    job = headrace.submit([(data, slow)] * 300, out,
                                          device=device)
                    pixels = headrace.Pixels(8, 6, 3, device=device)
                    more = headrace.submit([(data, slow)], [pixels],
                                           device=device)
                    threading.Timer(0.1, os.kill,
                                    (os.getpid(), signal.SIGINT)).start()
                    """, call, "not job.poll()")

    def test_a_picture_whose_job_was_late(self):
        self.child("""
            pixels = headrace.Pixels(8, 6, 3)
            big = (ops.decode(), ops.resize(4000, 4000), ops.resize(8, 6))
            job = headrace.submit([(data, big)], [pixels], timeout=1e-6,
                                  on_error="zero")
            try:
                pixels.wait()
            except headrace.TimeoutError:
                pass
            """)


@needs_numpy
class Callbacks(Child):
    BEGIN = """
        slow = (ops.decode(), ops.resize(3000, 2000), ops.resize(8, 6))
        # It is at work for some seconds, and its jobs call back behind ours.
        loader = headrace.Loader([data] * 200, slow, batch=8, to="numpy")
        numbers = iter(loader)
        next(numbers)
        done = threading.Event()
        found = []
        def on_done(job):
            try:
                action()
            except BaseException as error:
                found.append(type(error).__name__)
            done.set()
        def submit():
            headrace.submit([(data, steps)], batch(), on_done=on_done)
            assert done.wait(120)
            print(found)
        """

    def in_callback(self, text):
        return self.child(textwrap.dedent(self.BEGIN) + textwrap.dedent(text))

    def test_close(self):
        self.assertIn("[]", self.in_callback("""
            action = loader.close
            submit()
            """))

    def test_drop(self):
        self.assertIn("[]", self.in_callback("""
            box = [loader, numbers]
            del loader, numbers
            action = box.clear
            submit()
            """))

    def test_collect(self):
        self.assertIn("[]", self.in_callback("""
            gc.disable()
            cycle = [loader, numbers]
            cycle.append(cycle)
            del cycle, loader, numbers
            action = gc.collect
            submit()
            """))

    def test_next(self):
        self.assertIn("ArgumentError", self.in_callback("""
            def action():
                next(numbers)
            submit()
            """))

    def test_reads(self):
        for out in ("batch()", "headrace.Pixels(8, 6, 3)"):
            with self.subTest(out=out):
                self.assertRegex(self.in_callback(f"""
                    big = (ops.decode(), ops.resize(2000, 2000),
                           ops.resize(8, 6))
                    out = {out}
                    one = headrace.Device("cpu", threads=1)
                    list_of = out if "batch" in "{out}" else [out]
                    def action():
                        job = headrace.submit([(data, big)], list_of,
                                              device=one)
                        out.read()
                    submit()
                    """), "Error")

    def test_unreferenced_jobs(self):
        # The main thread runs no Python code meanwhile.
        self.child("""
            import weakref
            memory = [batch() for _ in range(8)]
            gone = [weakref.ref(out) for out in memory]
            for out in memory:
                headrace.submit([(data, steps)], out)
            del memory, out
            ends, found = threading.Event(), []
            def look():
                found.append(until(lambda: not any(ref() for ref in gone)))
                ends.set()
            threading.Thread(target=look).start()
            ends.wait()
            assert found == [True]
            """)
