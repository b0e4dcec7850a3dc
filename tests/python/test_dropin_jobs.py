# SPDX-License-Identifier: Apache-2.0
"""The drop-in's jobs: their memory, their errors, many threads."""

import concurrent.futures
import ctypes
import io
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from unittest import mock

import dropin_case as case  # first: it may skip this file
import headrace
import numpy as np
import torch
from dropin_case import KINDS, facts, noise, on, saved
from headrace import dropin
from headrace import _memory
from headrace.dropin.torch import tensor
from headrace.dropin.pillow import files, jobs
from PIL import Image
from torchvision.transforms import functional as F


class Jobs(case.Case):
    """The samples of submitted jobs."""

    def five(self, data):
        image = Image.open(io.BytesIO(data)).resize((60, 50))
        return torch.stack([F.to_tensor(x) for x in F.five_crop(image, 30)])

    def test_ops_that_all_begin_with_run_once(self):
        datas = [KINDS["colour"], KINDS["grey"], KINDS["progressive"]]

        def run():
            for data in datas[::2], datas[1:2]:
                yield torch.utils.data.default_collate(
                    [self.five(each) for each in data]
                )

        def in_a_fetch():
            return case.in_fetch(lambda: list(run()))

        wanted = in_a_fetch()
        real = jobs._core.submit
        sizes = []

        def submit(samples, *args, **kwargs):
            sizes.append(len(samples))
            return real(samples, *args, **kwargs)

        with on():
            core = mock.Mock(wraps=jobs._core)
            core.submit, core.TABLE = submit, jobs._core.TABLE
            with mock.patch.object(jobs, "_core", core):
                for one, other in zip(in_a_fetch(), wanted):
                    self.assert_same_tensor(one, other)
        self.assertEqual(sizes, [2, 10, 1, 5])

    def test_parts_that_come_one_by_one(self):
        """A picture is decoded twice at most, however many parts it has."""

        def patches(cut):
            image = cut(Image.open(io.BytesIO(KINDS["colour"])))
            return [
                F.to_tensor(image.crop((x, y, x + 8, y + 9)))
                for x in range(0, 30, 10)
                for y in range(0, 40, 10)
            ] + [F.to_tensor(image.resize((9, 9)).crop((1, 2, 5, 6)))]

        decoded = []
        real = jobs._core.submit

        def submit(samples, *args, **kwargs):
            decoded.extend(s for s in samples if jobs.DECODE in s[1][0][:1])
            return real(samples, *args, **kwargs)

        core = mock.Mock(wraps=jobs._core, TABLE=jobs._core.TABLE)
        core.submit = submit
        for cut, most in (
            (lambda image: image, 2),
            (lambda image: image.resize((50, 60)), 2),
            (lambda image: image.convert("L"), 2),
            (lambda image: image.transpose(2), 2),
        ):
            wanted = patches(cut)
            with on(), mock.patch.object(jobs, "_core", core):
                found = patches(cut)
            for one, other in zip(found, wanted):
                self.assert_same_tensor(one, other)
            self.assertLessEqual(len(decoded), most)
            decoded.clear()

    def test_more_resizes_than_a_job_makes(self):
        """They are refused before the file is decoded; Pillow makes them."""

        def resized(times):
            image = Image.open(io.BytesIO(KINDS["colour"]))
            for n in range(times):
                image = image.resize((30 + n, 40 - n))
            return torch.utils.data.default_collate([F.to_tensor(image)])

        def in_a_fetch(times):
            return case.in_fetch(lambda: resized(times))

        for times, by_pillow in (8, 0), (9, 1), (20, 1):
            wanted = in_a_fetch(times)
            with on():
                self.assert_same_tensor(in_a_fetch(times), wanted)
                found = dropin.report()
            mended = found.get("mended", {}).get("HR_EUNSUPPORTED", 0)
            self.assertEqual(mended, by_pillow)
            self.assertEqual(sum(found.get("devices", {}).values()),
                             1 - by_pillow)

    def test_a_bad_picture_that_is_shared(self):
        good = KINDS["progressive"]
        last = good.rindex(b"\xff\xda")
        bad = good[:last] + b"\xff\xd8" + good[last:]

        def run():
            return self.five(bad).sum()

        wanted = case.outcome(run)
        self.assertIs(wanted[0], OSError)
        # The header is looked at as if the file were fine.
        info = files.probe(good)
        with on(), mock.patch.object(files, "probe", lambda data: info):
            self.assertEqual(case.outcome(run), wanted)

    def test_exact_unless_asked_otherwise(self):
        def tiers(**how):
            """The tiers of the drop-in's jobs for a picture."""
            with headrace.image_backend("cpu", **how), mock.patch.object(
                    jobs._core, "submit", wraps=jobs._core.submit) as submit:
                F.to_tensor(self.image()).tolist()
            return {call.kwargs["tier"] for call in submit.call_args_list}

        self.assertEqual(tiers(), {"exact"})
        self.assertEqual(tiers(tier="close"), {"close"})
        self.assertEqual(tiers(), {"exact"})
        for wrong in ("sloppy", None, 0, b"exact"):
            with self.assertRaisesRegex(headrace.ArgumentError, "one of exact"):
                headrace.set_image_backend("cpu", tier=wrong)
        self.assertEqual(dropin.base.tier, "exact")

    def test_cancel_twice(self):
        with on():
            cell = case.in_fetch(lambda: F.to_tensor(self.image())._hr)
            (handle,) = tensor.submit_batch([tensor.record_of_cell(cell)])
            handle.cancel()
            handle.cancel()
            result = case.outcome(handle.result)  # the job may be quicker
            if isinstance(result, tuple):
                self.assertTrue(issubclass(result[0], headrace.Error))
            else:
                self.assertEqual(result.shape, (3, 80, 90))

    @staticmethod
    def image():
        return Image.open(io.BytesIO(KINDS["colour"]))

    def test_records_of_many_sizes(self):
        """One job for each size and type; results in their order."""
        def recorded():
            images = [Image.open(io.BytesIO(bytes(bytearray(KINDS["colour"]))))
                      for _ in range(5)]  # which have no source in common
            lazies = [
                F.to_tensor(image.resize((20 + i % 2, 30)))
                for i, image in enumerate(images[:4])
            ] + [F.pil_to_tensor(images[4].resize((20, 30)))]
            records = [tensor.record_of(lazy) for lazy in lazies]
            return records, [tensor.plain(lazy) for lazy in lazies]

        with on():
            records, wanted = case.in_fetch(recorded)
            records = tensor.Records(records)
            records = pickle.loads(pickle.dumps(records, 5))
            dropin.report(reset=True)
            handles = tensor.submit_batch(records)
            for handle, lazy in zip(handles, wanted):
                self.assert_same_tensor(handle.result(), lazy)
            self.assertEqual(dropin.report()["totals"]["jobs"], 3)


