// SPDX-License-Identifier: Apache-2.0
// Reads a file's header for the kernels of stage entropy. libjpeg-turbo must
// read every file that the device takes alike, without a warning.
#include "backends/opencl/entropy/scan.h"
#include "kernels/entropy_plan.h"

// Bytes of a scan: the kernels count bits in 32 bits.
#define MOST_BYTES ((size_t)1 << 28)

static uint32_t divided(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

// Components with the same two codes share them. Each other component gets a
// pair of its own: the DCs' table has symbols of the ACs' code, too.
static bool use_codes(struct ocl_scan *s, const struct hr__jpeg *j, int i,
                      uint32_t known[4][4])
{
    unsigned dc = j->comp[i].dc, ac = j->comp[i].ac;
    uint32_t *number = &known[dc][ac];

    if (!*number) {
        if (!hr__entropy_code(&s->codes[s->num_codes], j->huffman[0][dc],
                              true) ||
            !hr__entropy_code(&s->codes[s->num_codes + 1], j->huffman[1][ac],
                              false))
            return false;
        s->num_codes += 2;
        *number = s->num_codes;
    }
    s->comp[i].codes = *number - 2;
    return true;
}

static unsigned use_tables(struct ocl_scan *s, const struct hr__jpeg *j)
{
    uint32_t known[4][4] = {{0}};

    for (int i = 0; i < j->num_components; i++) {
        s->comp[i].quant = j->quant[j->comp[i].quant];
        if (!use_codes(s, j, i, known))
            return HR_WHY_TABLES;
    }
    return 0;
}

// A scan of one component goes block by block, whatever its factors (ITU-T
// T.81 A.2.2).
static unsigned lay_out(struct ocl_scan *s, const struct hr__jpeg *j)
{
    bool one = j->num_components == 1;

    for (uint32_t i = 0; i < s->num_components; i++) {
        struct ocl_scan_component *c = &s->comp[i];

        c->h = one ? 1 : j->comp[i].h;
        c->v = one ? 1 : j->comp[i].v;
        s->mcu_blocks += c->h * c->v;
        s->mcu_lines += c->v;
    }
    s->h_max = one ? 1 : (uint32_t)j->h_max;
    s->v_max = one ? 1 : (uint32_t)j->v_max;
    s->mcus_w = divided((uint32_t)j->width, 8 * s->h_max);
    s->mcus_h = divided((uint32_t)j->height, 8 * s->v_max);
    s->restart = (uint32_t)j->restart;
    if (!s->restart || s->restart > ocl_scan_mcus(s))
        s->restart = ocl_scan_mcus(s);
    for (uint32_t i = 0; i < s->num_components; i++)
        if ((uint64_t)s->restart * s->comp[i].h * s->comp[i].v >
            HR__INTERVAL_BLOCKS)
            return HR_WHY_SIZE;
    return s->size > MOST_BYTES ? HR_WHY_SIZE : 0;
}

unsigned ocl_scan_read(const struct hr__picture *pic, struct ocl_scan *scan)
{
    struct hr__jpeg j;
    unsigned why = hr__jpeg_read_plain(pic->data, pic->size, &pic->info, &j);

    *scan = (struct ocl_scan){0};
    if (why)
        return why;
    scan->num_components = (uint32_t)j.num_components;
    scan->data = pic->data + j.header_size;
    scan->size = pic->size - j.header_size;
    if (j.color != pic->info.color)
        return HR_WHY_DAMAGED;
    why = use_tables(scan, &j);
    return why ? why : lay_out(scan, &j);
}
