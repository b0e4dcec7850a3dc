// SPDX-License-Identifier: Apache-2.0
// headrace samples: writes test pictures of every kind.
#ifndef HEADRACE_TOOLS_SAMPLES_H
#define HEADRACE_TOOLS_SAMPLES_H

// argv[0] = "headrace samples"; returns an exit code.
int cmd_samples(int argc, char **argv);

#endif
