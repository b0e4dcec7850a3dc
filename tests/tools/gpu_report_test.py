#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_report.sh on PoCL, with few pictures: whether it says that the
device is exact, whether what it writes fits together; and that it fails on a
device whose kernels do nothing (tests/engines/opencl/null_opencl.h).

    tests/tools/gpu_report_test.py BUILD

77: there is no PoCL.
"""
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(
    __file__))))
FORMS = ["host", "device", "cache"]
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu_report"))
import main as gpu_report
import model
faults = []


def check(ok, what):
    if not ok:
        faults.append(what)
        print("FAILED:", what)


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def no_pocl(build):
    out = subprocess.run([build + "/headrace", "devices", "--json"],
                         stdout=subprocess.PIPE, check=True).stdout
    return not any(d["available"] and "PoCL" in d["description"]
                   for d in json.loads(out)["devices"])


def check_speed(name, form, facts):
    check([r["memory"] for r in form["speed"]] == ["device", "pinned", "host"],
          f"{name}: not each memory was measured")
    for r in form["speed"]:
        check(r["img_per_s"] > 0 and r["cpu_s_per_1000"] > 0 and
              not r["failed"] and not r["left"], f"{name}: {r}")
        check(near(r["huffman_gbps"],
                   r["img_per_s"] * facts["huffman_bytes"] / 1e9),
              f"{name}: GB/s of Huffman codes")
    for r in form["exact"]:
        check(r["same"] and not r["faults"] and
              r["pictures"] == r["by_device"] == facts["pictures"],
              f"{name}: {r}")
        check(r["from_first_bit"] == (r["pictures"] if name == "device" else 0),
              f"{name}: {r['from_first_bit']} from their first bit on")


def check_trace(name, t, facts):
    pixels = 224 * 224 * 3 * 4
    check(t["up_bytes"] > 10000, f"{name}: {t['up_bytes']} bytes up")
    if name == "device":
        check(t["up_bytes"] > .95 * facts["huffman_bytes"],
              "fewer bytes go up than the scans have")
    check(t["memory_gbps"] > 0, f"{name}: memory was not measured")
    for k, v in t["kernels"].items():
        check(v["launches"] > 0 and v["items"] > 0, f"{name}: {k}: {v}")
        if v["floor_bytes"] and v["floor_us"]:
            check(near(v["floor_us"],
                       v["floor_bytes"] / t["memory_gbps"] / 1e3),
                  f"{name}: {k}: floor")
        check(t["occupancy"][k]["most"] >= t["occupancy"][k]["group"] >= 1 and
              t["occupancy"][k]["multiple"] >= 1, f"{name}: {k}: occupancy")
    check(pixels <= t["kernels"]["hr_store"]["floor_bytes"] < 2 * pixels,
          f"{name}: hr_store's bytes")
    for what in ("launches", "floor_bytes"):
        check(near(sum(s[what] for s in t["stages"].values()),
                   sum(k[what] or 0 for k in t["kernels"].values())),
              f"{name}: {what} of stages and kernels")
    stages = ["reconstruct", "color", "resample", "store"]
    check([s for s in t["stages"] if s != "color"] ==
          (["entropy"] if name == "device" else []) +
          [s for s in stages if s != "color"], f"{name}: {list(t['stages'])}")
    check(near(t["predicted"]["kernels_us"],
               sum(t["predicted"]["stages_us"].values())),
          f"{name}: the model's sum")


def check_page(folder, forms):
    # (On a busy machine fewer epochs may take longer: such times are unknown.)
    known = sum(None not in [s["us"] for s in form["trace"]["stages"].values()]
                for form in forms.values())
    with open(os.path.join(folder, "REPORT.html"), encoding="utf-8") as f:
        page = f.read()
    mark = '<script type="application/json" id="data">'
    at = page.index(mark) + len(mark)
    data = json.loads(page[at:page.index("</script>", at)])
    check(data["verdict"]["tone"] == "good", f"page: {data['verdict']}")
    charts = sum(i["is"] == "chart" for i in data["items"])
    check(charts >= 5 - len(forms) + known, f"page: {charts}, {known} charts")
    for i in data["items"]:
        if i["is"] == "table":
            check(i["cells"] and len(i["cells"]) % len(i["columns"]) == 0,
                  f"page: {i['caption']}")
    check("@" not in page[:200] and "@JS@" not in page, "page: not filled")


def whole(build, folder):
    run = subprocess.run(
        ["bash", ROOT + "/tools/gpu_report.sh", "-q", "-b", build, "-o",
         folder], env=os.environ | {"HEADRACE_REPORT_DEVICES": "opencl:pocl"},
        stdout=subprocess.PIPE, text=True)
    check(run.returncode == 0, f"exit code {run.returncode}")
    print(run.stdout)
    with open(os.path.join(folder, "REPORT.json"), encoding="utf-8") as f:
        report = json.load(f)
    facts, device = report["workload"], report["devices"][0]
    check(facts["symbols"] > facts["values"] > facts["blocks"] > 100 and
          facts["file_bytes"] > facts["huffman_bytes"] > 0, f"{facts}")
    check(device["exact"] and not device["faults"], f"{device['faults']}")
    check(device["dry_run"] and "dry run" in run.stdout, "no word of a dry run")
    check(list(device["forms"]) == FORMS, f"{list(device['forms'])}")
    for name, form in device["forms"].items():
        check_speed(name, form, facts)
        check_trace(name, form["trace"], facts)
    rows = device.get("recipes", [])
    check(len(rows) == len(gpu_report.RECIPES) and
          all(r["same"] and r["img_per_s"] > 0 and not r["codes_by_cpu"] and
              r["by_device"] == facts["pictures"] for r in rows) and
          "trivial_augment_wide" in run.stdout, f"recipes: {rows}")
    check("rows" in report["nvjpeg"] or
          "Not run: " + report["nvjpeg"]["not_run"] in run.stdout, "nvJPEG")
    check_page(folder, device["forms"])


def model_knows_kernels():
    """Each has a stage and, if it makes pixels, a floor; the form for GPUs
    moves no fewer bytes than the tensor has, and no more than the other form."""
    text = "".join(open(f, encoding="utf-8").read()
                   for f in glob.glob(ROOT + "/kernels/*.cl")
                   if not f.endswith("pack.cl"))
    names = re.findall(r"__kernel void (\w+)\(", text)
    stages = model.stages({n: {"us": 1, "launches": 1, "floor_bytes": 1}
                           for n in names})
    check(len(names) > 12 and "other" not in stages, f"model: {list(stages)}")
    # 64 x 64 pixels, 4:4:4, to 32 x 32 of f32.
    staged = model.floors({"hr_reconstruct": 3 * 64, "hr_color": 4 * 16,
                           "hr_resample": 3 * 4 * 2, "hr_store": 3 * 4}, 9000)
    gpu = model.floors({"hr_reconstruct_color_gpu": 64 * 8,
                        "hr_resize_gpu": 3 * 64}, 9000)
    tensor = 3 * 32 * 32 * 4
    check(sorted(gpu) == ["hr_reconstruct_color_gpu", "hr_resize_gpu"] and
          gpu["hr_reconstruct_color_gpu"] == 9000 + 3 * 64 * 64 and
          gpu["hr_resize_gpu"] == 3 * 64 * 64 + tensor and
          sum(gpu.values()) < sum(staged.values()), f"model: {gpu}, {staged}")


def pictures_come_again(build, folder):
    os.mkdir(folder)
    b = gpu_report.Bench(types.SimpleNamespace(build=build, quick=True,
                                               pictures=[], limit=0), folder)
    run = b.run("cpu", "host", 1, again=3)
    check(len(b.paths) == 8 and run["images"] == 24, f"again: {run['images']}")


def ends_in_time(build, folder):
    """A command that hangs is ended, and then nothing is begun; what was
    measured before is there."""
    os.mkdir(folder)
    b = gpu_report.Bench(types.SimpleNamespace(
        build=build, out=folder, quick=True, pictures=[], limit=.5, epochs=0),
        folder)
    b.save({"devices": ["one"]})
    b.command = os.path.join(folder, "hangs")
    with open(b.command, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexec sleep 600\n")
    os.chmod(b.command, 0o755)
    why = {"not_run": "the 0.5 s are over"}
    b.end = time.monotonic() + .5
    check([gpu_report.form_of(b, "cpu", "host", True, {}) for _ in range(2)] ==
          [why, why], "in time: a command that hangs")
    check(gpu_report.suite(b, "cpu") == ("not tested: it took too long", ""),
          "in time: the suite")
    with open(os.path.join(folder, "REPORT.json"), encoding="utf-8") as f:
        check(json.load(f) == {"devices": ["one"]}, "in time: what there was")


def wrong_kernels(build, folder):
    """The pictures come back as they were allocated."""
    null = os.path.join(build, "tests", "libnull_opencl.so")
    if not os.path.exists(null):
        print("not run: wrong kernels: no null device")
        return
    run = subprocess.run(
        [sys.executable, ROOT + "/tools/gpu_report/main.py", "--build", build,
         "--out", folder, "--quick", "--epochs", "1"],
        env=os.environ | {"HEADRACE_OPENCL_LIBRARY": null,
                          "HEADRACE_REPORT_DEVICES": "opencl",
                          "HEADRACE_CERTIFICATE": "off"},
        stdout=subprocess.PIPE, text=True)
    check(run.returncode == 1, f"wrong kernels: exit code {run.returncode}")
    with open(os.path.join(folder, "REPORT.json"), encoding="utf-8") as f:
        device = json.load(f)["devices"][0]
    check(not device["exact"] and
          "NO: host, host: its bytes are not the CPU's" in device["faults"],
          f"wrong kernels: {device['faults']}")


def main():
    build = os.path.abspath(sys.argv[1])
    model_knows_kernels()
    if no_pocl(build):
        print("not run: there is no PoCL")
        return 77
    with tempfile.TemporaryDirectory(prefix="headrace-report-") as tmp:
        whole(build, os.path.join(tmp, "pocl"))
        # A machine that is busy with other things.
        if any("did not answer in time" in f for f in faults):
            print("once more")
            faults.clear()
            whole(build, os.path.join(tmp, "pocl"))
        ends_in_time(build, os.path.join(tmp, "time"))
        wrong_kernels(build, os.path.join(tmp, "null"))
        pictures_come_again(build, os.path.join(tmp, "again"))
    print(f"{len(faults)} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
