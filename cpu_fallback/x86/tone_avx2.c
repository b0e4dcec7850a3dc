// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx2.h"

#define CPU_TONE_BY_HAND  // tone_simd.h and table_avx2.c
#include "cpu_fallback/augment/tone.c"
#include "cpu_fallback/x86/tone_simd.h"

#endif
