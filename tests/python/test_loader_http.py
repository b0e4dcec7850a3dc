# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader on URLs: the same pictures as of files, by these headers."""

import functools
import http.server
import os
import tarfile
import threading
import unittest

import numpy

import headrace
from headrace import ops

import core_samples as samples
from http_case import Ranges, all_of

STEPS = (ops.decode(), ops.resize_short(72), ops.center_crop(64, 64),
         ops.normalize(samples.MEAN, samples.STD))


class Handler(Ranges, http.server.SimpleHTTPRequestHandler):
    """Serves ranges of files of a folder to clients with the key."""

    seen = 0

    def do_GET(self):
        Handler.seen += 1
        path = self.translate_path(self.path)
        if self.headers["X-Key"] != "7" or not os.path.isfile(path):
            self.send_error(403)
            return
        self.answer(samples.read(path))


class Urls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["no_proxy"] = "127.0.0.1"
        cls.root = samples.scratch() / "http"
        cls.root.mkdir(exist_ok=True)
        cls.tar = cls.root / "a.tar"
        with tarfile.open(cls.tar, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, path in enumerate(samples.photos()):
                tar.add(path, f"{i:03}.jpg")
        (cls.root / "c").mkdir(exist_ok=True)
        cls.one = cls.root / "c" / "one.jpg"
        cls.one.write_bytes(samples.read(samples.photos()[0]))
        cls.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=cls.root))
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_address[1]}"
        try:
            headrace.Loader(f"{cls.url}/a.tar", STEPS, http={"retries": -1})
        except headrace.Error as error:
            if "libcurl" in str(error):
                raise unittest.SkipTest(str(error)) from None

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_pictures(self):
        key = {"headers": {"X-Key": "7"}, "backoff_ms": 1, "connections": 4}
        for got, want in ((f"{self.url}/a.tar", self.tar),
                          ([f"{self.url}/c/one.jpg"], [self.one])):
            for a, b in zip(all_of(got, STEPS, http=key),
                            all_of(want, STEPS)):
                numpy.testing.assert_array_equal(a, b)
        x, y = all_of([(f"{self.url}/c/one.jpg", 3)], STEPS, http=key)
        self.assertEqual((len(x), list(y)), (1, [3]))

    def test_refused(self):
        with self.assertRaisesRegex(headrace.Error, "status 403: not allowed"):
            headrace.Loader(f"{self.url}/a.tar", STEPS)
        before = Handler.seen
        for wrong in ({"connections": -1}, {"no such": 1}, {"headers": {"": 7}},
                      {"retries": "x"}, {"headers": {"a": "b\r\nc: d"}}):
            with self.subTest(wrong), \
                    self.assertRaises((headrace.ArgumentError, TypeError)):
                headrace.Loader(f"{self.url}/a.tar", STEPS, http=wrong)
        self.assertEqual(Handler.seen, before)
