# SPDX-License-Identifier: Apache-2.0
"""Tensors that record. Imports torch."""
