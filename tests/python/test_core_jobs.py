# SPDX-License-Identifier: Apache-2.0
"""Jobs of headrace._core in time: waiting, callbacks, asyncio, threads, what
is dropped in flight."""
# Alone: waits have limits.

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
import time
import unittest
import weakref

import core_samples as samples
import headrace
from headrace import ops
from made_samples import allowed

STEPS = (ops.decode(), ops.resize(8, 6))
# Ops that keep the CPU busy: a job of 100 takes about a second.
SLOW = (ops.decode(), ops.resize(3000, 2000, filter="lanczos"),
        ops.resize(8, 6))


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
        """A waiting thread leaves Python to others: one of them cancels."""
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
        """The end of a job wakes the waiting thread, not a clock."""
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

    def test_an_unreferenced_job(self):
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
        # Without a call of the package the main thread frees it in passing.
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

    def test_a_look_settles_it(self):
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
