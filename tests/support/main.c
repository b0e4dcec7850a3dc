// SPDX-License-Identifier: Apache-2.0
// The main() of programs with nothing to prepare.
#include "testing.h"

int main(int argc, char **argv)
{
    return test_main(argc, argv);
}
