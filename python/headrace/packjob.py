# SPDX-License-Identifier: Apache-2.0
"""A data set packed in parts, by threads or by a Ray cluster, then joined.

    headrace.pack_folder("train/", "train.hrp")

    from headrace.ray import pack
    pack("train/", "train.hrp")

The file is the one that `headrace pack` makes, byte for byte. A part is some
hundred pictures that follow each other, OUT.parts/FIRST-END.hrp. It is a pack
file itself, so what a killed process has left is gone on with as `headrace
pack` does: whole pictures whose names, labels and file sizes are those of the
source are kept. Nothing else is noted anywhere: to resume a job is to begin it
again.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from . import _core, _left_out
from .errors import ArgumentError, Error, PictureError, ReadError

Path: TypeAlias = "str | os.PathLike[str]"
Range: TypeAlias = tuple[int, int]
Fields: TypeAlias = "tuple[str | None, str | None] | None"

_PATIENCE = 20  # seconds for a killed writer's lock to go
_TRIES = 20  # of a task whose process was ended


def pack_folder(
    source: Path | Sequence[Path],
    out: Path,
    *,
    split: int = 1,
    threads: int = 0,
    fields: Fields = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Pack a data set on this machine; return its manifest.

    The file is the one that the command `headrace pack` makes, byte for byte.
    Called again after it ended early, it goes on.

    Args:
        source: a folder, a pack file, tar file or file of records, a picture,
            or a list of them, as for `headrace pack`.
        out: the pack file, NAME.hrp. An existing pack file is replaced.
        split: the number of files, of equal counts; they are named as by
            `headrace pack --split`. Each gets its name when it is whole.
        threads: that pack; 0: as many as there are cores for this process.
        fields: of records: the names of the fields with the picture and its
            label, as of headrace.Loader; None: the usual ones.
        strict: a picture that cannot be read, or a named file that is no
            picture of the source, is an error; else it is left out, and the
            manifest says so.

    The manifest is also in OUT.json, written last: version; source; pictures,
    packed, kept, kept_reasons, failed (unreadable pictures, and why), left_out
    (files that are no pictures of the source, and why), from_earlier_run;
    files: path, pictures, bytes, and header, its first 64 bytes in hexadecimal,
    which no other contents have.

    Disk: until the end OUT.parts has everything once more. Raises
    headrace.ArgumentError, headrace.ReadError.
    """
    if threads < 0:
        raise ArgumentError(f"threads: {threads} is less than 0")
    job = Job(source, out, split, 512, strict, fields)
    job.prepare()
    with ThreadPoolExecutor(
        threads or len(os.sched_getaffinity(0)), "headrace-pack"
    ) as pool:
        parts = list(pool.map(functools.partial(pack_part, job), job.parts))
        files = list(pool.map(functools.partial(join_parts, job), job.files))
    return job.finish(parts, files)


