#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a report's page shows its data: compares the elements of the
opened page with the data that lies in it.

    report_page.py DOM     the output of `chromium --dump-dom` of a report
"""

import html.parser
import json
import pathlib
import shlex
import sys

VOID = {"meta", "link", "img", "br", "hr", "input"}
NOTHING = "\u2013"


class Node:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.children, self.own = [], ""

    def all(self, tag, **attributes):
        """Below this node, in order; a class is one of several words."""
        for child in self.children:
            if child.tag == tag and all(
                    v in child.attributes.get(k, "").split() if k == "class"
                    else child.attributes.get(k) == v
                    for k, v in attributes.items()):
                yield child
            yield from child.all(tag, **attributes)

    def text(self):
        return self.own + "".join(c.text() for c in self.children)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.at = self.root = Node("", [], None)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        node = Node(tag, attrs, self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_endtag(self, tag):
        node = self.at
        while node and node.tag != tag:
            node = node.parent
        if node and node.parent:
            self.at = node.parent

    def handle_data(self, data):
        # Texts between elements keep their order in a node of their own.
        node = Node("#text", [], self.at)
        node.own = data
        self.at.children.append(node)


def texts(nodes):
    return [n.text() for n in nodes]


def number_says(text, value, unit):
    """12345.678 is 12,345.68 to as many digits as are shown."""
    if value is None:
        return text == NOTHING
    if not text.endswith(unit):
        return False
    text = text[:len(text) - len(unit)].replace(",", "")
    if text.startswith("< "):
        return 0 < abs(value) < float(text[2:])
    last = 10.0 ** -len(text.partition(".")[2])
    # A value that is not zero does not read as zero.
    return abs(float(text) - value) <= last * .501 and \
        (float(text) != 0) == (value != 0)


class Check:
    def __init__(self, page, data):
        self.page, self.data = page, data
        self.num = self.failed = 0

    def same(self, what, shown, want):
        self.num += 1
        if shown != want:
            self.failed += 1
            print(f"{what}: shows {shown!r}, the data is {want!r}")

    def head(self):
        data, page = self.data, self.page
        self.same("title", texts(page.all("h1")), [data["title"]])
        verdict = data.get("verdict")
        if verdict:
            self.same("verdict", texts(page.all("p", **{
                "class": verdict["tone"]}))[0], verdict["text"])
        # Facts stand below the command and the date.
        shown = list(zip(texts(page.all("dt")), texts(page.all("dd"))))
        self.same("command", shlex.split(shown[0][1]),
                  data["command"][0].split() + data["command"][1:])
        self.same("facts", shown[1:], [("date", data["date"])] +
                  [tuple(f) for f in data["facts"]])
        figures = [i for i in data["items"] if i["is"] == "figure"]
        self.same("figures",
                  [texts(f.children) for f in
                   page.all("div", **{"class": "figure"})],
                  [[t for t in (f["name"], f["value"], f["note"]) if t]
                   for f in figures])
        self.same("sections", texts(page.all("h2")),
                  [i["title"] for i in data["items"] if i["is"] == "section"])
        self.same("notes", texts(page.all("p", **{"class": "note"})),
                  [i["text"] for i in data["items"]
                   if i["is"] == "text" and i["tone"] != "plain"])

    def table(self, node, columns, cells):
        what = "table " + node.attributes["aria-label"]
        self.same(what, texts(node.all("th")), [c["title"] for c in columns])
        shown = texts(node.all("td"))
        self.same(what + ", cells", len(shown), len(cells))
        for i, (text, value) in enumerate(zip(shown, cells)):
            column = columns[i % len(columns)]
            if not column["number"]:
                self.same(what, text, NOTHING if value is None else value)
            elif not number_says(text, value, column.get("unit", "")):
                self.same(what, text, value)

    def numbers_of_chart(self, item):
        """Columns and cells of the table that stands with a chart."""
        def column(title, number=True):
            return {"title": title, "number": number}
        series = item["series"]
        if item["kind"] == "lines":
            return [column("series", False), column(item["x"] or "x"),
                    column(item["y"] or "y")], \
                [c for s in series for x, y in s["points"]
                 for c in (s["name"], x, y)]
        return [column(item["x"] or "", False)] + \
            [column(s["name"]) for s in series], \
            [c for i, label in enumerate(item["labels"])
             for c in [label] + [s["values"][i] for s in series]]

    def tables(self):
        nodes = list(self.page.all("table"))
        items = [i for i in self.data["items"] if i["is"] in ("table", "chart")]
        self.same("tables", len(nodes), len(items))
        for node, item in zip(nodes, items):
            if item["is"] == "table":
                self.same("caption", node.attributes["aria-label"],
                          item["caption"])
                self.table(node, item["columns"], item["cells"])
            else:
                self.table(node, *self.numbers_of_chart(item))

    def drawings(self):
        want = [(p["caption"], p["src"], str(p["w"]), str(p["h"]))
                for i in self.data["items"] if i["is"] == "pictures"
                for p in i["list"] if p.get("src")]
        self.same("pictures", [tuple(n.attributes.get(k) for k in (
            "alt", "src", "width", "height")) for n in self.page.all("img")],
            want)


def main():
    root = Page(pathlib.Path(sys.argv[1]).read_text(
        encoding="utf-8", errors="surrogateescape")).root
    data = json.loads(next(root.all("script", id="data")).text())
    check = Check(next(root.all("main", id="page")), data)
    check.head()
    check.tables()
    check.drawings()
    print(f"{check.num} comparisons with the data, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
