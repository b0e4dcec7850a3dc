#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many instructions a 64-bit Arm executes for a photo, ours against stock.

  instructions.py --build BUILD --photos DIR [NAME...] [--functions] [--check]

BUILD/aarch64 comes from aarch64.sh. The emulator counts (instructions.c), so
the figures are the same on every machine, and no processor is needed: they are
counted, not measured on silicon. NAME: of RECIPES; without one, all. The counts
for 4 photos are subtracted from the counts for 100, so that start-up is left
out.

--functions: instructions by function. --mca LLVM_MCA: cycles of some
cores by LLVM's static model (llvm-mca) of each block that runs, which knows no
caches and no mispredictions. --check: fails below the ratios that are promised.

How far ratios by instructions are from ratios by time was looked at where both
can be had, on an AMD EPYC with AVX2: 3.80 by instructions, 3.81 by the model,
4.23 by time. So they were a tenth too small.

Exit code 77: something is missing.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import typing

HERE = pathlib.Path(__file__).resolve().parent
MANY, FEW = 100, 4
TRAIN = "decode,random_resized_crop=224,random_hflip"
# The model's figure for stock's train transform, in millions of cycles.
CORES = {"tsv110": 10.32, "neoverse-n1": 9.86, "neoverse-v1": 5.52,
         "neoverse-v2": 6.00}


class Recipe(typing.NamedTuple):
    ops: str
    stock: float  # millions of instructions per photo, see STOCK
    least: float  # the ratio that is promised
    cached: bool = False


# Counted once, with the same photos. For train all of stock was counted; for
# the other recipes the parts that Pillow does were counted alone, and the rest
# of train was added; the erasing of ta_wide was left out. (Stock has no cache:
# each epoch is a first one.)
STOCK = ("Pillow 9.4, torchvision 0.14, torch 1.13, libjpeg-turbo 2.1.5 of "
         "Debian 12 for arm64")
RECIPES = {
    "train": Recipe(f"{TRAIN},normalize=imagenet", 22.96, 3.4),
    "cached": Recipe(f"{TRAIN},normalize=imagenet", 22.96, 5.0, True),
    "eval": Recipe("decode,resize=256,center_crop=224,normalize=imagenet",
                   31.05, 3.4),
    "jitter": Recipe(f"{TRAIN},color_jitter=.4:.4:.4,normalize=imagenet",
                     35.13, 2.5),
    "hue": Recipe(f"{TRAIN},color_jitter=.4:.4:.4:.1,normalize=imagenet",
                  47.35, 2.5),
    "ta_wide": Recipe(f"{TRAIN},trivial_augment_wide=bilinear,"
                      "normalize=imagenet,random_erasing=.1", 28.71, 2.5),
}


def missing(why: str) -> typing.NoReturn:
    print(f"not run: instructions: {why}")
    sys.exit(77)


class Counter:
    """The command in the emulator, and what its blocks did."""

    def __init__(self, build: pathlib.Path, photos: list[pathlib.Path]):
        self.where = build / "aarch64"
        self.plugin = self.where / "instructions.so"
        self.symbols: dict[str, tuple[list[int], list[str]]] = {}
        if not (self.where / "build" / "headrace").exists():
            missing("aarch64.sh has built nothing")
        if not shutil.which("qemu-aarch64"):
            missing("qemu-aarch64, which takes plugins, is not installed")
        for n in (FEW, MANY):
            text = "".join(f"{p}\n" for p in photos[:n])
            (self.where / f"photos.{n}").write_text(text)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.plugin,
                        HERE / "instructions.c"], check=True)

    def run(self, recipe: Recipe, photos: int, epochs: int,
            name: str) -> Blocks:
        root = self.where / "root"
        paths = [root / "usr/lib/aarch64-linux-gnu",
                 root / "lib/aarch64-linux-gnu", self.where / "build"]
        out = self.where / f"instructions.{name}"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            ["qemu-aarch64", "-plugin", f"{self.plugin},out={out}",
             "-L", "/usr/aarch64-linux-gnu",
             "-E", "LD_LIBRARY_PATH=" + ":".join(map(str, paths)),
             self.where / "build" / "headrace", "run", "--list",
             self.where / f"photos.{photos}", "--ops", recipe.ops,
             "--epochs", str(epochs), "--backend", "cpu", "--threads", "1",
             "--out", "none", "--max-item-ms", "600000", "--quiet",
             *(["--cache", "1G"] if recipe.cached else [])],
            capture_output=True, text=True, check=False)
        if not out.exists():
            missing(f"no counts of qemu-aarch64: {done.stderr.strip()[-200:]}")
        if done.returncode:
            sys.exit(done.stderr)
        return read_blocks(out)

    def per_photo(self, recipe: Recipe) -> Blocks:
        if recipe.cached:
            more, less, n = (MANY, 3), (MANY, 2), MANY
        else:
            more, less, n = (MANY, 1), (FEW, 1), MANY - FEW
        blocks = self.run(recipe, *more, "more")
        blocks.subtract(self.run(recipe, *less, "less"))
        return Blocks({key: runs / n for key, runs in blocks.items()})

    def function_of(self, path: str, at: int) -> str:
        if path not in self.symbols:
            out = subprocess.run(["aarch64-linux-gnu-nm", "-C", path],
                                 capture_output=True, text=True,
                                 check=False).stdout
            found = sorted((int(w[0], 16), w[2]) for w in
                           map(str.split, out.splitlines())
                           if len(w) == 3 and w[1] in "tTwW" and w[2][0] != "$")
            self.symbols[path] = [a for a, _ in found], [s for _, s in found]
        places, names = self.symbols[path]
        i = bisect.bisect(places, at) - 1
        return names[i] if i >= 0 else pathlib.Path(path).name


