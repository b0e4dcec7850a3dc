# SPDX-License-Identifier: Apache-2.0
"""Loader: batches of a data set, made ahead of the training step."""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _core, _left_out, arrow
from ._arguments import hints, whole
from .compose import as_ops
from .errors import ArgumentError, Error
from .ops import Ops
from .packfolder import Entries, PackFolder
from .pipeline import dtype_of, open_device

if TYPE_CHECKING:
    from typing_extensions import Self

    _Path: TypeAlias = str | os.PathLike[str]

_TENSORS = ("torch", "numpy")
_MOST_THREADS = 4096  # of a device, see hr_device_params
_MOST_VIEWS = 64
_SETTINGS = ("threads", "reads", "depth", "bytes")
_CIFARS = ("10", "100", "100-coarse")
# Arguments that the device takes, and the loader, by these names.
_OF_DEVICE = ("threads", "reference", "cache")
_OF_LOADER = """
layout memory batch tier on_error shuffle seed shard_drop samples budget reads
autotune reserve cpu_share
""".split()


# Keywords of torch's DataLoader and of others, and what stands for them.
_OTHERS = {
    "batch_size": "it is batch",
    "num_workers": "the loader's threads decode: threads, 0 for all cores",
    "pin_memory": 'memory="pinned", where the device has such memory',
    "sampler": "shuffle, weights and shard say which samples come",
    "batch_sampler": "batch, shuffle, weights and shard say what comes",
    "collate_fn": "batches are whole tensors",
    "prefetch_factor": "budget and settings say how much is read ahead",
    "persistent_workers": "threads stay until close()",
    "drop_remainder": "it is drop_last",
    "generator": "it is seed",
    "transform": "transforms are steps, the second argument",
    "transforms": "transforms are steps, the second argument",
    "num_threads": "it is threads",
    "timeout": "a loader waits as long as it takes",
}


class Cifar:
    """Binary files of CIFAR-10 or CIFAR-100, as a Loader's source.

        paths = [f"data_batch_{i}.bin" for i in range(1, 6)]
        loader = headrace.Loader(headrace.Cifar(paths), steps)

    Their pictures are 32 x 32 pixels, which ops.decode() leaves as they are.
    kind "100-coarse" takes the coarse labels of CIFAR-100.
    """

    def __init__(
        self,
        paths: _Path | Iterable[_Path],
        kind: Literal["10", "100", "100-coarse"] = "10",
    ) -> None:
        if kind not in _CIFARS:
            raise ArgumentError(f"kind: one of {_CIFARS}, not {kind!r}")
        if isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        self.paths: tuple[_Path, ...] = tuple(paths)
        self.kind = kind


