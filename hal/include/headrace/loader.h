// SPDX-License-Identifier: Apache-2.0
// The loader: batches of a data set, made ahead of their consumer.
//
//   hr_loader loader = hr_loader_create(hr_loader_params(
//       .source = source, .ops = train, .num_ops = 4, .batch = 64,
//       .shuffle = true, .seed = 7, .epochs = 90));
//   hr_loaded step;
//
//   while (hr_loader_next(loader, HR_FOREVER, &step) == HR_OK && step) {
//       use(step->batch->params.data, step->classes, step->n);
//       hr_loaded_release(&step);
//   }
//   hr_loader_destroy(&loader);
//
//   sampler -> reads in flight -> jobs -> batches that are ready -> next
//
// The order of samples, and the draws of random ops, are a pure function of
// (seed, epoch, position): the same for any device, number of threads, batch
// size and budget, and after a loader was saved and restored.
#ifndef HEADRACE_LOADER_H
#define HEADRACE_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/job.h>
#include <headrace/source.h>

HR_BEGIN_DECLS

// Where a loader stands, to be kept anywhere. Only the library reads it.
struct hr_loader_state {
    unsigned char bytes[96];
};

// How much a loader does at once. 0 = as described at struct hr_loader_params.
struct hr_loader_settings {
    int threads;   // of the device's workers that make pictures
    int reads;     // samples that are read at the same time
    int depth;     // batches made ahead of the consumer's
    size_t bytes;  // of encoded samples in memory
};

// A batch that was delivered. It belongs to the consumer until
// hr_loaded_release(). All members are facts.
typedef const struct hr_loaded_t {
    hr_batch batch;  // the first n of its slots are the samples; others are
                     // undefined
    int n;
    uint32_t epoch;
    uint64_t number;          // of the batch in its epoch
    bool last;                // of its epoch: none comes behind it
    const int64_t *classes;   // [n] hr_source_class(); -1 = none
    const uint64_t *indices;  // [n] in the source
    // [n] What random ops drew from; its index is the position in the epoch.
    const struct hr_random *keys;
    const struct hr_result *results;  // [n]
    // [n] With own_size, in place of batch, which is NULL: the pictures. NULL:
    // how large one would be cannot be told; its result says why. [views * n]
    // With views: picture v * n + i is view v of sample i. The pictures of a
    // view lie one behind the other, as a tensor, in the memory of batch.
    const hr_image *images;
    int views;        // hr_loader_params.num_views
    int failed;       // of results that are not HR_OK
    int replaced;     // by later samples (SKIP)
    bool through;     // of its batch no other part comes (own_size)
    int64_t made_ns;  // from when it was submitted (with SKIP: last) until it
                      // was made, without map
} *hr_loaded;

// A list of ops, by which each sample becomes a picture.
struct hr_loader_view {
    const struct hr_op *ops;  // copied; normalize tables are borrowed
    int num_ops;
};

