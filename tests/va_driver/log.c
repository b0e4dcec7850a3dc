// SPDX-License-Identifier: Apache-2.0
// Logs the clients' submissions, as text that can be compared: one picture is a
// line "picture" and the lines after it. Lines that begin with "+" may differ
// between good clients of the same file: tables that no component uses, the raw
// size of the data, bytes after the end of the picture.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;

// "": closes it.
void log_open(const char *path)
{
    pthread_mutex_lock(&lock);
    if (file)
        fclose(file);
    file = *path ? fopen(path, "ae") : NULL;
    pthread_mutex_unlock(&lock);
}

static void bytes(const char *name, const uint8_t *at, size_t n)
{
    fprintf(file, "%s", name);
    for (size_t i = 0; i < n; i++)
        fprintf(file, " %u", at[i]);
    fprintf(file, "\n");
}

// How much of the data is the entropy-coded segment: it ends at a marker that
// is none of RST0..7.
static size_t ecs_size(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (at[i] == 0xff && at[i + 1] != 0 && at[i + 1] != 0xff &&
            (at[i + 1] & 0xf8) != 0xd0)
            return i;
    return n;
}

static uint32_t fnv1a(const uint8_t *at, size_t n)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 16777619u;
    return hash;
}

static unsigned values_of(const uint8_t *counts)
{
    unsigned n = 0;

    for (int i = 0; i < 16; i++)
        n += counts[i];
    return n;
}

static void log_frame(const struct picture *p)
{
    const VAPictureParameterBufferJPEGBaseline *pp = &p->params;

    fprintf(file, "picture %u x %u components %u\n", pp->picture_width,
            pp->picture_height, pp->num_components);
    for (int i = 0; i < pp->num_components; i++)
        fprintf(file, "component id %u sampling %u x %u iq %u\n",
                pp->components[i].component_id,
                pp->components[i].h_sampling_factor,
                pp->components[i].v_sampling_factor,
                pp->components[i].quantiser_table_selector);
    fprintf(file, "color_space %u rotation %u\n", pp->color_space,
            pp->rotation);
}

static void log_iq(const struct picture *p, const struct scan *s)
{
    bool used[256] = {false};
    char name[32];

    for (int i = 0; i < p->params.num_components; i++)
        used[p->params.components[i].quantiser_table_selector] = true;
    for (int t = 0; t < 4; t++) {
        if (!used[t] && !s->iq.load_quantiser_table[t])
            continue;
        snprintf(name, sizeof(name), "%siq %d load %u:", used[t] ? "" : "+ ", t,
                 s->iq.load_quantiser_table[t]);
        bytes(name, s->iq.quantiser_table[t], 64);
    }
}

static void log_huffman(const struct scan *s)
{
    static const char *const formats[] = {"+ huffman %s %d load %u %s:",
                                          "huffman %s %d load %u %s:"};
    bool used[2][256] = {{false}};
    char name[64];

    for (int i = 0; i < s->slice.num_components && i < 4; i++) {
        used[0][s->slice.components[i].dc_table_selector] = true;
        used[1][s->slice.components[i].ac_table_selector] = true;
    }
    for (int t = 0; t < 2; t++) {
        for (int ac = 0; ac < 2; ac++) {
            const uint8_t *counts =
                ac ? s->huffman.huffman_table[t].num_ac_codes
                   : s->huffman.huffman_table[t].num_dc_codes;
            const uint8_t *values = ac ? s->huffman.huffman_table[t].ac_values
                                       : s->huffman.huffman_table[t].dc_values;
            unsigned n = values_of(counts), capacity = ac ? 162 : 12;

            if (!used[ac][t] && !s->huffman.load_huffman_table[t])
                continue;
            snprintf(name, sizeof(name), formats[used[ac][t]], ac ? "ac" : "dc",
                     t, s->huffman.load_huffman_table[t], "counts");
            bytes(name, counts, 16);
            snprintf(name, sizeof(name), formats[used[ac][t]], ac ? "ac" : "dc",
                     t, s->huffman.load_huffman_table[t], "values");
            bytes(name, values, n < capacity ? n : capacity);
        }
    }
}

