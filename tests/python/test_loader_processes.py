# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader: fork, and a process that ends at any time."""

import os
import subprocess
import sys
import unittest

import headrace

import core_samples as samples
from test_loader import indices_of, loader



class Processes(unittest.TestCase):
    def test_fork(self):
        a = loader(str(samples.folder() / "photos"), shuffle=True)
        order = indices_of(a)
        batches = iter(a)
        x, _ = next(batches)
        unopened = loader(str(samples.folder() / "photos"), shuffle=True)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                try:
                    next(batches)
                except headrace.DeviceError as error:
                    assert error.status == "HR_EFORK"
                    del x
                    assert indices_of(unopened) == order
                    a.close()
                    code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        next(batches)

    def run_program(self, text, code=0, first="", **environ):
        text = (
            first + "import headrace, signal, os, sys, threading\n"
            "from headrace import ops\n"
            "headrace._core.set_image_backend('cpu')\n"
            "class Sequence:\n"
            "    def __len__(self): return 1000\n"
            "    def __getitem__(self, i): return open(sys.argv[1], 'rb')"
            ".read(), i\n"
            "loader = headrace.Loader(Sequence(), (ops.decode(),"
            " ops.resize(32, 32)), batch=4, to='numpy')\n" + text)
        done = subprocess.run([sys.executable, "-c", text, samples.small()],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120,
                              env=os.environ | environ)
        self.assertEqual((done.returncode, done.stdout), (code, ""))

    def test_exit_with_work_in_flight(self):
        self.run_program("x, y = next(iter(loader))\n")
        self.run_program("batches = iter(loader); kept = [next(batches)"
                         " for i in range(20)]\n")
        self.run_program("loader._open()\nsys.exit(3)\n", 3)

    def test_a_sequence_is_not_asked_after_the_exit(self):
        # The first registered function is called last.
        self.run_program(
            "class Slow(Sequence):\n"
            "    def __getitem__(self, i):\n"
            "        asked.append(i)\n"
            "        time.sleep(0.02)\n"
            "        return super().__getitem__(i)\n"
            "loader = headrace.Loader(Slow(), (ops.decode(),"
            " ops.resize(32, 32)), batch=64, to='numpy')\n"
            "loader._open()\n"
            "while not asked: time.sleep(0.01)\n",
            first="import atexit, time\n"
                  "asked = []\n"
                  "def look():\n"
                  "    before = len(asked)\n"
                  "    time.sleep(0.2)\n"
                  "    if len(asked) > before: print('asked')\n"
                  "atexit.register(look)\n")

    def test_exit_while_a_thread_takes_batches(self):
        self.run_program(
            "begun = threading.Event()\n"
            "def take():\n"
            "    try:\n"
            "        while True:\n"
            "            for x, y in loader: begun.set()\n"
            "    except headrace.Error: pass\n"
            "threading.Thread(target=take, daemon=True).start()\n"
            "begun.wait()\n")

    def test_exit_while_a_thread_drops_its_loader(self):
        # The loader ends while its thread is still in the sequence.
        self.run_program(
            "begun, dropped = threading.Event(), threading.Event()\n"
            "class Waits(Sequence):\n"
            "    def __getitem__(self, i):\n"
            "        begun.set()\n"
            "        dropped.wait()\n"
            "        return super().__getitem__(i)\n"
            "def take():\n"
            "    core = headrace.Loader(Waits(), (ops.decode(),"
            " ops.resize(32, 32)), batch=4, reads=1)._open()\n"
            "    while True:\n"
            "        try: core.next(0.01)\n"
            "        except headrace.TimeoutError: pass\n"
            "        except headrace.CanceledError: break\n"
            "    del core\n"
            "    dropped.set()\n"
            "threading.Thread(target=take, daemon=True).start()\n"
            "begun.wait()\n", PYTHONMALLOC="debug")
