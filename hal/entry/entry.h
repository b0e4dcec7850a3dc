// SPDX-License-Identifier: Apache-2.0
// The room entry: what users call. It finds the device, checks, and makes one
// call down.
#ifndef HR__ENTRY_H
#define HR__ENTRY_H

#include "hal/trust/trust.h"

// default.c. NULL = the default device, which is opened if it must be; retains.
struct hr__device *hr__device_get(hr_device dev);

#endif