def pack(
    source: Path | Sequence[Path],
    out: Path,
    *,
    split: int = 1,
    workers: int = 0,
    part: int = 512,
    fields: Fields = None,
    strict: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Pack a data set in a Ray cluster; return its manifest.

    As headrace.pack_folder(), which says what manifest and file are. Every node
    must see `source` and `out` under the same paths.

    Args:
        source, out, split, fields, strict: as of headrace.pack_folder().
        workers: how many tasks at a time; 0: as many as Ray finds room for.
        part: pictures of a part: what a task does.
        **options: of Ray for each task; the default is num_cpus=1.

    Raises headrace.ArgumentError, headrace.ReadError, and what Ray does when a
    task has lost its process 20 times.
    """
    import ray

    job = Job(source, out, split, part, strict, fields)
    job.prepare()
    options = {"num_cpus": 1, "max_retries": _TRIES} | options
    run = functools.partial(_run, ray, options, workers)
    parts = sorted(run(pack_part, job, job.parts), key=lambda t: t.first)
    files = sorted(run(join_parts, job, job.files), key=lambda f: f["path"])
    return job.finish(parts, files)


def _run(
    ray: Any,
    options: dict[str, Any],
    workers: int,
    function: Callable[..., Any],
    job: Job,
    work: Iterable[Any],
) -> Iterator[Any]:
    """Yields the results of the function's tasks, as they end."""
    remote, there = ray.remote(**options)(function), ray.put(job)
    waiting: list[Any] = list(reversed(list(work)))
    running: list[Any] = []
    try:
        while waiting or running:
            while waiting and (not workers or len(running) < workers):
                running.append(remote.remote(there, waiting.pop()))
            done, running = ray.wait(running)
            yield ray.get(done[0])
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None  # not where in which process it was
    finally:
        for task in running:
            ray.cancel(task, force=True)


class Job:
    """Shared by all tasks: plain data."""

    def __init__(
        self,
        source: Path | Sequence[Path],
        out: Path,
        split: int,
        part: int,
        strict: bool,
        fields: Fields = None,
    ) -> None:
        one = isinstance(source, (str, os.PathLike))
        paths: list[Any] = [source] if one else list(source)  # type: ignore
        # Not abspath(): of a picture named itself the label is its folder as
        # it is written, and there is none in "cat.jpg", nor behind "/./".
        here = os.path.join(os.getcwd(), ".")
        self.paths = [os.path.join(here, path) for path in paths]
        self.out = os.path.abspath(out)
        if not self.out.endswith(".hrp") or split < 1 or part < 1:
            raise ArgumentError(
                "pack: out must end in .hrp, split and part be at least 1"
            )
        self.folder = self.out + ".parts"
        self.strict = strict
        self.token = uuid.uuid4().hex
        self.fields = fields
        found = _core.Source(paths=self.paths, fields=fields)
        if not len(found):
            raise ArgumentError(f"no pictures in {', '.join(map(str, paths))}")
        _names_differ(found)
        self.identity, self.faults = found.identity, list(found.faults)
        called = ", ".join(map(os.fsdecode, paths))
        _left_out.tell(called, found.skipped, self.faults, strict)
        self.left_out = list(_left_out.texts(found.skipped))
        # Parts end where files do.
        ends = [len(found) * i // split for i in range(split + 1)]
        self.parts: list[Range] = []
        self.files: list[tuple[str, list[Range]]] = []
        for i in range(split):
            cuts = [*range(ends[i], ends[i + 1], part), ends[i + 1]]
            parts = list(zip(cuts, cuts[1:]))
            self.parts += parts
            self.files.append((self._file(i, split), parts))

    def _file(self, i: int, split: int) -> str:
        if split == 1:
            return self.out
        return f"{self.out[:-4]}-{i:05}-of-{split:05}.hrp"

    def path_of(self, part: Range) -> str:
        """The path of a part's pack file."""
        return os.path.join(self.folder, f"{part[0]:012}-{part[1]:012}.hrp")

    def prepare(self) -> None:
        """Refuse to replace a file that is no pack file; make a place."""
        for path, _ in self.files:
            try:
                if os.path.lexists(path):
                    _core.PackFile(path)
            except PictureError as error:
                if error.status == "HR_EFORMAT":
                    raise ArgumentError(
                        f"{error}, and is not written over"
                    ) from None
        os.makedirs(self.folder, exist_ok=True)

    def finish(
        self, parts: Iterable[Tally], files: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Add up what was done, write OUT.json, remove the parts."""
        total = Tally(failed=self.faults)
        for tally in parts:
            total.again += tally.again
            total.failed += tally.failed
            total.kept += tally.kept
        pictures = sum(file["pictures"] for file in files)
        packed = sum(file.pop("packed") for file in files)
        manifest = {
            "version": 1,
            "source": self.paths,
            "pictures": pictures,
            "packed": packed,
            "kept": pictures - packed,
            "kept_reasons": dict(sorted(total.kept.items())),
            "failed": total.failed,
            "left_out": self.left_out,
            "from_earlier_run": total.again,
            "files": files,
        }
        made = pathlib.Path(self.out + ".json.part")
        made.write_text(json.dumps(manifest, indent=1) + "\n")
        made.replace(self.out + ".json")
        shutil.rmtree(self.folder, ignore_errors=True)
        return manifest


def _names_differ(source: _core.Source) -> None:
    """Two pictures of one name would be found after hours only."""
    met = set()
    for i in range(len(source)):
        name = source.name(i)
        if name in met:
            raise ArgumentError(
                f"two pictures are called {name!r}; put them into folders, "
                "and name the folder above them"
            )
        met.add(name)


@dataclasses.dataclass
class Tally:
    """The outcomes of the samples of a part."""

    first: int = 0
    again: int = 0  # there from an earlier run
    failed: list[str] = dataclasses.field(default_factory=list)
    # Why those of this run that are not packed are not.
    kept: Counter[str] = dataclasses.field(default_factory=Counter)

    def fail(self, why: str, strict: bool) -> None:
        """Note a picture that is left out."""
        if strict:
            raise ReadError(why, status="HR_EIO")
        self.failed.append(why)


# ---- Tasks ------------------------------------------------------------------


def pack_part(job: Job, part: Range) -> Tally:
    """Make one part, or what is missing of it."""
    source = _source_of(job)
    path, tally = job.path_of(part), Tally(part[0])
    if os.path.exists(path):
        if _is_whole(path, source, part, tally):
            return tally
        os.unlink(path)  # the source is another than it was
        tally = Tally(part[0])
    _write(path, source, part, tally, job.strict)
    return tally


def join_parts(job: Job, file: tuple[str, list[Range]]) -> dict[str, Any]:
    """Make one file of its parts, which are sources like all pack files."""
    path, parts = file
    source = _core.Source(paths=[job.path_of(part) for part in parts])
    whole = _source_of(job)
    _write(path, source, (0, len(source)), Tally(), True, whole)
    made = _core.PackFile(path)
    return {
        "path": path,
        "pictures": len(made),
        "packed": made.packed,
        "bytes": made.bytes,
        "header": made._fingerprint.hex(),
    }


def _source_of(job: Job) -> _core.Source:
    return _source(job.token, tuple(job.paths), job.fields, job.identity)


@functools.lru_cache(maxsize=1)  # a process makes many parts
def _source(
    token: str, paths: tuple[str, ...], fields: Fields, identity: int
) -> _core.Source:
    source = _core.Source(paths=paths, fields=fields)
    if source.identity != identity:
        raise ReadError(
            f"{', '.join(paths)}: there are other pictures here, "
            f"{len(source)}, than where the job was begun",
            status="HR_EIO",
        )
    return source


def _is_whole(
    path: str, source: _core.Source, part: Range, tally: Tally
) -> bool:
    """Say whether the part that is there is what would be made now."""
    try:
        made = _core.PackFile(path)
        for k in range(len(made)):
            made[k].check()
    except PictureError:
        return False
    there = [
        (made[k].name, made[k].label, made[k].source_bytes)
        for k in range(len(made))
    ]
    return _kept(there, source, part, tally, False) == (len(there), part[1])


def _kept(
    there: Sequence[tuple[str, str, int]],
    source: _core.Source,
    part: Range,
    tally: Tally,
    strict: bool,
) -> tuple[int, int]:
    """How much of an earlier run's part is still right, as in `headrace pack`.

    Also the first sample that is to be made. Pictures that still cannot be read
    are told again.
    """
    i, end = part
    while i < end:
        try:
            facts = source.entry(i)
        except (PictureError, ReadError) as error:
            tally.fail(str(error), strict)
        else:
            if tally.again == len(there) or facts != there[tally.again]:
                break
            tally.again += 1
        i += 1
    return tally.again, i


def _write(
    path: str,
    source: _core.Source,
    part: Range,
    tally: Tally,
    strict: bool,
    whole: _core.Source | None = None,
) -> None:
    """Go on with the file, and finish it with the classes of all."""
    writer = _opened(path)
    try:
        there = [writer.entry(k) for k in range(len(writer))]
        kept, first = _kept(there, source, part, tally, strict)
        writer.cut(kept)
        for i in range(first, part[1]):
            why, fault = writer.take(source, i)
            if fault:
                tally.fail(fault, strict)
            elif why:
                tally.kept[why] += 1
        writer.classes(whole or source)
        writer.finish()
    finally:
        writer.close()


def _opened(path: str) -> _core.PackWriter:
    """The writer; the lock of one that was killed may need a moment to go."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _core.PackWriter(path)
        except Error as error:
            if error.status != "HR_EAGAIN" or time.monotonic() > until:
                raise
        time.sleep(0.1)
