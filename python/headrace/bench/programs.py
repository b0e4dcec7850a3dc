# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured. As a program of its own:

    programs.py NAME CONFIG.json

runs one of them: prints a line of JSON with its name, or why it does not run;
then, for each line that it reads, measures a round and prints a line with the
results. The output of other packages goes to standard error.

It imports nothing of Headrace's but in the programs that are Headrace, so that
any interpreter can run it that has the package to be measured.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TextIO

if __package__:
    from . import recipes
else:  # a program of its own
    sys.path.append(os.path.dirname(__file__))
    import recipes  # type: ignore[import-not-found,no-redef]

MEAN, STD = recipes.MEAN, recipes.STD
BITS = 512  # pictures, at least, whose bits are compared

# The keys of CONFIG.json: folder (with one folder for each class), pictures
# [[path, width, height], ...], batch, size, workers, threads (the same, at
# least 1), later (epochs), device, cache, recipe, v2.
Config = dict[str, Any]
# Crop (top, left, height, width), and whether it is mirrored.
Window = tuple[int, int, int, int, bool]


def draw_window(rng: random.Random, w: int, h: int) -> Window:
    """As torchvision's RandomResizedCrop and RandomHorizontalFlip do."""
    for _ in range(10):
        area = w * h * rng.uniform(0.08, 1)
        ratio = (4 / 3) ** rng.uniform(-1, 1)
        cw, ch = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < cw <= w and 0 < ch <= h:
            top, left = rng.randint(0, h - ch), rng.randint(0, w - cw)
            return top, left, ch, cw, rng.random() < 0.5
    return 0, 0, h, w, rng.random() < 0.5


# ---- the programs ----------------------------------------------------------


class Program:
    """One way to feed a training loop.

    The constructor imports; open() begins with a data set that has not been
    read; epoch() gives the number of pictures of each batch, which is there;
    close() ends what open() began. bits(): a digest of tensors that the same
    seeds give, None if there are no such seeds; made(): the engines.
    """

    batches: Any  # open() sets them, or a class has an epoch() of its own
    pixels = "others"  # than those of torchvision on Pillow
    recipes = False  # it takes others than "plain"

    def __init__(self, config: Config) -> None:
        self.c = config
        self.name = ""

    def open(self) -> None:
        pass

    def epoch(self) -> Iterator[int]:
        for _, y in self.batches:
            yield len(y)

    def close(self) -> None:
        pass

    def bits(self) -> str | None:
        return None

    def made(self) -> str | None:
        return None


class Stock(Program):
    """ImageFolder, a recipe, and a DataLoader with worker processes."""

    pixels = "stock"
    recipes = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import torch  # noqa: F401  which is missed first, where all are
        import torchvision

        import PIL

        self.name = (
            f"torchvision {_release(torchvision)} on Pillow {PIL.__version__}"
        )
        self.transform()

    def transform(self) -> Any:
        c = self.c
        return recipes.transform(c["recipe"], c["size"], c["v2"])

    def data(self) -> Any:
        from torchvision import datasets

        more = recipes.loader(self.c["recipe"])
        return datasets.ImageFolder(self.c["folder"], self.transform(), **more)

    def open(self) -> None:
        """Draws what all programs draw of which this is one."""
        import torch

        seed()
        self.batches = torch.utils.data.DataLoader(
            self.data(),
            self.c["batch"],
            shuffle=True,
            num_workers=self.c["workers"],
            collate_fn=recipes.collate(self.c["recipe"]),
        )

    def bits(self) -> str | None:
        self.open()
        digest, pictures = hashlib.sha1(), 0
        for x, y in self.batches:
            for view in x if isinstance(x, list) else [x]:
                digest.update(view.contiguous().numpy())
            pictures += len(y)
            if pictures >= BITS:
                break
        self.close()
        return digest.hexdigest()


