// SPDX-License-Identifier: Apache-2.0
// The command `headrace` in this process: python3 -m headrace.
#ifdef HR_HAVE_COMMAND
#include "core.h"

#include <stdlib.h>

#include "tools/command.h"

PyObject *command_run(PyObject *module, PyObject *args)
{
    Py_ssize_t n = PyTuple_Size(args);
    char **argv = calloc((size_t)n + 1, sizeof(*argv));
    int code;

    if (!argv)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(argv[i] = PyBytes_AsString(PyTuple_GetItem(args, i)))) {
            free(argv);
            return NULL;
        }
    WITHOUT_GIL(code = tools_command((int)n, argv));
    free(argv);
    return PyLong_FromLong(code);
}
#endif