static void log_slice(const struct scan *s)
{
    const VASliceParameterBufferJPEGBaseline *v = &s->slice;
    size_t ecs = ecs_size(s->bytes, s->size);

    fprintf(file, "slice flag %u at %u, %u restart %u mcus %u components %u\n",
            v->slice_data_flag, v->slice_horizontal_position,
            v->slice_vertical_position, v->restart_interval, v->num_mcus,
            v->num_components);
    for (int i = 0; i < v->num_components && i < 4; i++)
        fprintf(file, "slice component %u dc %u ac %u\n",
                v->components[i].component_selector,
                v->components[i].dc_table_selector,
                v->components[i].ac_table_selector);
    fprintf(file, "slice data %zu bytes, hash %08x\n", ecs,
            fnv1a(s->bytes, ecs));
    fprintf(file, "+ slice size %u offset %u\n", v->slice_data_size,
            v->slice_data_offset);
}

static void remark(const char *text)
{
    count(&counters.remarks, 1);
    if (file)
        fprintf(file, "remark: %s\n", text);
}

static uint32_t mcus_of(const VAPictureParameterBufferJPEGBaseline *pp,
                        const VASliceParameterBufferJPEGBaseline *v)
{
    unsigned max_h = 1, max_v = 1, h = 1, w8, h8;

    for (int i = 0; i < pp->num_components; i++) {
        if (pp->components[i].h_sampling_factor > max_h)
            max_h = pp->components[i].h_sampling_factor;
        if (pp->components[i].v_sampling_factor > max_v)
            max_v = pp->components[i].v_sampling_factor;
    }
    w8 = 8 * max_h;
    h8 = 8 * max_v;
    if (v->num_components == 1) {
        unsigned c_h = max_h, c_v = max_v;

        for (int i = 0; i < pp->num_components; i++) {
            if (pp->components[i].component_id ==
                v->components[0].component_selector) {
                c_h = pp->components[i].h_sampling_factor;
                c_v = pp->components[i].v_sampling_factor;
            }
        }
        // Blocks of that component alone.
        h = (pp->picture_height * c_v + max_v - 1) / max_v;
        return ((pp->picture_width * c_h + max_h - 1) / max_h + 7) / 8 *
               ((h + 7) / 8);
    }
    return (pp->picture_width + w8 - 1) / w8 *
           ((pp->picture_height + h8 - 1) / h8);
}

static bool zero(const void *at, size_t n)
{
    const uint8_t *p = at;

    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

// Logs flaws that other drivers may trip over, although this one does not.
static void check_scan(const struct picture *p, const struct scan *s)
{
    const VASliceParameterBufferJPEGBaseline *v = &s->slice;

    if (v->num_mcus != mcus_of(&p->params, v))
        remark("num_mcus is not the scan's");
    if (v->slice_data_flag != VA_SLICE_DATA_FLAG_ALL)
        remark("slice_data_flag is not ALL");
    if (!zero(v->va_reserved, sizeof(v->va_reserved)) ||
        !zero(p->params.va_reserved, sizeof(p->params.va_reserved)) ||
        !zero(s->iq.va_reserved, sizeof(s->iq.va_reserved)) ||
        !zero(s->huffman.va_reserved, sizeof(s->huffman.va_reserved)))
        remark("reserved fields are not 0");
    for (int i = 0; i < p->params.num_components; i++)
        if (!s->iq.load_quantiser_table
                 [p->params.components[i].quantiser_table_selector & 3])
            remark("a quantiser table is not there");
    for (int i = 0; i < v->num_components && i < 4; i++)
        if (!s->huffman
                 .load_huffman_table[v->components[i].dc_table_selector & 1] ||
            !s->huffman
                 .load_huffman_table[v->components[i].ac_table_selector & 1])
            remark("a Huffman table is not there");
}

void log_picture(const struct picture *p)
{
    pthread_mutex_lock(&lock);
    if (file)
        log_frame(p);
    for (int i = 0; i < p->num_scans; i++) {
        if (file) {
            log_iq(p, &p->scans[i]);
            log_huffman(&p->scans[i]);
            log_slice(&p->scans[i]);
        }
        check_scan(p, &p->scans[i]);
    }
    if (file)
        fflush(file);
    pthread_mutex_unlock(&lock);
}

// Logs the leftovers of a display: for programs that cannot ask for counters.
void log_end(void)
{
    struct va_driver_counters c;

    headrace_va_control(NULL, &c);
    pthread_mutex_lock(&lock);
    if (file) {
        fprintf(file,
                "end: decoded %ld processed %ld failed %ld at once %ld "
                "left %ld bad_ids %ld violations %ld remarks %ld\n",
                c.decoded, c.processed, c.failed, c.max_in_flight, c.left,
                c.bad_ids, c.thread_violations, c.remarks);
        fflush(file);
    }
    pthread_mutex_unlock(&lock);
}
