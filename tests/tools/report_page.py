#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a report's page shows its data: compares the elements of the
opened page with the items that it was made of, and those with the results of
the tool.

    report_page.py DOM     the output of `chromium --dump-dom` of a report whose
                           script left all its data at an element "made"
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

    def near(self, what, shown, want):
        """Both were rounded to nine digits, or made of such."""
        self.same(what, [f"{x:.6g}" for x in shown],
                  [f"{x:.6g}" for x in want])

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
                  [[t for t in (f["name"], f["value"], f.get("note")) if t]
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
            if not column.get("number"):
                self.same(what, text, NOTHING if value is None else value)
            elif not number_says(text, value, column.get("unit", "")):
                self.same(what, text, value)

    def numbers_of_chart(self, item):
        """Columns and cells of the table that stands with a chart."""
        def column(title, number=True):
            return {"title": title, "number": number}
        series = item["series"]
        if item["kind"] == "lines":
            return [column("series", False), column(item.get("x") or "x"),
                    column(item.get("y") or "y")], \
                [c for s in series for x, y in s["points"]
                 for c in (s["name"], x, y)]
        return [column(item.get("x") or "", False)] + \
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


def by_title(items):
    """Cells of tables by row and title, series of charts: {title: ...}."""
    found = {}
    for i in items:
        if i["is"] == "table":
            n = len(i["columns"])
            found[i["caption"]] = [
                dict(zip((c["title"] for c in i["columns"]),
                         i["cells"][k:k + n]))
                for k in range(0, len(i["cells"]), n)]
        elif i["is"] == "chart":
            found[i["title"]] = {s["name"]: s.get("values", s.get("points"))
                                 for s in i["series"]}
    return found


def same_profile(check, items, p):
    planned = [c for c in p["configurations"] if c["mode"] == "planned"]
    one = planned[0]["img_per_s"]
    check.near("rates", [row["img/s"] for row in items["Measured"]],
               [c["img_per_s"] for c in p["configurations"]])
    check.near("speed-up",
               items["Speed-up against one CPU thread"]["speed-up"],
               [c["img_per_s"] / one for c in planned])
    check.same("scaling", items["Thread scaling"],
               {"cpu": [[c["threads"], c["img_per_s"]] for c in planned]})
    check.near("busy", [row["busy %"] for row in items["How busy it is kept"]],
               [100 * c["consumer_busy"] for c in planned])
    parts = p["backends"][0]["parts"]
    check.near("parts", [v for s in items["Where the time goes"].values()
                         for v in s],
               [sum(q["ms_per_1000"] for q in parts if q["part"] == name)
                for name in items["Where the time goes"]])
    check.same("all parts", set(items["Where the time goes"]),
               {q["part"] for q in parts if q["ms_per_1000"]})
    loader = p["backends"][0]["loader"]
    check.same("queue", items["Reads in flight"],
               {"cpu": [[q["seconds"], q["reading"]] for q in loader["queue"]]})
    check.same("steps", [(row["batch"], row["threads"])
                         for row in items["Steps of the settings"]],
               [(c["batch"], c["settings"]["threads"])
                for c in loader["changes"]])


def same_validate(check, items, v):
    check.same("stages", [(row["cut after"].split()[0], row["pictures"],
                           row["pictures differ"], row["samples differ"])
                          for row in items["Stages"] if row["pictures"]],
               [("store" if name == "end_to_end" else name, s["pictures"],
                 s["differing_pictures"], s["percent"])
                for name, s in v["stages"].items()])
    check.same("begins", {row["cut after"].split()[0]: row["begins here"]
                          for row in items["Stages"] if row["begins here"]},
               v["begins"])
    check.same("histogram",
               items["How far apart samples are, end to end"]["samples"],
               list(v["histogram"].values()))
    check.same("kinds", [(row["kind"], row["by the device"], row["largest"])
                         for row in items["Kinds, end to end"]],
               [(k["kind"], k["by_device"], k["end_to_end"]["max"])
                for k in v["kinds"]])
    check.same("engines", [sum(n) for n in
                           zip(*items["Engines of the pictures"].values())],
               [k["pictures"] for k in v["kinds"]])
    check.same("made by", {row["spans and engines"]: row["pictures"]
                           for row in items["Made by"]}, v["made_by"])


RESULTS = {"headrace profile": same_profile, "headrace validate": same_validate}


def main():
    root = Page(pathlib.Path(sys.argv[1]).read_text(
        encoding="utf-8", errors="surrogateescape")).root
    data = json.loads(next(root.all("i", id="made")).attributes["data-made"])
    # With the order of the keys.
    results = json.loads(next(root.all("script", id="data")).text()).get(
        "results")
    check = Check(next(root.all("main", id="page")), data)
    check.head()
    check.tables()
    check.drawings()
    if results:
        RESULTS[data["title"]](check, by_title(data["items"]), results)
    print(f"{check.num} comparisons with the data, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
