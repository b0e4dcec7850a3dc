// SPDX-License-Identifier: Apache-2.0
// The data of the page.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

static void add_facts(const struct profile *p, struct report *r)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        const struct profile_config *c = profile_find(p, b, PROFILE_PLANNED,
                                                      profile_most_threads(p));

        report_fact(r, c->device, "%s", c->description);
    }
    report_fact(r, "pictures", "%.0f, batches of %d", p->configs[0].pictures,
                p->configs[0].batch);
    report_fact(r, "ops", "%s", p->opt.run.ops_text);
}

// Its lines, if there are any.
static json_t *lines_json(const struct profile *p,
                          void (*write)(const struct profile *, FILE *))
{
    json_t *lines = json_array();
    char *text = NULL, *save = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to) {
        if (write)
            write(p, to);
        fclose(to);
    }
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save))
        json_array_append_new(lines, manifest_text(line));
    free(text);
    return lines;
}

static json_t *row_json(const struct profile_column *columns,
                        const struct profile_row *row)
{
    json_t *cells = json_pack("[o]", manifest_text(row->label));

    for (const struct profile_column *c = columns; c->key || c->title; c++) {
        double value = profile_value(c, row->values);

        if (c->title)
            json_array_append_new(cells, isfinite(value) ? json_real(value)
                                                         : json_null());
    }
    return cells;
}

// A table of the terminal, with what stands below it there.
static json_t *table_json(const struct profile *p,
                          const struct profile_column *columns,
                          const struct profile_row *rows, int n,
                          const char *legend,
                          void (*notes)(const struct profile *, FILE *))
{
    json_t *heads = json_pack("[s]", "device"), *list = json_array();

    for (const struct profile_column *c = columns; c->key || c->title; c++)
        if (c->title)
            json_array_append_new(heads,
                                  json_pack("[s, i]", c->title, c->digits));
    for (int i = 0; i < n; i++)
        json_array_append_new(list, row_json(columns, &rows[i]));
    return json_pack("{s:o, s:o, s:s?, s:o}", "columns", heads, "rows", list,
                     "legend", legend, "notes", lines_json(p, notes));
}

static void add_tables(const struct profile *p, struct report *r)
{
    struct profile_row rows[PROFILE_CONFIGS];

    report_set(r, "rates",
               table_json(p, profile_rates, rows,
                          profile_config_rows(p, false, rows), profile_legend,
                          profile_notes));
    if (p->opt.consumer_ms > 0)
        report_set(r, "beside",
                   table_json(p, profile_beside, rows,
                              profile_config_rows(p, true, rows), NULL,
                              profile_beside_notes));
    report_set(r, "waits",
               table_json(p, profile_waits, rows,
                          profile_backend_rows(p, p->watch, sizeof(p->watch[0]),
                                               rows),
                          profile_waits_legend, NULL));
    report_set(r, "queues",
               table_json(p, profile_queues, rows,
                          profile_backend_rows(p, p->queues,
                                               sizeof(p->queues[0]), rows),
                          profile_queues_legend, profile_queue_notes));
}

bool profile_report(struct profile *p)
{
    json_t *parts = json_array();
    struct report *r;
    bool ok;

    if (!p->opt.report)
        return true;
    r = report_new("headrace profile", p->argc, p->argv);
    add_facts(p, r);
    add_tables(p, r);
    for (int part = 0; part < HR_NUM_PARTS; part++)
        json_array_append_new(parts,
                              json_string(hr_part_name((enum hr_part)part)));
    report_set(r, "parts", parts);
    report_set(r, "results", profile_json(p));
    ok = report_write(r, p->opt.report);
    if (!ok)
        tools_warn("%s: cannot be written: %s", p->opt.report, strerror(errno));
    report_free(&r);
    return ok;
}
