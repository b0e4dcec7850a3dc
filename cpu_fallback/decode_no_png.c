// SPDX-License-Identifier: Apache-2.0
// Takes the place of decode_png.c in a build without libpng
// (HEADRACE_PNG=OFF): every PNG is answered with "not supported".
#include "decode.h"

#ifdef HR_NO_PNG

struct cpu_decode *cpu_png_open(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena,
                                struct cpu_decode_error *err)
{
    (void)p;
    (void)ops;
    (void)arena;
    *err = (struct cpu_decode_error){
        .result = CPU_UNSUPPORTED,
        .offset = -1,
        .text = "this build decodes no PNG",
    };
    return NULL;
}

#endif
