// SPDX-License-Identifier: Apache-2.0
// VA-API's codes: their names, and what they mean here. The one place where
// they are translated.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

// LOST: nothing made on this context will work again. DAMAGED: the driver
// speaks of the file, not of itself.
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

const char *va_error_name(VAStatus code, char number[24])
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i].code == code)
            return codes[i].name;
    snprintf(number, 24, "VA-API error %#x", (unsigned)code);
    return number;
}

unsigned va_error_why(VAStatus code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i].code == code)
            return codes[i].why;
    return HR_WHY_FAILED;
}

bool va_failed(struct va_fault *fault, VAStatus code, const char *call)
{
    char number[24];

    if (code == VA_STATUS_SUCCESS)
        return false;
    // The first one counts; what follows is a consequence.
    if (!fault->why) {
        fault->why = va_error_why(code);
        snprintf(fault->text, sizeof(fault->text), "%s: %s", call,
                 va_error_name(code, number));
    }
    return true;
}
