# SPDX-License-Identifier: Apache-2.0
"""Pipeline: ops and a device as plain data, for other people's loaders."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _core
from ._arguments import made_channels
from .compose import as_ops
from .errors import ArgumentError
from .ops import Ops

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    import torch
    from typing_extensions import CapsuleType

_RANDOM = {number for number, random, _ in _core.OPS.values() if random}
# Ops that may stand behind what makes the numbers.
_PAINTS = {_core.OPS[name][0] for name in ("erase", "random_erasing")}


class Pipeline:
    """Makes lists of pictures into tensors, the same way each time.

        make = headrace.Pipeline(steps, device="cpu", threads=2)
        out = make([jpeg_bytes, "cat.jpg", ...])
        out.numpy(), out.ok

    A Pipeline can be pickled, also when it has been used, and sent to other
    processes: each opens its own device at the first call, and after fork()
    anew. Several threads may call it at once.
    """

    def __init__(
        self,
        steps: Any,
        *,
        size: tuple[int, int] | None = None,
        dtype: Literal["f32", "f16", "u8"] | None = None,
        layout: Literal["nchw", "nhwc"] = "nchw",
        seed: int = 0,
        device: str | None = None,
        threads: int = 0,
        budget: int = 0,
        reference: str | None = None,
        cache: int | str | None = None,
        tier: Literal["exact", "close", "fast"] = "exact",
    ) -> None:
        """Keep what is said; nothing is opened.

        Args:
            steps: ops of headrace.ops, decode() first; or transforms of
                torchvision, see headrace.compose.translate().
            size: (width, height) of all results; None: as steps say, which
                must then make every picture the same size.
            dtype: of the tensor; None: "f32" if the last op makes numbers of
                bytes (normalize, table), else "u8".
            layout: "nchw" or "nhwc".
            seed: of random ops.
            device: a name, as of set_image_backend(). None, and nothing of
                threads, budget, reference and cache said: the process's
                device. Else a device of this Pipeline's own.
            threads: of the CPU; 0: as many as there are cores.
            budget: bytes that jobs in flight may hold; 0: the default.
            reference: whose pixels; None: the process's.
            cache: bytes, or "2G", that pictures are kept in for later epochs,
                in each process; None: as headrace.set_cache() says.
            tier: see headrace.submit().

        Raises headrace.ArgumentError if the steps make pictures of different
        sizes, or none.
        """
        self._steps, made = as_ops(steps)
        self._random = any(op[0] in _RANDOM for op in self._steps)
        self._seed = seed
        self._tier = tier
        self._options: dict[str, Any] = {
            "name": device,
            "threads": threads,
            "budget": budget,
            "reference": reference,
            "cache": cache,
        }
        c = made_channels(self._steps, 0)
        if not c:
            raise ArgumentError("a Pipeline begins with ops.decode()")
        w, h = size or _size(self._steps)
        self._form: dict[str, Any] = {
            "c": c,
            "h": h,
            "w": w,
            "dtype": dtype_of(self._steps, dtype or made, layout),
            "layout": layout,
        }
        self._opened: dict[int, _core.Device | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": {}}

    def __repr__(self) -> str:
        f = self._form
        return (
            f"<headrace.Pipeline {len(self._steps)} ops, "
            f"{f['w']}x{f['h']}x{f['c']} {f['dtype']} {f['layout']}>"
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one picture, in the order of the layout."""
        f = self._form
        if f["layout"] == "nchw":
            return f["c"], f["h"], f["w"]
        return f["h"], f["w"], f["c"]

    @property
    def dtype(self) -> str:
        """The tensor's type: "f32", "f16" or "u8"."""
        return str(self._form["dtype"])

    @property
    def device(self) -> _core.Device | None:
        """This process's device, opened by now; None: the process's own."""
        pid = os.getpid()
        if pid not in self._opened:
            # (Of two threads one's device is closed at once.)
            self._opened = {pid: open_device(self._options)}
        return self._opened[pid]

    def submit(
        self,
        sources: Iterable[Any],
        *,
        indices: Iterable[int] | None = None,
        epoch: int = 0,
        out: Any = None,
        timeout: float | None = None,
    ) -> Output:
        """Begin; return the output, which is to be waited for.

        Args:
            sources: for each picture bytes or another buffer, a path, None (a
                picture that fails), or a mapping with "bytes" and "path", of
                which the first counts unless it is None. A column of Arrow
                (binary, string, or struct of both) is read where it lies.
                They must stay as they are until the output is there.
            indices: which picture of the data set each one is: what random
                ops draw from, with seed and epoch. They need it.
            epoch: see indices.
            out: memory for the tensor, as of headrace.Batch(data=...).
            timeout: seconds for all of it.
        """
        samples = self._samples(sources, indices, epoch)
        return self._begin(samples, out, timeout, "zero")

    def _begin(
        self,
        samples: list[Any],
        out: Any,
        timeout: float | None,
        on_error: Literal["fail", "zero"],
    ) -> Output:
        if not samples:
            raise ArgumentError("no pictures")
        batch = _core.Batch(
            len(samples),
            **self._form,
            data=self._memory(len(samples)) if out is None else out,
            device=self.device,
        )
        job = _core.submit(
            samples,
            batch,
            device=self.device,
            on_error=on_error,
            timeout=timeout,
            tier=self._tier,
        )
        return Output(batch, job)

    def _memory(self, n: int) -> Any:
        """Where n pictures go that the caller has no memory for; None: into
        new memory."""
        return None

    def __call__(self, sources: Iterable[Any], **options: Any) -> Output:
        """Make the pictures, and return when they are there; see submit()."""
        return self.submit(sources, **options).wait()

    def _samples(
        self, sources: Iterable[Any], indices: Iterable[int] | None, epoch: int
    ) -> list[Any]:
        if isinstance(sources, (str, bytes, bytearray, os.PathLike)):
            raise TypeError("sources must be a list of pictures, not one")
        found = [_source(x) for x in sources]
        if indices is None:
            if self._random:
                raise ArgumentError(
                    "random ops need indices=: which picture of the data "
                    "set each one is"
                )
            return [(source, self._steps) for source in found]
        keys = [(self._seed, int(i), epoch) for i in indices]
        if len(keys) != len(found):
            raise ArgumentError(
                f"{len(keys)} indices for {len(found)} pictures"
            )
        return [(s, self._steps, key) for s, key in zip(found, keys)]


