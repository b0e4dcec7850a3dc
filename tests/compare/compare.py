#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Are the pictures the reference's pictures, to the bit?

Compares the library with Pillow (decode, resize, crop, flip) and, where it is
there, torchvision (transforms v1 and v2, their tensors) on generated samples
and on the corpus; once for every instruction set of this machine. The pass
condition is 0 differing bytes. It runs in any Python that has NumPy and
Pillow; which order of passes that Pillow has it finds out by probing. Jobs and
Pillow's side are those of headrace.validate, of the package in BUILD/python;
the cases are its own, drawn for each file.

    tests/compare/compare.py --build build           a minute: a random choice
    tests/compare/compare.py --build build --long    all kinds, filters, types
    tests/compare/compare.py --build build --backend opencl
    tests/compare/compare.py --build build --draw-level

Damaged and incomplete pictures agree only if Pillow and libheadrace use the
same release of libjpeg-turbo: tests/steps/exact.sh runs the library with the
one that Pillow's wheel carries, and --jpeg says that it is that.

--draw-level makes each picture of each case with one instruction set, drawn,
instead of all: what differs between releases of Pillow is the same for all.

Another backend than the CPU's is compared on one level, named after it; what
it hands to the CPU is compared, too, and the reasons are counted. It fails if
the device itself made less than half of the pictures from reconstruct to
store, if its certificate refused any, or if it failed on the way.

The corpus is HEADRACE_CORPUS, or ../shared/corpus beside the source tree:
photos/, kinds/ and bad/ with JPEG and PNG files. Exit code 1 if anything
differs, 77 if there is nothing to compare with.
"""
import argparse
import collections
import itertools
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import warnings

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import numpy as np
    from PIL import Image, features

    import package  # noqa: F401, where headrace is
    import compare_cases as cases
    import compare_torchvision
    from headrace import _core, _oracle
    from headrace.errors import Error
    from headrace.validate import ours, stock
except ImportError as e:
    print(f"not run: {e}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(77)

import made
from compare_cases import FILTERS, Case
from headrace.ops import center_crop, decode, normalize, resize, resize_short
from tree import CORPUS

warnings.simplefilter("ignore")
if "torch" in sys.modules:
    sys.modules["torch"].set_num_threads(1)
# Pillow refuses above twice this; the library's default limit is 100 million.
Image.MAX_IMAGE_PIXELS = 50_000_000

# Files on which the library and Pillow disagree whether they can be read, by
# the beginning of the name, and why that is right. (the refusing side, reason)
LIMIT = "a limit of the library; Pillow has none of this kind"
EXCEPTIONS = {
    "bomb-190-scans": ("headrace", LIMIT),
    "bomb-568-scans": ("headrace", LIMIT),
    "bomb-visits": ("headrace", LIMIT),
    "com-flood-30000": ("headrace", LIMIT),
    "scanbomb-empty-dcrefine-500": ("headrace", LIMIT),
    "scanbomb-empty-huffman-1000": ("headrace", LIMIT),
    "scanbomb-legal-883-4096": ("headrace", LIMIT),
    "imagetestsuite__jpeg-decoder__8e5e74dbf9b68a": ("headrace", LIMIT),
    # Its APP0 says it is 1 byte long. libjpeg warns and goes on, as the
    # library does; Pillow's own reader of markers loses its way.
    "imagetestsuite__jpeg-decoder__a7326ba8f3f455": (
        "pillow", "a marker of length 1"),
}
# Pillow opens these where its libjpeg-turbo is 3.0 or newer.
LOSSLESS = {name: ("headrace", "lossless coding") for name in (
    "lossless-8bit-", "lossless-conformance-O1", "lossless-rgb")}


LEVELS = (("c", "neon") if platform.machine() in ("aarch64", "arm64")
          else ("c", "avx2", "avx512"))
TOGETHER = 8  # cases of a file whose pixels are kept at once


# ---- running ---------------------------------------------------------------

def open_device(name="cpu", threads=1, level=None, reference=None):
    """level: the instruction set; a backend's own name is none."""
    if level in LEVELS:
        os.environ["HEADRACE_CPU"] = level
    try:
        return _core.Device(name, threads=threads, strict=name == "cpu",
                            reference=reference)
    finally:
        os.environ.pop("HEADRACE_CPU", None)


