// SPDX-License-Identifier: Apache-2.0
// Prints the figures of a loader: on the terminal, in JSON.
#include <stdio.h>
#include <string.h>

#include "profile.h"

#define MIB (1.0 / (1 << 20))

#define AT(field) offsetof(struct profile_queue, field)
const struct profile_column profile_queues[] = {
    {"img_per_s", "img/s", AT(rate), 1, 1},
    {"batches", "batches", AT(batches), 1, 0},
    {"waits", NULL, AT(waits), 1, -1},
    {NULL, "waited", AT(wait_share), 100, 0},
    {"waited", "wait %", AT(waited), 100, 0},
    {"starved", "empty %", AT(starved), 100, 0},
    {"ready", "ready", AT(ready), 1, 1},
    {"reading", "reads", AT(reading), 1, 1},
    {"making", "making", AT(making), 1, 1},
    {"peak_encoded_bytes", "peak MiB", AT(peak_bytes), MIB, 1},
    {"steps", "steps", AT(steps), 1, 0},
    {"backs", "back", AT(backs), 1, 0},
    {NULL, NULL, 0, 0, 0},
};
#undef AT

const char profile_queues_legend[] =
    "A loader that tunes itself, from one thread, one read and one batch "
    "ahead.\nwaited: per cent of the batches that the consumer had to wait "
    "for; wait, empty:\nof the time it waited, and the device had no picture. "
    "ready: batches; reads: in\nflight; making: pictures that the device had, "
    "on average. peak: of encoded\npictures in memory. steps: changes of the "
    "settings that were tried; back: of\nthem taken back.";

static json_t *settings_json(const struct hr_loader_settings *s)
{
    return json_pack("{s:i s:i s:i s:I}", "threads", s->threads, "reads",
                     s->reads, "depth", s->depth, "bytes",
                     (json_int_t)s->bytes);
}

void profile_queue_notes(const struct profile *p, FILE *to)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        json_t *settings = settings_json(&p->queues[b].settings);

        fprintf(to, "%s: it ended with ", p->opt.backends[b]);
        json_dumpf(settings, to, 0);
        fputc('\n', to);
        json_decref(settings);
    }
}

// ---- JSON ------------------------------------------------------------------

json_t *profile_queue_json(const struct profile_queue *q)
{
    json_t *changes = json_array(), *points = json_array();

    for (int i = 0; i < q->num_changes; i++)
        json_array_append_new(
            changes, json_pack("{s:f s:I s:b s:o}", "seconds", q->changes[i].at,
                               "batch", (json_int_t)q->changes[i].batch, "back",
                               q->changes[i].back, "settings",
                               settings_json(&q->changes[i].settings)));
    for (int i = 0; i < q->num_points; i++)
        json_array_append_new(
            points,
            json_pack("{s:f s:f s:f s:f}", "seconds", q->points[i].at, "ready",
                      q->points[i].ready, "reading", q->points[i].reading,
                      "encoded_bytes", q->points[i].bytes));
    return json_pack("{s:f s:o s:o s:o s:o}", "seconds", q->seconds, "start",
                     settings_json(&q->begin), "settings",
                     settings_json(&q->settings), "changes", changes, "queue",
                     points);
}
