// SPDX-License-Identifier: Apache-2.0
// The loader inside. Private to loader/queue/.
//
// Each file uses only those behind it here: loader, read, map, job, next,
// measure, epoch, free, sizes. tune.c, sampler.c and page_pool.c know no
// loader.
//
// A batch has a slot from when it is planned until the consumer gives it back:
//
//   FREE -> READ -> JOB -> (MAP -> MAPPING ->) READY -> HELD -> FREE
//            ^       |                           |               ^
//            +-skip--+                           +-- (on_error) -+
//
// READ: its samples are taken by reader threads, the oldest batch first; the
// reader of the last one submits. JOB: the device has it. A sample that failed
// and is to be replaced leads back to READ, with that sample alone. MAP: it
// waits for a reader thread to call the user's map, which is at work in
// MAPPING. Pictures of their own sizes: a slot whose next part is to be made is
// in MEMORY until it may have the memory; from there it goes on as from READ.
// If samples are left when a part was given back, it is in MEMORY again.
//
// One lock guards everything but the members that the struct excepts; it is not
// held while a sample is read, a job submitted, or a callback of the user's
// runs.
#ifndef HEADRACE_LOADER_INSIDE_H
#define HEADRACE_LOADER_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <headrace/headrace.h>

#include "page_pool.h"
#include "sampler.h"
#include "loader/source/source.h"
#include "tune.h"

enum {
    HR__LOADER_DEPTH = 64,   // slots at most: bits of a mask
    HR__LOADER_TUNED = 32,   // slots, where the depth is tuned
    HR__LOADER_READS = 256,  // threads at most
    HR__LOADER_TRIES = 64,   // samples that are tried for one that fails
};

enum hr__slot_state {
    SLOT_FREE,
    SLOT_READ,
    SLOT_MEMORY,
    SLOT_JOB,
    SLOT_MAP,
    SLOT_MAPPING,
    SLOT_READY,
    SLOT_HELD
};

struct hr__slot;

// A way to make a picture of a sample; without views there is one.
struct hr__view {
    struct hr_op ops[HR_MAX_OPS];
    int num_ops;
    int w, h;   // with views
    size_t at;  // in a batch with views: bytes
};

struct hr__loader_sample {
    struct hr__slot *slot;
    uint64_t k;             // its number in the shard's epoch
    int tries;              // samples that failed in its place
    bool wanted;            // to be read: no reader has taken it yet
    bool pending;           // to be submitted, or in a job
    enum hr_status status;  // of reading
    struct hr_encoded from;
    void *memory;            // of the room, that from lies in; or NULL
    size_t taken;            // bytes of it
    struct hr_encoded lent;  // lent by a callback,
    bool is_lent;            // which wants it back
    size_t name;             // its path in slot->names
    int w, h;                // of the picture that is made of it (own_size);
                             // 0 = not known
    hr_job job;              // that begins with this sample
    bool job_ended;
};

struct hr__slot {
    struct hr_loaded_t pub;  // first
    struct hr__loader *loader;
    enum hr__slot_state state;
    uint64_t seq;    // of the batch, since the loader was made
    int all;         // samples; begin .. end - 1 of them, pub.n, are made and
    int begin, end;  // delivered together: but for own_size all
    bool is_last;    // of its epoch
    bool measured;   // with own_size: sizes are known
    int wanted;      // samples that no reader has taken yet
    int reading;     // samples that are being read
    int jobs;        // in flight
    bool submitting;
    int64_t submitted;      // when, last
    enum hr_status broken;  // no job could be made of it
    char broken_text[256];
    struct hr_sample *list;  // [batch * num_views] for hr_submit()
    // [batch]
    struct hr__loader_sample *samples;
    int64_t *classes;
    uint64_t *indices;
    struct hr_random *keys;
    struct hr_result *results;
    unsigned char *pixels;  // of CIFAR files, each sample's HR__CIFAR_BYTES;
                            // NULL: there are none
    hr_image *images;       // [batch] over pixels of samples; or NULL
    // With own_size or views: [batch * num_views] images for the pictures; the
    // ones that the consumer has; bytes of the part's images, and their memory,
    // if it is the host's.
    hr_image *outs, *shown;
    size_t need, capacity;
    unsigned char *memory;
    // Paths of the samples that are submitted, for messages.
    char *names;
    size_t names_used, names_capacity;
};