class Loader:
    """Gives batches of pictures and classes, one epoch for each `for`.

        loader = headrace.Loader("train/", steps, batch=64, shuffle=True)
        for epoch in range(90):
            for x, y in loader:
                ...                     # x: pictures, y: int64

    The library's threads read and make batches ahead; no Python runs for a
    picture. x is memory of the loader, not a copy: it stays as it is until
    no reference to x, or a view of it, is left. A program that keeps many
    batches gets copies instead of the loader's last one.

    Samples, order and random ops follow from seed, epoch and position alone:
    the same for any device, number of threads and batch size.
    """

    @hints(_OTHERS)
    def __init__(
        self,
        source: Any,
        steps: Any,
        *,
        batch: int = 64,
        views: int | Sequence[Any] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        epochs: int | None = None,
        shard: tuple[int, int] | None = None,
        shard_drop: bool = False,
        drop_last: bool = False,
        weights: Iterable[float] | None = None,
        samples: int = 0,
        dtype: Literal["f32", "f16", "u8"] | None = None,
        layout: Literal["nchw", "nhwc"] = "nchw",
        memory: Literal["host", "pinned"] = "host",
        to: Literal["torch", "numpy"] | None = None,
        device: str | None = None,
        threads: int = 0,
        reads: int = 0,
        budget: int = 0,
        reference: str | None = None,
        cache: int | str | None = None,
        tier: Literal["exact", "close", "fast"] = "exact",
        on_error: Literal["fail", "zero", "skip"] = "fail",
        autotune: bool = False,
        settings: Mapping[str, int] | None = None,
        reserve: int = 0,
        cpu_share: float = 0.0,
        http: Mapping[str, Any] | None = None,
        classes: _left_out.Classes | None = None,
        fields: tuple[str | None, str | None] | None = None,
        strict: bool = False,
    ) -> None:
        """Find the samples; reading begins with the first `for`.

        Args:
            source: a folder, a pack file, a tar file in WebDataset form, a
                file of records (RecordIO, TFRecord), MDS or litData, or a list
                of them and of pictures, also by their URLs; Parquet or Arrow
                files, see headrace.arrow.Rows; a PackFolder without
                transforms; a headrace.Cifar; pairs (picture, class), with a
                path or bytes and an int, in a list or tuple; or another
                sequence of such pairs, or of pictures, which the loader's
                threads ask, item by item, or if it has __getitems__(numbers),
                some of a batch at a time. An item that is an exception is a
                sample that failed.
            steps: ops of headrace.ops, decode() first; or transforms of
                torchvision, see headrace.compose.translate().
            batch: pictures of a batch; the last one of an epoch has what is
                left, unless drop_last.
            views: several pictures of each sample, as two for contrastive
                training: a number, of pictures by steps; or a list of steps,
                one for each view, and steps is None. x is a tuple then, of a
                tensor for each view. A sample is read once, and decoded once
                where that pays.
            shuffle: another order each epoch.
            seed: of order and random ops, 0 .. 2**64 - 1.
            epochs: after how many there is no more; None: there is no end,
                and the next epoch is begun while one is consumed.
            shard: (rank, world): this loader's share of each epoch. None: that
                of torch.distributed if it is initialised, else everything.
            shard_drop: what does not go evenly: False: the first samples
                come twice, True: the last are left out.
            weights: how often each sample shall come; then they are drawn
                with replacement.
            samples: of an epoch, of all shards; 0: as many as there are.
            dtype, layout: of x; dtype None: as steps say.
            memory: "pinned": of the device, where it has such memory.
            to: what x and y are; None: "torch" if it is imported, else "numpy".
            device, threads, reference, cache: as of headrace.Pipeline.
            reads: threads that read; 0: 8, and of URLs http["connections"], or
                32 where that is not set.
            budget: bytes of batches and files; 0: 256 MiB.
            tier: see headrace.submit().
            on_error: "fail": the loop raises the sample's error in the place
                of its batch, and goes on behind it if it is begun again;
                "zero": the picture is zero, last.results says why; "skip":
                the next picture takes its place.
            autotune: threads, reads, depth and bytes follow what is measured,
                up to threads, reads and budget; the device is the loader's
                own. The samples do not depend on it.
            settings: where that begins, or, without autotune, what stays:
                the attribute of an earlier loader, which may be kept as JSON.
            reserve: cores that autotune leaves to others.
            cpu_share: of the cores, above 0 up to 1, that autotune may use; 0:
                all.
            http: how URLs are read: "connections", "retries", "backoff_ms",
                "deadline_ms", "max_bytes", "headers" (a mapping), "user_agent",
                "ca_file", "seed", "unsized_bytes", "index_bytes", "add_ms"; see
                docs/loader.md. None: as usual.
            classes: names in the order of their numbers, or a mapping of names
                to numbers: what has another label is left out. None: what the
                source has, numbered as torchvision's ImageFolder does.
            fields: of records: the names of the fields (of tf.Example the
                features) with the picture and its label; None: the usual ones.
            strict: whether what was left out, or could not be read, is an
                error; else it is one warning. See skipped and faults.

        Raises headrace.ArgumentError, also for a source without pictures;
        headrace.ReadError, headrace.PictureError for one that cannot be opened.
        """
        said = dict(locals())
        lists, made = _lists(steps, views)
        self._steps = lists[0]
        self._views = lists if views is not None else ()
        self._find(source, http, classes, fields, strict)
        self._keep(said, lists, made)
        self._core: _core.Loader | None = None

    _device: _core.Device | None = None
    _epoch = 0  # that the next `for` gives
    _begun = False  # whether some of it was given
    _goes_on = False  # whether the next `for` gives the rest
    _state: bytes | None = None  # that the next one goes on from
    _turn: object = None  # of the newest `for`
    last: _core.Loaded | None = None

    def _find(
        self, source: Any, http: Any, classes: Any, fields: Any, strict: bool
    ) -> None:
        given = _left_out.numbered(classes)
        found = _source(source, _http(http), given, fields)
        self._source, self._classes, self._skipped = found
        _check(source, self._source)
        skipped = self._skipped + self._source.skipped
        if not isinstance(source, PackFolder) or strict:
            _left_out.tell(_called(source), skipped, self.faults, strict)

    def _keep(self, said: dict[str, Any], lists: Any, made: Any) -> None:
        """Keep the arguments as parameters of the device and the loader."""
        self._to, self._epochs = to, epochs = said["to"], said["epochs"]
        if to is not None and to not in _TENSORS:
            raise ArgumentError(f"to {to!r}: must be 'torch' or 'numpy'")
        if epochs is not None:
            whole("epochs", epochs, 1)
        whole("batch", said["batch"], 1)
        whole("threads", said["threads"], 0, _MOST_THREADS + 1)
        shard = said["shard"]
        rank, world = _shard() if shard is None else shard
        if not 0 <= rank < world:
            raise ArgumentError(f"shard: there is no {rank} of {world}")
        self._device_options = {
            "name": said["device"], **{n: said[n] for n in _OF_DEVICE}
        }
        layout, memory = said["layout"], said["memory"]
        dtypes = [
            dtype_of(x, said["dtype"] or its, layout, memory)
            for x, its in zip(lists, made)
        ]
        # Named as the members of struct hr_loader_params.
        self._options: dict[str, Any] = {n: said[n] for n in _OF_LOADER} | {
            "dtype": _only("dtype", dtypes),
            "weights": self._weights(said["weights"]),
            "epochs": -1 if epochs is None else epochs,
            "shards": world,
            "shard": rank,
            "drop_remainder": said["drop_last"],
            **_start(said["settings"]),
        }
        _core.check_loader(self._options)

    def _weights(self, weights: Iterable[float] | None) -> array[float] | None:
        if weights is None:
            return None
        found, n = array("d", weights), len(self._source)
        if len(found) != n:
            raise ArgumentError(
                f"weights: {len(found)} of them for {n} samples: each needs one"
            )
        return found

    # ---- What there is -----------------------------------------------------

    def __len__(self) -> int:
        """Batches of an epoch."""
        o = self._options
        more = 0 if o["drop_remainder"] else int(o["batch"]) - 1
        return (self.samples + more) // int(o["batch"])

    @property
    def samples(self) -> int:
        """The samples of an epoch in this shard."""
        o = self._options
        total = int(o["samples"] or len(self._source))
        more = 0 if o["shard_drop"] else int(o["shards"]) - 1
        return (total + more) // int(o["shards"])

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels, in the order of their numbers; () if they are yours."""
        return self._classes or self._source.classes

    @property
    def faults(self) -> tuple[str, ...]:
        """The parts of the source that could not be read: "PATH: REASON"."""
        return self._source.faults

    @property
    def skipped(self) -> tuple[str, ...]:
        """The parts of the source that are no samples: "PATH: REASON".

        Pictures beside the folders of classes or that are no files, folders
        of classes without pictures, and so on.
        """
        return _left_out.texts(self._skipped + self._source.skipped)

    def path(self, index: int) -> str:
        """The path of a sample, by its number in the source: last.indices."""
        return self._source.path(index)

    def drawn(self, i: int, view: int = 0) -> Ops:
        """Return the ops that sample i of the last batch was made with.

        Random ops are replaced by what was drawn: windows and flips.
        """
        each = self._views or (self._steps,)
        if not 0 <= view < len(each):
            raise ArgumentError(f"view {view} of {len(each)}")
        steps = each[view]
        if self.last is None:
            raise ArgumentError("there is no batch yet")
        result = self.last.results[i]
        if not result.ok:
            raise ArgumentError(f"sample {i} was not made: {result.message}")
        seed, index, epoch = self.last.keys[i]
        return _core.draw_ops(
            steps,
            (seed, index * max(len(self._views), 1) + view, epoch),
            result.width,
            result.height,
            result.orientation,
        )

    @property
    def stats(self) -> dict[str, Any]:
        """Counters since reading began; {} before."""
        return {} if self._core is None else self._core.stats()

    @property
    def settings(self) -> dict[str, int]:
        """How much is done at once, now: see the argument."""
        if self._core is not None:
            now: dict[str, int] = self._core.stats()["settings"]
            return now
        return {n: self._options.get(f"start.{n}", 0) for n in _SETTINGS}

    def __repr__(self) -> str:
        return (
            f"<headrace.Loader {len(self._source)} pictures, "
            f"{len(self)} batches>"
        )

    # ---- One epoch ---------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the epoch that is being given, or comes next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Give this epoch next, as DistributedSampler's; it is not needed."""
        if epoch == self._epoch and not self._begun:
            return
        if epoch < 0:
            raise ArgumentError("epochs are numbered from 0")
        self.close()
        self._epoch, self._state = epoch, None
        self._begun = self._goes_on = False

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Give the next epoch; after load_state_dict() what is left of one.

        If the last `for` was left before its end, what it did not take is
        not given any more.
        """
        if self._begun and not self._goes_on:
            self.set_epoch(self._epoch + 1)
        if self._epochs is not None and self._epoch >= self._epochs:
            raise Error(f"all {self._epochs} epochs were given")
        self._turn = turn = object()
        return self._batches(turn)

    def _batches(self, turn: object) -> Iterator[tuple[Any, Any]]:
        convert = _converter(self._to)
        self._goes_on = False
        while True:
            if turn is not self._turn:
                raise Error(
                    "another loop over this loader has begun"
                    if self._turn
                    else "close() or another epoch has ended this loop"
                )
            self.last = None
            batch = self._next()
            if batch is None:
                self._epoch, self._begun = self._epoch + 1, False
                return
            self.last = batch
            ends = batch.last
            self._epoch, self._begun = batch.epoch + ends, not ends
            yield convert(batch)
            if ends:
                return
            del batch

    def _next(self) -> _core.Loaded | None:
        core = self._core or self._open()
        self._begun = True
        try:
            return core.next()
        except BaseException:
            self._goes_on = True  # behind what failed
            raise

    def _open(self) -> _core.Loader:
        said = self._device_options
        if self._options["autotune"] and not any(said.values()):
            said = {**said, "name": _core.get_image_backend()}
        self._device = self._device or open_device(said)
        self._core = _core.Loader(
            self._source,
            self._views or self._steps,
            device=self._device,
            first_epoch=self._epoch,
            resume=self._state,
            **self._options,
        )
        self._state = None
        return self._core

    # ---- Where it stands ---------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands: behind the batch it gave last.

        Plain data, for torch.save() or pickle.
        """
        state = self._state if self._core is None else self._core.save()
        return {"epoch": self._epoch, "begun": self._begun, "state": state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the very next sample.

        Device, threads, budget and batch may be others. If source, seed,
        shuffle, shard or samples are, the next `for` raises
        headrace.ArgumentError; so does this if it is no state of a Loader.
        """
        try:
            epoch, begun = int(state["epoch"]), bool(state["begun"])
            place = state["state"]
        except (KeyError, TypeError, ValueError):
            epoch = -1
        if epoch < 0 or not isinstance(place, (bytes, type(None))):
            raise ArgumentError("state: not what state_dict() has returned")
        self.close()
        self._epoch, self._state = epoch, place
        self._begun = self._goes_on = begun

    def close(self) -> None:
        """Stop reading. Batches stay as they are; a new `for` begins anew."""
        core, self._core, self.last = self._core, None, None
        self._turn = None
        if core is None:
            return
        if self._options["autotune"]:
            with suppress(Error):  # in a child of fork()
                found = core.stats()["settings"]
                self._options |= _start(found)  # the next goes on there
        core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _lists(
    steps: Any, views: Any
) -> tuple[tuple[Ops, ...], tuple[str | None, ...]]:
    """Ops of each view, or those of all, and the dtypes that they make."""
    if views is None:
        found, made = as_ops(steps)
        return (found,), (made,)
    if isinstance(views, (list, tuple)):
        if steps is not None:
            raise ArgumentError("steps must be None: each view has its own")
        each = [as_ops(one) for one in views]
    else:
        whole("views", views, 1, _MOST_VIEWS + 1)
        each = [as_ops(steps)] * views
    if not 0 < len(each) <= _MOST_VIEWS:
        raise ArgumentError(f"views: {len(each)}, not 1 .. {_MOST_VIEWS}")
    return tuple(ops for ops, _ in each), tuple(made for _, made in each)


def _only(what: str, values: Sequence[Any]) -> Any:
    """The value that all views share."""
    if len(set(values)) > 1:
        raise ArgumentError(f"views: more than one {what}: {set(values)}")
    return values[0]


def _converter(to: str | None) -> Callable[[_core.Loaded], tuple[Any, Any]]:
    if to == "torch" or (to is None and "torch" in sys.modules):
        import torch

        return lambda batch: (
            _views(torch.from_dlpack(batch), batch),
            torch.frombuffer(batch.labels, dtype=torch.int64),
        )
    import numpy

    return lambda batch: (
        _views(numpy.asarray(batch), batch),
        numpy.frombuffer(batch.labels, numpy.int64),
    )


def _views(memory: Any, batch: _core.Loaded) -> Any:
    """The tensor of each view, in the memory of all."""
    if not batch.views:
        return memory
    return tuple(
        memory[at : at + math.prod(shape)].reshape(shape)
        for at, shape in batch.views
    )


def _start(settings: Mapping[str, int] | None) -> dict[str, int]:
    """Settings as a loader's parameters."""
    if settings is None:
        return {}
    if set(settings) != set(_SETTINGS):
        raise ArgumentError(f"settings: {', '.join(_SETTINGS)}, all of them")
    return {f"start.{name}": int(n) for name, n in settings.items()}


def _http(http: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if http is None:
        return None
    headers = http.get("headers", {}) if isinstance(http, Mapping) else None
    if not isinstance(headers, Mapping):
        raise TypeError("http: a mapping, whose headers are one, too")
    return dict(http) | {"headers": [f"{k}: {v}" for k, v in headers.items()]}


def _called(source: Any) -> str:
    if isinstance(source, Cifar):
        source = source.paths
    if isinstance(source, PackFolder):
        source = source.root
    if isinstance(source, (list, tuple)) and len(source) == 1:
        source = source[0]
    if isinstance(source, _core.PackFile):
        source = source.path
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source)
    return f"a {type(source).__name__} of {len(source)}"


def _check(named: Any, source: _core.Source) -> None:
    """Complain of a source without samples, by its name."""
    if len(source):
        return
    why = [*_left_out.texts(source.skipped), *source.faults]
    raise ArgumentError(
        f"source: no pictures in {_called(named)}"
        + (f": {why[0]}" if why else "")
        + (f" and {len(why) - 1} more" if len(why) > 1 else "")
    )


_Found: TypeAlias = tuple[_core.Source, tuple[str, ...], _left_out.Skipped]


def _source(
    source: Any,
    http: dict[str, Any] | None,
    given: dict[str, int] | None,
    fields: tuple[str | None, str | None] | None,
) -> _Found:
    """The source; classes, if it does not know them; the files left out."""
    names = _left_out.listed(given) if given else ()
    pairs = tuple(given.items()) if given else None
    if isinstance(source, PackFolder):
        if source.transform or source.target_transform:
            raise ArgumentError(
                "source: a PackFolder with a transform; the loader's steps "
                "stand for it"
            )
        if given:
            raise ArgumentError(
                "classes: a PackFolder has its own; name them to that"
            )
        core = _core.Source(sequence=Entries(source))
        return core, tuple(source.classes), source._skipped
    if isinstance(source, Cifar):
        cifar = _CIFARS.index(source.kind)
        core = _core.Source(paths=source.paths, cifar=cifar, classes=pairs)
        return core, (), ()
    if isinstance(source, _core.PackFile):
        source = source.path
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(
        map(arrow.is_table, source)
    ):
        source = arrow.Rows(source, fields)
    if isinstance(source, arrow.Rows):
        if given:
            raise ArgumentError(
                "classes: a file of Parquet or Arrow has its own"
            )
        return _core.Source(sequence=source), source.classes, ()
    if isinstance(source, (bytes, bytearray, memoryview)):
        raise TypeError("source: a path is a str; a picture stands in a list")
    if not isinstance(source, (list, tuple)):
        if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
            raise TypeError(
                "source: a path, a list, or what has len() and [i], not "
                + repr(source)
            )
        return _core.Source(sequence=source), names, ()
    if all(isinstance(x, (str, os.PathLike, _core.PackFile)) for x in source):
        paths = [
            arrow.signed(x.path if isinstance(x, _core.PackFile) else x)
            for x in source
        ]
        core = _core.Source(
            paths=paths, http=http, classes=pairs, fields=fields
        )
        return core, (), ()
    return _items(source, http, given, names)


def _items(
    items: Sequence[Any],
    http: dict[str, Any] | None,
    given: dict[str, int] | None,
    names: tuple[str, ...],
) -> _Found:
    """Pairs that the program gives; labels that are words become numbers."""
    skipped: _left_out.Skipped = ()
    words = [
        x for x in items if isinstance(x, (tuple, list)) and len(x) == 2
        and isinstance(x[1], str)
    ]
    if words and len(words) < len(items):
        raise TypeError("source: if one class is a word, all must be words")
    if words:
        items, numbers, skipped = _left_out.number_words(items, given)
        names = _left_out.listed(numbers)
    return _core.Source(items=items, http=http), names, skipped


def _shard() -> tuple[int, int]:
    """That of torch.distributed, if this process is one of several."""
    distributed = sys.modules.get("torch.distributed")
    if (
        distributed is not None
        and distributed.is_available()
        and distributed.is_initialized()
    ):
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
