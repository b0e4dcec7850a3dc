// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

#define LOOK_NS ((int64_t)100000000)  // how often a wait looks up

struct hr_loader_params run_loader_params(const struct run *run)
{
    const struct run_options *opt = &run->opt;
    bool found = run->equal_shapes && !run->fixed_shape;

    return (struct hr_loader_params){
        .device = run->dev,
        .ops = opt->ops.ops,
        .num_ops = opt->ops.num,
        .batch = run->batch,
        .own_size = !run->equal_shapes,
        .h = found ? run->h : 0,
        .w = found ? run->w : 0,
        .dtype = opt->dtype,
        .layout = opt->layout,
        .memory = opt->memory,
        .tier = opt->tier,
        .strict = opt->strict,
        .timeout_ns = (int64_t)ceil(opt->timeout_s * 1e9),
        // Failed pictures are delivered among the others; the sink decides.
        .on_error = HR_ON_ERROR_ZERO,
        .seed = opt->seed,
        .budget = run_budget(run).loader,
        .start.depth = run->ring > 2 ? run->ring - 1 : 1,
        .by_path = true,
        // A few pictures need no more threads than pictures.
        .reads = run->total < 8 ? (int)run->total : 0,
    };
}

static bool open_loader(struct run *run)
{
    struct hr_loader_params params = run_loader_params(run);

    params.source = run->in.source;
    params.samples = run->total;
    params.epochs = run->opt.epochs;
    params.epochs_apart = true;
    run->loader = hr_loader_create(&params);
    return run->loader || tools_warn("%s", hr_last_error());
}

void run_pipe_close(struct run *run)
{
    hr_loader_destroy(&run->loader);
    free(run->tensor);
    run->tensor = NULL;
}

// A line for each picture that fails, however often, but not for a thousand.
static void tell(struct run *run, size_t picture,
                 const struct hr_result *result)
{
    unsigned bit = 1u << picture % 8;

    if (run->told[picture / 8] & bit)
        return;
    run->told[picture / 8] |= (unsigned char)bit;
    if (run->num_told++ >= TOOLS_MAX_TOLD)
        return;
    progress_clear(&run->progress);
    tools_warn("%s", *result->message ? result->message
                                      : hr_status_text(result->status));
}

static void count(struct run *run, size_t picture,
                  const struct hr_result *result)
{
    struct run_epoch *epoch = &run->epochs[run->epoch];

    if (result->status == HR_OK) {
        epoch->images++;
    } else {
        epoch->failed++;
        if (-result->status < RUN_NUM_STATUS)
            run->failures[-result->status]++;
        tell(run, picture, result);
    }
    for (int bit = 0; bit < RUN_NUM_WHY; bit++)
        run->fallbacks[bit] += result->why >> bit & 1;
}

// Two pictures cannot lie in one array.
static bool same_shape(struct run *run, size_t i,
                       const struct hr_result *result)
{
    const struct ops_list *list = &run->opt.ops;
    char path[PATH_MAX], first[PATH_MAX];
    int w, h;

    if (run->fixed_shape || !run->equal_shapes || !result->width ||
        result->status == HR_OK ||
        hr_ops_output_size(list->ops, list->num, result->width, result->height,
                           result->orientation, &w, &h) < 0 ||
        (w == run->w && h == run->h))
        return true;
    progress_clear(&run->progress);
    inputs_path(&run->in, i, path, sizeof(path));
    inputs_path(&run->in, run->shape_from, first, sizeof(first));
    return tools_warn(
        "%s makes %dx%d pixels, %s makes %dx%d: one array needs equal "
        "sizes; name a folder with --out, or add a resize or crop",
        first, run->w, run->h, path, w, h);
}