def levels_here():
    """Names of the instruction sets this machine has, C first."""
    found = []
    for level in LEVELS:
        with open_device(level=level) as dev:
            if f"{level} kernels" in dev.description:
                found.append(level)
    return found


def differing(got, want):
    """Bytes that differ; also of floats, so that -0 and NaN count."""
    a = np.ascontiguousarray(got).view(np.uint8)
    b = np.ascontiguousarray(want).view(np.uint8)
    return int(np.count_nonzero(a != b))


class Tally:
    """Rows of the table: what was compared and what differed."""

    def __init__(self):
        self.rows = collections.OrderedDict()
        self.notes = []

    def add(self, check, level, name, bad, note=None):
        row = self.rows.setdefault((check, level), [set(), 0, 0])
        row[0].add(name)
        row[1] += 1
        row[2] += bad
        if note:
            self.notes.append((check, note))

    def merge(self, rows, notes):
        for key, (names, n, bad) in rows.items():
            row = self.rows.setdefault(key, [set(), 0, 0])
            row[0] |= names
            row[1] += n
            row[2] += bad
        self.notes += notes


def run_cases(dev, chosen, count):
    """(case, differing bytes, a sentence if there are any) of each."""
    flight = ours.Flight([case.on(dev) for case in chosen], dev)
    for case, result in zip(chosen, flight.wait()):
        count.note(result, isinstance(case.source, bytes))
        yield case, *judge(case, result)


def judge(case, result):
    want = case.want
    if result.pixels is None:
        return want.nbytes, f"{result.status}: {result.reason}"
    got = np.frombuffer(result.pixels, want.dtype).reshape(want.shape)
    bad = differing(got, want)
    if not bad:
        return 0, None
    at = np.argwhere(got != want)
    at = tuple(at[0]) if len(at) else ()
    return bad, f"{bad} bytes, first at {at}: {got[at]} for {want[at]}"


def run(dev, samples, out, layout, count):
    """One job into that array, of any strides."""
    shape = out.shape if layout == "nchw" else np.array(out.shape)[[0, 3, 1, 2]]
    names = {t: name for name, t in cases.DTYPES.items()}
    batch = _core.Batch(*map(int, shape), names[out.dtype.type], layout, out,
                        dev)
    job = _core.submit(samples, batch, device=dev)
    job.wait()
    for result in job.results:
        count.note(result, True)


def short(ops):
    return " ".join(str(tuple(x for x in op if not isinstance(x, np.ndarray)))
                    for op in ops).replace(" ", "")


def refusal_fault(name, refused, ours):
    """Returns the fault if the wrong side refuses a file; else None."""
    base = os.path.basename(name)
    allowed = [v[0] for k, v in EXCEPTIONS.items() if base.startswith(k)]
    side = ("" if bool(refused) == bool(ours) else
           "headrace" if ours else "pillow")
    if side and side not in allowed:
        return f"{name}: only {side} refuses it: {ours or refused}"
    if allowed and not side:
        return f"{name}: is among the EXCEPTIONS, but both agree"
    return None


state = {}  # of a worker process


def start_worker(backend, levels, seed, long, draw):
    state.update(seed=seed, long=long, draw=draw, devs={
        level: open_device(backend, 1, level) for level in levels})


def compare_file(job):
    """All checks of one file, on every level: (rows, notes, made)."""
    tally, count = Tally(), made.Count()
    compare_one(tally, count, *job)
    return tally.rows, tally.notes, count


def refused_by_us(data, count):
    """Why the last level's device does not decode it."""
    dev = list(state["devs"].values())[-1]
    try:
        info = _core.probe(data)
    except Error as e:
        return str(e)
    want = np.empty((info.height, info.width, 3), np.uint8)
    case = Case("refusal", data, [decode()], want).on(dev)
    (result,) = ours.Flight([case], dev).wait()
    count.note(result, True)
    if result.pixels is None:
        return f"{result.status}: {result.reason}"
    return None


