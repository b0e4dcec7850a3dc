# SPDX-License-Identifier: Apache-2.0
"""The report of gpu_report.sh as text."""


def number(value, digits=2):
    return "unknown" if value is None else f"{value:.{digits}f}"


def beside(cpu, name, batch):
    """The CPU engine's run of a form, in jobs of that size."""
    form = cpu["forms"]["cache" if name == "cache" else "host"]
    return next(r for r in form["speed"] if r["batch"] == batch)


def speed_rows(name, form, cpu):
    rows = []
    for r in form["speed"]:
        by_cpu = beside(cpu, name, r["batch"])["img_per_s"]
        rows.append((f"  jobs of {r['batch']}, {r['memory']}: img/s",
                     f"{r['img_per_s']:.0f} (the CPU engine: {by_cpu:.0f})"))
        rows.append(("    CPU-seconds per 1000, GB/s of Huffman codes",
                     f"{r['cpu_s_per_1000']:.3f}, {r['huffman_gbps']:.3f}"))
    left = ", ".join(f"{n} {why}" for why, n in
                     form["speed"][-1]["left"].items())
    rows.append(("  left to the CPU", left or "nothing"))
    return rows


def exact_rows(form):
    return [("  bytes of " + r["memory"] + " memory",
             ("the CPU's" if r["same"] else "NO: not the CPU's") +
             f", {r['by_device']} of {r['pictures']} pictures by the device, "
             f"{r['from_first_bit']} from their first bit on")
            for r in form["exact"]]


def bus_rows(t, rate):
    rows = []
    for way, words in (("up", "to the device"), ("down", "back")):
        moved, gbps = t[way + "_bytes"], t[way + "_gbps"]
        text = f"{moved:.0f}"
        if gbps and moved:
            text += (f" (a bus of {gbps:.1f} GB/s: "
                     f"{moved / gbps / 1e3:.2f} us, "
                     f"{moved * rate / gbps / 1e9:.1%} of it)")
        rows.append((f"  bytes per picture {words}", text))
    return rows


def trace_rows(t, rate):
    if "not_run" in t:
        return [("  kernels, bytes", "not run: " + t["not_run"])]
    rows = bus_rows(t, rate)
    rows.append(("  memory, when the device copies",
                 f"{number(t['memory_gbps'], 1)} GB/s"))
    for name, k in t["kernels"].items():
        rows.append((f"    {name}, us (memory floor), launches per 1000",
                     f"{number(k['us'])} ({number(k['floor_us'])}), "
                     f"{1000 * k['launches']:.1f}"))
    for name, s in t["stages"].items():
        rows.append((f"  stage {name}, us per picture; KB it must move",
                     f"{number(s['us'])}; {s['floor_bytes'] / 1e3:.1f}"))
    if "entropy_gbps" in t:
        rows.append(("  GB/s of Huffman codes, while its kernels run",
                     f"{t['entropy_gbps']:.3f}"))
    for name, k in t["occupancy"].items():
        rows.append((f"    {name}: group of most, multiple; local, private",
                     f"{k['group']} of {k['most']}, {k['multiple']}; "
                     f"{k['local']}, {k['private']} bytes"))
    return rows


def paper_rows(t, paper):
    """The model's times, of this form."""
    p = t["predicted"]
    stages = ", ".join(f"{n} {us:.2f}" for n, us in p["stages_us"].items())
    return [(f"  on paper ({paper['name']}), us per picture at least",
             f"{stages}; all {p['kernels_us']:.2f}; bus {p['up_us']:.2f} up, "
             f"{p['down_us']:.2f} back; at most {p['most_img_per_s']:.0f} "
             "img/s")]


TITLES = {"host": "entropy coding on the host",
          "device": "entropy coding on the device",
          "cache": "later epochs, packed pictures from a cache"}


def recipe_rows(device):
    rows = [("recipes, entropy on the device, to device memory",
             device.get("recipes_not_run", ""))]
    for r in device.get("recipes", ()):
        rows += [(f"  {r['recipe']}, jobs of {r['batch']}: img/s",
                  f"{r['img_per_s']:.0f} (the CPU engine: "
                  f"{r['cpu_img_per_s']:.0f}); {r['cpu_s_per_1000']:.3f} "
                  "CPU-seconds per 1000"),
                 ("    bytes", ("the CPU's" if r["same"] else
                                "NO: not the CPU's") +
                  f", {r['by_device']} of {r['pictures']} pictures by the "
                  f"device, codes of {r['codes_by_cpu']} by the CPU")]
    return rows


def device_rows(device, cpu, paper):
    rows = [("device", device["name"] +
             (" (a dry run: this is a processor, not a GPU)"
              if device["dry_run"] else "")),
            ("hardware, driver", device["description"]),
            ("exact (conformance suite)", device["suite"])]
    rows += [("exact", fault) for fault in device["faults"][:8]]
    for name, form in device["forms"].items():
        rows.append((TITLES[name], "not run: " + form["not_run"]
                     if "not_run" in form else ""))
        if "not_run" in form:
            continue
        rows += speed_rows(name, form, cpu) + exact_rows(form)
        rows += trace_rows(form["trace"], form["speed"][-1]["img_per_s"])
        if "predicted" in form["trace"]:
            rows += paper_rows(form["trace"], paper)
    return rows + recipe_rows(device)


def nvjpeg_rows(peer):
    if "rows" not in peer:
        return [("nvJPEG", "not run: " + peer["not_run"])]
    return [(f"nvJPEG ({r['backend']}), decode only, batches of {r['batch']}",
             f"{r['img_per_s']:.0f} img/s, {r['cpu_s_per_1000']:.3f} "
             f"CPU-seconds per 1000, {r['file_gbps']:.3f} GB/s of files")
            for r in peer["rows"]]


def show(report):
    w = report["workload"]
    print(f"train transform to 224x224 f32; {w['pictures']} pictures of "
          f"{w['file_bytes'] / 1e3:.1f} KB; the CPU engine: "
          f"{report['cpu']['description']}")
    if "symbols" in w:
        print(f"of each {w['huffman_bytes'] / 1e3:.1f} KB Huffman codes: "
              f"{w['blocks']:.0f} blocks, {w['symbols']:.0f} symbols, "
              f"{w['values']:.0f} values")
    parts = [device_rows(d, report["cpu"], report["paper"])
             for d in report["devices"]]
    for rows in parts + [nvjpeg_rows(report["nvjpeg"])]:
        wide = max(len(what) for what, _ in rows)
        print()
        for what, value in rows:
            print(f"{what:{wide}}  {value}".rstrip())
    for d in report["devices"]:
        print(d["log"], end="")
    print(f"\n{report['seconds']:.0f} s")