class DropIn(Stock):
    """The same program after the two lines."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import headrace

        headrace.set_image_backend(config["device"])
        self.name = f"headrace {headrace.version()}, drop-in"

    def made(self) -> str | None:
        import headrace

        return str(headrace.dropin.report(reset=True))


class Cached(DropIn):
    """The same with a cache, which the first epoch fills."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.name += ", cache"

    def open(self) -> None:
        import headrace

        headrace.set_cache(self.c["cache"])
        super().open()

    def close(self) -> None:
        import headrace

        headrace.set_cache(None)


class Tensors(Stock):
    """torchvision's own decoder, and v2's transforms of tensors."""

    pixels = "others"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import torchvision
        from torchvision.transforms import v2  # noqa: F401

        self.name = f"torchvision {_release(torchvision)} on tensors"

    @staticmethod
    def decode(path: str) -> Any:
        from torchvision import io

        return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)

    recipes = False

    def data(self) -> Any:
        import torch
        from torchvision import datasets
        from torchvision.transforms import v2

        return datasets.ImageFolder(
            self.c["folder"],
            v2.Compose(
                [
                    v2.RandomResizedCrop(self.c["size"], antialias=True),
                    v2.RandomHorizontalFlip(),
                    v2.ToDtype(torch.float32, scale=True),
                    v2.Normalize(MEAN, STD),
                ]
            ),
            loader=self.decode,
        )