def compare_one(tally, count, path, name, group):
    rng = random.Random(f"{state['seed']}:{name}")
    with open(path, "rb") as f:
        data = f.read()
    try:
        picture, refused = cases.Picture(name, group, data), None
    except Exception as e:  # Pillow refuses in many ways
        picture, refused = None, f"{type(e).__name__}: {e}"
    ours = refused_by_us(data, count)
    fault = refusal_fault(name, refused, ours)
    tally.add("refusal", list(state["devs"])[-1], name, int(bool(fault)), fault)
    if refused or ours:
        return
    drawn = random.Random(f"{state['seed']}:level:{name}")
    found = cases.of_file(picture, rng, state["long"])
    while chosen := list(itertools.islice(found, TOGETHER)):
        levels = [[drawn.choice(list(state["devs"]))] if state["draw"] else
                  list(state["devs"]) for _ in chosen]
        for level, dev in state["devs"].items():
            mine = [c for c, on in zip(chosen, levels) if level in on]
            for case, bad, text in run_cases(dev, mine, count):
                tally.add(case.check, level, name, bad, text and (
                    f"{name}: {case.check}, {level}, {case.dtype} "
                    f"{case.layout}: {text}\n    {short(case.ops)}"))


# ---- checks that are not about one file ------------------------------------

def strided(rng, n, c, h, w, dtype, layout):
    """An array of odd strides inside a larger one full of a pattern."""
    t = cases.DTYPES[dtype]
    shape = (n, c, h, w) if layout == "nchw" else (n, h, w, c)
    around = [d + rng.randint(1, 3) for d in shape]
    if layout == "nhwc":
        around[3] = shape[3]  # pixels of a row are packed
    elem = np.dtype(t).itemsize
    whole = np.full(int(np.prod(around)) * elem + 64, 0xA5, np.uint8)
    start = elem * rng.randint(0, 5)
    whole[:start] = 0x5A
    end = start + int(np.prod(around)) * elem
    inner = whole[start:end].view(t).reshape(around)
    return whole, inner[tuple(slice(0, d) for d in shape)]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def memory_checks(tally, files, levels, backend, rng, count):
    """Caller's memory with strides: right inside, untouched outside."""
    for level in levels:
        with open_device(backend, 2, level) as dev:
            for dtype in cases.DTYPES:
                for layout in ("nchw", "nhwc"):
                    for gray in (False, True):
                        chosen = rng.sample(files, 3)
                        stride_check(dev, tally, level, chosen, dtype, layout,
                                     gray, rng, count)


def stride_check(dev, tally, level, files, dtype, layout, gray, rng, count):
    w, h = rng.randint(1, 70), rng.randint(1, 70)
    whole, out = strided(rng, len(files), 1 if gray else 3, h, w, dtype,
                         layout)
    want_whole = whole.copy()
    ops = [decode("L" if gray else "RGB"),
           resize(w, h, filter=rng.choice(FILTERS))]
    numbers = normalize(*cases.pick_norm(rng))
    offset = out.__array_interface__["data"][0] - \
        whole.__array_interface__["data"][0]
    want = np.ndarray(out.shape, out.dtype, want_whole, offset, out.strides)
    for slot, path in zip(want, files):
        im = _oracle.apply(Image.open(path), ops)
        tensor = (cases.hwc(im).transpose(2, 0, 1) if dtype == "u8" else
                  _oracle.apply(im, [numbers]))
        slot[...] = cases.as_type(tensor, dtype, layout)
    ops += [numbers] * (dtype != "u8")
    run(dev, [(read(path), tuple(ops)) for path in files], out, layout, count)
    bad = differing(whole, want_whole)
    tally.add("caller memory", level, files[0], bad, bad and (
        f"caller memory, {level}, {dtype} {layout} grey={gray} "
        f"{w}x{h}: {bad} bytes"))


def thread_checks(tally, files, levels, backend, count):
    """The same bytes from any number of threads."""
    samples = [(read(path), (
        decode(), resize_short(128, filter=FILTERS[i % 6]),
        center_crop(112, 112, pad=True), normalize(*cases.IMAGENET)))
        for i, path in enumerate(files)]
    for level in levels:
        first = None
        for threads in (1, 2, 8):
            out = np.full((len(files), 3, 112, 112), np.nan, np.float32)
            with open_device(backend, threads, level) as dev:
                run(dev, samples, out, "nchw", count)
            if first is None:
                first = out
                continue
            bad = differing(out, first)
            tally.add("threads 1 = 2 = 8", level, f"{threads}", bad, bad and
                      f"threads {threads}, {level}: {bad} bytes differ")