class Memory(case.Case):
    """Blocks that are used again."""

    shape = (8, 3, 224, 224)

    def setUp(self):
        _memory.clear()

    def new(self):
        return _memory.empty(self.shape, torch.float32)

    def test_used_again_without_a_view(self):
        first = self.new()
        address = first.data_ptr()
        for hold in (
            lambda x: x[3:5, 0],
            lambda x: x.numpy(),
            lambda x: x.detach(),
            lambda x: torch.from_dlpack(x) if hasattr(x, "__dlpack__") else x,
            lambda x: x.view(-1).as_subclass(torch.nn.Parameter),
        ):
            held = hold(first)
            del first
            other = self.new()
            self.assertNotEqual(other.data_ptr(), address)
            del other, held
            first = self.new()
            self.assertEqual(first.data_ptr(), address)

    def test_little_is_kept(self):
        """The rest goes with its tensors, and no request need come."""
        many = [self.new() for _ in range(9)]
        with mock.patch.object(_memory, "_MOST_BYTES", 3 * 8 * 3 * 224**2 * 4):
            del many
        self.assertEqual(len(_memory._blocks), 3)
        with mock.patch.object(_memory, "_MOST_BYTES", 0):
            self.new()
        self.assertEqual(len(_memory._blocks), 2)
        for _ in range(2 * _memory._OLD):
            _memory.empty((2, 3, 300, 300), torch.float32)
        self.assertEqual(len(_memory._blocks), 1)

    def test_memory_of_many_views_is_used_again(self):
        views = [self.new().fill_(7) for _ in range(10)]
        del views
        again = [self.new() for _ in range(10)]
        self.assertEqual([view[7, 2, 5, 5] for view in again], [7] * 10)

    def in_child(self, look):
        """Exit code of a fork in which look() has given it."""
        child = os.fork()
        if child == 0:
            try:
                os._exit(look())
            finally:
                os._exit(99)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_a_fork_has_nothing_of_unused_memory(self):
        """Its pages stay with the parent, which has them all at once."""
        address = self.new().fill_(7).data_ptr()
        for _ in range(2):
            self.assertEqual(
                self.in_child(lambda: int(self.new()[7, 2, 5, 5])), 0)
            again = self.new()
            self.assertEqual(again.data_ptr(), address)
            self.assertEqual(again[7, 2, 5, 5], 7)  # the same pages
            del again

    def test_a_fork_sees_what_is_in_use(self):
        """It has those pages, too, and each of them would be copied."""
        used = self.new().fill_(7)  # for the first time, then again
        for _ in range(2):
            address = used.data_ptr()
            self.assertEqual(
                self.in_child(lambda: int(used[7, 2, 5, 5])), 7)
            del used
            used = self.new()
            self.assertEqual(used.data_ptr(), address)
            self.assertEqual(used[7, 2, 5, 5], 0)  # new ones
            del used
            self.in_child(lambda: 0)
            used = self.new().fill_(7)

    def test_a_fork_with_locked_memory_costs_copies(self):
        """Memory that mlockall() locks cannot be given back, but used."""
        libc = ctypes.CDLL(None, use_errno=True)
        first = self.new()
        address = first.data_ptr()
        page = ctypes.c_void_p(address), mmap.PAGESIZE
        if libc.mlock(*page):
            self.skipTest(f"mlock: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.munlock, *page)
        del first
        _memory._forked()
        self.assertEqual(self.new().data_ptr(), address)
        # It is not tried again until the next fork.
        self.assertEqual(_memory._blocks[0].forks, _memory._forks)

    def test_small_ones_are_torchs(self):
        _memory.empty((3, 4), torch.uint8).resize_(1000, 1000)
        self.assertEqual(_memory._blocks, [])


class Errors(case.Case):
    """Damaged files: type and text of stock, at the same place or collate."""

    def test_files_of_all_kinds(self):
        for path in case.Samples.kinds() + case.Samples.bad():

            def run():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with Image.open(path) as image:
                        image = image.convert("RGB").resize((40, 30))
                        return facts(F.to_tensor(image) + 0)

            with self.subTest(path.name):
                wanted = case.outcome(run)
                with on():
                    self.assertEqual(case.outcome(run), wanted)

    def test_one_bad_sample(self):
        """It raises what stock raises; its neighbours are fine."""
        good = saved(noise("RGB", (400, 300)), quality=95)
        # A second start of image, within the scan.
        half = len(good) // 2
        bad = good[:half] + b"\xff\xd8" + good[half:]
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        paths = [os.path.join(held.name, name) for name in "abc"]
        for path, data in zip(paths, (good, bad, good)):
            with open(path, "wb") as file:
                file.write(data)

        def tensor_of(path):
            image = Image.open(path).convert("RGB")
            return F.to_tensor(image.resize((30, 30)))

        def run():
            lazies = [tensor_of(path) for path in paths]
            return torch.utils.data.default_collate(lazies)

        wanted, wanted_good = case.outcome(run), tensor_of(paths[0])
        self.assertEqual(wanted[0], OSError)

        def one_by_one():
            return [case.outcome(lambda: needed(p)) for p in paths]

        def needed(path):
            return torch.from_numpy(tensor_of(path).numpy())

        with on():
            found = case.outcome(lambda: case.in_fetch(run))
            self.assertEqual(found, wanted)
            self.assertTrue(dropin.report()["again"])
            first, second, third = case.in_fetch(one_by_one)
            self.assertEqual(second, wanted)
            self.assertTrue(torch.equal(first, wanted_good))
            self.assertTrue(torch.equal(third, wanted_good))

    def test_job_that_fails_where_pillow_does_not(self):
        """Pillow's pixels, and it is counted."""
        real = jobs.failures

        def failures(job, recordings):
            real(job, recordings)
            return [(0, "HR_ECORRUPT")]

        def run():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            return torch.utils.data.default_collate(
                [F.normalize(F.to_tensor(image), [0.5] * 3, [0.2] * 3)]
            )

        wanted = run()
        with on(), mock.patch.object(jobs, "failures", failures):
            self.assert_same_tensor(run(), wanted)


class Threads(case.Case):
    """Pictures and tensors of one thread each, all at once."""

    def test_normalize_by_tensors(self):
        """As timm does: stock is asked for a table once, never for a
        picture."""
        numbers = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 0.5, 0.6])

        def run():
            image = Image.open(io.BytesIO(KINDS["colour"])).convert("RGB")
            return F.normalize(F.to_tensor(image), *numbers)

        def without_stock():
            with mock.patch.object(torch, "as_tensor", side_effect=ValueError):
                return run()

        wanted = facts(run())
        with on():
            for again in (run, without_stock):
                made = case.in_fetch(again)
                self.assertEqual(facts(tensor.plain(made)), wanted)

    def test_threads(self):
        datas = [KINDS["colour"], KINDS["progressive"], KINDS["turned"]]

        def run(number):
            draw = np.random.default_rng(number)
            batches = []
            for _ in range(6):
                lazies = []
                for _ in range(5):
                    image = Image.open(io.BytesIO(datas[draw.integers(3)]))
                    image = image.convert("RGB")
                    x, y = draw.integers(0, 30, 2)
                    image = image.crop((x, y, x + 31, y + 37))
                    lazy = F.to_tensor(image.resize((20, 30)))
                    lazies.append(F.normalize(lazy, [0.1] * 3, [0.3] * 3))
                if draw.integers(2):
                    batches.append(torch.utils.data.default_collate(lazies))
                else:
                    batches += [lazy.flip(-1) + 0 for lazy in lazies]
            return [tensor.plain(batch) for batch in batches]

        numbers = range(6)
        wanted = [run(number) for number in numbers]
        with on(), concurrent.futures.ThreadPoolExecutor(6) as pool:
            for found, right in zip(pool.map(run, numbers), wanted):
                for one, other in zip(found, right):
                    self.assert_same_tensor(one, other)

    def test_a_peer_that_is_changed_meanwhile(self):
        """One thread forces its tensors; one of them belongs to another
        thread by now, which works on it in place."""
        def make():
            image = Image.open(io.BytesIO(KINDS["colour"]))
            return F.to_tensor(image.resize((20, 30)))

        wanted = [make() + 0, make().sub_(0.5) + 0]
        def check():
            mine, theirs = make(), make()
            real = jobs.failures

            def failures(job, recordings):
                if theirs is not None:
                    theirs.sub_(0.5)  # the job runs with the table before
                with mock.patch.object(jobs, "failures", real):
                    return real(job, recordings)

            with mock.patch.object(jobs, "failures", failures):
                mine.sum()
            self.assert_same_tensor(tensor.plain(mine), wanted[0])
            self.assert_same_tensor(tensor.plain(theirs), wanted[1])

        with on():
            case.in_fetch(check)

    def test_import_while_another_thread_installs(self):
        """Neither may wait for the other for ever."""
        text = (
            "import importlib, sys, threading, time\n"
            "from headrace import dropin\n"
            "from headrace.dropin import hooks\n"
            "dropin.install()\n"
            "hooks._turn.acquire()\n"
            "def imports():\n"
            "    importlib.import_module('PIL.JpegImagePlugin')\n"
            "thread = threading.Thread(target=imports)\n"
            "thread.start()\n"
            "time.sleep(0.5)\n"
            "import PIL.JpegImagePlugin\n"
            "hooks._turn.release()\n"
            "thread.join()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", text],
            timeout=60,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
