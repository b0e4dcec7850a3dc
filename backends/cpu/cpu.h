// SPDX-License-Identifier: Apache-2.0
// The CPU backend: one engine with its own worker threads over the pure
// functions of cpu_fallback/. It is the host of every device: it prepares the
// samples of all engines and takes whatever the others leave.
#ifndef HR_CPU_H
#define HR_CPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu_fallback/arena.h"
#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/jpeg/decode_lanes.h"
#include "cpu_fallback/helpers.h"
#include "hal/engine/engine.h"

// Bytes of its arena that an idle worker keeps.
enum { CPU_KEEP = 4 << 20 };

// The trial or the environment decides whether there are lanes, and in which
// form (cpu_lane_form).
enum cpu_lanes_use {
    CPU_LANES_TRIAL,
    CPU_LANES_NEVER,
    CPU_LANES_ALWAYS,
    CPU_LANES_HALVED,
};
// Lanes below which one stream after the other is as fast.
enum { CPU_LANES_FEW = 9 };

struct cpu_worker {
    struct cpu_engine *engine;
    pthread_t thread;
    struct cpu_arena arena;
    struct cpu_jpeg_state *jpeg;
    int64_t used;              // CPU time of the thread that is accounted for
    struct cpu_many *many;     // NULL: not yet, or no memory
    int64_t in_lanes;          // pictures that lanes have made
    struct cpu_pieces pieces;  // of pictures that are packed on the way
};

struct cpu_engine {
    struct hr__engine *e;
    struct cpu_ops ops;
    struct cpu_heap heap;
    struct cpu_worker *workers;
    int num_workers;  // that run
    struct cpu_helpers helpers;
    bool here;  // it has no threads: the submitting thread is its worker

    // lock guards everything below; nothing is called with it held.
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct hr__task *head, **tail;
    int queued_tasks;        // from head on
    int idle;                // of the workers in use
    int use;                 // workers 0 .. use - 1 work,
    pthread_cond_t unused;   // the others wait here
    pthread_cond_t resting;  // the cap on their CPU time is reached
    bool stop;
    bool at_work;             // here: a thread runs what is queued
    struct cpu_place *apart;  // pictures that have left their lanes (many.c),
    int num_apart;            // so many
    struct cpu_help *helps;   // of tasks at work
    pthread_cond_t alone;     // no thread is inside one of them
    atomic_bool queued;       // there is a head; read without the lock

    _Atomic enum cpu_lanes_use lanes;
};

static inline struct cpu_engine *cpu_engine(struct hr__engine *e)
{
    return e->priv;
}

// At most so many tasks of one source are taken together.
enum { CPU_VIEWS = 16 };

// Takes the first task of the queue, and linked to it the tasks behind it that
// have its source; or NULL. The lock is held.
static inline struct hr__task *cpu_queue_pop(struct cpu_engine *c)
{
    struct hr__task *t = c->head, *last = t;
    int n = 1;

    if (!t)
        return NULL;
    for (; t->source && n < CPU_VIEWS && last->next &&
           last->next->source == t->source;
         n++)
        last = last->next;
    if (!(c->head = last->next)) {
        c->tail = &c->head;
        atomic_store_explicit(&c->queued, false, memory_order_relaxed);
    }
    c->queued_tasks -= n;
    last->next = NULL;
    return t;
}
// Puts a list of tasks that was taken, and not begun, back to its head.
void cpu_queue_return(struct cpu_engine *c, struct hr__task *list);

enum hr_status cpu_workers_start(struct cpu_engine *c, int threads);
void cpu_workers_finish(struct cpu_engine *c);  // accepts half-started ones
void cpu_submit(struct hr__engine *e, struct hr__task *list);
void cpu_cancel(struct hr__engine *e);
int cpu_use_threads(struct hr__engine *e, int n);

// ---- Threads without a task (lend.c) ----

void cpu_lend_init(struct cpu_engine *c);
// Returns the work that wants help now, and in *call which call that answers;
// NULL: none. The lock is held. Then run() it without the lock.
struct cpu_help *cpu_lend_take(struct cpu_engine *c, unsigned *call);
void cpu_lend_run(struct cpu_engine *c, struct cpu_help *help, unsigned call);

// Runs a prepared task to its end, hr__task_done() included. payload: what an
// earlier try has taken for its output, or NULL.
void cpu_run(struct cpu_worker *w, struct hr__task *task,
             struct hr__payload *payload);

// ---- Many tasks in one thread (many.c) ----

// Runs a prepared task, and with it others from the queue if there are many.
void cpu_many_run(struct cpu_worker *w, struct hr__task *task);
void cpu_many_destroy(struct cpu_worker *w);

// The state that a thread with `in_lanes` pictures in its lanes decides by;
// with none, the first picture is at hand.
struct cpu_many_view {
    int in_lanes;
    int queued;   // tasks in the queue,
    int idle;     // threads without anything to do,
    int apart;    // pictures out of lanes that no thread has yet
    int threads;  // in use
};
enum cpu_many_next {
    CPU_MANY_TAKE,   // one more from the queue
    CPU_MANY_LANES,  // go on with the pictures in lanes
    CPU_MANY_APART,  // one by one, together with idle threads
};
enum cpu_many_next cpu_many_next(const struct cpu_many_view *v);

