#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a resize of order "torch" that of the installed torch, to the bit?

Draws pictures, crops, sizes, filters and layouts (tests/python/torch_draws.py)
and compares with torch.nn.functional.interpolate() of uint8: in a process for
each instruction set that torch knows here (ATEN_CPU_CAPABILITY), and with one
of ours, drawn, for each picture. The pass condition is 0 differing bytes.

    tests/compare/compare_torch.py --build build               some seconds
    tests/compare/compare_torch.py --build build --count 3000  of each set
    tests/compare/compare_torch.py --build build --capability avx2 --picture 17

Exit code 1 if anything differs, 77 if there is no torch that resizes bytes.
"""
import argparse
import os
import random
import subprocess
import sys

sys.path += [os.path.dirname(__file__) + p for p in ("/../support", "/../python")]
import compare  # which says what is missing, and ends
from compare import Case, Tally, judge, levels_here, open_device, report, short
from headrace.validate import ours

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
    devices = {level: open_device(level=level) for level in levels}
    torch.set_num_threads(1)
    for number in range(o.count) if o.picture is None else [o.picture]:
        rnd = random.Random(f"{o.seed}:{number}")
        level = rnd.choice(levels)
        name, source, steps, want = torch_draws.draw(rnd)
        case = Case(name, source, steps, want)
        (made,) = ours.Flight([case.on(devices[level])], devices[level]).wait()
        bad, text = judge(case, made)
        tally.add(f"torch {capability}", level, str(number), bad, text and (
            f"picture {number}: {name}, {level}, {source.shape}: {text}\n"
            f"    {short(case.ops)}"))
    print(f"seed {o.seed}; torch {torch.__version__}, {capability}")
    return report(tally, [])


def main():
    o = parse()
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
    return max(subprocess.run(
        [sys.executable, *sys.argv, "--capability", name],
        env=dict(os.environ, ATEN_CPU_CAPABILITY=name)).returncode
        for name in known)


if __name__ == "__main__":
    sys.exit(main())
