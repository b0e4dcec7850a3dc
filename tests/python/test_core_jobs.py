# SPDX-License-Identifier: Apache-2.0
"""Jobs of headrace._core in time: waiting, callbacks, asyncio, threads, what
is dropped in flight, exit, fork."""
# Alone: children of fork have a second.

import array
import asyncio
import concurrent.futures
import contextlib
import gc
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
import unittest
import weakref
from unittest import mock

import core_samples as samples
import headrace
from headrace import _core, ops
from made_samples import allowed

STEPS = (ops.decode(), ops.resize(8, 6))
# Ops that keep the CPU busy: a job of 100 takes about a second.
SLOW = (ops.decode(), ops.resize(3000, 2000, filter="lanczos"),
        ops.resize(8, 6))
FORKS = 100


def submit(n=1, steps=STEPS, **options):
    out = headrace.Batch(n, 3, 6, 8)
    return out, headrace.submit([(samples.small(), steps)] * n, out, **options)


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class Memory(bytearray):
    """Memory that tells when it goes."""


class Waiting(unittest.TestCase):
    def test_timeout(self):
        out, job = submit(20, SLOW)
        with self.assertRaises(headrace.TimeoutError) as caught:
            job.wait(0.01)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertEqual(caught.exception.status, "HR_ETIMEDOUT")
        self.assertFalse(job.poll())
        with self.assertRaises(headrace.Error):
            job.results
        job.wait(60)
        self.assertTrue(job.poll())
        job.wait()
        self.assertTrue(all(r.ok for r in job.results))

    def test_timeout_of_the_job(self):
        out, job = submit(200, SLOW, timeout=0.05)
        self.assertRaises(headrace.TimeoutError, job.wait, 60)
        self.assertTrue(job.poll())

    def test_cancel(self):
        out, job = submit(200, SLOW)
        job.cancel()
        self.assertRaises(headrace.CanceledError, job.wait, 60)
        self.assertIn("HR_ECANCELED", {r.status_name for r in job.results})

    def test_interrupt(self):
        out, job = submit(300, SLOW)

        def interrupt(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            self.assertRaises(KeyboardInterrupt, job.wait)
            self.assertLess(time.monotonic() - begin, allowed(0.6))
            self.assertFalse(job.poll())
        finally:
            signal.signal(signal.SIGALRM, before)
        job.cancel()
        self.assertRaises(headrace.CanceledError, job.wait, 60)

    def test_others_run_meanwhile(self):
        """Whoever waits leaves Python to others: one of them cancels."""
        out, job = submit(300, SLOW)

        def cancel():
            for _ in range(5):
                time.sleep(0.002)
            job.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        self.assertRaises(headrace.CanceledError, job.wait)
        thread.join()

    def test_descriptor(self):
        import select
        out, job = submit(20, SLOW)
        self.assertEqual(select.select([job.fileno()], [], [], 60)[0],
                         [job.fileno()])
        self.assertTrue(job.poll())

    def test_budget(self):
        """submit() waits for room, and is woken by it."""
        with headrace.Device("cpu", threads=1, budget=1 << 20) as device:
            data = samples.read(max(samples.photos(), key=os.path.getsize))
            jobs = []
            begin = time.monotonic()
            for _ in range(20):
                out = headrace.Batch(2, 3, 6, 8, device=device)
                jobs.append(headrace.submit([(data, SLOW)] * 2, out,
                                            device=device))
            self.assertTrue(any(j.poll() for j in jobs))
            for job in jobs:
                job.wait()
            self.assertLess(time.monotonic() - begin, allowed(60))
            self.assertEqual(device.stats()["samples"], 40)

    def test_room_for_one(self):
        """The end of a job wakes who waits, not a clock."""
        with headrace.Device("cpu", threads=1, budget=1) as device:
            outs = [headrace.Batch(1, 3, 6, 8, device=device)
                    for _ in range(400)]
            jobs = []
            begin = time.monotonic()
            for out in outs:
                jobs.append(headrace.submit([(samples.small(), STEPS)], out,
                                            device=device))
            took = time.monotonic() - begin
            for job in jobs:
                job.wait()
            self.assertLess(took, allowed(2))


class NoThreads(unittest.TestCase):
    def test_done_when_it_is_submitted(self):
        def threads():
            return len(os.listdir("/proc/self/task"))

        want, job = submit(20)
        job.wait()
        before = threads()
        device = headrace.Device("cpu", threads=-1)
        called = []
        for out in (headrace.Batch(20, 3, 6, 8), want):
            job = headrace.submit(
                [(samples.small(), STEPS)] * 20, out, device=device,
                on_done=called.append,
            )
            job.wait(0)  # it is done
            self.assertIs(called.pop(), job)
            self.assertEqual(bytes(out), bytes(want))
        self.assertEqual(threads(), before)
        with self.assertRaises(headrace.ArgumentError):
            headrace.Device("cpu", threads=-2)


class Callbacks(unittest.TestCase):
    def test_once_on_another_thread(self):
        calls = []
        out, job = submit(5, on_done=lambda job: calls.append(
            (job, threading.get_ident(), job.poll(), len(job.results))))
        job.wait()
        self.assertEqual(len(calls), 1)
        self.assertIs(calls[0][0], job)
        self.assertNotEqual(calls[0][1], threading.get_ident())
        self.assertEqual(calls[0][2:], (True, 5))

    def test_before_wait_returns(self):
        for _ in range(50):
            called = []
            out, job = submit(on_done=called.append)
            job.wait()
            self.assertEqual(called, [job])

    def test_a_job_that_nobody_has(self):
        event = threading.Event()
        submit(on_done=lambda job: event.set())
        self.assertTrue(event.wait(30))

    def test_it_goes_after_the_call(self):
        class Call:
            def __call__(self, job):
                pass
        call = Call()
        seen = weakref.ref(call)
        out, job = submit(on_done=call)
        del call
        job.wait()
        self.assertTrue(until(lambda: seen() is None))

    def test_exceptions(self):
        def fail(job):
            raise ZeroDivisionError
        seen = []
        before = sys.unraisablehook
        sys.unraisablehook = lambda what: seen.append(
            (what.exc_type, what.object))
        try:
            out, job = submit(on_done=fail)
            job.wait()
        finally:
            sys.unraisablehook = before
        self.assertEqual(seen, [(ZeroDivisionError, fail)])

    def test_waiting_is_refused(self):
        seen = []

        def callback(job):
            out, other = submit(100, SLOW)
            try:
                other.wait()
            except headrace.Error as error:
                seen.append(str(error))
            other.cancel()
            job.wait()

        out, job = submit(on_done=callback)
        job.wait()
        self.assertEqual(seen, ["a callback must not wait for a job"])

    def test_submitting_is_fine(self):
        chain = []

        def callback(job):
            chain.append(job)
            if len(chain) < 20:
                submit(on_done=callback)

        submit(on_done=callback)
        self.assertTrue(until(lambda: len(chain) == 20))

    def test_a_failed_job(self):
        seen = []
        out = headrace.Batch(1, 3, 6, 8)
        job = headrace.submit([(b"nothing", STEPS)], out,
                              on_done=lambda job: seen.append(job.results[0]))
        self.assertRaises(headrace.PictureError, job.wait)
        self.assertEqual(seen[0].status_name, "HR_EFORMAT")

    def test_none_if_it_is_refused(self):
        called = []
        out = headrace.Batch(1, 3, 6, 8)
        with self.assertRaises(headrace.ArgumentError):
            headrace.submit([(b"", (ops.crop(0, 0, 1, 1),))], out,
                            on_done=called.append)
        self.assertEqual(called, [])


class Asyncio(unittest.TestCase):
    def test_many(self):
        async def one():
            out, job = submit(2)
            results = await job
            self.assertTrue(all(r.ok for r in results))

        async def all_of_them():
            await asyncio.gather(*(one() for _ in range(100)))

        before = len(os.listdir("/proc/self/fd"))
        asyncio.run(all_of_them())
        gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)

    def test_the_loop_runs_on(self):
        async def main():
            out, job = submit(20, SLOW)
            task = asyncio.ensure_future(wait(job))
            for _ in range(3):  # the task begins to wait
                await asyncio.sleep(0)
            runs = not job.poll()
            await task
            return runs

        async def wait(job):
            await job

        self.assertTrue(asyncio.run(main()))

    def test_several_tasks_one_job(self):
        async def wait(job):
            return await job

        async def main():
            out, job = submit(20, SLOW)
            lost = asyncio.ensure_future(wait(job))
            await asyncio.sleep(0)
            lost.cancel()
            done = await asyncio.gather(*(wait(job) for _ in range(5)))
            with self.assertRaises(asyncio.CancelledError):
                await lost
            return done

        self.assertEqual([len(r) for r in asyncio.run(main())], [20] * 5)

    def test_errors(self):
        async def main():
            out = headrace.Batch(1, 3, 6, 8)
            await headrace.submit([("/no/such/file", STEPS)], out)

        with self.assertRaises(headrace.ReadError):
            asyncio.run(main())

    def test_image(self):
        async def main():
            image = headrace.decode(samples.small()).resize(8, 6)
            self.assertIs(await image, image)
            self.assertTrue(image.start().poll())

        asyncio.run(main())