// Returns a picture that has left its lane, for a thread without a task; NULL:
// none. The lock is held. Then finish() ends its task, without the lock.
struct cpu_place *cpu_many_take(struct cpu_engine *c);
void cpu_many_finish(struct cpu_worker *w, struct cpu_place *place);
// Tries lanes with CPU_LANES pictures (trial.c), for some milliseconds.
enum cpu_lanes_use cpu_lanes_try(struct cpu_engine *c,
                                 const struct cpu_lane_params *const *pictures);

// ---- Many tasks of one source (views.c) ----

// Runs tasks of one source, as they were taken, not prepared yet.
void cpu_views_run(struct cpu_worker *w, struct hr__task *list);

// ---- Rows (rows.c) ----------------------------------------------------------

// A window of u8 rows, delivered top to bottom; pixels interleaved, CPU_SLACK
// bytes readable behind each row.
struct cpu_rows {
    struct hr__rect window;
    int channels, next;              // next row of the window, 0 = its first
    struct cpu_decode *decode;       // from a decoder,
    struct cpu_planes_rows *planes;  // or from planes,
    const struct cpu_lane_picture *lane;  // or a lane, as they come,
    const uint8_t *data;  // or from memory that begins at pixel x0, y0
    int x0, y0;
    size_t stride_h;
    size_t stride_c;     // > 0: planes
    const uint8_t *end;  // behind the last byte that may be read
    uint8_t *copy;       // rows that had to be moved
    size_t copy_stride;
};

struct cpu_run;   // a task at work, span.c
struct cpu_sink;  // rows in memory, among others, sink.c

// Reads at most CPU_DECODE_ROWS rows; 0 = failed, the run has the reason.
int cpu_rows_read(struct cpu_run *run, struct cpu_rows *rows,
                  const uint8_t **out, int max);
// Says whether the row stays where it is beyond the next read: it lies in
// memory, and is no copy.
static inline bool cpu_rows_stay(const struct cpu_rows *rows,
                                 const uint8_t *row)
{
    return rows->data && row >= rows->data && row < rows->end;
}
// Opens the rows of the task's source by one of the functions below. All of
// them want rows->window set and the rest zero; false = failed, the run has the
// reason.
bool cpu_rows_open(struct cpu_run *run, struct cpu_rows *rows);
bool cpu_rows_decode(struct cpu_run *run, struct cpu_rows *rows);
// Returns whether this build decodes that format.
bool cpu_rows_can(enum hr_format format);
// Decodes pictures of HR_FORMAT_OTHER (other.c); stop_ctx is the run.
extern const struct cpu_decode_kind cpu_other_decoder;
bool cpu_rows_payload(struct cpu_run *run, struct cpu_rows *rows);
// channels, data and stride of `from`, which has room for size bytes.
bool cpu_rows_memory(struct cpu_run *run, struct cpu_rows *rows,
                     const struct cpu_sink *from, size_t size);
// Ends a decoder; false if it found damage at the end.
bool cpu_rows_finish(struct cpu_run *run, struct cpu_rows *rows);

// ---- One task (span.c) ------------------------------------------------------

struct cpu_run {
    struct cpu_worker *w;
    struct hr__task *task;
    const struct hr__picture *pic;
    int64_t deadline;  // item_ms
    int64_t begin;     // 0: no trace is on
    unsigned asked;    // how often cpu_run_stops() was
    bool plain;        // libjpeg-turbo decodes: our own decoder gave up
    bool redo;         // it does now
    bool packed;       // the decoder's input is a packed picture
    const struct cpu_shared *shared;  // its source was decoded before
    struct hr__payload *payload;  // for the next engine, also of a run before
    enum hr_part decode_part;     // which decoding counts for
    int64_t lap;                  // if a trace is on: when the last part ended,
    int64_t spent[HR_NUM_PARTS];  // and ns of each
    int64_t code_spent[HR__NUM_AUGMENT];  // of HR_PART_AUGMENT, and how often
    int code_times[HR__NUM_AUGMENT];
    struct hr__outcome out;
};

// A part of the run ends here.
static inline void cpu_lap(struct cpu_run *run, enum hr_part part)
{
    int64_t now;

    if (!run->lap)
        return;
    now = hr__now();
    run->spent[part] += now - run->lap;
    run->lap = now;
}

// A run in pieces: begin(), what there is to do, end(), which ends the task.
struct cpu_run cpu_run_begin(struct cpu_worker *w, struct hr__task *task);
void cpu_run_end(struct cpu_run *run);
// Runs the whole span; false = failed, the run has the reason.
bool cpu_run_span(struct cpu_run *run);

