# SPDX-License-Identifier: Apache-2.0
"""Exceptions. All are Error; each is also what Python calls such a thing."""

from __future__ import annotations

import builtins


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
    """A file could not be read."""


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
    return kind(message, status, file, offset, stage, reason)