def variable_checks(tally, levels):
    """HEADRACE_CPU chooses the kernels."""
    for level in levels:
        with open_device(level=level) as dev:
            bad = f"{level} kernels" not in dev.description
            tally.add("HEADRACE_CPU", level, level, int(bad), bad and
                      f"HEADRACE_CPU={level} opens {dev.description}")


# ---- files -----------------------------------------------------------------

def tree(top, group):
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield path, os.path.relpath(path, os.path.dirname(top)), group


def find_corpus():
    return CORPUS if os.path.isdir(CORPUS) else None


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--backend", default="cpu", help="device [cpu]")
    a.add_argument("--long", action="store_true",
                   help="everything, not a choice")
    a.add_argument("--seed", default="1", help="of all random choices [1]")
    a.add_argument("--only", default="", help="files whose name has this")
    a.add_argument("--level", help="one instruction set: " +
                   ", ".join(LEVELS))
    a.add_argument("--draw-level", action="store_true",
                   help="each case with one of them, drawn")
    a.add_argument("--jobs", type=int, help="processes [usable cores]")
    a.add_argument("--part", type=int, default=1, metavar="N",
                   help="of the files every N-th only [1]")
    a.add_argument("--groups", default="photos,kinds,bad",
                   help="folders to take [photos,kinds,bad]")
    a.add_argument("--jpeg", metavar="FILE", help="the libjpeg.so.62 that this "
                   "process must run with, by LD_LIBRARY_PATH")
    return a.parse_args()


def jpeg_version():
    """The version of Pillow's libjpeg-turbo, as numbers."""
    text = features.version_feature("libjpeg_turbo") or "0"
    return tuple(int(n) for n in text.split("."))


def mapped_jpeg():
    """The libjpeg.so.62 of this process, real paths. (torchvision's is .8.)"""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[-1].strip() for line in maps
                 if "libjpeg" in line and ".so.62" in line}
    return sorted(os.path.realpath(path) for path in paths)


def report(tally, skips):
    print(f"{'check':20s} {'level':12s} {'files':>6s} {'compared':>9s} "
          f"{'differing':>10s}")
    failed = 0
    for (check, level), (names, n, bad) in sorted(tally.rows.items()):
        failed += bad > 0
        print(f"{check:20s} {level:12s} {len(names):6d} {n:9d} {bad:10d}"
              f"{'  FAILED' if bad else ''}")
    # Few of each check, so that one fault does not hide another.
    shown = collections.Counter()
    for check, note in tally.notes:
        shown[check] += 1
        if shown[check] <= 6:
            print("FAILED", note)
    for check, n in shown.items():
        if n > 6:
            print(f"... and {n - 6} more of {check}")
    for reason in skips:
        print("not run:", reason)
    print(f"{len(tally.rows) - failed} passed, {failed} failed, "
          f"{len(skips)} skipped")
    return 1 if failed or not tally.rows else 0


def cannot_open(o):
    """Why the backend does not open; None if it does. In a process of its
    own, for drivers do not survive a fork."""
    child = subprocess.run(
        [sys.executable, "-c", "import sys\n"
         "from headrace import _core, errors\n"
         "try: _core.Device(sys.argv[1]).close()\n"
         "except errors.Error as e: print(e.status, e)", o.backend],
        env=dict(os.environ, PYTHONPATH=os.path.join(
            os.path.abspath(o.build), "python")), stdout=subprocess.PIPE)
    if child.returncode:
        return f"opening {o.backend} ended with {child.returncode}"
    return child.stdout.decode().strip() or None


def not_opened(reason):
    """Says so; returns the exit code."""
    if reason.startswith("HR_ENODEVICE"):
        print(f"not run: {reason}\n0 passed, 0 failed, 1 skipped")
        return 77
    print(f"FAILED: {reason}\n0 passed, 1 failed, 0 skipped")
    return 1


def same_jpeg_check(tally, o):
    if o.jpeg:
        found = mapped_jpeg()
        bad = found != [os.path.realpath(o.jpeg)]
        tally.add("one libjpeg", "pillow", "maps", int(bad), bad and
                  f"this process has {found}")


