# SPDX-License-Identifier: Apache-2.0
"""Ray: Preprocess, a Pipeline for map_batches(), and pack(), for data sets.

    import ray
    from headrace import ops
    from headrace.ray import Preprocess

    pictures = ray.data.read_binary_files("photos/", include_paths=True)
    tensors = pictures.map_batches(
        Preprocess,
        fn_constructor_args=(steps,),
        fn_constructor_kwargs={"threads": 2},
        batch_size=64,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=2,
    )

Each actor opens one device. Ray itself is not imported here.

    ray job submit -- python3 -m headrace.ray train/ --out train.hrp

packs a data set in the cluster: pack().
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from .errors import ArgumentError, Error
from .ops import Op
from .packjob import pack as pack
from .pipeline import Output, Pipeline

if TYPE_CHECKING:
    import numpy.typing

    Column: TypeAlias = numpy.typing.NDArray[Any]


class Counts(TypedDict):
    """The result of count()."""

    pictures: int
    failed: int
    devices: dict[str, int]


class Preprocess:
    """Called with a batch of rows: takes a column of pictures, adds a tensor.

    It adds the columns `out`, uint8, float16 or float32; `ok`, true if the
    picture was made (the others are zero, and stay in the data set: all rows
    come back, in their order); `error`, a message, or ""; `device`, the device
    of the last stage.
    """

    def __init__(
        self,
        steps: Iterable[Op],
        *,
        source: str = "bytes",
        out: str = "image",
        index: str | None = None,
        epoch: int = 0,
        keep: bool = False,
        **options: Any,
    ) -> None:
        """Keep what is said; the device is opened at the first batch.

        Args:
            steps: ops of headrace.ops, decode() first.
            source: name of the column with bytes, paths, or both.
            out: name of the new column.
            index: name of a column of numbers that tells which picture of
                the data set each row is. Random ops need it: they draw from
                seed, index and epoch, so that rows become the same pictures
                whatever actor takes them, and when.
            epoch: see index.
            keep: whether the column `source` stays.
            **options: of headrace.Pipeline: device, threads, dtype, seed ...
        """
        self._source, self._out, self._keep = source, out, keep
        self._index, self._epoch = index, epoch
        self._make = Pipeline(steps, **options)

    def __call__(self, batch: Any) -> dict[str, Column]:
        """Take a batch of format "numpy" or "pyarrow"; return columns."""
        columns = _columns(batch)
        for name in self._source, self._index:
            if name is not None and name not in columns:
                raise ArgumentError(
                    f"there is no column {name!r}: {', '.join(columns)}"
                )
        import numpy

        sources = columns[self._source]
        if not self._keep:
            del columns[self._source]
        made = {name: _array(column) for name, column in columns.items()}
        if not len(sources):
            return made | self._nothing()
        index = None if self._index is None else _array(batch[self._index])
        output = self._make(sources, indices=index, epoch=self._epoch)
        return made | {
            self._out: output.numpy(),
            "ok": numpy.array(output.ok),
            "error": _texts(r.message for r in output.results),
            "device": _texts(_devices(output)),
        }

    def _nothing(self) -> dict[str, Column]:
        import numpy

        kind = {"f32": "float32", "f16": "float16", "u8": "uint8"}
        return {
            self._out: numpy.zeros(
                (0, *self._make.shape), kind[self._make.dtype]
            ),
            "ok": numpy.zeros(0, bool),
            "error": _texts(()),
            "device": _texts(()),
        }


def count(dataset: Any) -> Counts:
    """Run what is left to do of a Preprocess-ed data set, and add up its rows.

    A row counts once, however often Ray began with it.
    """
    counts = Counts(pictures=0, failed=0, devices={})
    devices: Counter[str] = Counter()
    rows = dataset.select_columns(["ok", "device"])
    for batch in rows.iter_batches(batch_format="numpy"):
        counts["pictures"] += len(batch["ok"])
        counts["failed"] += int((~batch["ok"]).sum())
        devices.update(d for d in batch["device"] if d)
    counts["devices"] = dict(devices)
    return counts


def _columns(batch: Any) -> dict[str, Any]:
    if isinstance(batch, Mapping):
        return dict(batch)
    return {name: batch[name] for name in batch.column_names}


def _array(column: Any) -> Any:
    if hasattr(column, "combine_chunks"):  # of Arrow
        return column.to_numpy()
    return column


def _texts(texts: Iterable[str]) -> Column:
    import numpy

    found = list(texts)
    array = numpy.empty(len(found), object)
    array[:] = found
    return array


def _devices(output: Output) -> list[str]:
    return [r.spans[-1][2] if r.ok else "" for r in output.results]


def _names(text: str) -> tuple[str | None, str | None]:
    """--fields, as the command reads it."""
    image, _, label = text.partition(",")
    return image or None, label or None


def main() -> int:
    """Pack a data set, as `headrace pack` does."""
    parser = argparse.ArgumentParser(
        prog="python3 -m headrace.ray",
        description="Packs a data set in the Ray cluster of RAY_ADDRESS, or "
        "in one of its own. Prints the manifest, OUT.json. If it is "
        "interrupted, the same command goes on.",
    )
    parser.add_argument("source", nargs="+")
    parser.add_argument("--out", required=True, metavar="FILE.hrp")
    parser.add_argument("--split", type=int, default=1, metavar="N")
    parser.add_argument(
        "--workers", type=int, default=0, help="tasks at a time; 0: all"
    )
    parser.add_argument(
        "--part", type=int, default=512, help="pictures of a task [512]"
    )
    parser.add_argument(
        "--fields",
        type=_names,
        metavar="IMAGE,LABEL",
        help="of records: the fields with the picture and its label; without "
        "a name: the usual one",
    )
    said = vars(parser.parse_args())
    try:
        manifest = pack(said.pop("source"), said.pop("out"), **said)
    except Error as error:
        parser.exit(2, f"headrace.ray: {error}\n")
    print(json.dumps(manifest, indent=1))
    return 1 if manifest["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
