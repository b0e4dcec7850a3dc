# SPDX-License-Identifier: Apache-2.0
"""The report of gpu_report.sh as a page, that of tools/report/, and as text
with the same tables."""
import math
import os
import sys

import model

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "..", "python", "headrace"))
import _html
from _html import chart, column, note, section, word

TITLES = {"host": "entropy coding on the host",
          "device": "entropy coding on the device",
          "cache": "later epochs, packed pictures from a cache"}


# ---- A device ---------------------------------------------------------------

def forms_of(device):
    return {n: f for n, f in device["forms"].items() if "not_run" not in f}


def beside(cpu, name, batch):
    """The CPU engine's run of a form, in jobs of that size."""
    form = cpu["forms"]["cache" if name == "cache" else "host"]
    return next(r for r in form["speed"] if r["batch"] == batch)


def speed_items(device, cpu):
    forms = forms_of(device)
    rows = [(n, r) for n, f in forms.items() for r in f["speed"]]
    if not rows:
        return []
    batch = max(r["batch"] for _, r in rows)
    places = list(dict.fromkeys(r["memory"] for _, r in rows))
    charts = []
    for what, title, unit in (
            ("img_per_s", "Pictures per second", "pictures/s"),
            ("cpu_s_per_1000", "What it costs the host",
             "CPU-seconds per 1000 pictures")):
        series = [(m, [next(r[what] for r in f["speed"] if r["memory"] == m and
                            r["batch"] == batch) for f in forms.values()])
                  for m in places]
        by_cpu = [beside(cpu, n, batch)[what] for n in forms]
        charts.append(chart("bars", f"{title}, jobs of {batch}",
                            [TITLES[n] for n in forms],
                            [(f"results in {m} memory", v)
                             for m, v in series] + [("the CPU engine", by_cpu)],
                            unit))
    columns = [word("form"), word("memory"), column("jobs of", 0),
               column("pictures/s", 0, bars=True), column("CPU engine", 0),
               column("CPU-seconds per 1000", 3),
               column("GB/s of Huffman codes", 3), word("left to the CPU")]
    return charts + [_html.table("All runs", columns, [
        (TITLES[n], r["memory"], r["batch"], r["img_per_s"],
         beside(cpu, n, r["batch"])["img_per_s"], r["cpu_s_per_1000"],
         r["huffman_gbps"], ", ".join(f"{k} {why}" for why, k in
                                      r["left"].items()) or "nothing")
        for n, r in rows])]


def recipe_items(device):
    if "recipes_not_run" in device:
        return [note("warn", "Recipes: not run: " + device["recipes_not_run"])]
    columns = [word("recipe"), column("jobs of", 0), column("pictures/s", 0),
               column("CPU engine", 0), column("CPU-seconds per 1000", 3),
               word("bytes"), column("pictures", 0), column("by the device", 0),
               column("codes by the CPU", 0)]
    return [_html.table(
        "Recipes, entropy on the device, to device memory", columns, [
            (r["recipe"], r["batch"], r["img_per_s"], r["cpu_img_per_s"],
             r["cpu_s_per_1000"], "the same" if r["same"] else "DIFFERENT",
             r["pictures"], r["by_device"], r["codes_by_cpu"])
            for r in device.get("recipes", ())])]


def exact_item(device):
    columns = [word("form"), word("memory"), word("bytes"),
               column("pictures", 0), column("by the device", 0),
               column("from their first bit on", 0)]
    return _html.table("Compared with the CPU, byte by byte", columns, [
        (TITLES[n], r["memory"],
         "the same" if r["same"] else "DIFFERENT", r["pictures"],
         r["by_device"], r["from_first_bit"])
        for n, f in forms_of(device).items() for r in f["exact"]])


def roofline_items(name, t, paper):
    stages = {n: s for n, s in t["stages"].items() if s["us"]}
    items = []
    if stages:
        items.append(chart(
            "bars", f"Stages: {TITLES[name]}", list(stages),
            [("measured", [s["us"] for s in stages.values()]),
             ("if it did nothing but move its bytes",
              [model.us(s["floor_bytes"], t["memory_gbps"])
               for s in stages.values()])], "us per picture",
            f"Events of the device, against {t['memory_gbps']:.1f} GB/s, which "
            "it has when it copies."))
    columns = [word("kernel"), column("us per picture"),
               column("KB it must move", 1), column("us for that"),
               column("share", 0, " %"), column("launches per 1000", 1),
               column("items of a group", 0), column("at most", 0),
               column("multiple", 0), column("local", 0, " B"),
               column("private", 0, " B"), column(f"us, {paper['name']}")]
    rows = []
    for k, v in t["kernels"].items():
        o, floor = t["occupancy"][k], v["floor_bytes"]
        rows.append((k, v["us"], floor and floor / 1e3, v["floor_us"],
                     100 * v["floor_us"] / v["us"]
                     if v["us"] and v["floor_us"] else None,
                     1000 * v["launches"], o["group"], o["most"],
                     o["multiple"], o["local"], o["private"],
                     model.us(floor or 0, paper["memory"])))
    facts = {"Memory, when the device copies": t["memory_gbps"],
             "Huffman codes, while its kernels run": t.get("entropy_gbps")}
    items += [note("plain", f"{what}: {gbps:.3f} GB/s.")
              for what, gbps in facts.items() if gbps]
    return items + [_html.table("Kernels: " + TITLES[name], columns, rows),
                    paper_item(t, paper)]


