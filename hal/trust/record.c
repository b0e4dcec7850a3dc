// SPDX-License-Identifier: Apache-2.0
// What one record of a certificate says.
#include "hal/trust/trust.h"

bool hr__record_exact(const struct hr_certificate_record *r)
{
    return r->pictures && !r->failed && !(r->differing > 0);
}

// Outside EXACT an inverse DCT may be another one, within limits; resample
// and store may not.
bool hr__certificate_allows(const struct hr_certificate_record *r,
                            enum hr_tier tier)
{
    if (!r || r->failed || !r->pictures)
        return false;
    if (r->tier == HR_FAST)
        return tier == HR_FAST;
    return hr__record_exact(r) ||
           (tier != HR_EXACT && r->span.first < HR_RESAMPLE &&
            r->max <= HR__CLOSE_LEVELS);
}
