// SPDX-License-Identifier: Apache-2.0
// VA-API's codes and what they mean here. They are translated nowhere else.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

// LOST: nothing that was made on this context will work again. DAMAGED: the
// file is at fault, not the driver.
static unsigned why_of(VAStatus code)
{
    switch (code) {
    case VA_STATUS_ERROR_INVALID_DISPLAY:
    case VA_STATUS_ERROR_INVALID_CONFIG:
    case VA_STATUS_ERROR_INVALID_CONTEXT:
    case VA_STATUS_ERROR_INVALID_SURFACE:
    case VA_STATUS_ERROR_INVALID_IMAGE:
    case VA_STATUS_ERROR_HW_BUSY:
        return HR_WHY_FAILED | HR_WHY_LOST;
    case VA_STATUS_ERROR_ALLOCATION_FAILED:
    case VA_STATUS_ERROR_MAX_NUM_EXCEEDED:
    case VA_STATUS_ERROR_NOT_ENOUGH_BUFFER:
        return HR_WHY_FAILED | HR_WHY_MEMORY;
    case VA_STATUS_ERROR_RESOLUTION_NOT_SUPPORTED:
        return HR_WHY_FAILED | HR_WHY_SIZE;
    case VA_STATUS_ERROR_TIMEDOUT:
        return HR_WHY_FAILED | HR_WHY_TIMEOUT;
    case VA_STATUS_ERROR_DECODING_ERROR:
        return HR_WHY_DAMAGED;
    default:
        return HR_WHY_FAILED;
    }
}

bool va_failed(const struct va_api *api, struct va_fault *fault, VAStatus code,
               const char *call)
{
    if (code == VA_STATUS_SUCCESS)
        return false;
    // The first one counts; what follows is a consequence.
    if (!fault->why) {
        fault->why = why_of(code);
        snprintf(fault->text, sizeof(fault->text), "%s: %s (%#x)", call,
                 api->vaErrorStr(code), (unsigned)code);
    }
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
