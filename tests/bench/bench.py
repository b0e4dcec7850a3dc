#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The one benchmark table: every figure beside a peer timed in the same run.

    tests/bench/bench.py --build build           the table
    tests/bench/bench.py --build build --json    the same as JSON, nothing else
    tests/bench/bench.py --build build --only later,stages    some of it
    tests/bench/bench.py --markdown results/DATE-MACHINE.json   as documents have it

How it is timed. Ours and peer take turns (A B A B ...), at least 7 rounds
after one that does not count. A row shows the median of each and the median
of the ratios of the rounds, so that a machine that gets slower on the way
harms both. One-thread rows run pinned to one core, the library's worker
included, and torch with one thread. "others" is the share of the machine's
CPU time that other processes took meanwhile: measure on a quiet machine.
Files are in memory, windows of random crops are drawn before and are the
same for both. Exit code 0 whatever the figures say: this is a measurement.
77: it could not run.

Workload: --files DIR; else the folder photos/imagenet-sample of the corpus
(HEADRACE_CORPUS, or ../shared/corpus beside the source tree); else 96
generated photos.

Rows are in groups, see GROUPS below; --only GROUP,GROUP measures some of them.
They are in bench_rows.py (transforms and their parts), bench_epochs.py (later
epochs: caches and pack files), bench_containers.py (files, tar, records), bench_augment.py (ops), bench_alone.py (stages, pictures alone),
bench_processors.py (processors of
transformers), bench_costs.py (what the library itself costs), bench_host.py (what the host
does for a device), bench_opencl.py; how they are timed: bench_table.py; what they work on: bench_work.py. The chart of README.md
is made from the JSON by bench_chart.py. Other programs than Pillow and
torchvision's v1: bench_peers.py.

Cycles per block are ticks of x86's time stamp counter, which runs at one speed
whatever the core's clock does, taken whenever a stage ends: for each row of MCUs
or so. libjpeg-turbo's stages are differences of whole runs: its coefficients
alone, its samples (jpeg_read_raw_data), its pixels.

JSON, these keys stay:
  date, machine, cores, versions{headrace, pillow, torchvision, torch,
  libjpeg_turbo}, workload{name, files, mean_bytes, mean_pixels}, rounds,
  rows[]: key, group, text, unit, ours, peer (null: none), peer_name, ratio (how
  many times ours is better; null), ratio_low, ratio_high (of the rounds),
  target (a sentence or null), pass (true, false, or null without a target),
  others (share of the machine's CPU time that other processes took while the
  row was measured; rows with a lot of it say nothing)
Keys of rows, LEVEL is c, avx2, avx512 or neon:
train: train_transform, train_transform_LEVEL, train_transform_tensor,
  train_444, train_420, train_f16, train_u8, two_threads, two_threads_later.
later: first_epoch_cache, later_epochs_LEVEL, first_epoch_pack,
  later_pack_LEVEL, pack_size, pack, pack_speed.
containers: container_NAME_{in_order,shuffled,open,first,read}; NAME is files,
  tar, mds, litdata, mindrecord, pack; where its package is, tfrecord, lmdb,
  parquet, arrow. container_NAME_{index,open_record}: of --records RECORDS,
  which are of a few bytes each.
eval: eval_transform, decode_rgb.
stages: stage_entropy, stage_{unpack,reconstruct,color,resample}_LEVEL,
  cycles_entropy, cycles_{unpack,reconstruct,color}_LEVEL, normalize,
  normalize_LEVEL.
augment: op_NAME_LEVEL, op_NAME_PARAMETER_LEVEL.
alone: alone_photo_{1,2} (threads), alone_photo_p99,
  alone_{2,6,12}mp_{1,2,threads}, train_{2,6,12}mp.
processors, where transformers is: processor_NAME (the drop-in), preprocess_NAME,
  preprocess_NAME_two_threads; NAME is vit or clip.
