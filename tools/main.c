// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

int main(int argc, char **argv)
{
    return tools_command(argc, argv);
}
