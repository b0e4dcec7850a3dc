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
  pictures  which pictures: those that all programs can take
  programs  the programs that are measured; each runs in a process of its own,
            started by its path, perhaps by another interpreter: it knows
            nothing of the others here, and Headrace is one of its programs
  recipes   what the programs make of pictures
  children  those processes, and what memory they hold
  figures   what was measured, as medians of rounds
  text      figures as text and as JSON
  page      figures as an HTML page with a chart

Threads: one, and one that looks at memory.
"""
