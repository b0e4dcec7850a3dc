// SPDX-License-Identifier: Apache-2.0
// What the tests of a certificate share: the device that is known to be right,
// the user's limits meanwhile, and when a test ends early.
#include <math.h>
#include <string.h>

#include "hal/certificate.h"
#include "hal/header.h"

#define MAX_SPAN_NS INT64_C(60000000000)

hr_device hr__certificate_cpu(struct hr__device *dev)
{
    return hr_device_open(hr__host(dev)->backend->name,
                          hr_device_params(.threads = 1, .cpu_mask = HR_CPU_C,
                                           .log = dev->log,
                                           .log_ctx = dev->log_ctx));
}

struct hr_device_params hr__certificate_lift(struct hr__device *dev)
{
    struct hr_device_params *params = &dev->pub.params, mine = *params;

    memset(&params->limits, 0, sizeof(params->limits));
    hr__limits_default(&params->limits, &params->limits);
    if (params->budget < (size_t)64 << 20)
        params->budget = (size_t)64 << 20;
    return mine;
}

// Nobody else has submitted anything yet.
void hr__certificate_end(struct hr__device *dev,
                         const struct hr_device_params *mine)
{
    hr_wait_all(&dev->pub, HR_FOREVER);
    pthread_mutex_lock(&dev->lock);
    memset(&dev->stats, 0, sizeof(dev->stats));
    pthread_mutex_unlock(&dev->lock);
    atomic_store(&dev->heap_allocations, 0);
    atomic_store(&dev->peak_device_bytes, atomic_load(&dev->device_bytes));
    dev->pub.params = *mine;
}

int64_t hr__certificate_span_ns(const struct hr__device *dev)
{
    return dev->pub.params.deadline_ns < MAX_SPAN_NS
               ? dev->pub.params.deadline_ns
               : MAX_SPAN_NS;
}

enum hr_status hr__certificate_gave_up(const char *text)
{
    return hr__fail(HR_EDEVICE, "its test ended early: %s", text);
}

enum hr_status hr__certificate_failed(const struct hr_result *r)
{
    if (r->status == HR_ENOMEM)
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    if (r->status == HR_ETIMEDOUT || r->why & (HR_WHY_TIMEOUT | HR_WHY_LOST))
        return hr__certificate_gave_up(r->message);
    return HR_OK;
}

double hr__certificate_rounded(double x)
{
    return ceil(x * 1e9) / 1e9;
}