def paper_item(t, paper):
    """The model's times, of this form."""
    p = t["predicted"]
    stages = ", ".join(f"{n} {us:.2f}" for n, us in p["stages_us"].items())
    return note("plain", f"On paper ({paper['name']}), us per picture at least:"
                f" {stages}; all {p['kernels_us']:.2f}; bus {p['up_us']:.2f} "
                f"up, {p['down_us']:.2f} back; at most "
                f"{p['most_img_per_s']:.0f} pictures/s.")


def device_items(device, report):
    dry = " (a dry run: this is a processor, not a GPU)" \
        if device["dry_run"] else ""
    items = [section(device["name"] + dry, device["description"]),
             note("good" if device["exact"] else "warn",
                  "Conformance suite: " + device["suite"])]
    items += [note("bad", fault) for fault in device["faults"][:8]]
    items += [note("warn", f"{TITLES[n]}: not run: {f['not_run']}")
              for n, f in device["forms"].items() if "not_run" in f]
    items += speed_items(device, report["cpu"]) + [exact_item(device)]
    for name, form in forms_of(device).items():
        t = form["trace"]
        if "not_run" in t:
            items.append(note("warn", f"Kernels: {TITLES[name]}: not run: "
                                      f"{t['not_run']}"))
            continue
        items += roofline_items(name, t, report["paper"])
        rate = form["speed"][-1]["img_per_s"] / 1e4
        items.append(_html.table("Bus: " + TITLES[name], [
            word("way"), column("bytes per picture", 0), column("GB/s", 1),
            column("us for that"), column("of the time", 1, " %")], [
                (w, moved, gbps or None, us, us and us * rate)
                for w, moved, gbps, us in (
                    (w, t[w + "_bytes"], t[w + "_gbps"],
                     model.us(t[w + "_bytes"], t[w + "_gbps"]))
                    for w in ("up", "down"))]))
    return items + recipe_items(device)


def peer_items(peer):
    if "rows" not in peer:
        return [section("nvJPEG", "Not run: " + peer["not_run"])]
    return [section("nvJPEG", "Decode only, its own pixels, the same files."),
            _html.table("nvJPEG", [word("backend"), column("batches of", 0),
                                column("pictures/s", 0, bars=True),
                                column("CPU-seconds per 1000", 3),
                                column("GB/s of files", 3)], [
                (r["backend"], r["batch"], r["img_per_s"],
                 r["cpu_s_per_1000"], r["file_gbps"]) for r in peer["rows"]])]


def facts_of(report):
    w = report["workload"]
    facts = [["headrace", report["version"]], ["machine", report["machine"]],
             ["the CPU engine", report["cpu"]["description"]],
             ["ops", report["ops"] + ", f32"],
             ["pictures", f"{w['pictures']} JPEGs of "
                          f"{w['file_bytes'] / 1e3:.1f} KB"]]
    if "huffman_bytes" in w:
        facts.append(["Huffman codes", f"{w['huffman_bytes'] / 1e3:.1f} KB per "
                                       "picture"])
    return facts + [[k, f"{w[k]:.0f} per picture"]
                    for k in ("blocks", "symbols", "values") if k in w]


def items_of(report):
    items = [i for d in report["devices"] for i in device_items(d, report)]
    return items + peer_items(report["nvjpeg"])


def write(path, report, build):
    bad = [d for d in report["devices"] if d["faults"]]
    items = items_of(report)
    verdict = ("bad", bad[0]["faults"][0]) if bad else \
        ("good", "What was measured is exact")
    if not bad and all(d["dry_run"] for d in report["devices"]):
        items.insert(0, note("plain", "A dry run: no device here is a GPU."))
    with open(path, "w", encoding="utf-8") as f:
        f.write(_html.page("GPU report", ["tools/gpu_report.sh"],
                           facts_of(report), items, verdict,
                           os.path.join(build, "report.html")))


# ---- As text ----------------------------------------------------------------

def cell(of, value):
    if value is None:
        return "unknown"
    if not of["number"]:
        return str(value)
    digits = of["digits"]
    if digits is None:
        digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{digits}f}{of['unit']}"


def show_table(item):
    columns, n = item["columns"], len(item["columns"])
    rows = [[c["title"] for c in columns]]
    rows += [[cell(c, v) for c, v in zip(columns, item["cells"][at:at + n])]
             for at in range(0, len(item["cells"]), n)]
    wide = [max(len(row[k]) for row in rows) for k in range(n)]
    print(f"\n{item['caption']}")
    for row in rows:
        print("  " + "  ".join(
            text.rjust(w) if c["number"] else text.ljust(w)
            for text, w, c in zip(row, wide, columns)).rstrip())


def show(report):
    for name, value in facts_of(report):
        print(f"{name}: {value}")
    for item in items_of(report):
        if item["is"] == "section":
            print(f"\n{item['title']}\n{item['text']}")
        elif item["is"] == "text":
            print(item["text"])
        elif item["is"] == "table":
            show_table(item)
    for d in report["devices"]:
        print(d["log"], end="")
    print(f"\n{report['seconds']:.0f} s")
