# SPDX-License-Identifier: Apache-2.0
"""examples/serve.py: what clients of a loaded service rely on."""
# Alone: it loads the machine.

import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import core_samples as samples

try:
    import aiohttp
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(str(missing)) from None

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "serve.py"
CLIENTS = 64
TENSOR = 4 * 3 * 224 * 224  # bytes
SECONDS = 60 if os.environ.get("HEADRACE_TEST_LONG") else 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.asynccontextmanager
async def service(*options):
    """Its process and a client of it; it must stop cleanly in the end."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, "--port", str(port), *options,
        stdout=asyncio.subprocess.DEVNULL)
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}",
                                         connector=connector) as client:
            await answers(client, process)
            yield process, client
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
        assert code == 0, f"it ended with {code}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def answers(client, process):
    while process.returncode is None:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with client.get("/stats"):
                return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it ended with {process.returncode}")


async def post(client, data):
    """(status, seconds, body or error)"""
    began = time.perf_counter()
    async with client.post("/", data=data) as answer:
        body = await (answer.read() if answer.status == 200
                      else answer.json())
    return answer.status, time.perf_counter() - began, body


async def stats(client):
    async with client.get("/stats") as answer:
        return await answer.json()


def large_picture():
    """One that takes some 50 ms."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([samples.COMMAND, "samples", place, "--photos-only",
                        "--count", "1", "--size", "4000x3000"], check=True,
                       stdout=subprocess.DEVNULL)
        return samples.read(next(pathlib.Path(place).rglob("*.jp*g")))


def memory_of(process):
    """MiB that it holds in RAM."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").open():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


class Serving(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # it measures time

    async def test_the_tensors_of_the_command(self):
        paths = samples.photos()[:4]
        want = samples.of_command(paths, samples.EVAL_TEXT)
        async with service() as (_, client):
            found = [await post(client, samples.read(p)) for p in paths]
        self.assertEqual([status for status, _, _ in found], [200] * 4)
        self.assertEqual(b"".join(body for _, _, body in found), want)
        self.assertEqual(len(found[0][2]), TENSOR)

    def test_a_device_that_is_not_there(self):
        done = subprocess.run(
            [sys.executable, PROGRAM, "--port", str(free_port()), "--backend",
             "nothing"], stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("device 'nothing'", done.stderr)

    async def test_bad_pictures_are_422_with_the_reason(self):
        data = samples.read(samples.small())
        async with service("--limit", "100000") as (_, client):
            status, _, why = await post(client, b"no picture")
            self.assertEqual((status, why["stage"]), (422, "header"))
            self.assertIn("not a picture", why["error"])
            status, _, why = await post(client, data[:len(data) // 2])
            self.assertEqual((status, why["stage"]), (422, "entropy"))
            self.assertGreater(why["offset"], 0)
            async with client.post("/", data=bytes(200000)) as answer:
                self.assertEqual(answer.status, 413)
            self.assertEqual((await post(client, data))[0], 200)

    async def test_given_up_requests_cancel_their_pictures(self):
        # One thread has much to do; who waits behind is given up.
        data = large_picture()
        async with service("--threads", "1", "--queue", "64") as (_, client):
            tasks = [asyncio.create_task(post(client, data))
                     for _ in range(64)]
            while (await stats(client))["in_flight"] < 32:
                pass
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            while (now := await stats(client))["in_flight"]:
                await asyncio.sleep(0.01)
            self.assertGreater(now["answers"].get("canceled", 0), 0)
            self.assertEqual((await post(client, data))[0], 200)

    async def test_overload(self):
        """64 clients ask for one and a half times what it can."""
        paths = samples.photos()
        data = [samples.read(p) for p in paths]
        async with service() as (process, client):
            alone = [await post(client, data[i % len(data)])
                     for i in range(60)]
            alone = statistics.median(seconds for _, seconds, _ in alone)
            capacity = await closed_loop(client, data)
            before = memory_of(process)
            met = await open_loop(client, data, 1.5 * capacity)
            after = memory_of(process)
        self.assertEqual({status for status, _ in met} - {200, 429}, set())
        good = sorted(s for status, s in met if status == 200)
        p99 = good[int(0.99 * len(good))]
        print(f"capacity {capacity:.0f}/s; {len(met)} asked, {len(good)} "
              f"answered; alone {1e3 * alone:.1f} ms, p50 "
              f"{1e3 * statistics.median(good):.1f} ms, p99 {1e3 * p99:.1f} "
              f"ms ({p99 / alone:.1f} times); {after:.0f} MiB")
        self.assertGreater(len(good), 0.3 * len(met) / 1.5)
        # A connection holds its picture and its answer, the service no more.
        each = (max(map(len, data)) + TENSOR) / 2 ** 20
        self.assertLess(after - before, 16 + CLIENTS * each)


async def closed_loop(client, data, clients=8, seconds=1.5):
    """Pictures per second that clients get who wait for each answer."""
    end, done = time.perf_counter() + seconds, 0

    async def ask(i):
        nonlocal done
        while time.perf_counter() < end:
            status, _, _ = await post(client, data[i % len(data)])
            done += status == 200
            i += clients

    await asyncio.gather(*(ask(i) for i in range(clients)))
    return done / seconds


async def open_loop(client, data, rate):
    """(status, seconds) of each; clients begin in turn, at that rate."""
    met, began = [], time.perf_counter()

    async def ask(first):
        n = first
        while (due := began + n / rate) < began + SECONDS:
            await asyncio.sleep(max(0, due - time.perf_counter()))
            status, seconds, _ = await post(client, data[n % len(data)])
            met.append((status, seconds))
            n += CLIENTS

    await asyncio.gather(*(ask(i) for i in range(CLIENTS)))
    return met


if __name__ == "__main__":
    unittest.main()
