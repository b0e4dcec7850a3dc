# SPDX-License-Identifier: Apache-2.0
"""The report of gpu_report.sh as a page: that of tools/report/."""
import os
import sys

import model
import table

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "..", "python", "headrace"))
import _html
from _html import chart, column, note, section, word


# ---- A device ---------------------------------------------------------------

def forms_of(device):
    return {n: f for n, f in device["forms"].items() if "not_run" not in f}


def speed_items(device, cpu):
    forms = forms_of(device)
    rows = [(table.TITLES[n], r) for n, f in forms.items() for r in f["speed"]]
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
        beside = [table.beside(cpu, n, batch)[what] for n in forms]
        charts.append(chart("bars", f"{title}, jobs of {batch}",
                            [table.TITLES[n] for n in forms],
                            [(f"results in {m} memory", v)
                             for m, v in series] + [("the CPU engine", beside)],
                            unit))
    columns = [word("form"), word("memory"), column("jobs of", 0),
               column("pictures/s", 0, bars=True),
               column("CPU-seconds per 1000", 3),
               column("GB/s of Huffman codes", 3)]
    return charts + [_html.table("All runs", columns, [
        (n, r["memory"], r["batch"], r["img_per_s"], r["cpu_s_per_1000"],
         r["huffman_gbps"]) for n, r in rows])]


def exact_item(device):
    columns = [word("form"), word("memory"), word("bytes"),
               column("pictures", 0), column("by the device", 0),
               column("from their first bit on", 0)]
    return _html.table("Compared with the CPU, byte by byte", columns, [
        (table.TITLES[n], r["memory"],
         "the same" if r["same"] else "DIFFERENT", r["pictures"],
         r["by_device"], r["from_first_bit"])
        for n, f in forms_of(device).items() for r in f["exact"]])


def roofline_items(name, t, paper):
    stages = {n: s for n, s in t["stages"].items() if s["us"]}
    items = []
    if stages:
        items.append(chart(
            "bars", f"Stages: {table.TITLES[name]}", list(stages),
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
    return items + [
        _html.table("Kernels: " + table.TITLES[name], columns, rows)]


def device_items(device, report):
    dry = " (a dry run: this is a processor, not a GPU)" \
        if device["dry_run"] else ""
    items = [section(device["name"] + dry, device["description"]),
             note("good" if device["exact"] else "warn",
                  "Conformance suite: " + device["suite"])]
    items += [note("bad", fault) for fault in device["faults"][:8]]
    items += [note("warn", f"{table.TITLES[n]}: not run: {f['not_run']}")
              for n, f in device["forms"].items() if "not_run" in f]
    items += speed_items(device, report["cpu"]) + [exact_item(device)]
    for name, form in forms_of(device).items():
        t = form["trace"]
        if "not_run" in t:
            items.append(note("warn", "Kernels: not run: " + t["not_run"]))
            continue
        items += roofline_items(name, t, report["paper"])
        items.append(_html.table("Bus: " + table.TITLES[name], [
            word("way"), column("bytes per picture", 0), column("GB/s", 1),
            column("us for that")], [
                (w, t[w + "_bytes"], t[w + "_gbps"] or None,
                 model.us(t[w + "_bytes"], t[w + "_gbps"]))
                for w in ("up", "down")]))
    return items


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


def page(report, build):
    bad = [d for d in report["devices"] if d["faults"]]
    w = report["workload"]
    facts = [["headrace", report["version"]], ["machine", report["machine"]],
             ["the CPU engine", report["cpu"]["description"]],
             ["ops", report["ops"] + ", f32"],
             ["pictures", f"{w['pictures']} JPEGs of "
                          f"{w['file_bytes'] / 1e3:.1f} KB"]]
    facts += [[k, f"{w[k]:.0f} per picture"]
              for k in ("blocks", "symbols", "values") if k in w]
    items = [i for d in report["devices"] for i in device_items(d, report)]
    verdict = ("bad", bad[0]["faults"][0]) if bad else \
        ("good", "What was measured is exact")
    if not bad and all(d["dry_run"] for d in report["devices"]):
        items.insert(0, note("plain", "A dry run: no device here is a GPU."))
    return _html.page("GPU report", ["tools/gpu_report.sh"], facts,
                      items + peer_items(report["nvjpeg"]), verdict,
                      os.path.join(build, "report.html"))


def write(path, report, build):
    with open(path, "w", encoding="utf-8") as f:
        f.write(page(report, build))
