# SPDX-License-Identifier: Apache-2.0
"""s3:// of a store on the loopback that checks each signature itself, by the
specification of AWS Signature Version 4."""

import hashlib
import hmac
import http.server
import os
import re
import subprocess
import tarfile
import threading
import time
import unittest
from unittest import mock
from urllib.parse import quote, unquote

import headrace
import numpy
from headrace import ops

import core_samples as samples
from http_case import Ranges, all_of

STEPS = (ops.decode(), ops.resize_short(72), ops.center_crop(64, 64))
KEY, SECRET, TOKEN = "AKIAOFTHETEST", "se/cret+OfTheTest", "to/ken+OfTheTest=="
REGION = "eu-central-1"
NAMES = ("plain.jpg", "a b.jpg", "ü-ñ-日本.jpg", "50%.jpg", "a%20b.jpg",
         "q?x=1&y#z.jpg", "+=;,:@$!*'().jpg", "~_-..jpg", "two//slashes.jpg")
EMPTY = hashlib.sha256(b"").hexdigest()


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def fault(request, secret):
    """None, or why the signature of a request is wrong."""
    given = re.fullmatch(
        rf"AWS4-HMAC-SHA256 Credential={KEY}/(\d{{8}}/{REGION}/s3/"
        r"aws4_request), ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]+)",
        request.headers.get("Authorization", ""))
    if not given:
        return "AccessDenied"
    scope, signed, signature = given.groups()
    date = request.headers["x-amz-date"]
    moment = time.mktime(time.strptime(date, "%Y%m%dT%H%M%SZ"))
    names = signed.split(";")
    wanted = [name.lower() for name in request.headers
              if name.lower().startswith("x-amz-")]
    if names != sorted(names) or not {"host", *wanted} <= set(names) or (
            "x-amz-content-sha256" not in names):
        return "a header is not signed"
    if abs(moment + time.localtime().tm_gmtoff - time.time()) > 900 or (
            scope[:8] != date[:8]):
        return "RequestTimeTooSkewed"
    if request.headers.get("x-amz-security-token", "") != request.server.token:
        return "InvalidToken"
    path, _, query = request.path.partition("?")
    fields = sorted(field.partition("=") for field in query.split("&") if field)
    canonical = "\n".join((
        "GET",
        quote(unquote(path, "latin-1").encode("latin-1"), safe="/-._~"),
        "&".join(f"{name}={value}" for name, _, value in fields),
        *(f"{name}:" + " ".join(request.headers[name].split())
          for name in names),
        "", signed, request.headers["x-amz-content-sha256"]))
    if request.headers["x-amz-content-sha256"] not in (EMPTY,
                                                       "UNSIGNED-PAYLOAD"):
        return "XAmzContentSHA256Mismatch"
    text = "\n".join(("AWS4-HMAC-SHA256", date, scope,
                      hashlib.sha256(canonical.encode("latin-1")).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = mac(key, part)
    good = hmac.compare_digest(mac(key, text).hex(), signature)
    return None if good else "SignatureDoesNotMatch"


class Store(Ranges, http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        at = unquote(self.path).encode("utf-8", "surrogateescape").decode()
        server = self.server
        server.seen.append((at, "Authorization" in self.headers,
                            "x-amz-security-token" in self.headers))
        if at.startswith("/moved/"):
            self.send_response(307)
            self.send_header("Location",
                             f"{server.url}/public/{at[7:]}?for=everybody")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        bucket, _, name = at[1:].partition("/")
        why = None if bucket == "public" else fault(self, SECRET)
        data = server.objects.get(name.partition("?")[0] if bucket == "public"
                                  else name)
        if why or data is None:
            server.whys.append(why)
            body = (f"<Error><Code>{why or 'NoSuchKey'}</Code><AWSAccessKeyId>"
                    f"{KEY}</AWSAccessKeyId></Error>").encode()
            self.send_response(403 if why else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.answer(data, ETag=f'"{hashlib.md5(data).hexdigest()}"')


class Stores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = samples.scratch() / "s3"
        cls.root.mkdir(exist_ok=True)
        cls.tar = cls.root / "a.tar"
        with tarfile.open(cls.tar, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, path in enumerate(samples.photos()):
                tar.add(path, f"{i:03}.jpg")
        cls.pack = cls.root / "a.hrp"
        subprocess.run([samples.COMMAND, "pack", cls.tar, "--out", cls.pack],
                       check=True, capture_output=True)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        cls.server.daemon_threads = True
        cls.server.url = f"http://127.0.0.1:{cls.server.server_address[1]}"
        photos = [samples.read(path) for path in samples.photos()]
        cls.server.objects = {
            "a.tar": cls.tar.read_bytes(),
            "a.hrp": cls.pack.read_bytes(),
            "dir/list": b"plain.jpg\t0\n/dir/a b.jpg\t1\n"
                        b"s3://private/dir/50%.jpg\t2\n",
            **{f"dir/{name}": photos[i % len(photos)]
               for i, name in enumerate(NAMES)}}
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self):
        self.server.seen, self.server.whys = [], []
        self.server.token = ""
        self.env(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)

    def env(self, **more):
        """Sets the variables of a test, without keys of the user."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("AWS_")}
        patch = mock.patch.dict(os.environ, {
            **kept, "HOME": str(self.root / "home"), "no_proxy": "127.0.0.1",
            "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url, **more},
            clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def same(self, got, want):
        for a, b in zip(all_of(got, STEPS), all_of(want, STEPS)):
            numpy.testing.assert_array_equal(a, b)

    def refused(self, url, text):
        with self.assertRaisesRegex(headrace.ReadError, text) as caught:
            headrace.Loader(url, STEPS, http={"retries": -1})
        for secret in (KEY, SECRET, TOKEN):
            self.assertNotIn(secret, str(caught.exception))

    def test_shard(self):
        self.same("s3://private/a.tar", str(self.tar))
        self.assertTrue(all(signed for _, signed, _ in self.server.seen))
        self.assertGreater(len(self.server.seen), 3)

    def test_command(self):
        """A shard, a pack file, and a list with three kinds of entries."""
        out = self.root / "out.hrp"
        for source in (["s3://private/a.tar"], ["s3://private/a.hrp"],
                       ["--list", "s3://private/dir/list"]):
            done = subprocess.run([samples.COMMAND, "pack", *source, "--out",
                                   out], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            if "--list" not in source:
                self.assertEqual(out.read_bytes(), self.pack.read_bytes())
        self.assertEqual(len(headrace.PackFile(out)), 3)
        self.assertEqual(self.server.whys, [])

    def test_names(self):
        """Objects by themselves; keys of all kinds of characters."""
        for i, name in enumerate(NAMES):
            with self.subTest(name):
                path = self.root / f"{i}.jpg"
                path.write_bytes(self.server.objects[f"dir/{name}"])
                self.same([(f"s3://private/dir/{name}", 3)], [(str(path), 3)])
        self.assertEqual(self.server.whys, [])

    def test_wrong_key(self):
        self.env(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY="wrong")
        self.refused("s3://private/a.tar", r"s3://private/a.tar: .*status 403: "
                     "not allowed: the store refuses the key")
        self.assertEqual(self.server.whys, ["SignatureDoesNotMatch"])

    def test_no_key(self):
        self.env()
        self.same("s3://public/a.tar", str(self.tar))
        self.refused("s3://private/a.tar", "no key was found: set AWS_ACCESS")
        self.assertFalse(any(signed for _, signed, _ in self.server.seen))

    def test_files(self):
        """Keys, token, region and endpoint of a profile."""
        aws = self.root / "home" / ".aws"
        aws.mkdir(parents=True, exist_ok=True)
        (aws / "credentials").write_text(
            f"[default]\naws_access_key_id = other\n"
            f"aws_secret_access_key=other\n[work]\naws_access_key_id={KEY}\n"
            f"aws_secret_access_key = {SECRET}\naws_session_token={TOKEN}\n")
        (aws / "config").write_text(
            f"[profile work]\nregion = {REGION}\nendpoint_url = "
            f"{self.server.url}/\ns3 =\n  endpoint_url = http://127.0.0.1:1\n")
        self.addCleanup((aws / "credentials").unlink)
        self.addCleanup((aws / "config").unlink)
        self.server.token = TOKEN
        self.env(AWS_PROFILE="work", AWS_REGION="", AWS_ENDPOINT_URL="")
        self.same("s3://private/a.tar", str(self.tar))
        self.env()
        self.refused("s3://private/a.tar", "not allowed")

    def test_token(self):
        self.server.token = TOKEN
        self.refused("s3://private/a.tar", "not allowed")
        self.assertEqual(self.server.whys, ["InvalidToken"])
        self.env(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET,
                 AWS_SESSION_TOKEN=TOKEN)
        self.same("s3://private/a.tar", str(self.tar))

    def test_others_get_no_key(self):
        """Redirects, and other URLs of the same connections."""
        self.env(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET,
                 AWS_SESSION_TOKEN=TOKEN)
        self.server.token = TOKEN
        self.same(["s3://moved/a.tar", "s3://private/a.tar",
                   f"{self.server.url}/public/a.tar"], [str(self.tar)] * 3)
        for at, signed, token in self.server.seen:
            self.assertEqual(signed, not at.startswith("/public"), at)
            self.assertEqual(token, signed)

    def test_what_is_not_there(self):
        self.refused("s3://private/none.tar", "no such object")
        for url in ("s3://private", "s3:///a.tar", "s3://a b/a.tar",
                    "s3://private/a/../a.tar", "s3://private/./a.tar"):
            with self.assertRaises(headrace.Error, msg=url):
                headrace.Loader(url, STEPS)


if __name__ == "__main__":
    unittest.main()
