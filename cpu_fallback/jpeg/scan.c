// SPDX-License-Identifier: Apache-2.0
#include "scan.h"

#include <string.h>

static int divided(int n, int by)
{
    return (n + by - 1) / by;
}

// A scan of one component goes block by block, whatever its factors
// (ITU-T T.81 A.2.2): they are no more than how its rows are counted.
bool cpu_scan_parse(struct cpu_scan *scan, const uint8_t *data, size_t size)
{
    struct hr__jpeg j;

    *scan = (struct cpu_scan){0};
    if (!hr__jpeg_read(data, size, &j) || j.why)
        return false;
    *scan = (struct cpu_scan){
        .width = j.width,
        .height = j.height,
        .num_components = j.num_components,
        .color = j.color,
        .h_max = j.h_max,
        .v_max = j.v_max,
        .mcus = divided(j.width, 8 * j.h_max),
        .rows = divided(j.height, 8 * j.v_max),
        .mcu_v = 8 * j.v_max,
        .restart = j.restart,
        .data = data + j.header_size,
        .end = data + size,
    };
    memcpy(scan->huffman, j.huffman, sizeof(j.huffman));
    for (int i = 0; i < j.num_components; i++) {
        const struct hr__jpeg_component *c = &j.comp[i];

        scan->comp[i] = (struct cpu_scan_component){
            .h = c->h,
            .v = c->v,
            .width = divided(j.width, j.h_max / c->h),
            .height = divided(j.height, j.v_max / c->v),
            .dc = c->dc,
            .ac = c->ac,
            .quant = j.quant[c->quant],
        };
    }
    return true;
}

void cpu_packed_scan(const struct cpu_packed_head *head, struct cpu_scan *scan)
{
    *scan = (struct cpu_scan){
        .width = (int)head->width,
        .height = (int)head->height,
        .num_components = (int)head->num_components,
        .color = (enum hr_color)head->color,
        .h_max = (int)head->h_max,
        .v_max = (int)head->v_max,
        .mcus = (int)head->mcus,
        .rows = (int)head->rows,
        .mcu_v = 8 * (int)head->v_max,
    };
    for (int i = 0; i < scan->num_components; i++) {
        const struct cpu_packed_component *c = &head->comp[i];

        scan->comp[i] = (struct cpu_scan_component){
            .h = (int)c->h,
            .v = (int)c->v,
            .width = divided((int)head->width, (int)(head->h_max / c->h)),
            .height = divided((int)head->height, (int)(head->v_max / c->v)),
        };
    }
}
