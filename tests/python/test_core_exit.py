# SPDX-License-Identifier: Apache-2.0
"""Processes with jobs of headrace._core: their exit, fork, interpreters that
are embedded."""
# Alone: children of fork have a second.

import contextlib
import gc
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
import unittest
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
            # A background process may have inherited an ignored SIGINT.
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
        # A name that fails, for a program that looks for a device of its own.
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
