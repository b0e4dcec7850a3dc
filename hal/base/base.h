// SPDX-License-Identifier: Apache-2.0
// The room base: status, log, clock, heap, threads, files kept on disk. The
// part that engines may use is in engine/base.h; this is the rest.
#ifndef HR__BASE_H
#define HR__BASE_H

#include "hal/engine/base.h"

// The part of a device that this room knows. A device begins with it.
struct hr__device_head {
    struct hr_device_t pub;  // first
    _Atomic uint64_t heap_allocations;
};

int64_t hr__read_clock(clockid_t clock);   // in ns; 0: it cannot be read
int64_t hr__deadline(int64_t timeout_ns);  // now + timeout; < 0: never
bool hr__on_library_thread(void);
// In a child: its parent has the threads that hold the process's end.
void hr__exit_forget(void);
bool hr__is_library_thread(pid_t tid);  // of this process
// quota.c: cores that the quotas of the process's cgroup and of those above it
// pay for; 0 = there is none. The files are those of /proc/self.
int hr__quota_cores(const char *cgroup, const char *mountinfo);

// Set by tests: 1 = the next allocation or thread start fails, 2 = the one
// after it, ...; 0 = none. Each failure is passed on as HR_ENOMEM.
void hr__test_fail_alloc(int64_t nth, bool for_ever);
int64_t hr__test_allocs(void);    // so far, of all devices
bool hr__test_should_fail(void);  // for other resources: threads, fds

#endif