// A place between two batches: the next begins with sample k of the epoch.
struct hr__cursor {
    uint64_t epoch, k;
};

struct hr__loader {
    struct hr_loader_t pub;  // first
    // Set at creation.
    struct hr_loader_params params;
    struct hr__view *views;  // [num_views]
    int num_views;           // 1 without params.num_views
    size_t views_size;       // bytes of a batch with views
    struct hr__sampler sampler;
    struct hr__source *source;
    bool by_path;  // or there is a cache, which finds files by their path
    pid_t pid;
    // The rest is guarded by lock.
    pthread_mutex_t lock;
    pthread_cond_t work;     // for readers that have nothing to do
    pthread_cond_t bytes;    // for readers that wait for room, ours or the
                             // device's
    pthread_cond_t unused;   // for readers beyond settings.reads
    pthread_cond_t ready;    // for consumers
    pthread_cond_t ended;    // for destroy: jobs
    struct hr__slot *slots;  // [pub.depth]. Their batches are made when they
    int num_made;            // are first submitted, so many are
    size_t batch_size;       // bytes of one; with own_size the share of one
    pthread_t readers[HR__LOADER_READS];
    int num_readers;  // that were started; of them so many have begun
    int begun;
    int idle;     // that wait for work
    bool waking;  // one of them is on its way
    bool few;     // no more can be started
    struct hr_loader_settings settings;
    struct hr__tune tune;  // if params.autotune
    // The device's threads as set last, and before it was the loader's; 0 =
    // never set.
    int threads_set, threads_before;
    bool setting_threads;
    // The input of tuning: sums up to flowed, and the counts since then.
    struct hr__flow flow;
    int64_t made_at, flowed;
    int full;     // readers that wait for bytes
    int making;   // samples that the device has
    int waiting;  // threads in hr_loader_next()
    int held;     // batches
    struct hr__page_pool pages;
    // The sample that may take more than the budget, for an object of unknown
    // length. There is one at a time; the others wait for it to end.
    const struct hr__loader_sample *growing;
    struct hr__cursor plan;  // of the batch that is planned next, number seq
    uint64_t seq;
    struct hr__cursor resumed;  // where it went on inside a batch, of which so
    uint64_t rest;              // many samples are left; 0 = between two
    struct hr__cursor saved;    // of the oldest that was not delivered, number
    uint64_t base;              // base; and the delivered ones behind it:
    uint64_t delivered;         // bit i = number base + i
    uint64_t skip;              // of the resumed ones, from number 0 on
    bool stop;
    bool signaled;  // fd is readable
    int in_flight;  // jobs
    int mapping;    // batches
    uint64_t ends;  // of jobs, so far
    int refs;       // the owner's, and one for each batch that is held
    struct hr_loader_stats stats;
};

static inline struct hr__loader *hr__loader_of(hr_loader loader)
{
    return (struct hr__loader *)(uintptr_t)loader;
}

// Says whether the batch fails, by itself or for one of its samples.
static inline bool hr__slot_fails(const struct hr__slot *slot)
{
    return slot->broken || (slot->pub.failed &&
                            slot->loader->params.on_error == HR_ON_ERROR_FAIL);
}

// ---- epoch.c ----
// Whether there is a batch at the cursor, which it sets to its begin; *n is how
// many samples it has.
bool hr__cursor_batch(const struct hr__loader *l, struct hr__cursor *at,
                      int *n);
