// SPDX-License-Identifier: Apache-2.0
// The whole command `headrace`: for main(), and for the Python package, whose
// wheel brings it.
#ifndef HEADRACE_TOOLS_COMMAND_H
#define HEADRACE_TOOLS_COMMAND_H

// Returns the exit code. It changes how the process takes signals, forks, and
// writes to argv: a process runs one command, on its main thread.
int tools_command(int argc, char **argv);

#endif