def torchvision_checks(tally, rng):
    pictures = [Image.fromarray(np.array(
        [[[rng.randrange(256) for _ in range(3)] for _ in range(w)]
         for _ in range(h)], np.uint8)) for w, h in
        ((37, 61), (50, 50), (61, 37), (8, 90))]
    pictures += [pictures[0].convert("L")]
    for _ in range(4):
        faults = compare_torchvision.faults(pictures, rng)
        tally.add("sizes and tables", "oracle", "torchvision", len(faults),
                  faults and "; ".join(faults[:4]))


def made_check(tally, backend, count, whole=0.0, entropy=False):
    print(f"made by the device: {count.words(backend)}; left to the CPU, by "
          "reason (a picture may have several):")
    for reason, n in count.reasons.most_common():
        print(f"  {n:6d} {reason}")
    faults = count.faults(backend, whole=whole, entropy=entropy)
    tally.add("made by the device", backend, backend, len(faults),
              "; ".join(faults))


def main():
    o = parse()
    start = time.monotonic()
    versions, skips = compare_torchvision.available()
    if jpeg_version() >= (3, 0):
        EXCEPTIONS.update(LOSSLESS)
    levels = [o.level] if o.level else levels_here()
    if o.backend != "cpu":
        levels = [o.backend]
        if reason := cannot_open(o):
            return not_opened(reason)
    else:
        skips += [f"level {n}: this machine has no {n}, or it was not asked "
                  "for" for n in LEVELS if n not in levels]
    if o.draw_level:
        skips.append(f"each case with all of {', '.join(levels)}: with one of "
                     "them here, all with ./dev test --long")
    reference = stock.installed_reference()
    if not reference:
        print("FAILED: this Pillow's resize follows no reference that is "
              "known\n0 passed, 1 failed, 0 skipped")
        return 1
    _core.set_reference(reference)
    torchvision = (f"torchvision {sys.modules['torchvision'].__version__} "
                   f"{' and '.join(versions)}; ") if versions else ""
    print(f"seed {o.seed}; reference {reference}: Pillow {Image.__version__} "
          f"with libjpeg-turbo {features.version_feature('libjpeg_turbo')}; "
          f"NumPy {np.__version__}; {torchvision}"
          f"libheadrace {_core.version()}, "
          f"levels {' '.join(levels)}")
    tally = Tally()
    same_jpeg_check(tally, o)
    if versions:
        torchvision_checks(tally, random.Random(f"{o.seed}:torchvision"))
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as samples:
        subprocess.run([os.path.join(o.build, "headrace"), "samples",
                        "--seed", "7", samples], check=True,
                       stdout=subprocess.DEVNULL)
        roots = [samples]
        corpus = find_corpus()
        if corpus:
            roots.append(corpus)
        else:
            skips.append("the corpus: set HEADRACE_CORPUS to its folder")
        jobs = [job for root in roots for group in o.groups.split(",")
                for job in tree(os.path.join(root, group), group)
                if o.only in job[1]][::o.part]
        if o.part > 1:
            skips.append(f"files: one of {o.part} here, all of them with ./dev "
                         "test --long")
        count = made.Count()
        jobs.sort(key=lambda j: -os.path.getsize(j[0]))
        workers = o.jobs or len(os.sched_getaffinity(0))
        with multiprocessing.get_context("fork").Pool(
                workers, start_worker,
                (o.backend, levels, o.seed, o.long, o.draw_level)) as pool:
            for rows, notes, one in pool.imap_unordered(compare_file, jobs,
                                                        4):
                tally.merge(rows, notes)
                count.merge(one)
        photos = [path for path, _, group in jobs if group == "photos"]
        if len(photos) >= 3:
            rng = random.Random(f"{o.seed}:memory")
            memory_checks(tally, photos, levels, o.backend, rng, count)
            thread_checks(tally, photos[:600 if o.long else 60], levels,
                          o.backend, count)
        else:
            skips.append("caller memory and threads: fewer than 3 photos")
        if o.backend == "cpu":
            variable_checks(tally, levels)
        else:
            made_check(tally, o.backend, count)
    print(f"{len(jobs)} files, {time.monotonic() - start:.0f} s")
    return report(tally, skips)


if __name__ == "__main__":
    sys.exit(main())
