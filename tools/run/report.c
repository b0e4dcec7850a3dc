// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <stdio.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

static json_t *failures_json(const struct run *run)
{
    json_t *json = json_object();

    for (int i = 1; json && i < RUN_NUM_STATUS; i++)
        if (run->failures[i])
            json_object_set_new(json, hr_status_text((enum hr_status) - i),
                                json_integer((json_int_t)run->failures[i]));
    return json;
}

static json_t *fallbacks_json(const struct run *run)
{
    json_t *json = json_object();

    for (int i = 0; json && i < RUN_NUM_WHY; i++)
        if (run->fallbacks[i])
            json_object_set_new(json, hr_why_text(1u << i),
                                json_integer((json_int_t)run->fallbacks[i]));
    return json;
}

// Epochs that ran; the last may have been interrupted.
static uint32_t epochs_run(const struct run *run)
{
    uint32_t all = (uint32_t)run->opt.epochs;

    return run->epoch < all ? run->epoch + 1 : all;
}

static json_t *epochs_json(const struct run *run)
{
    json_t *json = json_array();

    for (uint32_t i = 0; json && i < epochs_run(run); i++) {
        const struct run_epoch *epoch = &run->epochs[i];
        json_array_append_new(
            json, json_pack("{s:I, s:I, s:f, s:f}", "images",
                            (json_int_t)epoch->images, "failed",
                            (json_int_t)epoch->failed, "seconds",
                            epoch->seconds, "cpu_seconds", epoch->cpu_seconds));
    }
    return json;
}

static void rates(const struct run *run, double *img_per_s, double *cpu)
{
    double seconds = 0, cpu_seconds = 0, images = (double)run->images;

    for (uint32_t i = 0; i < epochs_run(run); i++) {
        seconds += run->epochs[i].seconds;
        cpu_seconds += run->epochs[i].cpu_seconds;
    }
    *img_per_s = seconds > 0 ? images / seconds : 0;
    *cpu = images > 0 ? cpu_seconds * 1000 / images : 0;
}

static int report_json(const struct run *run)
{
    json_t *json = run_head_json(run);
    struct hr_stats stats;
    double img_per_s, cpu;

    rates(run, &img_per_s, &cpu);
    json_object_del(json, "epoch");
    json_object_set_new(json, "threads",
                        json_integer(run->dev->params.threads));
    json_object_set_new(json, "batch", json_integer(run->batch));
    json_object_set_new(json, "memory",
                        json_string(run->opt.memory == HR_MEMORY_DEVICE
                                        ? "device"
                                    : run->opt.memory ? "pinned"
                                                      : "host"));
    json_object_set_new(json, "images", json_integer((json_int_t)run->images));
    json_object_set_new(json, "failed", json_integer((json_int_t)run->failed));
    json_object_set_new(json, "unread",
                        json_integer((json_int_t)run->in.num_faults));
    json_object_set_new(json, "failures", failures_json(run));
    json_object_set_new(json, "fallbacks", fallbacks_json(run));
    hr_device_stats(run->dev, &stats);
    json_object_set_new(json, "checked",
                        json_integer((json_int_t)stats.checked));
    json_object_set_new(json, "mismatches",
                        json_integer((json_int_t)stats.mismatches));
    json_object_set_new(json, "epochs", epochs_json(run));
    json_object_set_new(json, "img_per_s", json_real(img_per_s));
    json_object_set_new(json, "cpu_s_per_1000", json_real(cpu));
    json_object_set_new(json, "peak_rss_bytes",
                        json_integer((json_int_t)tools_peak_rss()));
    if (stop_signal())
        json_object_set_new(json, "interrupted", json_true());
    if (!json ||
        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) < 0) {
        json_decref(json);
        tools_warn("standard output: the summary could not be written");
        return TOOLS_CANNOT;
    }
    json_decref(json);
    putchar('\n');
    return tools_flush_stdout();
}

static int report_line(const struct run *run)
{
    double img_per_s, cpu;
    const char *before = " (";

    rates(run, &img_per_s, &cpu);
    printf("%llu ", (unsigned long long)run->images);
    if (run->failed)
        printf("of %llu ", (unsigned long long)(run->images + run->failed));
    printf("picture%s on %s, %.1f img/s, %.2f CPU-s per 1000, %llu failed",
           run->images + run->failed == 1 ? "" : "s", run->dev->name, img_per_s,
           cpu, (unsigned long long)run->failed);
    for (int i = 1; i < RUN_NUM_STATUS; i++) {
        if (!run->failures[i])
            continue;
        printf("%s%llu %s", before, (unsigned long long)run->failures[i],
               hr_status_text((enum hr_status) - i));
        before = ", ";
    }
    puts(run->failed ? ")" : "");
    // What another engine than the device made, or a part of it, and why.
    before = "handed to the next engine: ";
    for (int i = 0; i < RUN_NUM_WHY; i++) {
        if (!run->fallbacks[i])
            continue;
        printf("%s%llu (%s)", before, (unsigned long long)run->fallbacks[i],
               hr_why_text(1u << i));
        before = ", ";
    }
    if (before[0] == ',')
        putchar('\n');
    return tools_flush_stdout();
}

int run_report(struct run *run)
{
    if (run->opt.json)
        return report_json(run);
    return run->opt.quiet ? TOOLS_OK : report_line(run);
}