class Threads(unittest.TestCase):
    def test_four(self):
        out, job = submit()
        job.wait()
        want = bytes(out)
        wrong = []

        def work():
            for i in range(40):
                out, job = submit(4, on_done=(lambda job: None) if i % 2
                                  else None)
                job.wait()
                if bytes(out) != want * 4:
                    wrong.append(i)
                if i % 8 == 0:
                    gc.collect()

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(work) for _ in range(4)]:
                future.result()
        self.assertEqual(wrong, [])

    def test_one_image_many_threads(self):
        for _ in range(10):
            image = headrace.decode(samples.small()).resize(8, 6)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                made = list(pool.map(lambda _: bytes(image.pixels()),
                                     range(4)))
            self.assertEqual(len(set(made)), 1)


class Dropped(unittest.TestCase):
    """A job goes on without its objects, and what it borrowed stays."""

    def drop(self, n, steps, **options):
        memory = Memory(n * 3 * 6 * 8 * 4)
        seen = weakref.ref(memory)
        view = memoryview(memory)
        out = headrace.Batch(n, 3, 6, 8, data=memory)
        source = Memory(samples.read(samples.small()))
        job = headrace.submit([(source, steps)] * n, out, **options)
        return seen, weakref.ref(source), view, weakref.ref(job)

    def test_memory_stays_and_goes(self):
        memory, source, view, job = self.drop(15, SLOW)
        gc.collect()
        self.assertIsNone(job())
        self.assertIsNotNone(source())
        self.assertIsNotNone(memory())
        # Nobody calls the package: the main thread frees it in passing.
        self.assertTrue(until(lambda: source() is None))
        out, job = submit(15, SLOW)
        job.wait()
        self.assertEqual(bytes(view), bytes(out))
        view.release()
        self.assertTrue(until(lambda: memory() is None))

    def test_many(self):
        sources = []
        for _ in range(200):
            sources.append(self.drop(2, STEPS)[1])
            if len(sources) % 50 == 0:
                gc.collect()
        self.assertTrue(until(lambda: not any(s() for s in sources)))

    def test_a_cycle_in_flight(self):
        class Owner:
            pass
        owner = Owner()
        seen = weakref.ref(owner)
        called = threading.Event()

        def callback(job, owner=owner):
            called.set()

        owner.out, owner.job = submit(20, SLOW, on_done=callback)
        owner.memory = headrace.Batch(1, 3, 6, 8, keep=owner)
        owner.more = headrace.submit([(samples.small(), STEPS)],
                                     owner.memory)
        del owner, callback
        gc.collect()
        self.assertTrue(called.wait(60))
        self.assertTrue(until(lambda: gc.collect() * 0 == 0
                              and seen() is None))

    def test_a_job_that_is_done(self):
        memory, source, view, job = self.drop(1, STEPS)
        out, job = submit(1)
        job.wait()
        self.assertTrue(until(lambda: source() is None))
        self.assertEqual(bytes(view), bytes(out))

    def test_settled_by_who_looks(self):
        for look in (lambda j: j.wait(), lambda j: until(j.poll),
                     lambda j: until(j.poll) and j.results):
            source = Memory(samples.read(samples.small()))
            seen = weakref.ref(source)
            out = headrace.Batch(1, 3, 6, 8)
            job = headrace.submit([(source, STEPS)], out)
            del source
            look(job)
            self.assertIsNone(seen())

    def test_results_outlive_the_job(self):
        out, job = submit(3)
        job.wait()
        results = job.results
        del job
        gc.collect()
        for r in results:
            self.assertEqual((r.ok, r.spans[-1][1]), (True, "store"))


