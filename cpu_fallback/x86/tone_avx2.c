// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#define CPU_TABLE_BY_HAND  // table_avx2.c
#define SISTER(name) name##_avx2
#include "cpu_fallback/augment/tone.c"

#endif
