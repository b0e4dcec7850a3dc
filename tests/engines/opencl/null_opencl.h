// SPDX-License-Identifier: Apache-2.0
// A device that does nothing, at once: only the host's own work remains. A
// library that HEADRACE_OPENCL_LIBRARY may name instead of libOpenCL.so.1; it
// has no driver below it and no threads. Transfers move no byte, kernels do not
// run, events are complete when they are made, any binary is a program. Memory
// that is mapped is memory, and all zero at first, so that no kernel has found
// a fault in a file. No certificate holds of it: HEADRACE_CERTIFICATE=off.
//
// Preloaded as well, it counts the locks that the process takes.
#ifndef HEADRACE_TESTS_NULL_OPENCL_H
#define HEADRACE_TESTS_NULL_OPENCL_H

#include <stdbool.h>
#include <stdint.h>

struct null_counts {
    // CPU time of the driver thread: from a batch's last call to the next one's
    // first; to its first transfer; to its last call, less the callback; the
    // callback.
    uint64_t plan_ns, pack_ns, enqueue_ns, callback_ns;
    uint64_t batches, launches, writes, reads, up_bytes, down_bytes;
    uint64_t locks, contended;  // if it is preloaded: of mutexes
};

// Since the process began. This and the next ones are the symbols besides
// OpenCL's.
void null_counts(struct null_counts *out);
// From now on there is no kernel of that name; NULL: all are there.
void null_refuse(const char *kernel);
// No event is complete before it is false again.
void null_hold(bool on);

#endif
