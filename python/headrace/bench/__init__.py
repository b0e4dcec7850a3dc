# SPDX-License-Identifier: Apache-2.0
"""How fast are Headrace and other programs with these pictures, here?

    python3 -m headrace.bench FOLDER [--workers N] ...

feeds a training loop that does nothing else with the same folder, by each
program that is installed, and tells how many pictures per second it gives,
what CPU time and memory that takes, and when the first batch is there; --help
tells the rest.

Files of this package:

  command   from start to end, exit codes
  options   the command line
  pictures  the pictures that all programs can take
  programs  the programs that are measured; each runs in a process of its own,
            started by its path, perhaps by another interpreter: it imports
            none of the other files, and Headrace is one of its programs
  recipes   the programs' transforms
  children  those processes, and the memory that they hold
  figures   the measurements, as medians of rounds
  text      figures as text and as JSON
  page      figures as an HTML page with a chart

Threads: one, and one that looks at memory.
"""
