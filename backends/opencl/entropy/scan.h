// SPDX-License-Identifier: Apache-2.0
// A JPEG's header as far as stage entropy on the device needs it.
#ifndef HR_OPENCL_SCAN_H
#define HR_OPENCL_SCAN_H

#include "hal/engine/engine.h"
#include "hal/engine/jpeg.h"
#include "kernels/entropy.h"

struct ocl_scan_component {
    uint32_t h, v;   // blocks of an MCU
    uint32_t codes;  // which is its DCs' one; the next one is its ACs'
    struct hr__jpeg_quant quant;
};

// Pointers go into the file.
struct ocl_scan {
    uint32_t num_components, mcus_w, mcus_h;
    uint32_t h_max, v_max;
    uint32_t mcu_blocks, mcu_lines;  // of an MCU, of all components
    uint32_t restart;  // MCUs of an interval, the last one excepted
    struct ocl_scan_component comp[3];
    const uint8_t *data;  // the scan, and what follows it
    size_t size;
    uint32_t num_codes;
    struct hr__code codes[HR__CODES];  // that it uses; last, see OCL_SCAN_FACTS
};
// Bytes of it without the codes.
#define OCL_SCAN_FACTS offsetof(struct ocl_scan, codes)

// ---- scan.c ----------------------------------------------------------------

// 0, or HR_WHY_* why the device shall not decode it: whatever libjpeg-turbo
// would warn of, guess at or refuse in the header is left to the host. The
// engine must take the picture from reconstruct on.
unsigned ocl_scan_read(const struct hr__picture *pic, struct ocl_scan *scan);

static inline uint32_t ocl_scan_mcus(const struct ocl_scan *s)
{
    return s->mcus_w * s->mcus_h;
}

static inline uint32_t ocl_scan_intervals(const struct ocl_scan *s)
{
    return (ocl_scan_mcus(s) + s->restart - 1) / s->restart;
}

#endif
