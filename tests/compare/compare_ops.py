#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does each op make Pillow's pictures, to the bit?

Draws pictures (noise, 0 and 255, flat, gradients, few values, blocks; RGB and
L; sides from 1 to 1000), and makes of each with every op of the table, and
with some lists of ops, what the installed Pillow makes (headrace._oracle), on
every instruction set of this machine. Parameters are drawn by the rows of
tests/python/op_draws.py, whose ranges are those of recipes and wider ones;
an op that has no row there fails. The pass condition is 0 differing bytes.

    tests/compare/compare_ops.py --build build               some seconds
    tests/compare/compare_ops.py --build build --count 60000
    tests/compare/compare_ops.py --build build --seed 1 --picture 17

--count: comparisons, at least: of a picture, an op with its parameters and an
instruction set. Exit code 1 if anything differs, 77 if NumPy or Pillow is
missing.
"""
import argparse
import multiprocessing
import os
import random
import sys
import time
import warnings

sys.path += [os.path.dirname(__file__) + p for p in ("/../support", "/../python")]
import compare  # which says what is missing, and ends
import numpy as np
import op_draws
from compare import Case, Tally, judge, levels_here, open_device, report, short
from compare_cases import hwc
from headrace import _core, _oracle, ops
from headrace.validate import ours, stock
from PIL import Image

LISTS = 4  # of several ops, for each picture
MOST = 1000  # pixels of a side
state = {}  # of a worker process


# ---- pictures --------------------------------------------------------------

def _ramp(noise, h, w):
    steps = np.arange(h)[:, None] * noise.integers(-3, 4) + \
        np.arange(w) * noise.integers(-3, 4)
    return steps[:, :, None] // noise.integers(1, 4, 3) + \
        noise.integers(0, 256, 3)


def _blocks(noise, h, w):
    side = int(noise.integers(1, 33))
    few = noise.integers(0, 256, (-(-h // side), -(-w // side), 3))
    return few.repeat(side, 0).repeat(side, 1)[:h, :w]


KINDS = {
    "noise": lambda noise, h, w: noise.integers(0, 256, (h, w, 3), np.uint8),
    "0 and 255": lambda noise, h, w:
        255 * noise.integers(0, 2, (h, w, 3), np.uint8),
    "flat": lambda noise, h, w:
        np.broadcast_to(noise.integers(0, 256, 3), (h, w, 3)),
    "ramps": lambda noise, h, w: np.clip(_ramp(noise, h, w), 0, 255),
    "waves": lambda noise, h, w: _ramp(noise, h, w) & 255,
    "few values": lambda noise, h, w:
        noise.integers(*np.sort(noise.choice(257, 2, False)), (h, w, 3)),
    "blocks": _blocks,
}


def side(rnd):
    """Small ones as often as large ones, by their logarithms."""
    return rnd.choice([1, 2, 3, 224, MOST]) if rnd.random() < 0.05 else \
        int(MOST ** rnd.random())


def picture(rnd):
    """(its kind, an image)"""
    kind, make = rnd.choice(list(KINDS.items()))
    noise = np.random.default_rng(rnd.randrange(1 << 30))
    pixels = np.ascontiguousarray(make(noise, side(rnd), side(rnd)), np.uint8)
    image = Image.fromarray(pixels)
    return kind, image.convert("L") if rnd.random() < 0.25 else image


# ---- comparisons -----------------------------------------------------------

def steps_of(rnd, w, h):
    """(name of the row in the table, ops)"""
    for name in op_draws.DRAWS:
        yield name, [op_draws.draw(name, rnd, w, h)]
    for _ in range(LISTS):
        yield "lists", op_draws.drawn_list(rnd, w, h)


def drawn_cases(rnd, image, tally):
    """A case of each op; none where Pillow and the library both refuse."""
    source = hwc(image)
    for name, steps in steps_of(rnd, *image.size):
        refused = []
        try:
            want = hwc(_oracle.apply(image, steps))
        except (ValueError, OSError) as error:
            refused.append(f"Pillow: {error}")
        try:
            _core.output_size((ops.decode(), *steps), *image.size)
        except Exception as error:
            refused.append(f"headrace: {error}")
        if not refused:
            yield Case(name, source, steps, want)
        elif len(refused) == 1:
            tally.add(name, "refused", "", 1,
                      f"{name}: only {refused[0]}\n    {short(steps)}")


def start_worker(seed, levels):
    warnings.simplefilter("ignore")
    devices = {level: open_device(level=level) for level in levels}
    state.update(seed=seed, devices=devices)


def one_picture(number):
    """All comparisons of a picture: rows and notes of the tally."""
    rnd, tally = random.Random(f"{state['seed']}:{number}"), Tally()
    kind, image = picture(rnd)
    chosen = list(drawn_cases(rnd, image, tally))
    for level, device in state["devices"].items():
        flight = ours.Flight([case.on(device) for case in chosen], device)
        for case, made in zip(chosen, flight.wait()):
            bad, text = judge(case, made)
            tally.add(case.check, level, str(number), bad, text and (
                f"picture {number}: {case.check}, {level}, {kind}, "
                f"{image.mode}, {image.width}x{image.height}: {text}\n"
                f"    {short(case.ops)}"))
    return tally.rows, tally.notes


# ---- from start to end -----------------------------------------------------

def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", required=True, help="build folder")
    a.add_argument("--count", type=int, default=4000, help="comparisons [4000]")
    a.add_argument("--seed", default="1", help="of all random choices [1]")
    a.add_argument("--picture", type=int, help="this one alone")
    a.add_argument("--jobs", type=int, help="processes [usable cores]")
    return a.parse_args()


def missing_rows():
    """Ops of the table that neither have a row nor need none."""
    return [name for name, (_, is_random, _) in _core.OPS.items()
            if not is_random and name not in (*op_draws.DRAWS, *op_draws.NONE)]


def main():
    o = parse()
    begin = time.monotonic()
    levels = levels_here()
    reference = stock.installed_reference()
    _core.set_reference(reference)
    tally = Tally()
    for name in missing_rows():
        tally.add(name, "draws", "", 1, f"{name}: no row in op_draws.py")
    # (fit may be of an empty picture, which both refuse.)
    each = (len(op_draws.DRAWS) - 1 + LISTS) * len(levels)
    numbers = [o.picture] if o.picture is not None else \
        range(-(-o.count // each))
    with multiprocessing.get_context("fork").Pool(
            o.jobs or len(os.sched_getaffinity(0)), start_worker,
            (o.seed, levels)) as pool:
        for found in pool.imap_unordered(one_picture, numbers, 4):
            tally.merge(*found)
    compared = sum(n for _, n, _ in tally.rows.values())
    if o.picture is None and compared < o.count:
        tally.add("all", "count", "", 1, f"{compared} comparisons only")
    print(f"seed {o.seed}; Pillow {Image.__version__}; {len(numbers)} pictures,"
          f" {compared} comparisons, {time.monotonic() - begin:.0f} s")
    return report(tally, [
        f"level {n}: this machine has no {n}" for n in compare.LEVELS
        if n not in levels])


if __name__ == "__main__":
    sys.exit(main())
