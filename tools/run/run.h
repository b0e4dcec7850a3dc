// SPDX-License-Identifier: Apache-2.0
// headrace run: pictures in, tensors out. Private to tools/run/.
//
//   options.c  the command line
//   run.c      from start to end: inputs, shape, device, epochs
//   pipe.c     from the loader, which makes them, to the sink
//   sink.c     where tensors go: nowhere, one array, a folder
//   report.c   the summary
//
// Memory: hr_budget_divide() says what of the budget is the device's, the
// loader's and its batches'.
#ifndef HEADRACE_TOOLS_RUN_H
#define HEADRACE_TOOLS_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

#include "tools/common/inputs.h"
#include "tools/common/manifest.h"
#include "tools/common/options.h"
#include "tools/common/out_file.h"
#include "tools/common/progress.h"

#define RUN_RING 3       // batches, at least
#define RUN_RING_MAX 64  // if they are so small that threads would starve
#define RUN_BUDGET ((uint64_t)256 << 20)  // if none is given, as the device's
#define RUN_NUM_STATUS 32                 // -status is an index
#define RUN_NUM_WHY 32

enum run_out { RUN_OUT_NONE, RUN_OUT_ARRAY, RUN_OUT_FOLDER };

struct run_options {
    const char *ops_text;
    struct ops_list ops;
    const char *out;
    enum run_out out_kind;
    const char *backend;  // NULL = automatic
    int threads, batch, epochs, cifar;
    uint64_t seed, limit;  // limit: 0 = not given
    size_t budget, cache;  // 0 = not given
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_on_error on_error;
    enum hr_tier tier;
    enum hr_memory memory;
    double timeout_s;  // 0 = none
    struct hr_limits limits;
    int cpu_cap;     // 0 = none
    int latency_ms;  // 0 = no target
    int deadline_s;  // 0 = the device's own
    bool json, quiet, strict, balance;
};

struct run_epoch {
    uint64_t images, failed;
    double seconds, cpu_seconds;
};

struct run_sink {
    struct out_file array;
    struct manifest manifest;
    char *array_path, *manifest_path, *folder;
    uint64_t rows;        // written to the array in this epoch
    char made[PATH_MAX];  // a folder that is known to exist below folder,
    bool has_made;        // if there is one
    bool again;           // the folder holds what an earlier run has made
};

struct run {
    struct options line;     // the command's
    struct run_options opt;  // points into it
    struct inputs in;
    size_t total;  // pictures per epoch
    hr_device dev;
    int c, w, h;           // shape of all pictures, if equal_shapes
    bool equal_shapes;     // one tensor per batch, else one image each
    bool fixed_shape;      // by the ops alone: no picture can differ
    bool shape_known;      // false: no picture could be probed
    size_t shape_from;     // the picture that shape was read from
    size_t picture_bytes;  // if equal_shapes
    int ring, batch;       // batches at a time, pictures of one
    hr_loader loader;
    unsigned char *tensor;  // one, read from device memory
    size_t tensor_size;
    struct run_sink sink;
    struct progress progress;
    struct run_epoch *epochs;
    uint32_t epoch;
    uint64_t images, failed;
    unsigned char *told;  // [total / 8 + 1], a bit for each that has failed
    uint64_t num_told;
    uint64_t failures[RUN_NUM_STATUS], fallbacks[RUN_NUM_WHY];
};

static inline struct hr_budget run_budget(const struct run *run)
{
    uint64_t bytes = run->opt.budget ? run->opt.budget : RUN_BUDGET;

    return hr_budget_divide((size_t)bytes);
}

// argv[0] = "headrace run"; returns an exit code.
int cmd_run(int argc, char **argv);

// Reads the command line. TOOLS_OK, or an exit code; line.done = stop here.
int run_options(struct run *run, int argc, char **argv);

// Where the tensors go. Each prints what went wrong and returns false. The
// first makes the names, and makes sure that no file of others is lost: before
// all work.
bool run_sink_name(struct run *run);
bool run_sink_open(struct run *run);
bool run_sink_begin(struct run *run);  // a new epoch, over the one before
// pixels NULL = there are none for this picture.
bool run_sink_put(struct run *run, size_t picture,
                  const struct hr_result *result, const void *pixels, int w,
                  int h);
bool run_sink_finish(struct run *run, bool interrupted);
void run_sink_discard(struct run *run);
// The manifest's head: program, inputs and options of the run. NULL if memory
// is short.
json_t *run_head_json(const struct run *run);

// Size of what picture i becomes, by its header. False: it has none.
bool run_output_size(struct run *run, size_t i, int *w, int *h);

// Inputs, device, shape, ring; false: a message was printed.
bool run_prepare(struct run *run);
// After run_prepare(): of a loader of its pictures, as `headrace run` has it,
// but for source and epochs.
struct hr_loader_params run_loader_params(const struct run *run);
bool run_pipe_epoch(struct run *run);  // false: stop with TOOLS_CANNOT
void run_pipe_close(struct run *run);

int run_report(struct run *run);

#endif
