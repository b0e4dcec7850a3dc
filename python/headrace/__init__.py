# SPDX-License-Identifier: Apache-2.0
"""Headrace: pictures become tensors on whatever engine the machine has."""

from __future__ import annotations

from . import errors as errors
from . import _core as _core
