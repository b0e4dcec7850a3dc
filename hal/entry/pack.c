// SPDX-License-Identifier: Apache-2.0
// Packed pictures, made and checked outside of jobs, by the host's engine.
#include <stdlib.h>

#include "hal/entry/entry.h"

static enum hr_status failed(enum hr_status status, int64_t offset,
                             const char *text)
{
    if (offset < 0)
        return hr__fail(status, "%s", text);
    return hr__fail(status, "offset %lld: %s", (long long)offset, text);
}

enum hr_status hr_pack(const void *data, size_t size,
                       const struct hr_limits *limits, void **packed,
                       size_t *packed_size)
{
    struct hr_limits all;
    struct hr_info info;
    struct hr__outcome out = {.offset = -1};
    enum hr_status status;

    if (!packed || !packed_size)
        return hr__fail(HR_EINVAL, "hr_pack: nowhere to put it");
    *packed = NULL;
    *packed_size = 0;
    hr__limits_default(&all, limits);
    if ((status = hr_probe(data, size, &all, &info)))
        return status;
    if (info.format != HR_FORMAT_JPEG)
        return hr__fail(HR_EUNSUPPORTED, "only JPEGs are packed");
    // (What a cut file has Pillow does not take either.)
    if (!info.ends)
        return hr__fail(HR_ETRUNCATED, "there is no end marker");
    if (hr__backend_host()->pack(data, size, &info, &all, packed, packed_size,
                                 &out))
        return failed(out.status, out.offset, out.text);
    return HR_OK;
}

void hr_packed_free(void *packed)
{
    free(packed);
}

bool hr_packed_check(const void *data, size_t size)
{
    return data && (uintptr_t)data % 8 == 0 &&
           hr__backend_host()->packed_check(data, size);
}