class Exit(unittest.TestCase):
    """The interpreter ends whatever is in flight: quickly and quietly."""

    HEAD = """
        import gc, os, sys, threading, time
        import headrace
        from headrace import _core, ops
        _core.set_image_backend("cpu")
        SMALL = %r
        SLOW = (ops.decode(), ops.resize(3000, 2000, filter="lanczos"),
                ops.resize(8, 6))
        memory = bytearray(400 * 576)
        def submit(n=400, steps=SLOW, **options):
            out = headrace.Batch(n, 3, 6, 8, data=memory)
            return headrace.submit([(SMALL, steps)] * n, out, **options)
    """

    def run_text(self, text, code=0, seconds=20):
        head = textwrap.dedent(self.HEAD) % samples.small()
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c",
             head + textwrap.dedent(text)],
            capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (code, ""), text)
        self.assertLess(time.monotonic() - begin, allowed(seconds), text)
        return done.stdout

    def test_with_a_job(self):
        self.run_text("job = submit()")

    def test_with_an_orphan(self):
        self.run_text("submit(40)")

    def test_with_many(self):
        self.run_text("jobs = [submit(20) for _ in range(20)]")

    def test_a_callback_is_called(self):
        out = self.run_text("""
            submit(20, on_done=lambda job: print(len(job.results)))
        """)
        self.assertEqual(out, "20\n")

    def test_while_threads_wait(self):
        self.run_text("""
            job = submit()
            def wait():
                try:
                    job.wait()
                except headrace.CanceledError:
                    pass
            for _ in range(3):
                threading.Thread(target=wait, daemon=True).start()
            time.sleep(.05)
        """)

    def test_sys_exit_and_os_exit(self):
        self.run_text("job = submit(); sys.exit(3)", 3)
        self.run_text("job = submit(); os._exit(4)", 4)

    def test_references_everywhere(self):
        self.run_text("""
            sys.done = submit(1)
            sys.done.wait()
            sys.job = submit()
            sys.batch = headrace.Batch(1, 3, 6, 8)
            sys.capsules = [sys.batch.__dlpack__(),
                            sys.batch.__dlpack__(max_version=(1, 0))]
            sys.view = memoryview(sys.batch)
            sys.results = sys.done.results
            sys.device = headrace.Device("cpu")
            sys.image = headrace.decode(SMALL)
            sys.image.start()
        """)

    def test_submitting_afterwards(self):
        out = self.run_text("""
            _core._at_exit()
            try:
                submit(1)
            except headrace.CanceledError as error:
                print(error)
        """)
        self.assertEqual(out, "the interpreter exits\n")

    def test_dlpack_that_lives_longer(self):
        try:
            import torch
        except ImportError:
            self.skipTest("needs torch")
        self.run_text("""
            import torch
            batch = headrace.Batch(4, 3, 6, 8)
            torch.kept = torch.from_dlpack(batch)
            job = submit()
        """)

    def test_interrupt_at_exit(self):
        out = self.run_text("""
            import signal
            # What runs in the background may have inherited that it ignores it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            def late():
                time.sleep(.3)
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=late, daemon=True).start()
            job = submit(on_done=lambda job: print(job.results[-1]
                                                   .status_name))
        """)
        self.assertEqual(out, "HR_ECANCELED\n")


