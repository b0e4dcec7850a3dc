// SPDX-License-Identifier: Apache-2.0
// Table look-up and layout in readable C: the reference for the sisters.
#include "cpu_fallback/cpu_kernels.h"

// Where channel c of a row goes: elements from `first` on, every `step`-th.
struct channel {
    void *dst;
    size_t first, step;
};

static struct channel channel_of(void *const dst[3], int c, int channels,
                                 bool planar)
{
    if (planar)
        return (struct channel){dst[c], 0, 1};
    return (struct channel){dst[0], (size_t)c, (size_t)channels};
}

static void store_f32(struct channel channel, const uint8_t *src, int w,
                      int channels, const float *table)
{
    float *d = (float *)channel.dst + channel.first;
    for (int x = 0; x < w; x++)
        d[(size_t)x * channel.step] = table[src[(size_t)x * channels]];
}

static void store_f16(struct channel channel, const uint8_t *src, int w,
                      int channels, const uint16_t *table)
{
    uint16_t *d = (uint16_t *)channel.dst + channel.first;
    for (int x = 0; x < w; x++)
        d[(size_t)x * channel.step] = table[src[(size_t)x * channels]];
}

static void store_u8(struct channel channel, const uint8_t *src, int w,
                     int channels, const uint8_t *table)
{
    uint8_t *d = (uint8_t *)channel.dst + channel.first;
    for (int x = 0; x < w; x++)
        d[(size_t)x * channel.step] = table[src[(size_t)x * channels]];
}

void cpu_store_c(void *const dst[3], size_t next, const uint8_t *src, int w,
                 int channels, bool planar, enum hr_dtype type,
                 const struct hr__table *table)
{
    cpu_expect_row(dst, next, w, channels, planar, type);
    if (type == HR_U8 && table->u8_identity && (!planar || channels == 1)) {
        memmove(dst[0], src, (size_t)w * channels);
        return;
    }
    for (int c = 0; c < channels; c++) {
        struct channel channel = channel_of(dst, c, channels, planar);
        switch (type) {
        case HR_F32:
            store_f32(channel, src + c, w, channels, table->f32[c]);
            break;
        case HR_F16:
            store_f16(channel, src + c, w, channels, table->f16[c]);
            break;
        case HR_U8:
            store_u8(channel, src + c, w, channels, table->u8[c]);
            break;
        }
    }
}
