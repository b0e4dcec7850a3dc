# SPDX-License-Identifier: Apache-2.0
"""Types of the extension; what things do stands in its docstrings.

Final: no program can set it.
"""

from collections.abc import Callable, Generator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, final, overload

from _typeshed import structseq
from typing_extensions import Buffer, CapsuleType, Self

# Encoded bytes, a path, or pixels.
_Source: TypeAlias = Buffer | str | PathLike[str] | PathLike[bytes] | Pixels
_Bytes: TypeAlias = bytes
_Path: TypeAlias = str | PathLike[str] | PathLike[bytes]
# A constant below and its fields; see headrace.ops.
_Op: TypeAlias = tuple[Any, ...]
_Ops: TypeAlias = tuple[_Op, ...]
_Key: TypeAlias = tuple[int, int, int]
_Sample: TypeAlias = tuple[_Source, _Ops] | tuple[_Source, _Ops, _Key | None]
_Layout: TypeAlias = Literal["nchw", "nhwc"]
_Memory: TypeAlias = Literal["host", "pinned", "device"]
_Device: TypeAlias = Device | str | None

# (number, whether it is random, its fields and their words) by name.
OPS: Final[dict[str, tuple[int, bool, dict[str, dict[str, int] | None]]]]
# Numbers that the package knows.
DECODE: Final[int]
CROP: Final[int]
CENTER_CROP: Final[int]
RESIZE: Final[int]
RESIZE_SHORT: Final[int]
FIT: Final[int]
FLIP: Final[int]
NORMALIZE: Final[int]
TABLE: Final[int]
ERASE: Final[int]
RANDOM_FLIP: Final[int]

RGB: Final[int]
GRAY: Final[int]

FORMATS: Final[dict[str, str]]  # name -> suffixes, as ".jpg .jpeg"
# The usual names of fields of records, the better ones first.
IMAGE_FIELDS: Final[str]
LABEL_FIELDS: Final[str]

PIL_FILTER: Final[dict[int, int]]  # by Pillow's numbers

ORDER_VERTICAL: Final[int]
ORDER_TORCH: Final[int]

MAX_OPS: Final[int]

def set_image_backend(name: str | None, /) -> None: ...
def get_image_backend() -> str: ...
def devices() -> list[dict[str, Any]]: ...
def version() -> str: ...
def jpeg_library() -> str: ...
def form(dtype: Any, layout: str | None, memory: str | None, /) -> str: ...
def set_decoder(
    probe: Callable[[bytes], tuple[int, int, int] | None],
    decode: Callable[[bytes, int], bytes],
    /,
) -> None: ...
def set_opener(
    open: Callable[
        [str, str | None, str | None],
        tuple[Any, Buffer, tuple[str, ...], int, Buffer | None]
        | tuple[str, bool],
    ],
    /,
) -> None: ...
def set_reference(name: str | None, /) -> None: ...
def reference() -> str: ...
def find_reference(
    resize: Callable[[bytes, int, int, int, int, int], Buffer], /
) -> str | None: ...
def resize_order(
    reference: str | None, width: int, height: int, w: int, h: int, /
) -> int: ...
def probe(source: Buffer | _Path, /) -> Info: ...
def end_marker(data: Buffer, begin: int, /) -> int: ...
@final
class PackFile:
    def __new__(cls, path: _Path | _Bytes) -> Self: ...
    path: Final[str]
    names: Final[tuple[str, ...]]
    labels: Final[tuple[str, ...]]
    classes: Final[tuple[tuple[str, int], ...]]
    fixed: Final[bool]
    packed: Final[int]
    bytes: Final[int]
    data_bytes: Final[int]
    source_bytes: Final[int]
    _fingerprint: Final[_Bytes]
    def __len__(self) -> int: ...
    def __getitem__(self, key: int | str, /) -> PackEntry: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
