# SPDX-License-Identifier: Apache-2.0
"""The pages of headrace.bench and headrace.validate: no word of a table is
broken at any width. In Chromium, where it is."""

import re
import shutil
import subprocess
import unittest

import core_samples as samples
from headrace import _html

# Counts words of cells that lie on more than one line, at three widths.
SCRIPT = """<script>
const broken = [];
for (const width of [1280, 700, 400]) {
  document.documentElement.style.width = width + "px";
  for (const cell of document.querySelectorAll("td, th")) {
    const node = cell.firstChild;
    for (const word of (node ? node.data : "").matchAll(/[^ ]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1)
        broken.push(width + ":" + word[0]);
    }
  }
  if (document.body.getBoundingClientRect().width > width)
    broken.push("body is wider than " + width);
}
document.title = "broken: " + broken.join(" ") + ".";
</script>"""
CELLS = ("torchvision 0.29.2 on Pillow 13.0.0", "2,582.25", "119.64x",
         "34,511,816", "stock's", "7.9 .. 8.1")


def page():
    head = "".join(f"<th>{c}</th>" for c in
                   ("", "whole", "beside", "pixels", "img/s", "CPU s") * 2)
    row = "".join(f"<td>{cell}</td>" for cell in CELLS * 2)
    lines = (*_html.head("headrace.bench", ""),
             *_html.facts([("machine", "/a/long/path/" * 20)]),
             *_html.table([f"<tr>{head}</tr>", f"<tr>{row}</tr>"]))
    return "\n".join([*lines, SCRIPT, _html.TAIL])


class Page(unittest.TestCase):
    def test_when_and_how_it_was_made(self):
        self.assertRegex(page(), r"\d{4}-\d\d-\d\d \d\d:\d\d \S+: "
                                 r"<code>python3 -m headrace.bench")

    def test_a_table_is_in_a_box_that_scrolls(self):
        self.assertRegex(page(), r'<div class="scroll" tabindex="0">\s*<table>')

    @unittest.skipUnless(shutil.which("chromium"), "needs chromium")
    def test_no_word_is_broken(self):
        file = samples.scratch() / "page.html"
        file.write_text(page())
        try:
            done = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                 f"--user-data-dir={samples.scratch() / 'profile'}",
                 "--dump-dom", file.as_uri()],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                timeout=90)
        except subprocess.TimeoutExpired:
            self.skipTest("chromium did not answer within 90 s")
        title = re.search("<title>(.*?)</title>", done.stdout)
        if not title:
            self.skipTest("chromium printed no page")
        self.assertEqual(title[1], "broken: .")


if __name__ == "__main__":
    unittest.main()
