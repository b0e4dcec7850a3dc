// SPDX-License-Identifier: Apache-2.0
// Between the OpenCL engine and the driver: a library that HEADRACE_OPENCL_
// LIBRARY may name instead of libOpenCL.so.1. It hands every call on, unless a
// script says otherwise, and counts. Tests find the functions below with
// dlsym(); they are safe from any thread.
#ifndef HEADRACE_TESTS_FAULT_OPENCL_H
#define HEADRACE_TESTS_FAULT_OPENCL_H

#include "backends/opencl/opencl.h"

enum fault_entry {
#define X(name) FAULT_##name,
    OCL_ENTRY_POINTS(X)
#undef X
        FAULT_ENTRIES,
    FAULT_ANY = FAULT_ENTRIES,  // in a rule: all of them, counted together
    // Sharing of other engines' memory, emulated: see sharing()
    FAULT_clEnqueueCopyImageToBuffer,
    FAULT_clGetDeviceIDsFromVA_APIMediaAdapterINTEL,
    FAULT_clGetSupportedVA_APIMediaSurfaceFormatsINTEL,
    FAULT_clCreateFromVA_APIMediaSurfaceINTEL,
    FAULT_clEnqueueAcquireVA_APIMediaSurfacesINTEL,
    FAULT_clEnqueueReleaseVA_APIMediaSurfacesINTEL,
    FAULT_ALL_ENTRIES
};

enum fault_action {
    FAULT_FAIL,        // returns the code, the driver is not called
    FAULT_HANG,        // waits for fault_release(), then calls the driver, or
                       // returns the code if there is one
    FAULT_HANG_AFTER,  // calls the driver, then waits
    // Computes for so many ms of CPU time (the code), then calls the driver:
    FAULT_WORK,        // on the thread that called
    FAULT_WORK_APART,  // on one of its own, for which it waits
    // For clSetEventCallback only:
    FAULT_EVENT,   // the callback gets the code as its status
    FAULT_LATE,    // the callback comes after fault_release()
    FAULT_SILENT,  // the callback never comes
};

struct fault_rule {
    enum fault_entry entry;
    int first, last;  // calls since the script was set, from 1; last 0 = ever
    enum fault_action action;
    cl_int code;
};

enum { FAULT_RULES = 4 };

struct fault_counts {
    int calls[FAULT_ALL_ENTRIES];  // since the script was set
    int hits;                      // calls that a rule changed
    int blocking;                  // enqueue calls with CL_TRUE
    int on_marked;                 // calls on the thread of fault_mark_thread()
    int batch_launches;            // most launches between two callbacks set
    size_t groups;                 // work groups of all launches
    // Since the library was loaded
    int live;      // objects made and not released
    int misused;   // objects used or released that are not alive
    int hung;      // threads that wait now
    int imported;  // shared images
    int acquired;  // objects that are acquired now
    int filled;    // shared images, from their surface; since sharing()
};

// How a driver shares VA-API surfaces; at first as HEADRACE_FAULT_SHARES says,
// a number in the environment.
enum {
    FAULT_SHARES = 1,            // it does
    FAULT_SHARES_ELSEWHERE = 2,  // not this device: the adapter has none
    FAULT_SHARES_REFUSES = 4,    // no context may know a display
    FAULT_SHARES_NV12 = 8,       // it can be asked, and lists NV12
    FAULT_SHARES_OTHERS = 16,    // it can be asked, and does not
};

struct fault_control {
    // Sets the script, at most FAULT_RULES; counts begin again.
    void (*set)(const struct fault_rule *rules, int n);
    void (*counts)(struct fault_counts *out);
    // Lets all go on that wait, and waits until they have.
    void (*release)(void);
    // Lets the one go that has waited longest, if there is one.
    void (*release_one)(void);
    void (*mark_thread)(void);
    // The device says that it has memory of its own.
    void (*discrete)(bool on);
    // The driver has cl_intel_va_api_media_sharing, as FAULT_SHARES_* say.
    // Counted as misused: a context whose display is no display, goes before
    // it, or waits by itself; an image of a surface that is not ready or was
    // destroyed, or whose number its client has forgotten, when it is acquired
    // or copied; a copy that is not between acquire and release on one queue,
    // or leaves the plane; one that is still acquired when it is released for
    // good.
    void (*sharing)(unsigned how);
};

// The one symbol besides OpenCL's.
void fault_control(struct fault_control *out);

#endif