resize: resize_bilinear, resize_bicubic, resize_lanczos, resize_large,
  resize_orders_LEVEL.
costs: job_overhead, probe, submit_256, submit_256_p99, heap_allocations,
  heap_allocations_cache, malloc_calls, malloc_calls_cache, device_open,
  peak_rss, rss_growth.
host: host_{entropy,cache}_{device,pinned,host} (CPU-seconds per 1000, without
  any device's; where results go), host_{entropy,cache}_thread.
opencl, where there is a device, and with it the key opencl{device, description}
  (else opencl{not_run}): opencl_{1,16,256} (pictures per second; the peer is
  the CPU engine, with as many threads and jobs in flight, and the ratio how
  many times faster OpenCL is), opencl_cpu_{1,16,256} (CPU-seconds of the
  process per 1000 pictures), opencl_orders_{pixels,jpeg} (CPU time, too),
  opencl_open_first (nothing cached), opencl_open_second (in another process),
  opencl_launches (of kernels per batch), opencl_heap_allocations,
  opencl_submit.
"""
import argparse
import datetime
import json
import os
import sys
import tempfile

sys.path.append(os.path.dirname(__file__) + "/../support")
try:
    import numpy  # noqa: F401, what follows needs it
    import torch
    import torchvision
    from PIL import Image, features

    import package  # noqa: F401, where headrace is
    import headrace  # noqa: F401
except ImportError as e:
    print(f"not run: {e}")
    sys.exit(77)

from bench_alone import (large_rows, latency_rows, pixel_stage_rows,
                         stage_rows)
from bench_augment import op_rows
from bench_containers import container_rows, index_rows
from bench_costs import (allocation_rows, open_row, overhead_row, probe_row,
                         rss_rows, submit_rows)
from bench_epochs import cache_rows, pack_rows, packing_row
from bench_host import opencl_host_rows
from bench_opencl import opencl_facts, opencl_rows
from bench_processors import preprocess_rows, processor_rows
from bench_rows import (eval_rows, kind_rows, order_rows, resize_rows,
                        thread_rows, transform_rows)
from bench_table import Table, cpu_seconds, markdown, pinned
from bench_work import workload
from headrace import _core

torch.set_num_threads(1)

# Group -> its heading, functions that run pinned to one core, others.
GROUPS = {
    "train": ("RandomResizedCrop(224), flip, ToTensor, Normalize; one core",
              [transform_rows, kind_rows], [thread_rows]),
    "later": ("the same of pictures that were prepared once",
              [cache_rows, pack_rows, packing_row], []),
    "containers": ("the same pictures in several containers, by a Loader; all "
                   "cores", [], [container_rows, index_rows]),
    "eval": ("other transforms", [eval_rows], []),
    "stages": ("each stage alone, pictures of the set",
               [stage_rows, pixel_stage_rows], []),
    "augment": ("what each op adds to 224x224 RGB, normalised; one core",
                [op_rows], []),
    "alone": ("large pictures; one picture alone: Resize(256), "
              "CenterCrop(224), ToTensor, Normalize", [large_rows],
              [latency_rows]),
    "resize": ("resize", [resize_rows, order_rows], []),
    "processors": ("image processors of transformers; one core, CPU time",
                   [processor_rows], [preprocess_rows]),
    "costs": ("what the library itself costs", [overhead_row, probe_row],
              [submit_rows, allocation_rows, open_row, rss_rows]),
    "host": ("the host's part of OpenCL, on a device that does nothing "
             "(bench_host.py)", [], [opencl_host_rows]),
    "opencl": ("OpenCL", [], [opencl_rows]),
}


class Bench:
    def __init__(self, o):
        self.options, self.build, self.quick = o, o.build, o.quick
        self.rounds = 3 if o.quick else 7
        self.files = workload(o)
        self.table, self.opencl = Table(), None
        self.pillow = f"Pillow {Image.__version__}"
        self.torchvision = (f"torchvision {torchvision.__version__} + "
                            f"{self.pillow}")

    def run(self, groups):
        """OpenCL last: drivers start threads that stay."""
        for group, (heading, alone, others) in GROUPS.items():
            if group not in groups:
                continue
            self.table.group = heading
            if group == "opencl":
                self.opencl = opencl_facts(self.options.opencl)
                if "not_run" in self.opencl:
                    continue
            for rows in alone:
                with pinned():
                    self.measure(rows)
            for rows in others:
                if rows is not rss_rows or not self.quick:
                    self.measure(rows)

    def measure(self, rows):
        if sys.stderr.isatty():
            print(f"... {rows.__name__}", file=sys.stderr)
        start, first = cpu_seconds(), len(self.table.rows)
        rows(self)
        every, busy, ours = cpu_seconds() - start
        for row in self.table.rows[first:]:
            row["others"] = round(max(0.0, float((busy - ours) / every)), 3)

    def facts(self):
        with open("/proc/cpuinfo") as f:
            model = [line.split(":")[1].strip() for line in f
                     if line.startswith("model name")]
        return {
            "date": datetime.date.today().isoformat(),
            "machine": model[0] if model else os.uname().machine,
            "cores": len(os.sched_getaffinity(0)),
            "versions": {
                "headrace": _core.version(),
                "pillow": Image.__version__,
                "torchvision": torchvision.__version__,
                "torch": torch.__version__,
                "libjpeg_turbo": features.version_feature("libjpeg_turbo")},
            "workload": self.files.facts, "rounds": self.rounds,
            "opencl": self.opencl,
            "rows": self.table.rows}


def parse():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--build", default="build", help="build folder [build]")
    a.add_argument("--json", action="store_true", help="print JSON only")
    a.add_argument("--markdown", nargs="?", const="", metavar="FILE",
                   help="print a document's table; of what --json printed to "
                   "FILE, if it is named")
    a.add_argument("--files", help="folder of pictures to measure with")
    a.add_argument("--quick", action="store_true",
                   help="3 rounds, no long run for memory")
    a.add_argument("--records", type=int, default=100000,
                   help="records of the containers whose index is measured "
                   "[100000]")
    a.add_argument("--opencl", default="opencl", metavar="NAME",
                   help="OpenCL device [opencl]")
    a.add_argument("--only", metavar="GROUP,GROUP", default=",".join(GROUPS),
                   help=f"some groups of rows: {', '.join(GROUPS)}")
    o = a.parse_args()
    o.only = o.only.split(",")
    if set(o.only) - set(GROUPS):
        a.error(f"--only knows {', '.join(GROUPS)}")
    return o


def main():
    o = parse()
    if o.markdown:
        with open(o.markdown) as f:
            print("\n".join(markdown(json.load(f))))
        return 0
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as caches:
        os.environ["XDG_CACHE_HOME"] = caches
        os.environ["POCL_CACHE_DIR"] = os.path.join(caches, "pocl")
        b = Bench(o)
        b.run(o.only)
    facts = b.facts()
    if o.json:
        print(json.dumps(facts, indent=1))
        return 0
    if o.markdown is not None:
        print("\n".join(markdown(facts)))
        return 0
    v, w = facts["versions"], facts["workload"]
    print(f"{facts['machine']}, {facts['cores']} cores; headrace "
          f"{v['headrace']}, Pillow {v['pillow']}, torchvision "
          f"{v['torchvision']}, libjpeg-turbo {v['libjpeg_turbo']}")
    print(f"{w['files']} files of {w['name']}: {w['mean_bytes']} bytes, "
          f"{w['mean_pixels'] / 1e6:.2f} Mpixel on average; medians of "
          f"{facts['rounds']} rounds\n")
    b.table.show()
    opencl = facts["opencl"]
    if not opencl:
        return 0
    print("\nOpenCL: " + (opencl.get("description") or
                          f"not measured: {opencl['not_run']}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
