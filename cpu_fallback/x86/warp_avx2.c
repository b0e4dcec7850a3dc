// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#define SISTER(name) name##_avx2
#include "cpu_fallback/augment/warp.c"

#endif
