# SPDX-License-Identifier: Apache-2.0
"""Image: one picture whose ops are recorded, and run as one job."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _core
from . import ops as _ops
from ._arguments import made_channels
from .errors import ArgumentError
from .ops import Arithmetic, Filter, Key, Mode, Op, Ops, Order
from .pipeline import dtype_of

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    from typing_extensions import Buffer, CapsuleType

Source: TypeAlias = (
    "Buffer | str | os.PathLike[str] | os.PathLike[bytes] | _core.Pixels"
)
Dtype: TypeAlias = Literal["f32", "f16", "u8"]
Layout: TypeAlias = Literal["nchw", "nhwc"]


class Image:
    """A picture: a source and the ops that shall be done with it.

    Ops return a new Image and cost next to nothing. All are run as one job
    when pixels are asked for: by numpy(), as an array, a buffer of DLPack, or
    earlier by start(). Pixels are uint8, height x width x channels, until
    normalize() says otherwise.

    Errors: decode() raises headrace.PictureError if the header is damaged;
    ops raise headrace.ArgumentError if they do not fit the picture; whatever
    is wrong behind the header comes with the pixels. An Image may be used by
    several threads; it can be pickled if its source can.
    """

    __slots__ = (
        "_source", "_stored", "_ops", "_key", "_size", "_channels", "_dtype",
        "_layout", "_made", "__weakref__",
    )

    _source: Source
    _stored: tuple[int, int, int]
    _ops: Ops
    _key: Key | None
    _size: tuple[int, int]
    _channels: int
    _dtype: Dtype
    _layout: Layout
    _made: dict[str, tuple[_core.Pixels, _core.Job]]

    def __init__(self) -> None:
        raise TypeError("use headrace.decode() or headrace.from_pixels()")

    @classmethod
    def _make(
        cls,
        source: Source,
        stored: tuple[int, int, int],
        ops: Ops,
        channels: int,
        key: Key | None = None,
        dtype: Dtype = "u8",
        layout: Layout = "nhwc",
    ) -> Image:
        """stored: width, height, EXIF orientation of the source."""
        image = object.__new__(cls)
        image._source = source
        image._stored = stored
        image._ops = ops
        image._key = key
        image._size = _core.output_size(ops, *stored)
        image._channels = channels
        image._dtype = dtype
        image._layout = layout
        image._made = {}
        return image

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (
            self._source,
            self._stored,
            self._ops,
            self._channels,
            self._key,
            self._dtype,
            self._layout,
        )

    # ---- Facts -------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, after all ops."""
        return self._size

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return self._size[0]

    @property
    def height(self) -> int:
        """Rows."""
        return self._size[1]

    @property
    def channels(self) -> int:
        """3 (RGB) or 1 (grey)."""
        return self._channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """The array's shape: h x w x c, or c x h x w in layout "nchw"."""
        w, h = self._size
        c = self._channels
        return (h, w, c) if self._layout == "nhwc" else (c, h, w)

    @property
    def dtype(self) -> Dtype:
        """Type of the elements: "u8", "f32" or "f16"."""
        return self._dtype

    @property
    def ops(self) -> Ops:
        """The recorded ops; see headrace.ops."""
        return self._ops

    @property
    def source(self) -> Source:
        """Bytes, path or Pixels that it begins with."""
        return self._source

    def __repr__(self) -> str:
        w, h = self._size
        return (
            f"<headrace.Image {w}x{h}x{self._channels} {self._dtype}, "
            f"{len(self._ops)} ops>"
        )

    # ---- Recording ---------------------------------------------------------

    def apply(self, *more: Op, key: Key | None = None) -> Image:
        """Record ops of headrace.ops, also random ones.

        key = (seed, index, epoch) is what random ops are drawn from; it
        counts for all of this picture. Use normalize() for numbers other
        than bytes.
        """
        if self._dtype != "u8" or self._layout != "nhwc":
            raise ArgumentError("normalize() must be the last op")
        return Image._make(
            self._source,
            self._stored,
            self._ops + more,
            made_channels(more, self._channels),
            key if key is not None else self._key,
        )

    def crop(
        self, x: int, y: int, w: int, h: int, *, pad: bool = False
    ) -> Image:
        """Keep w x h pixels from (x, y); see headrace.ops.crop()."""
        if not pad and not (
            0 <= x <= self.width - w and 0 <= y <= self.height - h
        ):
            raise ArgumentError(
                f"crop {x},{y} {w}x{h} leaves the picture of "
                f"{self.width}x{self.height}"
            )
        return self.apply(_ops.crop(x, y, w, h, pad=pad))

    def center_crop(
        self, w: int, h: int | None = None, *, pad: bool = False
    ) -> Image:
        """Keep w x h (or w x w) pixels in the middle."""
        return self.apply(_ops.center_crop(w, h, pad=pad))

    def resize(
        self,
        w: int,
        h: int,
        *,
        filter: Filter = "bilinear",
        box: tuple[float, float, float, float] | None = None,
        order: Order = "reference",
    ) -> Image:
        """Resize to w x h; see headrace.ops.resize()."""
        return self.apply(
            _ops.resize(w, h, filter=filter, box=box, order=order)
        )

    def resize_short(self, side: int, *, filter: Filter = "bilinear") -> Image:
        """Resize so that the short side becomes side."""
        return self.apply(_ops.resize_short(side, filter=filter))

    def fit(
        self,
        w: int,
        h: int,
        *,
        filter: Filter = "bicubic",
        enlarge: bool = False,
    ) -> Image:
        """Resize to the largest size within w x h; see headrace.ops.fit()."""
        return self.apply(_ops.fit(w, h, filter=filter, enlarge=enlarge))

    def flip(
        self,
        *,
        horizontal: bool = False,
        vertical: bool = False,
        transpose: bool = False,
    ) -> Image:
        """Swap x and y first, then mirror left-right and top-bottom."""
        return self.apply(
            _ops.flip(
                horizontal=horizontal, vertical=vertical, transpose=transpose
            )
        )

    def normalize(
        self,
        mean: Sequence[float] | float = 0.0,
        std: Sequence[float] | float = 1.0,
        *,
        arithmetic: Arithmetic = "div",
        dtype: Dtype = "f32",
        layout: Layout = "nchw",
    ) -> Image:
        """Make numbers of the bytes, as the last op.

        (x / 255 - mean) / std; see headrace.ops.normalize(). The array is
        c x h x w ("nchw") or h x w x c ("nhwc") of that type.
        """
        op = _ops.normalize(mean, std, arithmetic=arithmetic)
        name = dtype_of((op,), dtype, layout)
        plain = self.apply(op)
        return Image._make(
            plain._source,
            plain._stored,
            plain._ops,
            plain._channels,
            plain._key,
            name,  # type: ignore[arg-type]
            layout,
        )

    # ---- Running -----------------------------------------------------------

    def start(
        self,
        *,
        device: _core.Device | str | None = None,
        cache: _core.Cache | None = None,
    ) -> _core.Job:
        """Submit the recorded ops if it was not; return the job at once.

        cache: that keeps the picture; None: that of the device, or of
        headrace.set_cache().
        """
        if not self._made:
            w, h = self._size
            pixels = _core.Pixels(
                w, h, self._channels, self._dtype, self._layout, device=device
            )
            job = _core.submit(
                ((self._source, self._ops, self._key),),
                (pixels,),
                device=device,
                cache=cache,
            )
            # If two threads make it, the first one's result stays, for good:
            # arrays may point to its pixels. The other's work is wasted.
            self._made.setdefault("first", (pixels, job))
        return self._made["first"][1]

    def pixels(self) -> _core.Pixels:
        """Wait for the pixels and return them, in host memory.

        Raises headrace.PictureError, with file, offset, stage and reason, if
        the picture is damaged; headrace.ReadError if there is no such file.
        """
        self.start().wait()
        return self._made["first"][0]

    def numpy(self) -> numpy.typing.NDArray[Any]:
        """Return the pixels as a NumPy array of this shape; no copy.

        The array is the picture's own memory: changing it changes what other
        arrays of this Image show. Raises what pixels() does.
        """
        import numpy

        return numpy.asarray(self.pixels())

    def __await__(self) -> Generator[Any, None, Image]:
        yield from self.start().__await__()
        return self

    @property
    def result(self) -> _core.Result:
        """How it was made, when it is: which device did what, and why."""
        return self.start().results[0]

    @property
    def _pixels(self) -> _core.Pixels | None:
        return self._made["first"][0] if self._made else None

    @property
    def _job(self) -> _core.Job | None:
        return self._made["first"][1] if self._made else None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # NumPy keeps the object that was asked, and with it these pixels.
        return self.pixels().__array_interface__

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        return self.pixels().__dlpack__(
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.pixels().__dlpack_device__()


def _restore(*state: Any) -> Image:
    """Make what a pickle holds, which has this name."""
    return Image._make(*state)


def decode(
    source: Buffer | str | os.PathLike[str] | os.PathLike[bytes],
    mode: Mode = "RGB",
    *,
    apply_orientation: bool = False,
) -> Image:
    """Open a JPEG, a PNG, or a JPEG that pack() packed.

    source: encoded bytes, any buffer of them, or a path.

    Reads the header only. A buffer is borrowed until the pixels are made. mode
    and apply_orientation: see headrace.ops.decode(). Raises
    headrace.PictureError if the header cannot be read, headrace.ReadError if
    the file cannot.
    """
    _refuse_pixels(source)
    info = _core.probe(source)
    stored = (info.width, info.height, info.orientation)
    op = _ops.decode(mode, apply_orientation=apply_orientation)
    return Image._make(source, stored, (op,), 1 if mode == "L" else 3)


def _refuse_pixels(source: Any) -> None:
    """An array or a picture of Pillow is what decode() makes, not takes."""
    if getattr(source, "ndim", 1) > 1:
        raise ArgumentError(
            f"decode() takes encoded bytes or a path, not an array of shape "
            f"{tuple(source.shape)}: from_pixels() takes pixels"
        )
    if type(source).__module__.startswith("PIL."):
        raise TypeError(
            f"decode() takes encoded bytes or a path, not {source!r}: "
            "from_pixels(numpy.asarray(picture)) takes its pixels"
        )


def from_pixels(array: Buffer) -> Image:
    """Begin with pixels: a uint8 array of h x w x c, c = 1 or 3.

    The array is borrowed as long as the Image lives.
    """
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            "from_pixels() takes an array of uint8, h x w x c, not "
            f"{type(array).__name__}: numpy.asarray() makes one"
        ) from None
    if view.ndim != 3 or view.format != "B":
        raise ArgumentError(
            f"pixels must be uint8, h x w x c, not {view.format!r} of shape "
            f"{view.shape}"
        )
    assert view.shape is not None and view.strides is not None
    h, w, c = view.shape
    if view.strides[1:] != (c, 1):
        raise ArgumentError(
            "the pixels of a row must lie without gaps: "
            "numpy.ascontiguousarray(array)"
        )
    pixels = _core.Pixels(w, h, c, data=array)
    return Image._make(pixels, (w, h, 1), (), c)
