// SPDX-License-Identifier: Apache-2.0
// VA-API's codes: their names, and what they mean here. They are translated
// nowhere else.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

// LOST: nothing that was made on this context will work again. DAMAGED: the
// file is at fault, not the driver.
static const struct {
    VAStatus code;
    const char *name;
    unsigned why;
} codes[] = {
#define X(name, why)                                        \
    {                                                       \
        (VAStatus) VA_STATUS_ERROR_##name, "VA_" #name, why \
    }
    X(OPERATION_FAILED, HR_WHY_FAILED),
    X(ALLOCATION_FAILED, HR_WHY_FAILED | HR_WHY_MEMORY),
    X(INVALID_DISPLAY, HR_WHY_FAILED | HR_WHY_LOST),
    X(INVALID_CONFIG, HR_WHY_FAILED | HR_WHY_LOST),
    X(INVALID_CONTEXT, HR_WHY_FAILED | HR_WHY_LOST),
    X(INVALID_SURFACE, HR_WHY_FAILED | HR_WHY_LOST),
    X(INVALID_BUFFER, HR_WHY_FAILED),
    X(INVALID_IMAGE, HR_WHY_FAILED | HR_WHY_LOST),
    X(INVALID_SUBPICTURE, HR_WHY_FAILED),
    X(ATTR_NOT_SUPPORTED, HR_WHY_FAILED),
    X(MAX_NUM_EXCEEDED, HR_WHY_FAILED | HR_WHY_MEMORY),
    X(UNSUPPORTED_PROFILE, HR_WHY_FAILED),
    X(UNSUPPORTED_ENTRYPOINT, HR_WHY_FAILED),
    X(UNSUPPORTED_RT_FORMAT, HR_WHY_FAILED),
    X(UNSUPPORTED_BUFFERTYPE, HR_WHY_FAILED),
    X(SURFACE_BUSY, HR_WHY_FAILED),
    X(FLAG_NOT_SUPPORTED, HR_WHY_FAILED),
    X(INVALID_PARAMETER, HR_WHY_FAILED),
    X(RESOLUTION_NOT_SUPPORTED, HR_WHY_FAILED | HR_WHY_SIZE),
    X(UNIMPLEMENTED, HR_WHY_FAILED),
    X(SURFACE_IN_DISPLAYING, HR_WHY_FAILED),
    X(INVALID_IMAGE_FORMAT, HR_WHY_FAILED),
    X(DECODING_ERROR, HR_WHY_DAMAGED),
    X(ENCODING_ERROR, HR_WHY_FAILED),
    X(INVALID_VALUE, HR_WHY_FAILED),
    X(UNSUPPORTED_FILTER, HR_WHY_FAILED),
    X(INVALID_FILTER_CHAIN, HR_WHY_FAILED),
    X(HW_BUSY, HR_WHY_FAILED | HR_WHY_LOST),
    X(UNSUPPORTED_MEMORY_TYPE, HR_WHY_FAILED),
    X(NOT_ENOUGH_BUFFER, HR_WHY_FAILED | HR_WHY_MEMORY),
    X(TIMEDOUT, HR_WHY_FAILED | HR_WHY_TIMEOUT),
    X(UNKNOWN, HR_WHY_FAILED),
#undef X
};

bool va_failed(struct va_fault *fault, VAStatus code, const char *call)
{
    enum { NUM = sizeof(codes) / sizeof(*codes) };
    size_t i = 0;

    if (code == VA_STATUS_SUCCESS)
        return false;
    // The first one counts; what follows is a consequence.
    if (fault->why)
        return true;
    while (i < NUM && codes[i].code != code)
        i++;
    fault->why = i < NUM ? codes[i].why : HR_WHY_FAILED;
    if (i < NUM)
        snprintf(fault->text, sizeof(fault->text), "%s: %s", call,
                 codes[i].name);
    else
        snprintf(fault->text, sizeof(fault->text), "%s: VA-API error %#x", call,
                 (unsigned)code);
    return true;
}

bool va_wrong(struct va_fault *fault, const char *fmt, ...)
{
    va_list args;

    if (fault->why)
        return false;
    fault->why = HR_WHY_FAILED;
    va_start(args, fmt);
    vsnprintf(fault->text, sizeof(fault->text), fmt, args);
    va_end(args);
    return false;
}
