#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels as NVIDIA's compiler would, and checks the PTX, without
a GPU:

    tests/engines/opencl/ptx.py --build BUILD

compiles the kernels to PTX with the distribution's clang 15 and libclc (as
PoCL and Mesa use them), and prints for each the private memory that it keeps in
device memory, and its accesses of single bytes. With a `ptxas` (CUDA's, never
needed) it also prints registers and spills of the code for sm_90. A kernel that
is worse than LIMITS is a failure. 77: not run.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
LIBRARY = "/usr/lib/clc/nvptx64--nvidiacl.bc"

# Kernel -> registers, bytes of private memory, single-byte accesses; at most. A
# GPU kernel should use 64 registers at most, no private memory, and no access
# of single bytes in a loop. The kernels of stage entropy and the forms for GPUs
# keep to that; the forms for host processors work on vectors of 16 bytes, and
# their limits are the values measured when this was written.
LIMITS = {
    "hr_entropy_begin": (64, 0, 3),  # (where it makes the code tables)
    "hr_entropy_guess": (64, 0, 0),
    "hr_entropy_again": (64, 0, 0),
    "hr_entropy_far": (64, 0, 0),
    "hr_entropy_check": (64, 0, 0),
    "hr_entropy_write": (64, 0, 0),
    "hr_entropy_dc": (64, 0, 0),
    "hr_reconstruct_gpu": (64, 0, 0),
    "hr_reconstruct_color_gpu": (64, 0, 0),
    "hr_color_gpu": (64, 0, 12),   # (of pictures that are turned)
    "hr_resize_gpu": (64, 0, 10),  # (tensors of bytes that are not aligned)
    "hr_augment": (96, 4, 300),  # (512 items have 128; warps gather bytes)
    "hr_erase": (64, 0, 6),        # (tensors of bytes)
    "hr_index": (64, 0, 0),
    "hr_reconstruct": (96, 320, 19),
    "hr_planes": (64, 0, 16),
    "hr_pixels": (64, 0, 16),
    "hr_color": (128, 960, 100),
    "hr_resample": (128, 256, 32),
    "hr_store": (96, 256, 76),
}


def not_run(why):
    print(f"not run: {why}")
    sys.exit(77)


def source(build):
    """The program, of the files in the order that the library has them."""
    with open(os.path.join(build, "opencl_kernels.c"), encoding="utf-8") as f:
        names = re.findall(r'#line 1 \\"(kernels/[\w.]+)', f.read())
    return "".join(f'#line 1 "{n}"\n' + open(os.path.join(ROOT, n),
                                             encoding="utf-8").read()
                   for n in names)


def compiled(text, folder):
    ptx = os.path.join(folder, "kernels.ptx")
    subprocess.run(
        ["clang-15", "-x", "cl", "-cl-std=CL1.2", "-target",
         "nvptx64--nvidiacl", "-Xclang", "-finclude-default-header", "-Xclang",
         "-mlink-builtin-bitcode", "-Xclang", LIBRARY, "-Xclang",
         "-target-cpu", "-Xclang", "sm_70", "-O3", "-S",
         "-DHR__ENTROPY", "-DHR__GPU", "-DHR__AUGMENT", "-DHR__FP64",
         "-D__OPENCL_VERSION__=120", "-o", ptx, "-"],
        input=text, text=True, check=True)
    return ptx


def read(ptx):
    """Kernel -> (bytes of private memory, accesses of single bytes)."""
    kernels, name = {}, None
    with open(ptx, encoding="utf-8") as f:
        for line in f:
            if found := re.search(r"\.(?:entry|func) (\w+)\(", line):
                name = found[1]
                kernels[name] = [0, 0]
            elif found := re.search(r"\.local .*\[(\d+)\];", line):
                kernels[name][0] += int(found[1])
            elif re.search(r"(ld|st)\.global\S*\.(v\d\.)?[us]8\b", line):
                kernels[name][1] += ".v" not in line
    return kernels


def assembled(ptx):
    """Kernel -> (registers, bytes of spills) of NVIDIA's own assembler."""
    said = subprocess.run(
        ["ptxas", "-v", "-arch=sm_90", ptx, "-o", "/dev/null"], check=True,
        stderr=subprocess.PIPE, text=True).stderr
    return {name: (int(registers), int(stores) + int(loads))
            for name, stores, loads, registers in re.findall(
                r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) "
                r"bytes spill loads.*?Used (\d+) registers", said, re.DOTALL)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    if not shutil.which("clang-15") or not os.path.exists(LIBRARY):
        not_run("clang-15 or libclc-15 is missing")
    if not os.path.exists(os.path.join(build, "opencl_kernels.c")):
        not_run("the library was built without OpenCL")
    with tempfile.TemporaryDirectory() as folder:
        ptx = compiled(source(build), folder)
        kernels = read(ptx)
        code = assembled(ptx) if shutil.which("ptxas") else {}
    failed = kernels.keys() ^ LIMITS.keys()
    for name in sorted(failed):
        print(f"{name}: in the program or in LIMITS, but not in both")
    print(f"{'kernel':25}{'registers':>10}{'spills':>8}{'private':>9}"
          f"{'bytes one by one':>18}")
    for name, (private, single) in sorted(kernels.items()):
        most = LIMITS.get(name, (0, 0, 0))
        registers, spills = code.get(name, (0, 0))
        bad = (registers > most[0] or spills > 0 or private > most[1] or
               single > most[2])
        print(f"{name:25}{registers or '-':>10}{spills:>8}{private:>9}"
              f"{single:>18}" + "  worse than its limit" * bad)
        failed |= {name} if bad else set()
    print(f"{len(kernels)} kernels, {len(failed)} failed"
          + ("" if code else "; no ptxas: registers and spills unknown"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
