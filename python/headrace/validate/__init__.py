# SPDX-License-Identifier: Apache-2.0
"""Are Headrace's pictures those of the installed Pillow and torchvision?

    python3 -m headrace.validate [FILE or FOLDER...] [--backend NAME] ...

makes each picture twice and compares every bit; --help tells the rest. It
needs Pillow; with torch and torchvision it compares their tensors, too. NumPy
is not needed.

Files of this package:

  command   from start to end, exit codes
  options   the command line
  files     which pictures; made ones if none are named
  stock     their side: Pillow, and its resize in the order of a reference
  cases     what is made with Pillow alone, on both sides
  stacks    torchvision's transforms, stock and recorded by the drop-in
  ours      our side: jobs
  compare   two buffers, bit by bit
  findings  what is remembered and counted
  text      findings as text and as JSON
  page      findings as an HTML page with pictures

Threads: one; the library's own do our side meanwhile.
"""
