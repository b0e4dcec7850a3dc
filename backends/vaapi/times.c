// SPDX-License-Identifier: Apache-2.0
// What traces and profiles are told: when the media engine worked, and what
// its threads on the host did. VA-API has no clock of the device, so a
// picture's time is what the host sees: from when it was the driver's and the
// one before it was through, to when the wait for it ended.
#include "backends/vaapi/vaapi.h"

void va_times_host(struct va *va, enum hr_part part, uint64_t picture,
                   int64_t begin)
{
    hr__engine_ref_part(&va->guard.ref, part, picture, begin);
}

void va_times_picture(struct va *va, const struct va_slot *slot)
{
    int64_t end = hr__watch_begin(), begin = slot->sent;

    if (!begin || !end)
        return;
    if (begin < va->last_seen)
        begin = va->last_seen;
    va->last_seen = end;
    hr__engine_ref_device(&va->guard.ref, "decoder", HR_PART_DECODE,
                          slot->number, begin, end);
}
