# SPDX-License-Identifier: Apache-2.0
"""The page of headrace.bench and headrace.validate: it is that of the command,
which tests/tools/report_test.sh looks at at all widths, filled by Python."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import core_samples as samples
from headrace import _html

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tools"))
import selfcheck  # noqa: E402

HOSTILE = "</script><b>&\\u003c'\""
CELLS = ("torchvision 0.29.2 on Pillow 13.0.0", 2582.25, None, "stock's")


def page():
    columns = [_html.word("program"), _html.column("img/s", 0, bars=True),
               _html.column("x stock", 2, " x"), _html.word("pixels")]
    return _html.page(
        HOSTILE, ["python3 -m headrace.bench", "a b"],
        [("machine", "/a/long/path/" * 20)],
        [_html.section("Rates", HOSTILE), _html.note("warn", "Others."),
         _html.chart("rows", "Speed", [HOSTILE, "b"], [("s", [1, 2.5])], "x"),
         _html.table("All", columns * 3, [CELLS * 3] * 2, {1: "bad"})],
        ("good", "Equal"))


class Page(unittest.TestCase):
    def test_its_data(self):
        data = samples.page_data(page())
        self.assertEqual(data["title"], HOSTILE)
        self.assertRegex(data["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d \S+$")
        self.assertEqual(data["verdict"], {"tone": "good", "text": "Equal"})
        self.assertEqual(data["items"][-1]["cells"], [*CELLS * 6])
        self.assertEqual(page().count("</script>"),
                         _html.page("", [], [], []).count("</script>"))

    @unittest.skipUnless(shutil.which("chromium"), "needs chromium")
    def test_it_comes_up_whole(self):
        """By selfcheck.js: also that no word of a table is broken."""
        file = samples.scratch() / "page.html"
        file.write_text(selfcheck.checked(page()))
        for width in "1280", "500":
            try:
                done = subprocess.run(
                    ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                     f"--user-data-dir={samples.scratch() / 'profile'}",
                     f"--window-size={width},1000", "--hide-scrollbars",
                     "--virtual-time-budget=5000", "--dump-dom",
                     file.as_uri()],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    text=True, timeout=90)
            except subprocess.TimeoutExpired:
                self.skipTest("chromium did not answer within 90 s")
            check = re.search('data-selfcheck="(.*?)"', done.stdout)
            if not check:
                self.skipTest("chromium printed no page")
            self.assertEqual(check[1], "ok")