// Sets the place of sample j: what it is, and what it draws from.
void hr__slot_place(struct hr__slot *slot, int j);
// Returns the slot in that state whose batch comes first; only a slot that
// fits, unless fits is NULL. The lock is held.
struct hr__slot *hr__slot_find(const struct hr__loader *l,
                               enum hr__slot_state state,
                               bool (*fits)(const struct hr__slot *slot));
// Plans the next batch in a free slot. NULL: none is free, or none is left.
struct hr__slot *hr__loader_plan(struct hr__loader *l);
// params.c: says whether all members of the table are in range; else
// hr_last_error().
enum hr_status hr__loader_check(const struct hr_loader_params *p);
// Batch number seq was delivered, or dropped. Returns whether planning may have
// waited for that.
bool hr__loader_passed(struct hr__loader *l, uint64_t seq);
enum hr_status hr__loader_resume(struct hr__loader *l,
                                 const struct hr_loader_state *state);

// ---- read.c ----
void *hr__loader_reader(void *loader);
// Starts a reader. With the lock. False: there are as many as there shall be,
// or no more can be started.
bool hr__loader_start_reader(struct hr__loader *l);

// ---- job.c ----
// Makes slot->images[j] the image of sample j, which is pixels. False: with
// hr_last_error(). Until the sample is given back.
bool hr__slot_image(struct hr__slot *slot, int j);
// A new batch. NULL with hr_last_error().
hr_batch hr__loader_batch(const struct hr__loader *l);
// Submits the samples of the slot, or of its part, that are pending. Without
// the lock.
void hr__slot_submit(struct hr__slot *slot);

// Submits a part for which there is room now. With the lock, which it opens
// meanwhile; false: there was none.
bool hr__loader_part(struct hr__loader *l);

// Makes the images of a batch with views that are not there yet. False: with
// hr_last_error().
bool hr__slot_make_views(struct hr__slot *slot);

// ---- sizes.c: with own_size ----
// Which samples of a slot whose samples are read make its first part.
void hr__slot_measure(struct hr__slot *slot);
// The part that begins behind the last one. With the lock.
void hr__slot_next_part(struct hr__slot *slot);
// Says whether it may have its memory now. With the lock.
bool hr__slot_may_begin(const struct hr__slot *slot);
// Makes the images of the part. False: with hr_last_error().
bool hr__slot_make_outs(struct hr__slot *slot);
// Gives up the images, and memory beyond the share, or all of it.
void hr__slot_drop_outs(struct hr__slot *slot, bool all);

// ---- map.c ----
// Calls the user's map for a batch, if one waits for it and may be had now.
// With the lock, which it opens meanwhile; false: there was none.
bool hr__loader_map(struct hr__loader *l);

// ---- next.c ----
// Updates the descriptor that a consumer polls for a batch.
void hr__loader_signal(struct hr__loader *l);

// ---- measure.c ----
// Adds the time until now to the sums. With the lock, before any of flow's
// inputs changes.
void hr__loader_flow(struct hr__loader *l);
enum hr_status hr__loader_tune_init(struct hr__loader *l);
// A batch was delivered. With the lock.
void hr__loader_tune(struct hr__loader *l);
// Sets the device's threads, if they are not as the settings say. With the
// lock, which it opens meanwhile; false: there was nothing to do.
bool hr__loader_set_threads(struct hr__loader *l);
// The device's threads are again what they were.
void hr__loader_tune_finish(struct hr__loader *l);

// ---- free.c ----
// There may be work: with the lock. One reader wakes, and it wakes the next if
// it finds some. If all woke, they would contend for the lock and the cores,
// also with the consumer. hr__loader_may_wake(): says whether to signal
// l->work, which is better done without the lock.
bool hr__loader_may_wake(struct hr__loader *l);
void hr__loader_wake(struct hr__loader *l);
// Gives back the memory that a sample was read to. This and the next without
// the lock.
void hr__sample_give_back(struct hr__loader_sample *sample);
void hr__loader_unref(struct hr__loader *l);

#endif
