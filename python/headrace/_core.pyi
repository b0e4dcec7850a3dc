# SPDX-License-Identifier: Apache-2.0
"""Types of the extension; what things do stands in its docstrings."""

from collections.abc import Callable, Generator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, final

from typing_extensions import Buffer, CapsuleType, Self

# Encoded bytes, a path, or pixels.
_Source: TypeAlias = Buffer | str | PathLike[str] | PathLike[bytes] | Pixels
# A constant below and its fields; see headrace.ops.
_Op: TypeAlias = tuple[Any, ...]
_Ops: TypeAlias = tuple[_Op, ...]
_Key: TypeAlias = tuple[int, int, int]
_Sample: TypeAlias = tuple[_Source, _Ops] | tuple[_Source, _Ops, _Key | None]
_Layout: TypeAlias = Literal["nchw", "nhwc"]
_Memory: TypeAlias = Literal["host", "pinned", "device"]
_Device: TypeAlias = Device | str | None

DECODE: Final[int]
CROP: Final[int]
RESIZE: Final[int]
FLIP: Final[int]
NORMALIZE: Final[int]
FIT: Final[int]
RANDOM_CROP: Final[int]
RANDOM_RESIZED_CROP: Final[int]
RANDOM_FLIP: Final[int]
CENTER_CROP: Final[int]
RESIZE_SHORT: Final[int]
TABLE: Final[int]

RGB: Final[int]
GRAY: Final[int]

BILINEAR: Final[int]
NEAREST: Final[int]
BOX: Final[int]
HAMMING: Final[int]
BICUBIC: Final[int]
LANCZOS: Final[int]
PIL_FILTER: Final[dict[int, int | None]]

ORDER_REFERENCE: Final[int]
ORDER_HORIZONTAL: Final[int]
ORDER_VERTICAL: Final[int]

DIV: Final[int]
MUL: Final[int]

MAX_OPS: Final[int]

def set_image_backend(name: str | None, /) -> None: ...
def get_image_backend() -> str: ...
def devices() -> list[dict[str, Any]]: ...
def version() -> str: ...
def jpeg_library() -> str: ...
def set_reference(name: str | None, /) -> None: ...
def reference() -> str: ...
def find_reference(
    resize: Callable[[bytes, int, int, int, int, int], Buffer], /
) -> str | None: ...
def resize_order(
    reference: str | None, width: int, height: int, w: int, h: int, /
) -> int: ...
def probe(
    source: Buffer | str | PathLike[str] | PathLike[bytes], /
) -> Info: ...
def same_file(path: str, file: tuple[str, int, int, int, int], /) -> bool: ...
def output_size(
    ops: _Ops, width: int, height: int, orientation: int = 1
) -> tuple[int, int]: ...
def draw_ops(
    ops: _Ops, key: _Key | None, width: int, height: int, orientation: int = 1
) -> _Ops: ...
def submit(
    samples: Sequence[_Sample],
    out: Batch | Sequence[Pixels],
    *,
    device: _Device = None,
    on_error: Literal["fail", "zero", "skip"] = "fail",
    timeout: float | None = None,
    first_slot: int = 0,
    strict: bool = False,
    on_done: Callable[[Job], object] | None = None,
    tier: Literal["close", "exact", "fast"] = "close",
) -> Job: ...
def _at_exit() -> None: ...
@final
class Info:
    @property
    def format(self) -> Literal["jpeg", "png"]: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def components(self) -> int: ...
    @property
    def precision(self) -> int: ...
    @property
    def orientation(self) -> int: ...
    @property
    def scans(self) -> int: ...
    @property
    def ends(self) -> bool: ...
    @property
    def process(
        self,
    ) -> Literal["baseline", "extended", "progressive", "lossless"] | None: ...
    @property
    def color(
        self,
    ) -> Literal["gray", "ycc", "rgb", "cmyk", "ycck"] | None: ...
    @property
    def all_scans(self) -> bool | None: ...
    @property
    def header_size(self) -> int: ...

@final
class Device:
    def __new__(
        cls,
        name: str | None = None,
        *,
        threads: int = 0,
        budget: int = 0,
        strict: bool = False,
        deadline: float | None = None,
        reference: str | None = None,
        depth: int = 0,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def exact(self) -> bool: ...
    @property
    def reference(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

class _Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Literal["f32", "f16", "u8"]: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def memory(self) -> _Memory: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def data_ptr(self) -> int | None: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Batch(_Tensor):
    def __new__(
        cls,
        n: int,
        c: int,
        h: int,
        w: int,
        dtype: object = "f32",
        layout: _Layout = "nchw",
        data: object = None,
        device: _Device = None,
        memory: _Memory = "host",
        keep: object = None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def read(
        self, first: int = 0, n: int = -1, timeout: float | None = None
    ) -> Batch: ...

@final
class Pixels(_Tensor):
    def __new__(
        cls,
        w: int,
        h: int,
        c: int = 3,
        dtype: object = "u8",
        layout: _Layout = "nhwc",
        data: object = None,
        device: _Device = None,
        memory: _Memory = "host",
        keep: object = None,
    ) -> Self: ...
    def wait(self, timeout: float | None = None) -> None: ...
    def read(self, timeout: float | None = None) -> Pixels: ...

@final
class Result:
    @property
    def ok(self) -> bool: ...
    @property
    def status(self) -> int: ...
    @property
    def status_name(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def stage(self) -> str | None: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def file(self) -> str | None: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def orientation(self) -> int: ...
    @property
    def why(self) -> list[str]: ...
    @property
    def spans(self) -> list[tuple[str, str, str]]: ...
    @property
    def fallbacks(self) -> int: ...
    @property
    def warnings(self) -> int: ...

@final
class Job:
    @property
    def results(self) -> tuple[Result, ...]: ...
    @property
    def device(self) -> str: ...
    @property
    def reference(self) -> str: ...
    def wait(self, timeout: float | None = None) -> None: ...
    def poll(self) -> bool: ...
    def cancel(self) -> None: ...
    def fileno(self) -> int: ...
    def __len__(self) -> int: ...
    def __await__(self) -> Generator[Any, None, tuple[Result, ...]]: ...
