# SPDX-License-Identifier: Apache-2.0
"""What all rooms of the drop-in know: where a thread is, what was counted."""

from __future__ import annotations

from typing import Any

# How exact pictures must be: the tier of set_image_backend().
tier: Any = "exact"
