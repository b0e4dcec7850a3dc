// SPDX-License-Identifier: Apache-2.0
// Status codes say how calls, jobs and samples ended; reasons say why an engine
// passed a sample on.
//
// Functions return a status, or a handle that is NULL on failure. Nothing is
// ever printed. The text that belongs to the last failure of the calling
// thread is hr_last_error(); the text of a failed sample is in its hr_result.
#ifndef HEADRACE_STATUS_H
#define HEADRACE_STATUS_H

#include <headrace/version.h>

HR_BEGIN_DECLS

// This list defines all codes, names and texts. Negative = failed.
// clang-format off
#define HR_STATUS_MAP(X)                                                    \
    X(PENDING,      1,   "not finished yet")                                \
    X(OK,           0,   "success")                                         \
    X(EINVAL,       -1,  "invalid argument")                                \
    X(ECORRUPT,     -2,  "damaged picture data")                            \
    X(ETRUNCATED,   -3,  "picture data ends early")                         \
    X(EUNSUPPORTED, -4,  "not supported")                                   \
    X(ELIMIT,       -5,  "over a limit")                                    \
    X(ENOMEM,       -6,  "out of memory")                                   \
    X(EAGAIN,       -7,  "over the byte budget, try again later")           \
    X(ETIMEDOUT,    -8,  "timed out")                                       \
    X(ECANCELED,    -9,  "cancelled")                                       \
    X(EIO,          -10, "could not be read")                               \
    X(EDEVICE,      -11, "the device failed")                               \
    X(ENODEVICE,    -12, "no such device")                                  \
    X(EFORK,        -13, "opened before fork, not usable in the child")     \
    X(EINPUT,       -14, "the image it reads could not be made")            \
    X(EFORMAT,      -15, "not a picture this library reads")
// clang-format on

enum hr_status {
#define X(name, value, text) HR_##name = value,
    HR_STATUS_MAP(X)
#undef X
};

// "HR_ECORRUPT" and "damaged picture data"; "HR_?" for an unknown value.
// Static storage. Threads: any.
static inline const char *hr_status_name(enum hr_status status)
{
    switch (status) {
#define X(name, value, text) \
    case HR_##name:          \
        return "HR_" #name;
        HR_STATUS_MAP(X)
#undef X
    }
    return "HR_?";
}

static inline const char *hr_status_text(enum hr_status status)
{
    switch (status) {
#define X(name, value, text) \
    case HR_##name:          \
        return text;
        HR_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

// Return status and text of this thread's last call that failed. The text names
// the subject and the reason ("device 'vaapi': built without VA-API") and is
// valid until the thread's next failing call. HR_OK and "" if none failed.
// Threads: each has its own.
HR_API enum hr_status hr_last_status(void);
HR_API const char *hr_last_error(void);

// Reasons why an engine cannot take a sample, or why it was left, as bits of a
// mask, so that programs can count them. 0 = no objection. A bit that is
// missing in the list was a reason once and is not used again.
// clang-format off
#define HR_WHY_MAP(X)                                                       \
    X(FORMAT,      0,  "not a JPEG")                                        \
    X(PROGRESSIVE, 1,  "progressive JPEG")                                  \
    X(ARITHMETIC,  2,  "arithmetic coding")                                 \
    X(LOSSLESS,    3,  "lossless JPEG")                                     \
    X(PRECISION,   4,  "more than 8 bits per sample")                       \
    X(CHROMA,      5,  "chroma layout")                                     \
    X(COLOR,       6,  "colour space (CMYK, YCCK or RGB)")                  \
    X(MULTISCAN,   7,  "components in several scans")                       \
    X(SIZE,        8,  "picture size")                                      \
    X(MEMORY,      9,  "memory")                                            \
    X(GEOMETRY,    10, "geometry")                                          \
    X(FILTER,      11, "resampling filter")                                 \
    X(SERIAL,      12, "entropy coding that cannot be divided")             \
    X(AUGMENT,     13, "ops that the engine does not have")                 \
    X(SPAN,        14, "the engine has no such span")                       \
    X(DAMAGED,     15, "damaged data")                                      \
    X(FAILED,      17, "the device failed")                                 \
    X(TIMEOUT,     18, "the device did not answer in time")                 \
    X(LOST,        19, "the device is gone")                                \
    X(BREAKER,     20, "the device failed too often and rests")             \
    X(CERTIFICATE, 21, "its pictures differed when it was tested")          \
    X(PLACE,       22, "memory that this engine cannot reach")              \
    X(TABLES,      23, "tables that this engine cannot be told")            \
    X(MISMATCH,    24, "the device gave wrong pictures and is not used")      \
    X(BUSY,        25, "the engine was busy")                               \
    X(FP64,        26, "a device without double precision")
// clang-format on

enum hr_why {
#define X(name, bit, text) HR_WHY_##name = 1 << (bit),
    HR_WHY_MAP(X)
#undef X
};

// Returns the text of the lowest bit that is set; "" for 0. Walk a mask by
// clearing that bit: why &= why - 1. Static storage. Threads: any.
static inline const char *hr_why_text(unsigned why)
{
    switch (why & (~why + 1)) {
#define X(name, bit, text) \
    case HR_WHY_##name:    \
        return text;
        HR_WHY_MAP(X)
#undef X
    }
    return why ? "unknown reason" : "";
}

// Messages of the library. Levels grow with importance.
enum hr_log_level { HR_LOG_DEBUG, HR_LOG_INFO, HR_LOG_WARN, HR_LOG_ERROR };

// Receives one message without a newline, valid during the call.
// Threads: called on any thread of the library, several at a time; it must
// not call back into the library.
typedef void (*hr_log_fn)(void *ctx, enum hr_log_level level, const char *msg);

// Sets the process's log, for devices whose params name none. NULL (the start
// value) drops everything. Threads: call before other threads do.
HR_API void hr_set_log(hr_log_fn fn, void *ctx, enum hr_log_level least);

HR_END_DECLS
#endif
