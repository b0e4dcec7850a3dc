// SPDX-License-Identifier: Apache-2.0
// Opening and closing devices, by name or the best that works.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/entry/entry.h"

// The last step before the device is published.
static struct hr__device *open_certified(const char *name,
                                         const struct hr_device_params *params)
{
    struct hr__device *dev = hr__device_assemble(name, params);

    if (dev && dev->num_engines > 1 && hr__certify(dev)) {
        // A hung engine may hold tasks, and with them the device.
        hr__device_unref(dev);
        return NULL;
    }
    return dev;
}

static hr_device open_named(const char *name,
                            const struct hr_device_params *params)
{
    struct hr__device *dev = open_certified(name, params);
    char text[sizeof(((struct hr_device_info *)0)->reason)];

    if (dev)
        return &dev->pub;
    snprintf(text, sizeof(text), "%.191s", hr_last_error());
    hr__fail(hr_last_status(), "device '%.64s': %s", name, text);
    return NULL;
}

static const char software[] = "it runs on this machine's own processor";

// Why an opened device is not what "auto" means, or NULL.
static const char *unfit(const struct hr__device *dev)
{
    const struct hr_device_t *pub = &dev->pub;

    if (pub->caps.software)
        return software;
    // In the default tier it would do nothing.
    if (pub->certificate.tested && !pub->caps.spans[HR_EXACT])
        return "nothing that it does passed its test as exact";
    return NULL;
}

// The first backend of the table that opens and is worth it; the log says why
// not the others. The last, the CPU, always is.
static hr_device open_any(const struct hr_device_params *params)
{
    int n;
    const struct hr__backend *const *table = hr__backends(&n);

    for (int i = 0; i < n; i++) {
        bool host = i == n - 1, slow = !host && hr__all_software(table[i]);
        struct hr__device *dev = slow ? NULL
                                      : open_certified(table[i]->name, params);
        const char *why = slow   ? software
                          : !dev ? hr_last_error()
                          : host ? NULL
                                 : unfit(dev);

        if (!why)
            return &dev->pub;
        hr__log(NULL, HR_LOG_INFO, "auto: %s passed over: %s", table[i]->name,
                why);
        hr__device_unref(dev);
    }
    return NULL;
}

static hr_device open_device(const char *name,
                             const struct hr_device_params *params)
{
    if (!name || !strcmp(name, "auto")) {
        name = secure_getenv("HEADRACE_BACKEND");
        if (!name || !*name || !strcmp(name, "auto"))
            return open_any(params);
    }
    return open_named(name, params);
}

hr_device hr_device_open(const char *name,
                         const struct hr_device_params *params)
{
    hr_device dev;

    hr__device_close_orphans();
    if ((dev = open_device(name, params)))
        ((struct hr__device *)dev)->opened = true;
    return dev;
}

void hr_device_close(hr_device *handle)
{
    struct hr__device *dev;

    if (!handle || !*handle)
        return;
    dev = (struct hr__device *)*handle;
    *handle = NULL;
    if (!hr__device_forked(dev))
        hr__device_unref(dev);
    hr__device_close_orphans();
}
