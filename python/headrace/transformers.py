# SPDX-License-Identifier: Apache-2.0
"""The image processors of Hugging Face's transformers, for servers.

    from headrace.transformers import Preprocess

    preprocess = Preprocess.from_config("preprocessor_config.json")
    inputs = preprocess([jpeg_bytes, "cat.jpg", picture])
    model(**inputs)

The numbers are those of the processor that the file names, bit for bit, without
its Python for each picture. It takes neither transformers nor torchvision; the
tensors are torch's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _core, _processors, ops
from .errors import ArgumentError, make
from .pipeline import Output, Pipeline, _source


class Features(dict[str, Any]):
    """The result of a processor: {"pixel_values": tensor}, its .pixel_values.

    output: the devices that made the pictures, and errors of pictures that
    could not be made, which are zero. A pickle keeps only its ok and errors.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(pixel_values=output.torch())
        self.output: Output | types.SimpleNamespace = output

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> Any:
        return _restored, (dict(self), self.ok, self.errors)

    @property
    def ok(self) -> list[bool]:
        """For each picture: was it made?"""
        found: list[bool] = self.output.ok
        return found

    @property
    def errors(self) -> dict[int, str]:
        """The errors of pictures that were not made, by index: file, place and
        reason."""
        found: dict[int, str] = self.output.errors
        return found


def _restored(
    values: dict[str, Any], ok: list[bool], errors: dict[int, str]
) -> Features:
    made = Features.__new__(Features)
    made.update(values)
    made.output = types.SimpleNamespace(ok=ok, errors=errors)
    return made


class Preprocess(Pipeline):
    """An image processor. Several threads, and tasks, may call it at once.

    A Pipeline, see there: it can be pickled, and opens its device late.
    """

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | str | os.PathLike[str],
        *,
        backend: _processors.Backend | None = None,
        upright: bool = True,
        **options: Any,
    ) -> Preprocess:
        """Make one of a preprocessor_config.json: its path, or what is in it.

        Args:
            config: what it leaves out is as its class has it. A folder is
                looked into; of a processor_config.json the image_processor.
            backend: whose arithmetic. "torchvision": tensors, torch's resize;
                "pil": Pillow's, that of the classes whose names end in Pil.
                None: as the name of the class, which says torchvision mostly.
            upright: whether bytes and paths are turned as their EXIF says,
                as the processors do with paths. (They leave pictures of
                Pillow as they are.)
            options: device, threads, budget, reference, cache, tier of
                headrace.Pipeline().

        Raises headrace.ArgumentError with the name of what has no ops.
        """
        plan = _processors.plan(_read(config), backend)
        if plan.out is None:
            raise ArgumentError(
                "do_resize is false, or keeps the shape, and do_center_crop is"
                " false: pictures would not have one size"
            )
        made = cls(
            (ops.decode(apply_orientation=upright), *plan.steps()), **options
        )
        made._plan = plan
        return made

    _plan: _processors.Plan

    @property
    def backend(self) -> _processors.Backend:
        """Whose arithmetic it is."""
        return self._plan.backend

    def __call__(
        self,
        sources: Iterable[Any],
        *,
        on_error: Literal["fail", "zero"] = "fail",
        return_tensors: str = "pt",
        **options: Any,
    ) -> Any:
        """Make the pictures, and return them as Features.

        Args:
            sources: encoded bytes, paths, mappings and None, as submit() has
                them, or pictures of Pillow; those opened with the drop-in on
                are decoded here. One alone is a batch.
            on_error: "fail": raise the error of the first picture that could
                not be made, with file, offset, stage, reason; "zero": Features
                tell, and the others are there.
            return_tensors: "pt"; for code that calls a processor with it.
            options: of submit().
        """
        if return_tensors != "pt":
            raise ArgumentError(
                f"return_tensors must be 'pt', not {return_tensors!r}"
            )
        return _done(self.submit(sources, **options), on_error)

    async def run(
        self,
        sources: Iterable[Any],
        *,
        on_error: Literal["fail", "zero"] = "fail",
        **options: Any,
    ) -> Features:
        """As a call, for asyncio: no step of it blocks the loop.

        The device's budget= bounds the bytes in flight: a call without room
        waits. A task that is cancelled cancels its pictures.
        """
        loop = asyncio.get_running_loop()
        begin = loop.run_in_executor(
            None, lambda: self.submit(sources, **options)
        )
        try:
            output = await asyncio.shield(begin)
        except asyncio.CancelledError:
            begin.add_done_callback(_cancel)
            raise
        try:
            await output
        except asyncio.CancelledError:
            output.job.cancel()
            raise
        return _done(output, on_error)

    def _memory(self, n: int) -> Any:
        """Memory of an earlier batch, which no tensor has any more."""
        with contextlib.suppress(ImportError):  # submit().numpy()
            return _memory_of((n, *self.shape), self.dtype)
        return None

    def _samples(
        self, sources: Iterable[Any], indices: Iterable[int] | None, epoch: int
    ) -> list[Any]:
        one = (str, bytes, bytearray, os.PathLike, Mapping)
        if isinstance(sources, one) or _is_picture(sources):
            sources = [sources]
        steps = self._steps
        return [
            _sample(x, steps) if _is_picture(x) else (_source(x), steps)
            for x in sources
        ]


def _memory_of(shape: tuple[int, ...], dtype: str) -> Any:
    import torch

    from . import _memory

    kinds = {"f32": torch.float32, "f16": torch.float16, "u8": torch.uint8}
    return _memory.empty(shape, kinds[dtype])


def _done(output: Output, on_error: str) -> Features:
    if on_error not in ("fail", "zero"):
        raise ArgumentError(f"on_error must be fail or zero, not {on_error!r}")
    output.wait()
    if on_error == "fail":
        for result in output.results:
            if not result.ok:
                raise make(
                    result.status_name, result.message, result.file,
                    result.offset, result.stage, result.reason,
                )
    return Features(output)


def _cancel(begun: asyncio.Future[Output]) -> None:
    if not begun.cancelled() and begun.exception() is None:
        begun.result().job.cancel()


def _read(config: Any) -> Mapping[str, Any]:
    if not isinstance(config, Mapping):
        path = os.fspath(config)
        if os.path.isdir(path):
            path = os.path.join(path, "preprocessor_config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        if not isinstance(config, dict):
            raise ArgumentError(f"{path}: it holds no processor's config")
    inner = config.get("image_processor")
    return inner if isinstance(inner, Mapping) else config


# ---- pictures of Pillow -----------------------------------------------------


def _is_picture(x: Any) -> bool:
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(x, image.Image)


def _sample(picture: Any, steps: ops.Ops) -> tuple[Any, ops.Ops]:
    """Its recording, if the drop-in has one, or its pixels."""
    if "A" in picture.getbands() or picture.info.get("transparency") is not (
        None
    ):
        picture = _on_white(picture)
    elif picture.mode != "RGB":
        picture = picture.convert("RGB")
    pictures: Any = sys.modules.get("headrace.dropin.pillow.pictures")
    if pictures is not None and type(picture) in pictures.RECORDERS:
        recording = pictures.recording(picture)
        if recording is not None:
            return recording.source, recording.ops + steps[1:]
    w, h = picture.size
    return _core.Pixels(w, h, data=picture.tobytes()), steps[1:]


def _on_white(picture: Any) -> Any:
    """Transparent pixels on white, as the processors have it."""
    image: Any = sys.modules["PIL.Image"]
    white = image.new("RGBA", picture.size, (255, 255, 255, 255))
    return image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")


__all__: Sequence[str] = ["Features", "Preprocess"]
