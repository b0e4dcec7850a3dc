# SPDX-License-Identifier: Apache-2.0
"""State that all rooms of the drop-in share: where a thread is, counters."""

from __future__ import annotations

from typing import Any

# How exact pictures must be: the tier of set_image_backend().
tier: Any = "exact"