class TorchCodec(Tensors):
    """TorchCodec's decoder in its place."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        from importlib.metadata import version

        from torchcodec.decoders import decode_jpeg  # noqa: F401

        self.name = f"TorchCodec {version('torchcodec')}"

    @staticmethod
    def decode(path: str) -> Any:
        from torchcodec.decoders import decode_jpeg

        return decode_jpeg(path, mode="RGB")


class Loader(Program):
    """headrace.Loader: threads, and later epochs from its cache.

    It takes the recipes whose ops it has; it draws by itself.
    """

    pixels = "stock"
    recipes = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import headrace

        self.to: Literal["torch", "numpy"] = "torch"
        try:
            import torch  # noqa: F401
        except ImportError:
            import numpy  # noqa: F401

            self.to = "numpy"
        self.steps, self.views = self._steps()
        self.cache = None if config["cache"] == "0" else config["cache"]
        self.name = f"headrace {headrace.version()}, Loader"
        if self.cache is None:
            self.name += ", no cache"

    def _steps(self) -> tuple[Any, Any]:
        """Steps and views for headrace.Loader."""
        from headrace import ops

        c = self.c
        if c["recipe"] == "plain" and not c["v2"]:
            return (
                ops.decode(),
                ops.random_resized_crop(c["size"], c["size"]),
                ops.random_flip(horizontal=0.5),
                ops.normalize(MEAN, STD),
            ), None
        made: Any = recipes.transform(c["recipe"], c["size"], c["v2"])
        if isinstance(made, recipes.Views):
            views: list[Any] = made.transforms
            return None, [_ops_of(view.transforms) for view in views]
        return _ops_of(made.transforms), None

    def open(self) -> None:
        import headrace

        c = self.c
        self.batches = headrace.Loader(
            c["folder"],
            self.steps,
            views=self.views,
            batch=c["batch"],
            shuffle=True,
            epochs=1 + c["later"],
            threads=c["threads"],
            device=c["device"],
            cache=self.cache,
            to=self.to,
        )

    def close(self) -> None:
        self.batches.close()
        del self.batches


def _ops_of(transforms: list[Any]) -> Any:
    """Ops of torchvision's transforms, and of the recipes' own ones."""
    from headrace import ops
    from headrace.compose import translate
    from torchvision.transforms import PILToTensor

    made: list[Any] = [ops.decode()]
    since: list[Any] = []  # transforms that are not translated yet
    for each in transforms:
        if isinstance(each, recipes.Chance):
            made += translate([*since, PILToTensor()])[0][1:]
            since = []
            blurs = isinstance(each, recipes.Blur)
            made.append(ops.random_gaussian_blur(each.p) if blurs
                        else ops.random_solarize(128, each.p))
        else:
            since.append(each)
    return (*made, *translate(since)[0][1:])


class Dali(Program):
    """NVIDIA's DALI on the CPU: crops while it decodes."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import nvidia.dali

        self.name = f"DALI {nvidia.dali.__version__}, CPU"

    def open(self) -> None:
        from nvidia.dali import Pipeline, fn, types

        c = self.c
        files = [path for path, *_ in c["pictures"]]
        self.pipe = Pipeline(c["batch"], c["threads"], device_id=None)
        with self.pipe:
            jpegs, labels = fn.readers.file(files=files, random_shuffle=True)
            im = fn.decoders.image_random_crop(
                jpegs,
                random_area=[0.08, 1],
                random_aspect_ratio=[3 / 4, 4 / 3],
                device="cpu",
            )
            im = fn.resize(im, size=[c["size"]] * 2)
            im = dali_numbers(im, fn.random.coin_flip(), fn, types)
            self.pipe.set_outputs(im, labels)
        self.pipe.build()

    def epoch(self) -> Iterator[int]:
        """Batches are full: the last one has pictures of the next epoch."""
        for _ in range(-(-len(self.c["pictures"]) // self.c["batch"])):
            _, labels = self.pipe.run()
            yield len(labels)

    def close(self) -> None:
        del self.pipe


def dali_numbers(im: Any, mirror: Any, fn: Any, types: Any) -> Any:
    return fn.crop_mirror_normalize(
        im,
        mirror=mirror,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255 * m for m in MEAN],
        std=[255 * s for s in STD],
    )


class Spdl(Program):
    """SPDL: FFmpeg in threads. It knows the sizes of all pictures before."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        from importlib.metadata import version

        import spdl.pipeline

        self.name = f"SPDL {version('spdl_io')} (FFmpeg)"
        self.make = spdl_maker(config["size"])
        self.builder = spdl.pipeline.PipelineBuilder
        self.rng = random.Random(0)

    def epoch(self) -> Iterator[int]:
        import numpy

        rng, threads = self.rng, self.c["threads"]
        source = [
            (path, draw_window(rng, w, h)) for path, w, h in self.c["pictures"]
        ]
        rng.shuffle(source)
        pipe = (
            self.builder()
            .add_source(source)
            .pipe(lambda each: self.make(*each), concurrency=threads)
            .aggregate(self.c["batch"])
            .pipe(numpy.stack)
            .add_sink(3)
            .build(num_threads=threads)
        )
        with pipe.auto_stop():
            for batch in pipe:
                yield len(batch)


def spdl_maker(size: int) -> Callable[[Any, Window], Any]:
    """A function of a path or bytes and a window, which gives an array."""
    import numpy as np
    import spdl.io

    scale = (1 / (255 * np.array(STD))).astype(np.float32)[:, None, None]
    shift = (-np.array(MEAN) / STD).astype(np.float32)[:, None, None]
    # (By itself FFmpeg begins as many threads as there are cores.)
    config = spdl.io.decode_config(decoder_options={"threads": "1"})

    def make(source: Any, window: Window) -> Any:
        top, left, h, w, mirror = window
        steps = (
            f"crop={w}:{h}:{left}:{top}:exact=1,scale={size}:{size}:"
            f"flags=bilinear{',hflip' * mirror},format=rgb24"
        )
        im = spdl.io.load_image(
            source, decode_config=config, filter_desc=steps
        )
        planes = spdl.io.to_numpy(im).transpose(2, 0, 1)
        out = planes * scale
        out += shift
        return out

    return make


class MindSpore(Program):
    """MindSpore's data set, with its own fused decoding and cropping."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        import mindspore
        import mindspore.dataset  # noqa: F401

        self.name = f"MindSpore {mindspore.__version__}"

    def open(self) -> None:
        from mindspore import dataset
        from mindspore.dataset import vision

        c = self.c
        steps = [
            vision.RandomCropDecodeResize(c["size"]),
            vision.RandomHorizontalFlip(),
            vision.Normalize([255 * m for m in MEAN], [255 * s for s in STD]),
            vision.HWC2CHW(),
        ]
        threads = {"num_parallel_workers": c["threads"]}
        data = dataset.ImageFolderDataset(c["folder"], shuffle=True, **threads)
        self.data = data.map(steps, ["image"], **threads).batch(c["batch"])

    def epoch(self) -> Iterator[int]:
        self.batches = self.data.create_tuple_iterator(
            num_epochs=1, output_numpy=True
        )
        return super().epoch()


# Name -> what it is, and the packages that have it.
PROGRAMS: dict[str, tuple[type[Program], str]] = {
    "stock": (Stock, "torch torchvision pillow"),
    "tensors": (Tensors, "torch torchvision pillow"),
    "drop-in": (DropIn, "torch torchvision pillow"),
    "cached": (Cached, "torch torchvision pillow"),
    "loader": (Loader, "numpy"),
    "dali": (Dali, "nvidia-dali-cuda120"),
    "spdl": (Spdl, "spdl_core spdl_io numpy"),
    "torchcodec": (TorchCodec, "torch torchvision pillow torchcodec"),
    "mindspore": (MindSpore, "mindspore"),
}


def _release(module: Any) -> str:
    return str(module.__version__).partition("+")[0]


def seed() -> None:
    """Seeds all generators that recipes draw from."""
    import torch

    random.seed(7)
    torch.manual_seed(7)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(7)


# ---- a round ---------------------------------------------------------------


def cpu_seconds() -> float:
    """CPU time of this process's threads, and of children that have ended."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = map(resource.getrusage, kinds)
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure_round(program: Program, later: int) -> dict[str, Any]:
    """Seconds to the first batch; wall and CPU seconds of epochs."""
    start = time.perf_counter()
    cpu = cpu_seconds()
    program.open()
    try:
        first, waited = _epoch(program, start, cpu)
        rest = [
            _epoch(program, time.perf_counter(), cpu_seconds())[0]
            for _ in range(later)
        ]
    finally:
        program.close()
        gc.collect()
    return {"first_batch_s": waited, "first": first, "later": rest,
            "made": program.made()}


def _epoch(
    program: Program, start: float, cpu: float
) -> tuple[dict[str, float], float]:
    """Runs an epoch; returns its costs since then, and the first batch's
    seconds."""
    batches = program.epoch()
    pictures = next(batches)
    waited = time.perf_counter() - start
    pictures += sum(batches)  # then worker processes have ended
    return {
        "pictures": pictures,
        "wall_s": time.perf_counter() - start,
        "cpu_s": cpu_seconds() - cpu,
    }, waited


# ---- the process -----------------------------------------------------------


def serve(
    make: Callable[[], tuple[str, Callable[[], dict[str, Any]]]],
) -> None:
    """Speak with the parent: see children.Child.

    make: gives the name, and what a round is, which gives what it measured.
    """
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)
        begin = time.perf_counter()
        try:
            name, measure = make()
        except Exception as e:
            _tell(told, {"not_run": f"{type(e).__name__}: {e}"})
            return
        _tell(told, {"name": name, "import_s": time.perf_counter() - begin})
        for _ in sys.stdin:
            try:
                _tell(told, measure())
            except Exception as e:
                _tell(told, {"not_run": f"{type(e).__name__}: {e}"})
                return


def _tell(told: TextIO, what: dict[str, Any]) -> None:
    print(json.dumps(what), file=told, flush=True)


def main() -> None:
    name, path = sys.argv[1:]
    with open(path) as file:
        config = json.load(file)

    def make() -> tuple[str, Callable[[], dict[str, Any]]]:
        program = PROGRAMS[name][0](config)
        todo = [program.bits]

        def measure() -> dict[str, Any]:
            found = measure_round(program, config["later"])
            return found | {"bits": todo.pop()() if todo else None}

        return program.name, measure

    serve(make)


if __name__ == "__main__":
    main()