struct hr_loader_params {
    hr_source source;         // it must stay open as long as the loader lives
    hr_device device;         // NULL = the default device
    const struct hr_op *ops;  // copied; normalize tables are borrowed
    int num_ops;
    // In place of ops, if there are any: each sample becomes so many pictures,
    // one by each list, of which all decode alike and fix a size; see
    // hr_loaded.images. It is read once, and decoded once where that pays. View
    // v draws as the sample of index * num_views + v. A sample fails with the
    // first of its views that does. Files are read by the loader, also with
    // by_path or a cache, which knows them by their bytes then. Not with
    // own_size, h and w, nor in memory of a device (HR_EUNSUPPORTED).
    const struct hr_loader_view *views;
    int num_views;  // 0 .. 64
    int batch;      // samples of a batch; 0 = 64
    int h, w;       // of the pictures made; 0 = what the ops fix
    // Each picture has the size that its ops make of it; see hr_loaded.images.
    // A batch whose pictures take more than its share of the budget comes in
    // parts, each with n samples of it; the next is made when the one before
    // was given back. One picture alone is always let in, but beyond its share
    // only when all batches were given back: do not hold one while you wait for
    // the next. Not with HR_ON_ERROR_SKIP, h and w.
    bool own_size;
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_memory memory;
    enum hr_tier tier;
    bool strict;                // no fallback, as hr_job_params.strict
    int64_t timeout_ns;         // of the making of a batch, without reading, as
                                // hr_job_params.timeout_ns; 0 = none
    enum hr_on_error on_error;  // what becomes of a sample that cannot be made:
                                // FAIL: hr_loader_next() fails with its status
                                // in the place of its batch, and goes on behind
                                // it. ZERO: it is zeros, its result has the
                                // status. SKIP: the next sample that can be
                                // made takes its place, too; if there is none
                                // within 64, it is zeros
    // Order.
    bool shuffle;  // another permutation each epoch; false: by number
    uint64_t shuffle_buffer;  // with shuffle: each sample comes less than so
                              // many places before or behind its own, so that
                              // files are read almost in order; 0 = anywhere
    uint64_t seed;            // of permutations and random ops
    int64_t epochs;           // 0 = 1; HR_ENDLESS
    uint32_t first_epoch;     // number of the first one; they are numbered from
                              // 0, and end before number epochs
    uint32_t shards;  // this is number shard of so many loaders that share
    uint32_t shard;   // the samples of an epoch; 0 = 1
    bool shard_drop;  // if they do not go evenly: false: the first samples
        // come twice, true: the last are left out. All shards
        // have equally many
    bool epochs_apart;  // an epoch begins when the one before was delivered: it
                        // finds all of that in a cache, and has its own time
    bool drop_remainder;  // of an epoch: no batch that is not full
    // How often samples shall come, relative to each other; [source->num],
    // finite, >= 0, copied. Then samples are drawn with replacement.
    const double *weights;
    uint64_t samples;  // of an epoch, of all shards; 0 = source->num
    // Called for each batch between its making and its delivery: it may write
    // the pixels of the n samples and their classes. Failed samples are among
    // them, but no batch that fails. A status other than HR_OK is that of
    // hr_loader_next() in the place of the batch. It may wait; while it works
    // on one batch others are made. Threads: the loader's, map_threads at a
    // time, never two for one batch, in any order; it must not call the loader.
    enum hr_status (*map)(void *ctx, hr_loaded loaded, int64_t *classes);
    void *map_ctx;
    int map_threads;  // at most reads; 0 = 1
    // Queue.
    bool as_ready;  // batches of an epoch come in the order in which they are
                    // made, but its last one last; false: in the sampler's
    size_t budget;  // bytes of batches and encoded samples; 0 = 256 MiB. Two
                    // batches and the samples of one are always let in
    int reads;      // threads that read samples, up to 256; 0 = 8, or with
                    // autotune as many as it finds
    bool by_path;   // files of their own are not read ahead: the device reads
                    // them when it makes them, as with a cache. Less memory and
                    // time where they are in memory already; what a slow disk
                    // takes is not hidden
    // The settings follow what is measured between batches: while the consumer
    // waits, the scarcest resource is increased; an increase that gains less
    // than 3 % is undone. The most is: of threads, what the
    // device has, and see reserve and cpu_share; of reads, `reads`; of depth
    // and bytes, what `budget` has room for. Neither the order of the batches
    // nor a bit of them depends on it. The device should be the loader's own:
    // its threads are set until the loader is destroyed.
    bool autotune;
    // Where it begins, or, without autotune, what stays: stats.settings of an
    // earlier run, say. A 0 is chosen: reads as above, threads those in use,
    // depth and bytes what `budget` has room for (with autotune some batches).
    // A number above the most is cut to it.
    struct hr_loader_settings start;
    int reserve;       // usable cores (see hr_device_params.threads) that are
                       // left to others; at least one thread remains
    double cpu_share;  // of the usable cores, 0 < share <= 1, that may be used;
                       // 0 = all. Both matter with autotune, or start.threads
    // To go on where a loader of the same source, seed, shuffle (and buffer),
    // shards and samples was saved. Device, threads, budget and batch may be
    // others.
    const struct hr_loader_state *resume;
};

// A number, switch or word of struct hr_loader_params, for programs that take
// it from their users: hr_loader_create() checks it so.
struct hr_loader_param {
    const char *name;  // as of the member: "batch", "start.reads"
    enum hr_param_kind {
        HR_PARAM_BOOL,
        HR_PARAM_INT,
        HR_PARAM_UINT32,
        HR_PARAM_INT64,
        HR_PARAM_UINT64,
        HR_PARAM_SIZE,
        HR_PARAM_DOUBLE,
        HR_PARAM_WORD,  // an enum, of which words has the names
    } kind;
    size_t offset;
    int64_t lo;  // both included
    uint64_t hi;
    const char *const *words;  // by number, then NULL
    const char *fallback;      // what 0 stands for, in words
    const char *help;
};
// The number-th; NULL: there is none. Threads: any.
HR_API const struct hr_loader_param *hr_loader_param(int number);

