#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a resize of order "torch", or by the reference torch-2, that of the
installed torch, to the bit?

Draws pictures, crops, sizes, filters and layouts (tests/python/torch_draws.py)
and compares with torch.nn.functional.interpolate() of uint8: in a process for
each instruction set that torch knows here (ATEN_CPU_CAPABILITY), and with one
of ours, drawn, for each picture. The pass condition is 0 differing bytes.

Then decodes the corpus (../shared/corpus/kinds or HEADRACE_CORPUS) and compares
with torchvision.io.decode_image and, where it is installed, torchcodec's, as
far as they are the same: docs/pictures.md says where they are not.

    tests/compare/compare_torch.py --build build               some seconds
    tests/compare/compare_torch.py --build build --count 3000  of each set
    tests/compare/compare_torch.py --build build --capability avx2 --picture 17

Exit code 1 if anything differs, 77 if there is no torch that resizes bytes.
"""
import argparse
import importlib
import os
import random
import subprocess
import sys
import warnings

sys.path += [os.path.dirname(__file__) + p for p in ("/../support", "/../python")]
import compare  # which says what is missing, and ends
from compare import Case, Tally, judge, levels_here, open_device, report, short
from headrace import _core, ops
from headrace.errors import Error
from headrace.validate import ours
from tree import CORPUS

try:
    import torch
    import torch_draws
    missing = torch_draws.why_not()
except ImportError as error:
    missing = str(error)

CAPABILITIES = ("default", "avx2", "avx512")


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--count", type=int, default=300,
                   help="pictures for each instruction set of torch [300]")
    a.add_argument("--seed", default="1", help="of all random choices [1]")
    a.add_argument("--picture", type=int, help="this one alone")
    a.add_argument("--capability", choices=CAPABILITIES, help="this one alone")
    return a.parse_args()


def compare_all(o, capability):
    tally, levels = Tally(), levels_here()
    devices = {(level, order): open_device(
        level=level, reference=None if order else "torch-2")
        for level in levels for order in (0, _core.ORDER_TORCH)}
    torch.set_num_threads(1)
    for number in range(o.count) if o.picture is None else [o.picture]:
        rnd = random.Random(f"{o.seed}:{number}")
        level, order = rnd.choice(list(devices))
        device = devices[level, order]
        name, source, steps, want = torch_draws.draw(rnd)
        case = Case(name, source, [
            (*step[:5], order) if step[0] == _core.RESIZE else step
            for step in steps], want)
        (made,) = ours.Flight([case.on(device)], device).wait()
        bad, text = judge(case, made)
        tally.add(f"torch {capability}", level, str(number), bad, text and (
            f"picture {number}: {name}, {level}, {source.shape}: {text}\n"
            f"    {short(case.ops)}"))
    print(f"seed {o.seed}; torch {torch.__version__}, {capability}")
    return report(tally, [])


# ---- decoders ----------------------------------------------------------------

def rules(info):
    """(reader, its mode, whether it is told to turn, our decode) that agree."""
    if info.format not in ("jpeg", "png"):
        return  # they know no others, or not with several pictures
    gray, four = info.components == 1, info.components == 4
    jpeg, modes = info.format == "jpeg", {"RGB": "RGB"}
    if jpeg and (gray or four):
        modes["GRAY"] = "L"  # of three they have the luma of the file
    if jpeg and not four:
        modes["UNCHANGED"] = "L" if gray else "RGB"
    for theirs, mode in modes.items():
        for turned in (False, True):
            decode = ops.decode(mode, apply_orientation=turned)
            yield "torchvision.io", theirs, turned, decode
        # (It always turns.)
        yield "torchcodec.decoders", theirs, None, decode


def decoded(reader, data, mode, turned):
    """H x W x C, or None: it refuses."""
    modes = reader.ImageReadMode
    more = {} if turned is None else {"apply_exif_orientation": turned}
    bytes_of = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    try:
        made = reader.decode_image(bytes_of, mode=modes[mode], **more)
    except RuntimeError:
        return None
    return torch_draws.hwc(made[None])


def decode_file(tally, readers, device, path):
    with open(path, "rb") as file:
        data = file.read()
    try:
        info = _core.probe(data)
    except Error:
        return  # theirs reads lossless files, and larger ones
    # (Releases of libjpeg-turbo differ where scans are missing.)
    plain = info.all_scans if info.format == "jpeg" else info.precision == 8
    for name, mode, turned, decode in rules(info):
        if name not in readers or not plain:
            continue
        want = decoded(readers[name], data, mode, turned)
        w, h = _core.output_size((decode,), info.width, info.height,
                                 info.orientation)
        case = Case(name, data, [decode], want if want is not None else
                    torch_draws.hwc(torch.zeros(1, 3, h, w, dtype=torch.uint8)))
        (made,) = ours.Flight([case.on(device)], device).wait()
        both = (want is None) == (made.pixels is None)
        bad, text = judge(case, made) if both and want is not None else \
            (int(not both), "" if both else "only one refuses it")
        tally.add(name, mode, path, bad, text and f"{path}, {mode}: {text}")


def compare_decoders():
    readers, skips, tally = {}, [], Tally()
    for name in ("torchvision.io", "torchcodec.decoders"):
        try:
            readers[name] = importlib.import_module(name)
        except (ImportError, RuntimeError) as error:
            skips.append(f"{name}: {str(error).splitlines()[0]}")
    kinds = os.path.join(CORPUS, "kinds")
    if not os.path.isdir(kinds):
        print("not run: decoders: there is no corpus")
        return 0
    with open_device() as device:
        for path, _, _ in compare.tree(kinds, "kinds"):
            decode_file(tally, readers, device, path)
    return report(tally, skips)


def main():
    o = parse()
    warnings.simplefilter("ignore")
    if missing:
        print(f"not run: {missing}\n0 passed, 0 failed, 1 skipped")
        return 77
    here = torch.backends.cpu.get_cpu_capability().lower()
    if o.capability:
        return compare_all(o, here)
    known = CAPABILITIES[:CAPABILITIES.index(here) + 1] \
        if here in CAPABILITIES else (here,)
    for name in CAPABILITIES:
        if name not in known:
            print(f"not run: {name}: this machine has {here}")
    failed = [subprocess.run(
        [sys.executable, *sys.argv, "--capability", name],
        env=dict(os.environ, ATEN_CPU_CAPABILITY=name)).returncode
        for name in known]
    return max(*failed, compare_decoders())


if __name__ == "__main__":
    sys.exit(main())
