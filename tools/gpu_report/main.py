#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_report.sh: measures every OpenCL device, and writes the table, the page
and REPORT.json. Standard library only. Exit code 1: a device is not exact, or
did not make the pictures that were measured; 77: there is none."""
import argparse
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
import made
import model
import nvjpeg
import page
import workload

OPS = "decode,random_resized_crop=224,random_hflip,normalize=imagenet"
# Lists of codes that differ from picture to picture, which a GPU does, too.
RECIPES = {
    "color_jitter": "color_jitter=0.4:0.4:0.4:0.1,random_grayscale=0.2,"
                    "random_gaussian_blur=0.5",
    "trivial_augment_wide": "trivial_augment_wide",
    "rand_augment": "rand_augment=2:9:bilinear"}
NO_CODES = "ops that the engine does not have"  # HR_WHY_AUGMENT
RECIPE = ("decode,random_resized_crop=224,random_hflip,{},normalize=imagenet,"
          "random_erasing=0.25")
# Where stage entropy runs, and from what: files, by the host or the device; and
# later epochs of packed pictures that are kept.
FORMS = ("host", "device", "cache")
MEMORIES = ("device", "pinned", "host")
MADE = "made by the device: reconstruct..store"
COMPARED = 64  # pictures whose bytes are compared


class Failed(Exception):
    """A command's first line of errors."""