// How a device and a loader on it share one budget of bytes. Their parts
// overlap, for the device counts the batches in flight, too.
struct hr_budget {
    size_t device;  // hr_device_params.budget: all but a batch that is consumed
    size_t loader;  // hr_loader_params.budget
    size_t ring;    // of that, at most: the batches; encoded samples the rest
};
static inline size_t hr_budget_ring(size_t loader)
{
    return loader / 4 * 3;
}
static inline struct hr_budget hr_budget_divide(size_t bytes)
{
    struct hr_budget part;

    part.device = bytes - bytes / 6;
    part.loader = bytes - bytes / 3;
    part.ring = hr_budget_ring(part.loader);
    return part;
}

#define hr_loader_params(...) (&(struct hr_loader_params){__VA_ARGS__})
#define HR_ENDLESS ((int64_t)-1)

// A loader. Threads: hr_loader_next() by any number of threads, each batch goes
// to one of them.
typedef const struct hr_loader_t {
    int batch, c, h, w;  // of a batch; batch is at most samples; h and w are 0
                         // with own_size, or views
    int depth;           // batches that it makes ahead, with the one that
                         // is consumed: 2, or at most what comes in all
                         // epochs; with autotune: at most
    uint64_t samples;    // of an epoch, that this shard delivers
    uint64_t batches;    // of an epoch
    int fd;              // an eventfd that is readable while
                         // hr_loader_next() would not wait. It must only
                         // be polled
} *hr_loader;

// Opens a loader, which begins to read. NULL with hr_last_error(): HR_EINVAL,
// HR_ENOMEM, HR_EFORK, and those of hr_batch_create(). Threads: any.
HR_API hr_loader hr_loader_create(const struct hr_loader_params *params);

// Stops reading, cancels what is in flight, waits for it, and sets *loader to
// NULL. No other thread may be in hr_loader_next(): see hr_loader_stop().
// Batches that the consumer has stay valid until they are released. In a child
// of fork() it leaves the parent's loader alone. NULL and pointers to NULL are
// fine. Threads: any but callbacks.
HR_API void hr_loader_destroy(hr_loader *loader);

// Ends all deliveries: from now on hr_loader_next() is HR_ECANCELED, also where
// it waits. Threads: any.
HR_API void hr_loader_stop(hr_loader loader);

// Waits up to timeout_ns (0 = just look, HR_FOREVER) for the next batch.
// HR_OK: *loaded is it, or NULL at the end of the last epoch. Else *loaded is
// NULL: HR_PENDING (not within the timeout), HR_ECANCELED (stopped), HR_EFORK.
// Another status is that of a batch that could not be made, with its reason in
// hr_last_error(); the next call goes on behind it. With HR_ON_ERROR_FAIL it is
// a sample's, with any on_error that of hr_submit(). Threads: any but
// callbacks.
HR_API enum hr_status hr_loader_next(hr_loader loader, int64_t timeout_ns,
                                     hr_loaded *loaded);

// The sample for which hr_loader_next() failed last on this thread: its result,
// and its number in the source. NULL: it did not fail, or not for a sample.
// Valid until the thread's next hr_loader_next(). Threads: any, each its own.
HR_API const struct hr_result *hr_loader_failed(uint64_t *index);

// Gives the batch back, sets *loaded to NULL. NULL is fine. Threads: any.
HR_API void hr_loaded_release(hr_loaded *loaded);

// Writes where the loader stands: behind the batches that were delivered, or
// dropped for a failed sample; with own_size behind the parts of the oldest
// one. (With as_ready others may be between two of their parts: they come once
// more, as a whole. See hr_loaded.through.) HR_EFORK. Threads: any.
HR_API enum hr_status hr_loader_save(hr_loader loader,
                                     struct hr_loader_state *state);

struct hr_loader_stats {
    uint64_t batches, samples;  // delivered
    uint64_t failed, replaced;  // samples of them
    uint64_t by_decoder;        // samples that hr_set_decoder()'s decoder
                                // took
    uint64_t dropped;           // batches that could not be made
    uint64_t waits;             // of hr_loader_next() for a batch,
    int64_t wait_ns;            // altogether
    int ready;                  // batches, now
    int reading;                // reads in flight, now
    size_t batch_bytes;         // of all batches
    size_t encoded_bytes;       // in memory now, also kept for later samples
    size_t peak_encoded_bytes;
    // The figures that tuning goes by: means over the time since the loader was
    // made.
    double mean_ready;    // batches
    double mean_reading;  // reads in flight
    double mean_making;   // samples that the device has
    double starved;       // share of the time, 0 .. 1: it has none
    double waited;        // share of the time: a consumer wants a batch (it is
                          // in hr_loader_next(), or has none), and none is
                          // ready
    struct hr_loader_settings settings;  // now
    uint64_t tune_steps, tune_backs;     // changes tried; of them taken back
};
HR_API void hr_loader_stats(hr_loader loader, struct hr_loader_stats *stats);

HR_END_DECLS
#endif
