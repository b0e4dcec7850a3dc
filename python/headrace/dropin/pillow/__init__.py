# SPDX-License-Identifier: Apache-2.0
"""Pictures that record. Imports PIL."""
