// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the library fault_opencl.
#ifndef HEADRACE_TESTS_FAULT_CALLS_H
#define HEADRACE_TESTS_FAULT_CALLS_H

#include "fault_opencl.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL EXPORT CL_API_CALL

// ---- fault_script.c -------------------------------------------------------

extern struct ocl_api fault_real;  // the driver's, once a call has begun

// Around every call: the script's rule for it.
struct fault_rule fault_begin(enum fault_entry entry);
void fault_finish(const struct fault_rule *rule);
// Objects that are alive. use: true if it is; else it counts as misused.
void fault_made(const void *object);
bool fault_use(const void *object, bool release);
// Sleeps till release().
void fault_hang_now(void);
// True if the device shall report that its memory is not the host's.
bool fault_discrete(void);
// Launches since the last callback was set are one batch.
void fault_note_blocking(cl_bool blocking);
void fault_note_launch(cl_uint dim, const size_t *global, const size_t *local);
void fault_note_batch(void);
// Adds to those counts.
void fault_note(int misused, int imported, int acquired);

// ---- fault_contexts.c -----------------------------------------------------

void fault_sharing(unsigned how);
unsigned fault_how(void);
// The driver's extensions and the emulated ones, as clGetDeviceInfo() answers.
cl_int fault_extensions(cl_device_id id, size_t size, void *value,
                        size_t *used);
void *fault_display_of(cl_context context);
void fault_note_filled(void);
int fault_filled(void);

// fault_sharing.c, where there is VA-API
void *fault_sharing_entry(const char *name);  // NULL: not one of those

#endif