class Forking(unittest.TestCase):
    """A child gets a clear error for what is the parent's, and a fresh start
    for the rest, each within a second."""

    def in_child(self, work):
        read, write = os.pipe()
        begin = time.monotonic()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(read)
                os.write(write, repr(work()).encode())
                code = 0
            except BaseException as error:
                os.write(write, repr(error).encode())
            finally:
                os._exit(code)
        os.close(write)
        end = begin + 30
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.fail("the child hangs")
            time.sleep(0.002)
        took = time.monotonic() - begin
        with os.fdopen(read) as pipe:
            text = pipe.read()
        return text, took

    def test_rounds(self):
        """100 times, while the parent's jobs fly."""
        out, job = submit()
        job.wait()
        want = bytes(out)
        times = []
        for number in range(FORKS):
            keep = [submit(2, STEPS if number % 10 else SLOW)
                    for _ in range(2)]

            def work():
                # The parent's.
                for call in (keep[0][1].wait, keep[0][1].poll,
                             keep[0][1].cancel, keep[0][1].fileno):
                    try:
                        call()
                    except headrace.DeviceError as error:
                        if error.status != "HR_EFORK":
                            return "wrong error", str(error)
                    else:
                        return "no error", call
                try:
                    headrace.submit([(samples.small(), STEPS)], keep[1][0])
                except headrace.DeviceError:
                    pass
                else:
                    return "the parent's batch was taken"
                keep.clear()
                gc.collect()
                # Its own.
                out, job = submit()
                job.wait(10)
                return bytes(out) == want

            text, took = self.in_child(work)
            self.assertEqual(text, "True", number)
            times.append(took)
            for out, job in keep:
                job.cancel()
        # The machine may have been busy with something else once.
        self.assertLess(sorted(times)[-3], allowed(1.0))

    def test_the_default_device_is_the_parents(self):
        # A name that fails, for whoever looks for a device of its own.
        with mock.patch.dict(os.environ, HEADRACE_BACKEND="toaster"):
            text, took = self.in_child(_core.get_image_backend)
        self.assertEqual(text, "'cpu'")

    def test_named_device(self):
        """submit(device=name) opens its device again."""
        def work():
            out = headrace.Batch(1, 3, 6, 8, device="cpu")
            job = headrace.submit([(samples.small(), STEPS)], out,
                                  device="cpu")
            job.wait(10)
            return bytes(out)

        want = work()
        text, took = self.in_child(work)
        self.assertEqual(text, repr(want))

    def test_with_callbacks_and_exit_hook(self):
        code = textwrap.dedent("""
            import os, sys, headrace
            from headrace import ops
            headrace._core.set_image_backend("cpu")
            SLOW = (ops.decode(), ops.resize(3000, 2000), ops.resize(8, 6))
            out = headrace.Batch(50, 3, 6, 8)
            job = headrace.submit([(%r, SLOW)] * 50, out,
                                  on_done=lambda job: None)
            pid = os.fork()
            if pid:
                _, status = os.waitpid(pid, 0)
                print(os.waitstatus_to_exitcode(status))
            # Both go through the exit hook.
        """) % samples.small()
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "0\n", ""))
        self.assertLess(time.monotonic() - begin, allowed(20))