class _Buffer:
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class PackEntry(_Buffer):
    name: Final[str]
    label: Final[str]
    index: Final[int]
    pack: Final[PackFile]
    file: Final[str]
    packed: Final[bool]
    source_bytes: Final[int]
    def check(self) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
@final
class FileBytes(_Buffer):
    identity: Final[tuple[int, int, int, int, int] | None]
    packed: Final[bool]
    header: Final[FileBytes | bytes]
    def lend(self) -> int | None: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
@final
class SharedFiles:
    def __new__(cls, fd: int = -1) -> Self: ...
    def take(self, number: int, /) -> FileBytes: ...
    def adopt(self) -> None: ...
    def clear(self) -> bool: ...
def read_file(source: int | _Path | bytes, /) -> FileBytes | None: ...
def share_files() -> int: ...
def set_pictures(*parts: Any) -> None: ...
def set_fetch(number: int, /) -> None: ...
def fetch() -> int: ...
# Recordings and pictures of the drop-in.
def recording(picture: Any, check: bool = False, /) -> Any: ...
def derive(
    parent: Any, hr: Any, ops: _Ops, size: tuple[int, int], /
) -> Any: ...
def record(
    picture: Any,
    op: tuple[Any, ...] | None,
    size: tuple[int, int] | None = None,
    fresh: bool = False,
    /,
) -> Any: ...
def output_size(
    ops: _Ops, width: int, height: int, orientation: int = 1
) -> tuple[int, int]: ...
def draw_ops(
    ops: _Ops, key: _Key | None, width: int, height: int, orientation: int = 1
) -> _Ops: ...
def fixed_size(ops: _Ops, /) -> tuple[int, int] | None: ...
def parse_ops(text: str, /) -> _Ops: ...
def format_ops(ops: _Ops, /) -> str: ...
@overload
def warp_matrix(
    angle: float,
    translate: tuple[float, float],
    scale: float,
    shear: tuple[float, float],
    center: tuple[float, float],
    centered: bool,
    /,
) -> tuple[float, ...]: ...
@overload
def warp_matrix(
    start: tuple[float, ...], end: tuple[float, ...], /
) -> tuple[float, ...] | None: ...
def set_cache(cache: Cache | int | str | None, /) -> None: ...
def get_cache() -> Cache | None: ...
def pack(source: Buffer, /) -> bytes: ...
def submit(
    samples: Sequence[_Sample],
    # Several batches: sample i goes to slot i // len(out) of out[i % len(out)].
    # A reader waits for the job before.
    out: Batch | Sequence[Pixels] | Sequence[Batch],
    *,
    device: _Device = None,
    on_error: Literal["fail", "zero", "skip"] = "fail",
    timeout: float | None = None,
    first_slot: int = 0,
    strict: bool = False,
    on_done: Callable[[Job], object] | None = None,
    tier: Literal["exact", "close", "fast"] = "exact",
    cache: Cache | None = None,
) -> Job: ...
def command(*arguments: bytes) -> int: ...  # not in every build
def _at_exit() -> None: ...
@final
class Source:
    def __new__(
        cls,
        *,
        paths: Sequence[_Path] | None = None,
        items: Sequence[Any] | None = None,
        sequence: Any = None,
        http: dict[str, Any] | None = None,
        cifar: int = -1,
        classes: Sequence[tuple[str, int]] | None = None,
        fields: tuple[str | None, str | None] | None = None,
    ) -> Self: ...
    classes: Final[tuple[str, ...]]
    faults: Final[tuple[str, ...]]
    skipped: Final[tuple[tuple[str, str], ...]]
    identity: Final[int]
    def path(self, number: int, /) -> str: ...
    def name(self, number: int, /) -> str: ...
    def entry(self, number: int, /) -> tuple[str, str, int]: ...
    def __len__(self) -> int: ...
@final
class PackWriter:
    def __new__(cls, path: _Path | _Bytes) -> Self: ...
    def take(
        self, source: Source, number: int, /
    ) -> tuple[str | None, str | None]: ...
    def classes(self, source: Source, /) -> None: ...
    def entry(self, number: int, /) -> tuple[str, str, int]: ...
    def cut(self, num: int, /) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
