// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

json_t *run_head_json(const struct run *run)
{
    const struct run_options *opt = &run->opt;
    hr_device dev = run->dev;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:i}", "version",
        hr_version(), "backend", dev->backend, "device", dev->name, "reference",
        hr_reference_name(hr_device_reference(dev)), "libjpeg",
        hr_jpeg_library(), "seed",
        // Larger seeds than JSON's integers are common enough to be kept exact.
        opt->seed <= INT64_MAX ? json_integer((json_int_t)opt->seed)
                               : json_sprintf("%" PRIu64, opt->seed),
        "ops", manifest_text(opt->ops_text), "dtype", hr_dtype_name(opt->dtype),
        "layout", opt->layout == HR_NCHW ? "nchw" : "nhwc", "epoch",
        (int)run->epoch);
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

// The cache's hits and sizes; NULL without a cache.
static json_t *cache_json(const struct run *run, const struct hr_stats *stats)
{
    if (!run->opt.cache)
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I}", "hits",
                     (json_int_t)stats->cache_hits, "misses",
                     (json_int_t)stats->cache_misses, "evictions",
                     (json_int_t)stats->cache_evictions, "bytes",
                     (json_int_t)stats->cache_bytes);
}

// How many pictures each engine of the device was given; NULL without
// --balance.
static json_t *shares_json(const struct run *run, const struct hr_stats *stats)
{
    struct hr_profile profile;
    json_t *json;

    if (!run->opt.balance)
        return NULL;
    hr_device_profile(run->dev, &profile);
    json = json_object();
    for (int i = 0; json && i < profile.num_engines; i++)
        json_object_set_new(json, profile.engines[i].name,
                            json_integer((json_int_t)stats->shares[i]));
    return json;
}

static int report_json(const struct run *run)
{
    static const char *const memories[] = {"host", "pinned", "device"};
    json_t *json = run_head_json(run), *more;
    struct hr_stats stats;
    double img_per_s, cpu;

    rates(run, &img_per_s, &cpu);
    hr_device_stats(run->dev, &stats);
    more = json_pack(
        "{s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:o, s:f, s:f, s:I,"
        " s:o*, s:o*, s:o*}",
        "threads", run->dev->params.threads, "batch", run->batch, "memory",
        memories[run->opt.memory], "images", (json_int_t)run->images, "failed",
        (json_int_t)run->failed, "unread", (json_int_t)run->in.num_faults,
        "left_out", (json_int_t)run->in.source->skipped, "failures",
        manifest_statuses_json(run->failures, RUN_NUM_STATUS), "fallbacks",
        manifest_reasons_json(run->fallbacks), "checked",
        (json_int_t)stats.checked, "mismatches", (json_int_t)stats.mismatches,
        "epochs", epochs_json(run), "img_per_s", img_per_s, "cpu_s_per_1000",
        cpu, "peak_rss_bytes", (json_int_t)tools_peak_rss(), "interrupted",
        stop_signal() ? json_true() : NULL, "cache", cache_json(run, &stats),
        "shares", shares_json(run, &stats));
    json_object_del(json, "epoch");
    if (!json || !more || json_object_update(json, more)) {
        json_decref(json);
        json = NULL;
    }
    json_decref(more);
    return manifest_print(json);
}

static void report_cache(const struct run *run)
{
    struct hr_stats stats;

    if (!run->opt.cache)
        return;
    hr_device_stats(run->dev, &stats);
    printf("cache: %llu pictures were there, %llu were not, %llu made room; "
           "%.1f MiB\n",
           (unsigned long long)stats.cache_hits,
           (unsigned long long)stats.cache_misses,
           (unsigned long long)stats.cache_evictions,
           (double)stats.cache_bytes / (1 << 20));
}

static void report_shares(const struct run *run)
{
    struct hr_profile profile;
    struct hr_stats stats;
    uint64_t all = 0;

    hr_device_stats(run->dev, &stats);
    hr_device_profile(run->dev, &profile);
    for (int i = 0; run->opt.balance && i < profile.num_engines; i++)
        all += stats.shares[i];
    for (int i = 0; all && i < profile.num_engines; i++)
        printf("%s%s %.1f %%", i ? ", " : "shares: ", profile.engines[i].name,
               100 * (double)stats.shares[i] / (double)all);
    if (all)
        putchar('\n');
}

// Prints the written files. An array has a row for each picture, also for a
// failed one, unless failures are skipped.
static void report_files(const struct run *run)
{
    uint64_t zeros = run->epochs[epochs_run(run) - 1].failed;

    if (stop_signal() || !run->opt.out_kind)
        return;
    printf("wrote %s and %s", run->opt.out, run->sink.manifest_path);
    if (zeros && run->opt.out_kind == RUN_OUT_ARRAY &&
        run->opt.on_error != HR_ON_ERROR_SKIP)
        printf("; %" PRIu64 " row%s of %s %s zeros: their pictures failed",
               zeros, zeros == 1 ? "" : "s", run->opt.out,
               zeros == 1 ? "is" : "are");
    putchar('\n');
}

// Prints how much of the input is no picture of the run.
static void report_lost(const struct run *run)
{
    if (run->in.source->skipped)
        printf(", %zu left out", run->in.source->skipped);
    if (run->in.num_faults)
        printf("; %zu folder%s or other part%s of the input unread",
               run->in.num_faults, run->in.num_faults == 1 ? "" : "s",
               run->in.num_faults == 1 ? "" : "s");
}

static int report_line(const struct run *run)
{
    double img_per_s, cpu;
    const char *before;

    rates(run, &img_per_s, &cpu);
    printf("%llu ", (unsigned long long)run->images);
    if (run->failed)
        printf("of %llu ", (unsigned long long)(run->images + run->failed));
    printf("picture%s on %s, %.1f img/s, %.2f CPU-s per 1000, %llu failed",
           run->images + run->failed == 1 ? "" : "s", run->dev->name, img_per_s,
           cpu, (unsigned long long)run->failed);
    tools_print_statuses(run->failures, RUN_NUM_STATUS);
    report_lost(run);
    putchar('\n');
    if (run->failures[-HR_ELIMIT])
        puts("limits are raised by --max-pixels and its kin, see headrace run "
             "--help");
    // Pictures that another engine than the device made, whole or in part.
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
    report_shares(run);
    report_cache(run);
    report_files(run);
    return tools_flush_stdout();
}

int run_report(struct run *run)
{
    if (run->opt.json)
        return report_json(run);
    return run->opt.quiet ? TOOLS_OK : report_line(run);
}