class Interpreters(unittest.TestCase):
    HOST = """
        #include <Python.h>
        int main(int argc, char **argv)
        {
            int rc = 0;

            for (int i = 0; i < 3; i++) {
                Py_Initialize();
                rc |= PyRun_SimpleString(argv[1]);
                rc |= Py_FinalizeEx();
            }
            return rc != 0;
        }
    """

    def host(self):
        """A program that embeds Python, and ends it between its programs."""
        known, path = sysconfig.get_config_var, str(samples.scratch() / "host")
        made = subprocess.run(
            ["cc", "-x", "c", "-", "-o", path, "-I" + known("INCLUDEPY"),
             "-x", "none", os.path.join(known("LIBDIR"), known("LDLIBRARY")),
             "-Wl,-rpath," + known("LIBDIR"), "-lm", "-ldl", "-lpthread"],
            input=self.HOST, capture_output=True, text=True)
        if made.returncode:
            self.skipTest("no program that embeds this Python can be linked")
        return path

    def test_one_behind_another(self):
        code = ("import headrace\n"
                "from headrace import ops\n"
                "steps = ops.decode(), ops.resize(8, 6)\n"
                "job = headrace.submit([(%r, steps)],"
                " headrace.Batch(1, 3, 6, 8))\n"
                "job.wait()\n"
                "print(len(job.results))\n" % samples.small())
        done = subprocess.run(
            [self.host(), code], capture_output=True, text=True, timeout=600,
            env=dict(os.environ, PYTHONHOME=sys.base_prefix,
                     PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual((done.returncode, done.stdout),
                         (0, "1\n" * 3), done.stderr)

    def test_subinterpreters_are_refused(self):
        text = ("try:\n import headrace\n"
                "except ImportError as e:\n import os; "
                "os.write(1, str(e).encode())\n")
        for name in ("_interpreters", "_xxsubinterpreters"):
            with contextlib.suppress(ImportError):
                __import__(name)
                break
        else:
            self.skipTest("this Python has no subinterpreters")
        code = (f"import {name} as i; n = i.create(); "
                f"r = i.run_string(n, {text!r}); "
                "import sys; i.destroy(n); sys.exit(r is not None)")
        done = subprocess.run([sys.executable, "-c", code],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "subinterpreters")
