# SPDX-License-Identifier: Apache-2.0
"""Tensors that record. Imports torch, before its modules: see ../pillow."""

import torch  # noqa: F401

from .. import pillow  # noqa: F401
