// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <stdlib.h>

#include "tools/common/options.h"
#include "tools/common/stop.h"
#include "tools/common/tools.h"

static bool check_inputs(struct run *run)
{
    if (!options_pictures(&run->in, run->opt.quiet))
        return false;
    if (run->opt.out_kind && !inputs_find_classes(&run->in))
        return tools_warn("out of memory");
    run->total = run->in.num;
    if (run->opt.limit && run->opt.limit < run->total)
        run->total = run->opt.limit;
    run->in.num = run->total;
    return true;
}

static bool open_device(struct run *run)
{
    struct hr_device_params params = {
        .threads = run->opt.threads,
        .budget = hr_budget_divide(run->opt.budget).device,
        .strict = run->opt.strict,
        .balance = run->opt.balance,
        .cpu_cap = run->opt.cpu_cap,
        .latency_ns = run->opt.latency_ms * INT64_C(1000000),
        .deadline_ns = run->opt.deadline_s * INT64_C(1000000000),
        .limits = run->opt.limits,
    };
    hr_cache cache = NULL;

    if (run->opt.cache) {
        cache = hr_cache_create(run->opt.cache);
        if (!cache)
            return tools_warn("%s", hr_last_error());
    }
    params.cache = cache;
    run->dev = hr_device_open(run->opt.backend, &params);
    hr_cache_release(&cache);
    if (!run->dev)
        tools_warn("%s", hr_last_error());
    return run->dev != NULL;
}

bool run_output_size(struct run *run, size_t i, int *w, int *h)
{
    const struct ops_list *list = &run->opt.ops;
    struct hr_info info;

    if (inputs_probe(&run->in, i, &run->dev->params.limits, &info) != HR_OK)
        return false;
    return hr_ops_output_size(list->ops, list->num, info.width, info.height,
                              info.orientation, w, h) >= 0;
}

// One array needs one shape; if the ops do not fix it, the first picture that
// has a header does.
static void find_shape(struct run *run)
{
    run->c = hr_ops_channels(run->opt.ops.ops, run->opt.ops.num, 3);
    run->fixed_shape = hr_ops_fixed_size(run->opt.ops.ops, run->opt.ops.num,
                                         &run->w, &run->h);
    run->equal_shapes = run->fixed_shape || run->opt.out_kind == RUN_OUT_ARRAY;
    run->shape_known = run->fixed_shape;
    if (!run->equal_shapes)
        return;
    for (size_t i = 0; i < run->total && !run->shape_known; i++) {
        run->shape_from = i;
        run->shape_known = run_output_size(run, i, &run->w, &run->h);
    }
    if (!run->shape_known)
        run->w = run->h = 1;
}

// Three pictures per thread keep all of them busy while one batch is being
// written.
static int ring_for(const struct run *run)
{
    int pictures = 3 * run->dev->params.threads;
    int ring = (pictures + run->batch - 1) / run->batch;

    return ring < RUN_RING       ? RUN_RING
           : ring > RUN_RING_MAX ? RUN_RING_MAX
                                 : ring;
}

// Batches shrink until the ring fits the budget; below one picture each, the
// ring does.
static bool size_ring(struct run *run)
{
    size_t capacity = run_budget(run).ring, fit;

    run->batch = run->opt.batch;
    if ((uint64_t)run->batch > run->total)
        run->batch = (int)run->total;
    run->ring = ring_for(run);
    if (!run->equal_shapes)
        return true;
    run->picture_bytes = hr_dtype_size(run->opt.dtype) * (size_t)run->c;
    if (!tools_mul(&run->picture_bytes, run->picture_bytes, (size_t)run->w) ||
        !tools_mul(&run->picture_bytes, run->picture_bytes, (size_t)run->h))
        return tools_warn("out of memory");
    fit = capacity / (size_t)run->ring / run->picture_bytes;
    if (!fit) {
        fit = capacity / run->picture_bytes;
        run->ring = fit ? (int)fit : 1;
        fit = 1;
    }
    if (fit < (size_t)run->batch)
        run->batch = (int)fit;
    return true;
}

