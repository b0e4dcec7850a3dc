# SPDX-License-Identifier: Apache-2.0
"""Rows of bench.py: each stage alone, one picture alone, large pictures."""
import io
import os
import statistics
import time

import numpy as np
from PIL import Image

from bench_jobs import Set, core, levels, open_device
from bench_rows import normalize_rows
from bench_table import interleave
from bench_work import (EVAL_OPS, Jobs, peer_eval_one, peer_train,
                        folder, peer_window, train_samples, window_ops)

# Stages of bench_core: of a file, of a packed picture, and packing.
STAGES = ("entropy", "reconstruct", "color", "unpack", "unpack_reconstruct",
          "unpack_color", "pack")
TURBO = "libjpeg-turbo"


# ---- Stages -----------------------------------------------------------------

def stage_rows(b):
    """Whole pictures; a round is all of them, one level after the other.
    libjpeg-turbo's are differences: all up to a stage less all up to the one
    before. Cycles are those of the time stamp counter."""
    rounds = stage_rounds(b)
    fast = [n for n in levels() if n != "c"] or ["c"]
    s = StageRows(b, rounds)
    s.rows("entropy", "entropy decoding", fast[-1:], 0)
    s.rows("unpack", "reading a packed picture", fast, 0)
    s.rows("reconstruct", "reconstruct", fast, 1)
    s.rows("color", "upsampling, colour", fast, 2)


def stage_rounds(b):
    """Returns the stages that bench_core measures; it runs once."""
    if not hasattr(b, "stage_rounds"):
        with folder(b.files) as files:
            paths = sorted(os.path.join(files, f) for f in os.listdir(files))
            b.stage_rounds = core("stages", b.rounds, *paths)
    return b.stage_rounds


class StageRows:
    def __init__(self, b, rounds):
        self.b, self.rounds, self.n = b, rounds, rounds[0]["files"]
        ns = [r["peer"] for r in rounds]
        self.peer = [(n[0], n[1] - n[0], n[2] - n[1]) for n in ns]

    def rows(self, stage, text, levels, which):
        """A row for each level, then one with cycles per block."""
        i = STAGES.index(stage)
        peer = [ns[which] / 1e9 for ns in self.peer]
        for level in levels:
            name = f"{stage}_{level}" if len(levels) > 1 else stage
            runs = [r[level] for r in self.rounds]
            seconds = [s["ticks"][i] / s["ticks_per_ns"] / 1e9 for s in runs]
            self.b.table.versus(f"stage_{name}",
                                text + (f", {level}" if len(levels) > 1
                                        else ""),
                                self.n, seconds, peer, TURBO)
            per_block = runs[0]["ticks_per_ns"] * 1e9 / runs[0]["blocks"]
            self.b.table.add(f"cycles_{name}", "  cycles per block", "",
                             statistics.median(seconds) * per_block,
                             statistics.median(peer) * per_block, TURBO,
                             [p / o for o, p in zip(seconds, peer)])


def pixel_stage_rows(b):
    """Pictures are decoded before: stages resample and store."""
    fast = [n for n in levels() if n != "c"] or ["c"]
    pictures = [Image.open(io.BytesIO(d)).convert("RGB") for d in b.files.data]
    samples = [(np.array(p), window_ops(box))
               for p, box in zip(pictures, b.files.boxes)]
    runs = [Jobs(open_device(level=level), samples, (224, 224, 3), np.uint8,
                 "nhwc") for level in fast]

    def peer():
        for p, box in zip(pictures, b.files.boxes):
            peer_window(p, box)
    *times, theirs = interleave(b.rounds, *runs, peer)
    for level, seconds in zip(fast, times):
        b.table.versus(f"stage_resample_{level}",
                       f"resample: crop, resize to 224, flip, {level}",
                       b.files.n, seconds, theirs, b.pillow)
    normalize_rows(b)


# ---- One picture alone ------------------------------------------------------

class Alone:
    """Pictures one by one, each a job that is waited for: milliseconds of
    each, all rounds together."""

    def __init__(self, dev, files):
        out = np.zeros((1, 3, 224, 224), np.float32)
        self.sets = [Set(dev, [(d, EVAL_OPS)], out, "nchw") for d in files]
        self.ms = []

    def __call__(self):
        self.ms += [s.time()[0] * 1e3 for s in self.sets]


class PeerAlone:
    def __init__(self, files):
        self.files, self.ms = files, []

    def __call__(self):
        for d in self.files:
            start = time.perf_counter()
            peer_eval_one(d)
            self.ms.append((time.perf_counter() - start) * 1e3)


def alone_rows(b, key, text, files, rounds):
    """With 1 and 2 threads, and 2 against 1 where there are two cores."""
    threads = (1, 2) if len(os.sched_getaffinity(0)) > 1 else (1,)
    ours = [Alone(open_device(threads=t), files) for t in threads]
    peer = PeerAlone(files)
    *times, theirs = interleave(rounds, *ours, peer)
    for timed in (*ours, peer):
        del timed.ms[:len(files)]  # the round that does not count
    for t, one, seconds in zip(threads, ours, times):
        b.table.add(f"alone_{key}_{t}",
                    f"{text}, {t} thread{'s' * (t > 1)}", "ms",
                    statistics.median(one.ms), statistics.median(peer.ms),
                    b.torchvision, [p / o for o, p in zip(seconds, theirs)])
    return ours[0], times


def latency_rows(b):
    one, _ = alone_rows(b, "photo", "a photo, alone",
                        b.files.data, b.rounds)
    b.table.add("alone_photo_p99", "  99th percentile, 1 thread", "ms",
                float(np.quantile(one.ms, .99)))
    for megapixels, data in large(b):
        _, times = alone_rows(b, f"{megapixels}mp",
                              f"{megapixels} Mpixel, alone", [data], b.rounds)
        if len(times) > 1:
            b.table.versus(f"alone_{megapixels}mp_threads",
                           "  2 threads for 1", 1, times[1], times[0],
                           "ours with 1 thread")


# ---- Large pictures ---------------------------------------------------------

def large(b):
    """(megapixels, JPEG): the files side by side, as a camera writes them, so
    that there is as much in them as in the photos."""
    for megapixels, size in ((2, (1632, 1224)), (6, (3000, 2000)),
                             (12, (4000, 3000))):
        whole, out, i = Image.new("RGB", size), io.BytesIO(), 0
        for y in range(0, size[1], 320):
            for x in range(0, size[0], 320):
                data = b.files.data[i % b.files.n]
                im = Image.open(io.BytesIO(data)).convert("RGB")
                i += 1
                if im.width < 320 or im.height < 320:
                    im = im.resize((320, 320), Image.Resampling.LANCZOS)
                whole.paste(im.crop((0, 0, 320, 320)), (x, y))
        whole.save(out, "JPEG", quality=90)
        yield megapixels, out.getvalue()


class LargeFiles:
    def __init__(self, data, size):
        w, h = size
        self.n, self.data = 8, [data] * 8
        # Windows of half the area, here and there.
        self.boxes = [((h * k) // 32, (w * k) // 32, int(h * .7), int(w * .7),
                       k % 2 == 1) for k in range(8)]


def large_rows(b):
    dev = open_device()
    for megapixels, data in large(b):
        files = LargeFiles(data, Image.open(io.BytesIO(data)).size)
        b.table.versus(f"train_{megapixels}mp",
                       f"train transform of {megapixels} Mpixel", files.n,
                       *interleave(max(3, b.rounds // 3),
                                   Jobs(dev, train_samples(files)),
                                   lambda: peer_train(files)), b.torchvision)