// run.c
// What a decoder's result is called outside.
enum hr_status cpu_status_of(enum cpu_result result);
bool cpu_run_fail(struct cpu_run *run, enum hr_status status, const char *text);
bool cpu_run_stops(void *run);  // struct cpu_run *
// Ends a span that makes coefficients or planes. Always false.
bool cpu_run_damaged(struct cpu_run *run, const struct cpu_decode_error *err);
// Memory for what the next engine gets; NULL with text as the failure.
struct hr__payload *cpu_run_payload(struct cpu_run *run, size_t size,
                                    struct hr__rect rect, const char *text);
// The parameters of decoders, but for the window.
struct cpu_decode_params cpu_run_decode(struct cpu_run *run);

// ---- Packed pictures (packed.c) ---------------------------------------------

// If the task's picture is a packed one, or is to be kept as one, sets p->data
// to that, checked, and run->packed. false = failed, the run has the reason.
bool cpu_run_packed(struct cpu_run *run, struct cpu_decode_params *p);
// The engine table's pack().
enum hr_status cpu_pack_alone(const void *data, size_t size,
                              const struct hr_info *info,
                              const struct hr_limits *limits, void **packed,
                              size_t *packed_size, struct hr__outcome *out);

// ---- The environment (environment.c) ----------------------------------------

// HEADRACE_CPU names the best instruction set that may be used, one of
// cpu_levels[]. 0: it names none of them.
unsigned cpu_mask_from_environment(void);

// ---- Where rows go (sink.c) -------------------------------------------------

struct cpu_sink {
    const struct hr__picture *pic;  // a tensor,
    const struct hr__table *table;  // by another table than the picture's; NULL
    uint8_t *data;                  // or rows of u8 in memory
    size_t stride, bytes;
    int channels;  // of these rows
    int column;    // > 0: of memory, and a row coming in is
};                 // a column of it, of so many pixels

// Copies all rows of the window to s; false = failed, the run has the reason.
bool cpu_rows_copy(struct cpu_run *run, struct cpu_rows *rows,
                   const struct cpu_sink *s);
// Row y, or column y, comes in.
void cpu_sink_row(const struct cpu_run *run, const struct cpu_sink *s, int y,
                  const uint8_t *row);
// Memory of the arena for w x h pixels, and for `least` bytes; the payload for
// the next engine. They set *s; false = failed, the run knows why.
bool cpu_sink_memory(struct cpu_run *run, struct cpu_sink *s, int w, int h,
                     int channels, size_t least);
bool cpu_sink_payload(struct cpu_run *run, struct cpu_sink *s,
                      struct hr__rect rect);
// Copies all rows of a sink that is memory.
bool cpu_sink_rows(struct cpu_run *run, const struct cpu_sink *from, int rows,
                   const struct cpu_sink *to);

// ---- Stage augment (augment.c) ----------------------------------------------

// Bytes of the largest picture that the codes behind a step take or make; with
// none, of its output.
size_t cpu_codes_bytes(const struct cpu_run *run, const struct hr__step *step);
// These codes on the output of the step, in s, which has room for that. Then
// the rows go to *to, or, if it is NULL, are in s.
bool cpu_codes_run(struct cpu_run *run, const struct hr__step *step,
                   struct cpu_sink *s, const struct cpu_sink *to);

// Pixels of the source of several tasks.
struct cpu_shared {
    struct hr__rect rect;  // of the source
    struct cpu_sink pixels;
};

// ---- One step (step.c) ------------------------------------------------------

// from: what the step before made, NULL for the first.
bool cpu_step_run(struct cpu_run *run, const struct hr__step *step,
                  const struct cpu_sink *from, const struct cpu_sink *to);
// The same in pieces, of a task that begins with a file in a lane: begin()
// makes the step in the worker's arena, and its rows, of which only the window
// is set; go_on() takes the rows that are there by now; finish(), when they
// were all, does the codes behind the step, in the arena of the run's worker.
// False: it failed, the run knows why; or, of begin(), the step is not one for
// pieces.
struct cpu_step;
bool cpu_step_begin(struct cpu_run *run, struct cpu_step **out,
                    struct cpu_rows **rows);
bool cpu_step_go_on(struct cpu_run *run, struct cpu_step *s);
bool cpu_step_finish(struct cpu_run *run, struct cpu_step *s);
// Says whether all of its output has been made.
bool cpu_step_complete(const struct cpu_step *s);

// The pixels that the first step reads; one, if its window is all padding.
bool cpu_step_window(struct cpu_run *run, struct hr__rect *window);
// Says whether a step's window is all padding.
bool cpu_step_empty(const struct hr__step *step);

// ---- Stage entropy alone (entropy.c) ----------------------------------------

bool cpu_entropy_takes(const struct hr__picture *pic);
bool cpu_run_entropy(struct cpu_run *run);

// ---- Planes (planes.c) ------------------------------------------------------

// Says whether planes of such a picture are a thing between engines, and
// whether this engine makes them.
bool cpu_planes_color(const struct hr__picture *pic);
bool cpu_planes_takes(const struct hr__picture *pic);
bool cpu_run_planes(struct cpu_run *run);

#endif
