# SPDX-License-Identifier: Apache-2.0
"""Fetches of a DataLoader, in its process and in workers. Imports torch."""

from .. import torch  # noqa: F401
