// SPDX-License-Identifier: Apache-2.0
// headrace devices: what is here, and what each engine offers.
#ifndef HEADRACE_TOOLS_DEVICES_H
#define HEADRACE_TOOLS_DEVICES_H

// argv[0] = "headrace devices"; returns an exit code.
int cmd_devices(int argc, char **argv);

#endif