def check_loader(params: dict[str, Any], /) -> None: ...
@final
class Loader:
    def __new__(
        cls,
        source: Source,
        ops: _Ops | tuple[_Ops, ...],
        *,
        device: _Device = None,
        dtype: object = None,
        layout: _Layout | None = None,
        memory: _Memory | None = None,
        weights: Buffer | None = None,
        resume: bytes | None = None,
        **params: Any,
    ) -> Self: ...
    depth: Final[int]
    samples: Final[int]
    batches: Final[int]
    def next(self, timeout: float | None = None) -> Loaded | None: ...
    def save(self) -> bytes: ...
    def stats(self) -> dict[str, Any]: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
@final
class Info:
    format: Final[
        Literal["jpeg", "png", "packed", "webp", "bmp", "pnm", "other"]
    ]
    width: Final[int]
    height: Final[int]
    components: Final[int]
    precision: Final[int]
    plain: Final[bool]
    orientation: Final[int]
    scans: Final[int]
    ends: Final[bool]
    arithmetic: Final[bool]
    process: Final[
        Literal["baseline", "extended", "progressive", "lossless"] | None
    ]
    color: Final[Literal["gray", "ycc", "rgb", "cmyk", "ycck"] | None]
    all_scans: Final[bool | None]
    header_size: Final[int]

@final
class Cache:
    def __new__(cls, bytes: int | str) -> Self: ...
    bytes: Final[int]
    def stats(self) -> CacheStats: ...

@final
class CacheStats(structseq[int], tuple[int, int, int, int, int, int]):
    __match_args__: Final = (
        "hits", "misses", "kept", "evictions", "pictures", "bytes",
    )
    hits: Final[int]
    misses: Final[int]
    kept: Final[int]
    evictions: Final[int]
    pictures: Final[int]
    bytes: Final[int]

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
        cache: Cache | None = None,
        entropy: str | None = None,
        balance: bool = False,
        cpu_cap: int = 0,
        latency: float | None = None,
    ) -> Self: ...
    name: Final[str]
    backend: Final[str]
    description: Final[str]
    exact: Final[bool]
    reference: Final[str]
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
    shape: Final[tuple[int, ...]]
    strides: Final[tuple[int, ...]]
    dtype: Final[Literal["f32", "f16", "u8"]]
    layout: Final[_Layout]
    memory: Final[_Memory]
    nbytes: Final[int]
    data_ptr: Final[int | None]
    __array_interface__: Final[dict[str, Any]]
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
class Loaded(_Tensor):
    labels: Final[bytearray]
    views: Final[tuple[tuple[int, tuple[int, int, int, int]], ...]]
    indices: Final[tuple[int, ...]]
    keys: Final[tuple[_Key, ...]]
    results: Final[tuple[Result, ...]]
    failed: Final[int]
    replaced: Final[int]
    epoch: Final[int]
    number: Final[int]
    last: Final[bool]
    copied: Final[bool]
    def __len__(self) -> int: ...

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
    ok: Final[bool]
    status: Final[int]
    status_name: Final[str]
    message: Final[str]
    stage: Final[str | None]
    offset: Final[int | None]
    reason: Final[str]
    file: Final[str | None]
    width: Final[int]
    height: Final[int]
    orientation: Final[int]
    why: Final[list[str]]
    spans: Final[list[tuple[str, str, str]]]
    fallbacks: Final[int]
    warnings: Final[int]

@final
class Job:
    results: Final[tuple[Result, ...]]
    device: Final[str]
    reference: Final[str]
    def wait(self, timeout: float | None = None) -> None: ...
    def poll(self) -> bool: ...
    def cancel(self) -> None: ...
    def fileno(self) -> int: ...
    def __len__(self) -> int: ...
    def __await__(self) -> Generator[Any, None, tuple[Result, ...]]: ...
