// SPDX-License-Identifier: Apache-2.0
#include "simd_time.h"

#include <stdio.h>

#include "hal/job/work.h"

// Best of many: others use the machine too.
static double best_ns(void (*run)(void *bench), void *bench)
{
    int64_t start = hr__now(), best = INT64_MAX;

    for (int i = 0; i < 5 || (i < 300 && hr__now() - start < 60000000); i++) {
        int64_t t = hr__now();

        run(bench);
        t = hr__now() - t;
        best = t < best ? t : best;
    }
    return (double)best;
}

static void levels(void (*run)(void *bench),
                   void (*use)(void *bench, const struct cpu_ops *ops),
                   void *bench, double c)
{
    for (unsigned set = CPU_FLAG_AVX2; set <= CPU_FLAG_AVX512; set *= 2) {
        struct cpu_ops ops;
        double t;

        if (!(cpu_detect() & set))
            continue;
        cpu_ops_init(&ops, set | CPU_FLAG_AVX2);
        use(bench, &ops);
        t = best_ns(run, bench);
        printf("   %s %8.0f ns", ops.name, t);
        if (c > 0)
            printf(" %5.1fx", c / t);
    }
    printf("\n");
}

void simd_time(const char *name, void (*run)(void *bench),
               void (*use)(void *bench, const struct cpu_ops *ops), void *bench)
{
    struct cpu_ops ops;
    double c;

    cpu_ops_init(&ops, CPU_FLAG_C);
    use(bench, &ops);
    c = best_ns(run, bench);
    printf("  %-33s c %9.0f ns", name, c);
    levels(run, use, bench, c);
}

void simd_time_without_c(const char *name, void (*run)(void *bench),
                         void (*use)(void *bench, const struct cpu_ops *ops),
                         void *bench)
{
    printf("  %-33s c      none   ", name);
    levels(run, use, bench, 0);
}
