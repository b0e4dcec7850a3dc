# SPDX-License-Identifier: Apache-2.0
"""Exceptions. All are Error; each is also what Python calls such a thing."""

from __future__ import annotations

import builtins
import errno
import functools
import os


class Error(Exception):
    """Something went wrong in Headrace.

    Attributes:
        status: name of the status, e.g. "HR_ECORRUPT".
        file: path of the picture, or None if it came as bytes or if it is
            not about one picture.
        offset: byte in the file where decoding failed, or None.
        stage: "read", "header", "entropy", ... where it failed, or None.
        reason: what is wrong, in words, without file and stage.
    """

    def __init__(
        self,
        message: str = "",
        status: str = "HR_EINVAL",
        file: str | None = None,
        offset: int | None = None,
        stage: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.file = file
        self.offset = offset
        self.stage = stage
        self.reason = message if reason is None else reason


class PictureError(Error, ValueError):
    """A picture is damaged, cut short, over a limit, or of no known kind."""


class DeviceError(Error, RuntimeError):
    """A device failed, is not there, or was opened before fork()."""


class ArgumentError(Error, ValueError):
    """An argument, op or size that cannot be."""


class ReadError(Error, OSError):
    """A file could not be read; errno and strerror as of an OSError.

    A missing file is a FileNotFoundError, too, and so on.
    """

    @property
    def errno(self) -> int | None:  # type: ignore[override]
        """Number of the system's error, or None if it was none."""
        return _numbers().get(self.reason)

    @property
    def strerror(self) -> str | None:  # type: ignore[override]
        """The system's text for errno, or None."""
        return None if self.errno is None else self.reason

    @property
    def filename(self) -> str | None:
        """The same as file."""
        return self.file


class FileNotFoundError(ReadError, builtins.FileNotFoundError):
    """A file is not there."""


class PermissionError(ReadError, builtins.PermissionError):
    """A file may not be read."""


class NotADirectoryError(ReadError, builtins.NotADirectoryError):
    """A part of a path is no folder."""


class IsADirectoryError(ReadError, builtins.IsADirectoryError):
    """The path of a file is a folder."""


@functools.cache
def _numbers() -> dict[str, int]:
    """Texts of the system's errors, which the library gives as reasons."""
    return {os.strerror(number): number for number in errno.errorcode}


_READ_ERRORS: dict[int | None, type[ReadError]] = {
    errno.ENOENT: FileNotFoundError,
    errno.EACCES: PermissionError,
    errno.EPERM: PermissionError,
    errno.ENOTDIR: NotADirectoryError,
    errno.EISDIR: IsADirectoryError,
}


class TimeoutError(Error, builtins.TimeoutError):
    """Not done in time."""


class MemoryError(Error, builtins.MemoryError):
    """No memory for what was asked for."""


class CanceledError(Error):
    """The job was cancelled before this sample was made."""


_CLASSES: dict[str, type[Error]] = {
    "HR_EINVAL": ArgumentError,
    "HR_ECORRUPT": PictureError,
    "HR_ETRUNCATED": PictureError,
    "HR_EUNSUPPORTED": PictureError,
    "HR_ELIMIT": PictureError,
    "HR_EFORMAT": PictureError,
    "HR_EINPUT": PictureError,
    "HR_ENOMEM": MemoryError,
    "HR_ETIMEDOUT": TimeoutError,
    "HR_ECANCELED": CanceledError,
    "HR_EIO": ReadError,
    "HR_EDEVICE": DeviceError,
    "HR_ENODEVICE": DeviceError,
    "HR_EFORK": DeviceError,
}


def make(
    status: str,
    message: str,
    file: str | None,
    offset: int | None,
    stage: str | None,
    reason: str | None,
) -> Error:
    """Return the exception for a status, e.g. "HR_ECORRUPT"."""
    kind = _CLASSES.get(status, Error)
    if kind is ReadError:
        # (Of what is no sample the message ends with the reason.)
        last = message.rsplit(": ", 1)[-1]
        if reason not in _numbers() and last in _numbers():
            reason = last
        number = _numbers().get(reason or "")
        kind = _READ_ERRORS.get(number, ReadError)
    return kind(message, status, file, offset, stage, reason)
