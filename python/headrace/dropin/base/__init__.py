# SPDX-License-Identifier: Apache-2.0
"""What all rooms of the drop-in know: where a thread is, what was counted."""
