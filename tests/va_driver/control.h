// SPDX-License-Identifier: Apache-2.0
// How a test speaks to the software VA driver: the driver exports one function
// besides its entry point. libva loads drivers with RTLD_GLOBAL, so
//     dlsym(RTLD_DEFAULT, VA_DRIVER_CONTROL)
// finds it once a display was initialised, and vaGetLibFunc(display,
// VA_DRIVER_CONTROL) finds it through libva. To set options before the first
// vaInitialize(), dlopen() the driver's file: it is the same object.
//
// The state behind it is the process's: options hold for every display that
// is initialised later, faults and counters for all of them at once.
// Threads: safe.
#ifndef VA_DRIVER_CONTROL_H
#define VA_DRIVER_CONTROL_H

// Calls that are counted and that a fault can hit, named as in libva without
// "va". The last three are no calls: loading the driver, and the work of a
// picture on the engine (seen at the next sync of its surface).
#define VA_DRIVER_CALLS(X)        \
    X(Terminate)                  \
    X(QueryConfigProfiles)        \
    X(QueryConfigEntrypoints)     \
    X(GetConfigAttributes)        \
    X(CreateConfig)               \
    X(DestroyConfig)              \
    X(QueryConfigAttributes)      \
    X(CreateSurfaces)             \
    X(DestroySurfaces)            \
    X(CreateContext)              \
    X(DestroyContext)             \
    X(CreateBuffer)               \
    X(BufferSetNumElements)       \
    X(MapBuffer)                  \
    X(UnmapBuffer)                \
    X(DestroyBuffer)              \
    X(BeginPicture)               \
    X(RenderPicture)              \
    X(EndPicture)                 \
    X(SyncSurface)                \
    X(SyncSurface2)               \
    X(QuerySurfaceStatus)         \
    X(QuerySurfaceError)          \
    X(QuerySurfaceAttributes)     \
    X(QueryImageFormats)          \
    X(CreateImage)                \
    X(DeriveImage)                \
    X(DestroyImage)               \
    X(GetImage)                   \
    X(PutImage)                   \
    X(ExportSurfaceHandle)        \
    X(QueryVideoProcFilters)      \
    X(QueryVideoProcFilterCaps)   \
    X(QueryVideoProcPipelineCaps) \
    X(Init)                       \
    X(Decode)                     \
    X(Process)

enum va_driver_call {
#define X(name) VA_DRIVER_##name,
    VA_DRIVER_CALLS(X)
#undef X
        VA_DRIVER_NUM_CALLS
};

struct va_driver_counters {
    // Alive now. A derived image and the buffer of an image count, too.
    // `memfds`: surfaces' memory, as long as a surface, an image or a picture
    // uses it; descriptors that were exported are their receiver's.
    long displays, configs, contexts, surfaces, buffers, images, memfds;
    long in_flight;  // pictures between vaEndPicture and their end
    // Since the last "reset".
    long max_in_flight;
    long decoded, processed;  // pictures that ended, also in error
    long failed;              // of them, in error
    long left;                // objects still alive in vaTerminate
    long bad_ids;             // unknown ids: destroyed twice, never made
    long thread_violations;   // README.md, "Threads"
    long remarks;             // parameter buffers that break a rule (the log)
    long faults;              // faults that hit
    long hanging;             // now: calls and pictures that hang
    long calls[VA_DRIVER_NUM_CALLS];
};

// Applies `options` (README.md; NULL or "": none), then fills `counters`
// (NULL: not wanted). 0, or -1 if an option is unknown or its value makes no
// sense; those before it were applied.
typedef int va_driver_control_fn(const char *options,
                                 struct va_driver_counters *counters);
#define VA_DRIVER_CONTROL "headrace_va_control"

#endif
