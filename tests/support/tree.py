# SPDX-License-Identifier: Apache-2.0
"""Where things lie: the source tree, and the corpus of pictures beside it."""
import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
CORPUS = os.environ.get("HEADRACE_CORPUS") or os.path.join(
    os.path.dirname(ROOT), "shared", "corpus")