class Blocks(collections.Counter[tuple[str, int, int]]):
    """(file, address in it, instructions) -> how often it ran."""

    def instructions(self) -> float:
        return float(sum(n * runs for (_, _, n), runs in self.items()))


# (A file's segments lie as far apart in memory as its addresses do, so the
# first one says where address 0 is.)
def read_blocks(name: pathlib.Path) -> Blocks:
    first: dict[str, int] = {}
    ranges: list[tuple[int, int, str]] = []
    blocks = Blocks()
    for line in name.read_text().splitlines():
        kind, *words = line.split()
        if kind == "map":
            low, high = (int(x, 16) for x in words[0].split("-"))
            first.setdefault(words[-1], low - int(words[2], 16))
            ranges.append((low, high, words[-1]))
            continue
        at, n, runs = int(words[0], 16), int(words[1]), int(words[2])
        path = next((p for low, high, p in ranges if low <= at < high), "")
        blocks[path, at - first.get(path, 0), n] += runs
    return blocks


def print_functions(counter: Counter, blocks: Blocks) -> None:
    by: collections.Counter[str] = collections.Counter()
    for (path, at, n), runs in blocks.items():
        by[counter.function_of(path, at) if path else "?"] += n * runs
    total = blocks.instructions()
    for name, n in by.most_common(16):
        print(f"  {n / 1e3:10.1f} k {100 * n / total:5.1f} %  {name}")


# ---- cycles, by a model -----------------------------------------------------

def code_of(path: str) -> dict[int, str]:
    out = subprocess.run(["aarch64-linux-gnu-objdump", "-d",
                          "--no-show-raw-insn", path],
                         capture_output=True, text=True, check=False).stdout
    found = re.finditer(r"^\s*([0-9a-f]+):\t(.*)$", out, re.MULTILINE)
    return {int(m[1], 16): assembly(m[2]) for m in found}


def assembly(text: str) -> str:
    """Returns the line as an assembler takes it; jump targets do not matter."""
    text = text.split("//")[0].split("<")[0].strip()
    jump = re.match(r"(b|bl|b\.\w+|cbn?z|tbn?z|adrp?)\s(.*,)?", text)
    if jump:
        away = "#4096" if jump[1] == "adrp" else "#8"
        return f"{jump[1]} {jump[2] or ''}{away}"
    return re.sub(r"^(ldr\s+\w+, )[0-9a-f]{4,}$", r"\1#8", text)


def print_cycles(blocks: Blocks, mca: str, recipe: Recipe) -> None:
    total = blocks.instructions()
    code: dict[str, dict[int, str]] = {}
    taken: list[tuple[int, float]] = []
    text = []
    for (path, at, n), runs in blocks.items():
        if not path or n * runs < 2e-5 * total:
            continue
        if path not in code:
            code[path] = code_of(path)
        lines = code[path]
        body = [lines.get(at + 4 * i, "nop") for i in range(n)]
        text.append(f"# LLVM-MCA-BEGIN r{len(taken)}\n" + "\n".join(body) +
                    "\n# LLVM-MCA-END\n")
        taken.append((n, runs))
    part = sum(n * runs for n, runs in taken) / total
    for core, stock in CORES.items():
        out = subprocess.run(
            [mca, "-mtriple=aarch64-linux-gnu", f"-mcpu={core}",
             "-iterations=100", "-instruction-info=0", "-resource-pressure=0",
             "-skip-unsupported-instructions=any"],
            input="".join(text), capture_output=True, text=True,
            check=False).stdout
        cycles = sum(int(m[2]) / 100 * taken[int(m[1])][1] for m in re.finditer(
            r"Region - r(\d+)\n.*?Total Cycles:\s+(\d+)", out, re.DOTALL))
        cycles /= part * 1e6
        print(f"  {core}: {cycles:.2f} M cycles modelled" +
              (f", stock {stock:.2f}, ratio {stock / cycles:.2f}"
               if recipe.ops == RECIPES["train"].ops else ""))


# ---- the table --------------------------------------------------------------

def main() -> int:
    parse = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parse.add_argument("--build", type=pathlib.Path, required=True)
    parse.add_argument("--photos", type=pathlib.Path, required=True)
    parse.add_argument("--functions", action="store_true")
    parse.add_argument("--mca", metavar="LLVM_MCA")
    parse.add_argument("--check", action="store_true")
    parse.add_argument("names", nargs="*", metavar="NAME")
    args = parse.parse_args()
    photos = sorted(args.photos.rglob("*.JPEG"))
    if len(photos) < MANY:
        missing(f"{args.photos} has fewer than {MANY} photos")
    counter = Counter(args.build.resolve(), photos)
    bad = 0
    print(f"M instructions per photo; stock: {STOCK}")
    for name in args.names or RECIPES:
        recipe = RECIPES[name]
        blocks = counter.per_photo(recipe)
        ours = blocks.instructions() / 1e6
        ratio = recipe.stock / ours
        print(f"{name:8} {ours:6.2f}   stock {recipe.stock:6.2f}   ratio "
              f"{ratio:.2f} (at least {recipe.least})")
        if args.functions:
            print_functions(counter, blocks)
        if args.mca:
            print_cycles(blocks, args.mca, recipe)
        bad += args.check and ratio < recipe.least
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