class Output:
    """A tensor, and how each of its pictures was made.

    It is an array for NumPy (`__array_interface__`) and a tensor for DLPack.
    Pictures that could not be made are zero. After fork() a child has what its
    parent waited for, but raises headrace.DeviceError for a job in flight.
    """

    __slots__ = ("_results", "batch", "job")

    batch: _core.Batch
    job: _core.Job
    _results: Sequence[_core.Result] | None

    def __init__(self, batch: _core.Batch, job: _core.Job) -> None:
        self.batch = batch
        self.job = job
        self._results = None

    def __len__(self) -> int:
        return len(self.batch)

    def __repr__(self) -> str:
        b = self.batch
        return f"<headrace.Output {b.shape} {b.dtype}>"

    def wait(self, timeout: float | None = None) -> Output:
        """Wait for it; headrace.TimeoutError if it takes longer."""
        if self._results is None:
            self.job.wait(timeout)
            self._results = self.job.results
        return self

    def __await__(self) -> Generator[Any, None, Output]:
        yield from self.job.__await__()
        return self.wait()

    @property
    def results(self) -> Sequence[_core.Result]:
        """For each picture: status, message, the device that made it, and
        why."""
        self.wait()
        return self._results or ()

    @property
    def ok(self) -> list[bool]:
        """For each picture: was it made?"""
        return [result.ok for result in self.results]

    @property
    def errors(self) -> dict[int, str]:
        """The errors of pictures that were not made, by index."""
        return {
            i: result.message
            for i, result in enumerate(self.results)
            if not result.ok
        }

    def numpy(self) -> numpy.typing.NDArray[Any]:
        """Return the tensor as an array; no copy."""
        import numpy

        return numpy.asarray(self)

    def torch(self) -> torch.Tensor:
        """Return it as a torch tensor; no copy if it is host memory."""
        import torch

        return torch.from_dlpack(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self.wait()
        return self.batch.__array_interface__

    def __dlpack__(self, **options: Any) -> CapsuleType:
        self.wait()
        return self.batch.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.batch.__dlpack_device__()


def open_device(said: Mapping[str, Any]) -> _core.Device | None:
    """A device of one's own; None: nothing is said, so the process's."""
    options = dict(said)
    if not any(options.values()):
        return None
    if options["cache"]:
        options["cache"] = _core.Cache(options["cache"])
    if options["name"] is None:
        options["name"] = _core.get_image_backend()
    return _core.Device(**options)


def _source(x: Any) -> Any:
    """A user's or Arrow's picture as submit() takes it; None: no bytes."""
    if x is None:
        return b""
    if isinstance(x, Mapping):
        data = x.get("bytes")
        if not _is_null(data):
            return _source(data)
        return _source(x.get("path"))
    if hasattr(x, "as_buffer"):  # binary and text of Arrow
        value = x.as_buffer()
        if value is None:
            return b""
        return x.as_py() if "String" in type(x).__name__ else value
    return b"" if _is_null(x) else x


def _is_null(x: Any) -> bool:
    return x is None or getattr(x, "is_valid", True) is False


def dtype_of(
    steps: Ops, said: Any, layout: str | None, memory: str | None = None
) -> str:
    """Name of the dtype; None said: what the steps make.

    Raises headrace.ArgumentError for what no tensor can be, or has no use.
    """
    making = [op[0] for op in steps if op[0] not in _PAINTS]
    last = making[-1] if making else None
    if said is None:
        said = "f32" if last in (_core.NORMALIZE, _core.TABLE) else "u8"
    name = _core.form(said, layout, memory)
    if name == "u8" and last == _core.NORMALIZE:
        raise ArgumentError(
            "dtype: normalize makes numbers around 0, of which u8 keeps "
            "nothing"
        )
    return name


def _size(steps: Ops) -> tuple[int, int]:
    size = _core.fixed_size(steps)
    if size is None:
        raise ArgumentError(
            "these ops make pictures of different sizes: end with a crop or "
            "resize to a fixed one, or say size="
        )
    return size