class Bench:
    def __init__(self, o, tmp):
        self.o, self.tmp = o, tmp
        self.batches = (64,) if o.quick else (64, 256)
        self.seconds = .05 if o.quick else 2.
        self.end = time.monotonic() + o.limit if o.limit else math.inf
        self.variables = {}  # of each command's environment
        self.command = os.path.join(o.build, "headrace")
        self.trace = os.path.join(o.build, "tests", "libbench_trace.so")
        if not o.pictures:
            o.pictures = [os.path.join(tmp, "photos")]
            subprocess.run([self.command, "samples", "--photos-only", "--count",
                            "8" if o.quick else "200", *o.pictures],
                           check=True, stdout=subprocess.DEVNULL)
        self.paths = workload.files_of(o.pictures)
        self.list = os.path.join(tmp, "list.txt")
        self.reference = {}  # arrays of the CPU, by epochs

    def run(self, device, form, epochs, batch=64, memory="host", out="none",
            again=1, ops=OPS, **variables):
        """Runs `headrace run` and returns its JSON. again: how often each epoch
        has the pictures. (A folder that is named twice counts once.)"""
        where = "device" if form == "device" else "host"
        words = [self.command, "run", "--backend", device, "--out", out,
                 "--ops", ops, "--on-error", "zero", "--json", "--seed", "3",
                 "--batch", str(batch), "--epochs", str(epochs), "--memory",
                 memory, "--budget", "4G"]
        words += ["--cache", "4G"] if form == "cache" else []
        words += [] if out == "none" else ["--limit", str(COMPARED)]
        with open(self.list, "w", encoding="utf-8") as f:
            f.writelines(os.path.abspath(p) + "\n" for p in again * self.paths)
        try:
            done = subprocess.run(
                words + ["--list", self.list], capture_output=True, text=True,
                env=os.environ | {"HEADRACE_OPENCL_ENTROPY": where} |
                self.variables | variables, timeout=self.left())
        except subprocess.TimeoutExpired:
            self.left()
            raise
        if done.returncode > 1 or not done.stdout:
            errors = done.stderr.strip().splitlines() or ["no output"]
            raise Failed(errors[0].removeprefix("headrace: "))
        return json.loads(done.stdout)

    def left(self):
        """Seconds until the limit; None: there is none."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise Failed(f"the {self.o.limit:g} s are over")
        return None if left == math.inf else left

    def save(self, report):
        """Writes the figures so far: the next command may hang."""
        path = os.path.join(self.o.out, "REPORT.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1)


# ---- Speed ------------------------------------------------------------------

def later(run):
    """Sums of all epochs but the first, which opens, warms up, fills."""
    epochs = run["epochs"][1:]
    return [sum(e[k] for e in epochs)
            for k in ("images", "seconds", "cpu_seconds")]


def speed(b, device, form, memory, batch, ops=OPS):
    """An epoch ends when its last picture has: so a fast device gets the same
    pictures several times in each."""
    run = b.run(device, form, (b.o.epochs or 1) + 1, batch, memory, ops=ops)
    images, seconds, _ = later(run)
    wanted = math.ceil(b.seconds * images / seconds)  # pictures
    if not b.o.epochs and wanted > images:
        again = min(max(wanted // 3 // len(b.paths), 1), 64)
        epochs = 1 + math.ceil(wanted / again / len(b.paths))
        run = b.run(device, form, epochs, batch, memory, again=again, ops=ops)
    images, seconds, cpu = later(run)
    return {"batch": batch, "memory": memory, "img_per_s": images / seconds,
            "cpu_s_per_1000": 1000 * cpu / max(images, 1), "images": images,
            "failed": run["failed"], "left": run["fallbacks"]}


def with_input(rows, facts):
    """Adds to each row the 10^9 bytes of Huffman codes decoded per second, on
    device or host."""
    for row in rows:
        row["huffman_gbps"] = row["img_per_s"] * facts["huffman_bytes"] / 1e9
    return rows


# ---- Exactness --------------------------------------------------------------

def array(b, device, form, memory, ops=OPS):
    """Digest of the bytes, counts by engine, and pictures that OpenCL made from
    the entropy coding on. The last epoch is written: with a cache, that one
    comes from it."""
    path = os.path.join(b.tmp, "array.npy")
    b.run(device, form, 2, 64, memory, path, ops=ops)
    digest = hashlib.blake2b()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    with open(path[:-4] + ".json", encoding="utf-8") as f:
        pictures = json.load(f)["pictures"]
    count, whole = made.Count(), 0
    for p in pictures:
        if p["status"] == "HR_OK":
            stages = made.stages_of(p["spans"])
            count.add(stages, p["fallback_reasons"], 0,
                      "not a JPEG" not in p["fallback_reasons"])
            whole += any(s["device"].startswith("opencl") and
                         s["span"].startswith("entropy") for s in p["spans"])
    os.remove(path)
    return digest.hexdigest(), count, whole


def same_bytes(b, name, form, memory):
    """A row of what was compared with the CPU."""
    if not b.reference:
        b.reference["digest"] = array(b, "cpu", "host", "host")[0]
    digest, count, whole = array(b, name, form, memory)
    row = {"memory": memory, "same": digest == b.reference["digest"],
           "pictures": count.samples, "by_device": count.decoded,
           "from_first_bit": whole, "faults": count.faults(name)}
    if form == "device" and not whole:
        row["faults"].append("stage entropy was never the device's")
    return row


def suite(b, name):
    """(verdict, log) of the conformance suite."""
    program = os.path.join(b.o.build, "tests", "test_conformance")
    if not os.path.exists(program):
        return "not tested: no test_conformance", ""
    scale = {"HEADRACE_TEST_SCALE": "0.05"} if b.o.quick else {}
    try:
        done = subprocess.run([program, "other_devices"], text=True,
                              env=os.environ | {"HEADRACE_TEST_DEVICE": name} |
                              scale, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False,
                              timeout=b.left())
    except (Failed, subprocess.TimeoutExpired):
        return "not tested: it took too long", ""
    # The suite fails, too, where the device did not make the pictures itself;
    # what it says first is the reason.
    if done.returncode:
        why = re.search(r"^[a-z_]+:\d+: (.*)", done.stdout, re.M)
        return "NO: " + (why[1] if why else "see below"), done.stdout[-2000:]
    ok = re.search(rf"^ +tier exact: {MADE} ([1-9]\d* of \d+)", done.stdout,
                   re.M)
    return (f"yes: {MADE} {ok[1]}" if ok else
            "not tested: the suite did not run there"), ""


# ---- Recipes ----------------------------------------------------------------

def recipes(b, name, device):
    """Rows of each: batches of 256 (of quick runs 64), beside the CPU's. In a
    dry run the device does codes, too, as a GPU would by itself."""
    rows = []
    if device["dry_run"]:
        b.variables = {"HEADRACE_OPENCL_AUGMENT": "device"}
    for what, codes in RECIPES.items():
        ops = RECIPE.format(codes)
        row = {"recipe": what} | speed(b, name, "device", "device",
                                       b.batches[-1], ops)
        row["cpu_img_per_s"] = speed(b, "cpu", "host", "host", b.batches[-1],
                                     ops)["img_per_s"]
        want = array(b, "cpu", "host", "host", ops)[0]
        digest, count, _ = array(b, name, "device", "device", ops)
        row |= {"same": digest == want, "pictures": count.samples,
                "by_device": count.decoded,
                "codes_by_cpu": count.reasons[NO_CODES]}
        device["recipes"] = rows = rows + [row]


# ---- Events -----------------------------------------------------------------

def traced(b, name, form, dry):
    """Bytes, launches and times of kernels, per picture. Two runs, so that what
    is only at the start falls out of the difference. In a dry run the device
    says that its memory is its own, so that all bytes move."""
    if not os.path.exists(b.trace):
        raise Failed("no libbench_trace.so: OpenCL's loader was not there to "
                     "build it")
    runs, traces = [], []
    discrete = {"HEADRACE_TRACE_DISCRETE": "1"} if dry else {}
    for epochs in (2, 8):
        path = os.path.join(b.tmp, "trace.json")
        runs.append(b.run(name, form, epochs, b.batches[-1], "device",
                          again=1 if dry else 4, HEADRACE_TRACE=path,
                          HEADRACE_OPENCL_LIBRARY=b.trace, **discrete))
        with open(path, encoding="utf-8") as f:
            traces.append(json.load(f))
    one, all_ = traces
    return differ(one, all_, runs[1]["images"] - runs[0]["images"], b.o.bus)


def differ(one, all_, n, bus):
    t = {way + "_bytes": (all_[way + "_bytes"] - one[way + "_bytes"]) / n
         for way in ("up", "down")}
    t |= {way + "_gbps": bus or all_[way + "_gbps"] for way in ("up", "down")}
    t["memory_gbps"] = all_["copy_gbps"]
    none = {"ns": 0, "items": 0, "launches": 0}
    used = {name: {w: (k[w] - one["kernels"].get(name, none)[w]) / n
                   for w in none} for name, k in all_["kernels"].items()}
    used = {name: u for name, u in used.items() if u["launches"] > 0}
    least = model.floors({k: u["items"] for k, u in used.items()},
                         t["up_bytes"])
    t["kernels"] = {
        name: {"us": u["ns"] / 1e3 if u["ns"] > 0 else None,
               "launches": u["launches"], "items": u["items"],
               "floor_bytes": least.get(name),
               "floor_us": model.us(least.get(name, 0), t["memory_gbps"])}
        for name, u in used.items()}
    t["stages"] = model.stages(t["kernels"])
    t["predicted"] = model.predicted(t, model.PAPER)
    t["occupancy"] = {name: {w: all_["kernels"][name][w] for w in
                             ("group", "most", "multiple", "local", "private")}
                      for name in used}
    t["units"] = {w: all_[w] for w in ("units", "mhz", "local_bytes",
                                       "cache_bytes")}
    return t


# ---- Devices ----------------------------------------------------------------

def form_of(b, name, form, dry, facts):
    out = {}
    try:
        out["speed"] = with_input([speed(b, name, form, m, n)
                                   for m in MEMORIES for n in b.batches],
                                  facts)
        out["exact"] = [same_bytes(b, name, form, m) for m in MEMORIES]
    except Failed as e:
        return {"not_run": str(e)}
    try:
        out["trace"] = traced(b, name, form, dry)
        entropy = out["trace"]["stages"].get("entropy", {}).get("us")
        if entropy:
            out["trace"]["entropy_gbps"] = \
                facts["huffman_bytes"] / entropy / 1e3
    except Failed as e:
        out["trace"] = {"not_run": str(e)}
    return out


def faults_of(device):
    """Why its figures are not to be believed."""
    found = [device["suite"]] if device["suite"].startswith("NO") else []
    found += [f"NO: {row['recipe']}: its bytes are not the CPU's"
              for row in device.get("recipes", ()) if not row["same"]]
    for name, form in device["forms"].items():
        for row in form.get("exact", ()):
            found += [f"NO: {name}, {row['memory']}: {why}" for why in
                      row["faults"] + ([] if row["same"] else
                                       ["its bytes are not the CPU's"])]
        for row in form.get("speed", ()):
            found += [f"NO: {name}: {n} samples: {why}"
                      for why, n in row["left"].items()
                      if why == made.REFUSED or why in made.LEFT]
    return found


def device_of(b, name, known, facts, report):
    d = known.get(name) or known.get(b.run(name, "host", 1)["device"], {})
    verdict, log = suite(b, name)
    device = {"name": name, "description": d.get("description", "unknown"),
              "dry_run": bool(d.get("software")), "suite": verdict,
              "forms": {}}
    report["devices"].append(device)
    for form in FORMS:
        print(f"measuring {name}, {form}", file=sys.stderr)
        device["forms"][form] = form_of(b, name, form, device["dry_run"],
                                        facts)
        b.save(report)
    print(f"measuring {name}, recipes", file=sys.stderr)
    try:
        recipes(b, name, device)
    except Failed as e:
        device["recipes_not_run"] = str(e)
    b.variables = {}
    device["faults"] = faults_of(device)
    device["exact"] = not device["faults"] and verdict.startswith("yes")
    device["log"] = log
    b.save(report)


def cpu_of(b, known, facts):
    print("measuring cpu", file=sys.stderr)
    return {"description": known["cpu"]["description"], "forms": {
        form: {"speed": with_input([speed(b, "cpu", form, "host", n)
                                    for n in b.batches], facts)}
        for form in ("host", "cache")}}


def measure(b, names, known):
    begin = time.time()
    facts = workload.count(b.o.build, b.paths)
    report = {"report": 1, "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
              "version": b.run("cpu", "host", 1)["version"],
              "machine": f"{platform.machine()}, {os.cpu_count()} processors",
              "ops": OPS, "paper": model.PAPER, "workload": facts}
    if not facts["pictures"]:
        raise Failed("no JPEG among the pictures")
    report["cpu"] = cpu_of(b, known, facts)
    report["devices"] = []
    for name in names:
        device_of(b, name, known, facts, report)
    report["nvjpeg"] = nvjpeg.peer(b.paths, b.batches, b.seconds)
    report["seconds"] = time.time() - begin
    b.save(report)
    return report


def devices_of(b):
    """Names of those to measure, and what `headrace devices` says of all."""
    out = subprocess.run([b.command, "devices", "--json"], check=True,
                         stdout=subprocess.PIPE).stdout
    known = {d["name"]: d for d in json.loads(out)["devices"]}
    names = os.environ.get("HEADRACE_REPORT_DEVICES", "").split()
    if names:
        return names, known
    for name, d in known.items():
        if d["backend"] == "opencl" and not d["available"]:
            print(name, "absent:", d["reason"], file=sys.stderr)
    return [n for n, d in known.items()
            if d["backend"] == "opencl" and d["available"]], known


def options():
    a = argparse.ArgumentParser()
    a.add_argument("--build", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--epochs", type=int, default=0)
    a.add_argument("--quick", action="store_true")
    a.add_argument("--limit", type=float, default=0)
    a.add_argument("--bus", type=float, default=0)
    a.add_argument("pictures", nargs="*")
    return a.parse_args()


def main():
    o = options()
    os.makedirs(o.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-report-") as tmp:
        b = Bench(o, tmp)
        names, known = devices_of(b)
        if not names:
            print("gpu_report: no OpenCL device here", file=sys.stderr)
            return 77
        try:
            report = measure(b, names, known)
        except Failed as e:
            print(f"gpu_report: {e}", file=sys.stderr)
            return 1
    page.write(os.path.join(o.out, "REPORT.html"), report, o.build)
    page.show(report)
    return 1 if any(d["faults"] for d in report["devices"]) else 0


if __name__ == "__main__":
    sys.exit(main())