bool run_prepare(struct run *run)
{
    if (!check_inputs(run) || !open_device(run))
        return false;
    find_shape(run);
    return size_ring(run);
}

static bool prepare(struct run *run)
{
    run->epochs = calloc((size_t)run->opt.epochs, sizeof(*run->epochs));
    if (!run->epochs)
        return tools_warn("out of memory");
    if (!run_sink_name(run) || !run_prepare(run))
        return false;
    run->told = calloc(run->total / 8 + 1, 1);
    if (!run->told)
        return tools_warn("out of memory");
    // From here on there are files that a signal must not leave behind.
    stop_install();
    return run_sink_open(run);
}

static void tell_rest(const struct run *run)
{
    if (run->num_told > TOOLS_MAX_TOLD)
        tools_warn("... and %llu more that failed%s",
                   (unsigned long long)(run->num_told - TOOLS_MAX_TOLD),
                   run->opt.out_kind ? "; the list of pictures has all" : "");
}

// An array that ends early would pass for a whole one; a folder holds whole
// pictures, and its manifest says that it is not all.
static int interrupted(struct run *run)
{
    int code = 128 + stop_signal();

    tell_rest(run);
    if (run->opt.out_kind == RUN_OUT_FOLDER && !run_sink_finish(run, true))
        code = TOOLS_CANNOT;
    tools_warn(
        "interrupted after %llu of %llu pictures%s",
        (unsigned long long)(run->images + run->failed),
        (unsigned long long)run->total * (unsigned long long)run->opt.epochs,
        run->opt.out_kind == RUN_OUT_ARRAY ? "; no array was written" : "");
    run_report(run);
    return code;
}

// Ends a run that broke, as by a full disk. The pictures that reached a folder
// are listed.
static int broken(struct run *run)
{
    tell_rest(run);
    if (run->opt.out_kind != RUN_OUT_FOLDER)
        return TOOLS_CANNOT;
    if (run_sink_finish(run, true))
        tools_warn("stopped; %s lists what was made before",
                   run->sink.manifest_path);
    else
        tools_warn("stopped; what was made before lies in %s, not listed",
                   run->opt.out);
    return TOOLS_CANNOT;
}

static int finish(struct run *run)
{
    bool failed = run->failed && run->opt.on_error == HR_ON_ERROR_FAIL;

    tell_rest(run);
    if (!run->shape_known && run->equal_shapes) {
        tools_warn("%s: not written, as no picture could be read",
                   run->opt.out);
        return TOOLS_CANNOT;
    }
    if (!run_sink_finish(run, false) || run_report(run) != TOOLS_OK)
        return TOOLS_CANNOT;
    return failed || run->in.num_faults ? TOOLS_FAILED : TOOLS_OK;
}

static int run_epochs(struct run *run)
{
    uint32_t last = (uint32_t)run->opt.epochs - 1;
    const struct run_epoch *epoch;
    bool ok = true;

    progress_begin(&run->progress, (uint64_t)run->total * (last + 1),
                   !run->opt.quiet);
    while ((ok = run_pipe_epoch(run)) && run->epoch < last && !stop_signal())
        run->epoch++;
    progress_clear(&run->progress);
    if (!ok)
        return broken(run);
    // A signal that came after the last picture interrupted nothing.
    epoch = &run->epochs[run->epoch];
    if (stop_signal() &&
        (run->epoch < last || epoch->images + epoch->failed < run->total))
        return interrupted(run);
    return finish(run);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {0};
    int code = run_options(&run, argc, argv);

    if (code == TOOLS_OK && !run.line.done)
        code = prepare(&run) ? run_epochs(&run) : TOOLS_CANNOT;
    run_pipe_close(&run);
    run_sink_discard(&run);
    hr_device_close(&run.dev);
    inputs_finish(&run.in);
    options_finish(&run.line);
    free(run.epochs);
    free(run.told);
    return code;
}
