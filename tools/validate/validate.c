// SPDX-License-Identifier: Apache-2.0
// headrace validate, from start to end.
#include "validate.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/common/stop.h"

// ---- Which pictures --------------------------------------------------------

struct ticket {
    uint64_t draw;
    size_t index;
};

static int by_draw(const void *a, const void *b)
{
    const struct ticket *l = a, *r = b;

    if (l->draw != r->draw)
        return l->draw < r->draw ? -1 : 1;
    return (l->index > r->index) - (l->index < r->index);
}

static int by_index(const void *a, const void *b)
{
    size_t l = *(const size_t *)a, r = *(const size_t *)b;

    return (l > r) - (l < r);
}

// Keeps the limit of the inputs, by a hash of seed and name: the same pictures
// for the same seed wherever the folder lies. False: out of memory.
static bool choose(struct validate *v)
{
    struct ticket *tickets = calloc(v->in.num, sizeof(*tickets));
    bool all = !v->opt.limit || v->opt.limit >= v->in.num;
    char name[PATH_MAX];

    v->total = all ? v->in.num : (size_t)v->opt.limit;
    v->chosen = calloc(v->total, sizeof(*v->chosen));
    if (!tickets || !v->chosen) {
        free(tickets);
        return tools_warn("out of memory");
    }
    for (size_t i = 0; i < v->in.num; i++) {
        const char *text = inputs_name(&v->in, i, name, sizeof(name));

        text = text ? text : "";
        tickets[i].index = i;
        tickets[i].draw = all ? i : tools_hash(v->opt.seed, text, strlen(text));
    }
    qsort(tickets, v->in.num, sizeof(*tickets), by_draw);
    for (size_t i = 0; i < v->total; i++)
        v->chosen[i] = tickets[i].index;
    free(tickets);
    qsort(v->chosen, v->total, sizeof(*v->chosen), by_index);
    return true;
}

// ---- From start to end -----------------------------------------------------

static bool open_devices(struct validate *v)
{
    struct hr_device_params params = {.threads = v->opt.threads,
                                      .limits = v->opt.limits};

    v->dev[VALIDATE_DEVICE] = hr_device_open(v->opt.backend, &params);
    if (v->dev[VALIDATE_DEVICE]) {
        // The CPU against itself would say nothing, however it was chosen.
        if (v->opt.against == VALIDATE_UNSAID)
            v->opt.against = strcmp(v->dev[VALIDATE_DEVICE]->backend, "cpu")
                                 ? VALIDATE_CPU
                                 : VALIDATE_C;
        params.cpu_mask = v->opt.against == VALIDATE_C ? HR_CPU_C : 0;
        v->dev[VALIDATE_REFERENCE] = hr_device_open("cpu", &params);
    }
    if (!v->dev[VALIDATE_REFERENCE])
        tools_warn("%s", hr_last_error());
    else
        validate_engines_begin(v);
    return v->dev[VALIDATE_REFERENCE] != NULL;
}

static bool prepare(struct validate *v)
{
    if (!options_pictures(&v->in, v->opt.quiet))
        return false;
    v->pictures = tools_new(VALIDATE_BATCH * sizeof(*v->pictures));
    return v->pictures && choose(v) && open_devices(v);
}

static bool run_all(struct validate *v)
{
    size_t at = 0;

    progress_begin(&v->progress, v->total, !v->opt.quiet);
    while (at < v->total && !stop_signal()) {
        int n = v->total - at < VALIDATE_BATCH ? (int)(v->total - at)
                                               : VALIDATE_BATCH;

        if (!validate_batch(v, at, &n) || !validate_spans(v))
            return false;
        validate_release(v);
        for (int i = 0; i < n; i++) {
            validate_judge(v, &v->pictures[i]);
            validate_out_picture(v, &v->pictures[i]);
        }
        at += (size_t)n;
        progress_update(&v->progress, at, v->outside);
    }
    progress_clear(&v->progress);
    if (v->unread > TOOLS_MAX_TOLD)
        tools_warn("... and %llu more that could not be read",
                   (unsigned long long)(v->unread - TOOLS_MAX_TOLD));
    return true;
}

static int by_pictures(const void *a, const void *b)
{
    const struct validate_kind *l = a, *r = b;

    if (l->pictures != r->pictures)
        return l->pictures > r->pictures ? -1 : 1;
    return strcmp(l->name, r->name);
}

static int finish(struct validate *v, bool ran)
{
    static const int codes[] = {[VALIDATE_HOLDS] = TOOLS_OK,
                                [VALIDATE_BROKEN] = TOOLS_FAILED,
                                // A caller must not take it for a yes.
                                [VALIDATE_UNKNOWN] = TOOLS_CANNOT};
    char sentence[VALIDATE_SENTENCE];
    bool printed;
    int code;

    validate_sort_worst(v);
    qsort(v->kinds, (size_t)v->num_kinds, sizeof(v->kinds[0]), by_pictures);
    if (!ran || stop_signal()) {
        validate_out_end(v, "interrupted");
        if (!ran)
            return TOOLS_CANNOT;
        tools_warn("interrupted after %llu of %zu pictures",
                   (unsigned long long)v->done, v->total);
        return 128 + stop_signal();
    }
    // A reader that has gone is no reason to lose the page.
    printed = validate_out_end(v, NULL) == TOOLS_OK;
    if ((v->opt.report && !validate_page(v)) || !printed)
        return TOOLS_CANNOT;
    code = codes[validate_verdict(v, sentence, sizeof(sentence))];
    // Pictures in unread folders were not compared.
    return code == TOOLS_OK && validate_unread(v) ? TOOLS_FAILED : code;
}

static int run(struct validate *v)
{
    bool ran;

    if (!prepare(v))
        return TOOLS_CANNOT;
    stop_install();
    validate_out_begin(v);
    ran = run_all(v);
    return finish(v, ran);
}

int cmd_validate(int argc, char **argv)
{
    struct validate *v = tools_new(sizeof(*v));
    int code;

    if (!v)
        return TOOLS_CANNOT;
    v->argc = argc;
    v->argv = argv;
    code = validate_options(v, argc, argv);
    if (code == TOOLS_OK && !v->line.done)
        code = run(v);
    validate_release(v);
    validate_worst_finish(v);
    for (int side = 0; side < VALIDATE_SIDES; side++)
        hr_device_close(&v->dev[side]);
    inputs_finish(&v->in);
    options_finish(&v->line);
    free(v->pictures);
    free(v->chosen);
    free(v);
    return code;
}
