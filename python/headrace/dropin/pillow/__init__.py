# SPDX-License-Identifier: Apache-2.0
"""Pictures that record. Imports PIL.

That comes before any module of it: where the drop-in is on and nothing has
imported Pillow yet, its hooks import all of them.
"""

import PIL.JpegImagePlugin  # noqa: F401