// Picture i of a batch, from device memory to the host. NULL: a message was
// printed.
static const void *read_tensor(struct run *run, hr_loaded loaded, int i)
{
    size_t size = loaded->batch ? loaded->batch->params.stride_n
                                : loaded->images[i]->size;
    enum hr_status status;

    if (size > run->tensor_size) {
        free(run->tensor);
        run->tensor = malloc(size);
        run->tensor_size = run->tensor ? size : 0;
    }
    if (!run->tensor) {
        tools_warn("no memory for %zu bytes", size);
        return NULL;
    }
    status = loaded->batch ? hr_batch_read(loaded->batch, i, 1, run->tensor,
                                           size, HR_FOREVER)
                           : hr_image_read(loaded->images[i], run->tensor, size,
                                           HR_FOREVER);
    // A failed picture's status is in its result.
    if (status == HR_EINPUT)
        return memset(run->tensor, 0, size);
    if (status == HR_OK)
        return run->tensor;
    tools_warn("%s", hr_last_error());
    return NULL;
}

// The tensor of picture i of a batch, on the host. *pixels is NULL if none of a
// known size was made, or the sink needs none. False: a message was printed.
static bool tensor(struct run *run, hr_loaded loaded, int i,
                   const void **pixels, int *w, int *h)
{
    hr_batch batch = loaded->batch;
    hr_image image = batch ? NULL : loaded->images[i];
    const unsigned char *data = batch   ? batch->params.data
                                : image ? image->params.data
                                        : NULL;

    *pixels = NULL;
    if (run->opt.out_kind == RUN_OUT_NONE || (!batch && !image))
        return true;
    *w = image ? image->params.w : run->w;
    *h = image ? image->params.h : run->h;
    *pixels = !data   ? read_tensor(run, loaded, i)
              : image ? data
                      : data + batch->params.stride_n * (size_t)i;
    return *pixels != NULL;
}

static bool deliver(struct run *run, hr_loaded loaded)
{
    for (int i = 0; i < loaded->n; i++) {
        const struct hr_result *result = &loaded->results[i];
        size_t picture = (size_t)loaded->indices[i];
        const void *pixels;
        int w = 1, h = 1;

        if (!same_shape(run, picture, result))
            return false;
        count(run, picture, result);
        if (!tensor(run, loaded, i, &pixels, &w, &h) ||
            !run_sink_put(run, picture, result, pixels, w, h))
            return false;
    }
    return true;
}

static void draw(struct run *run)
{
    const struct run_epoch *epoch = &run->epochs[run->epoch];

    progress_update(&run->progress,
                    run->images + run->failed + epoch->images + epoch->failed,
                    run->failed + epoch->failed);
}

// Hands the next batch to the sink, if there is one within the time.
static bool take(struct run *run, int64_t timeout_ns, bool *last)
{
    hr_loaded loaded;
    enum hr_status status = hr_loader_next(run->loader, timeout_ns, &loaded);
    bool ok = status == HR_OK || status == HR_PENDING;

    if (!ok) {
        progress_clear(&run->progress);
        return tools_warn("%s", hr_last_error());
    }
    if (loaded) {
        ok = deliver(run, loaded);
        *last = loaded->last;
        hr_loaded_release(&loaded);
    }
    draw(run);
    return ok;
}

// After a signal: what is made already, and no more.
static bool take_ready(struct run *run)
{
    struct hr_loader_stats stats;
    bool ok = true, last = false;

    hr_loader_stats(run->loader, &stats);
    for (int n = stats.ready; ok && n > 0 && !last; n--)
        ok = take(run, 0, &last);
    hr_loader_stop(run->loader);
    return ok;
}

bool run_pipe_epoch(struct run *run)
{
    struct run_epoch *epoch = &run->epochs[run->epoch];
    bool ok = run->loader || open_loader(run), last = false;
    double begun = tools_seconds(), cpu = tools_cpu_seconds();

    ok = ok && run_sink_begin(run);
    while (ok && !last && !stop_signal())
        ok = take(run, LOOK_NS, &last);
    if (ok && !last)
        ok = take_ready(run);
    epoch->seconds = tools_seconds() - begun;
    epoch->cpu_seconds = tools_cpu_seconds() - cpu;
    run->images += epoch->images;
    run->failed += epoch->failed;
    return ok;
}
