// SPDX-License-Identifier: Apache-2.0
// headrace profile: what an engine gains on the user's own pictures. Private
// to tools/profile/.
//
//   options.c  the command line; which pictures, in which order
//   profile.c  which configurations, in turns, and what they say
//   process.c  a process for each of them, and how it ended
//   child.c    what that process does
//   measure.c  its loader, with a consumer at the end
//   queue.c    a loader that tunes itself: its queue
//   source.c   what loaders read: files, memory, decoded pictures
//   trace.c    what a trace tells: overlap and queue
//   summary.c  medians of all of it, the case for the advice
//   advice.c   quantiles, how many threads, the advice; pure
//   print.c    tables, notes and JSON
//   queue_print.c  what is shown of the queue
//   report.c   the data of the page
//   page.js    its tables and charts
//
// How it is measured. Each configuration has a process of its own, which opens
// its device, warms up and then waits: a driver that crashes takes nothing
// along but its own measurements, and CPU time and memory are those of one
// configuration. The process is a fork of the command before any device was
// opened; it writes what it measured into struct profile, which all of them
// share. The parent lets them measure in turns, so that a machine that gets
// slower harms all; what is shown is the median of the rounds. Clocks inside
// the library are read in one more process per backend, so that they do not
// slow the rates.
#ifndef HEADRACE_TOOLS_PROFILE_H
#define HEADRACE_TOOLS_PROFILE_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tools/report/report.h"
#include "tools/run/run.h"

enum {
    PROFILE_BACKENDS = 8,
    PROFILE_THREADS = 16,
    PROFILE_ROUNDS = 3,
    PROFILE_CONFIGS = PROFILE_BACKENDS * (PROFILE_THREADS + 4),
    PROFILE_LATENCIES = 4096,  // of a configuration that are kept
    PROFILE_POINTS = 128,      // of a queue over time
    PROFILE_CHANGES = 64,      // of its settings, the first
};

enum profile_mode {
    PROFILE_PLANNED,  // a batch is one job
    PROFILE_MEMORY,   // a source that costs nothing
    PROFILE_DECODED,  // decode is done already
    PROFILE_WATCHED,  // with trace and clocks
};
extern const char *const profile_modes[];

enum { PROFILE_CPU = 0 };  // index of that backend, which always is there
struct profile_options {
    struct run_options run;  // ops, batch, dtype, ...; not backend, threads
    // From the command line; NULL: not given.
    const char *names, *threads_text;
    const char *backends[PROFILE_BACKENDS];  // the CPU, then those names
    int num_backends;
    int threads[PROFILE_THREADS], num_threads;
    double seconds;
    double consumer_ms;  // 0 = none
    int consumer_cpu;    // per cent of one core
    bool memory;
    const char *trace, *report;
    bool json, quiet;
};

// One measurement.
struct profile_sample {
    double seconds, cpu_seconds, rate;      // pictures per second
    double busy;                            // of the consumer, 0 .. 1
    double consumer_seconds, consumer_cpu;  // and of CPU time
    double wait_results;                    // seconds of the measuring thread
    uint64_t images, failed, batches, fallbacks;
    uint64_t cached;            // images that a cache had
    uint64_t why[RUN_NUM_WHY];  // fallbacks by reason; one may have several
    double peak_rss;
    double others;  // share of the machine that other processes took
};

// A random choice of all, each as likely as the others.
struct profile_latencies {
    uint64_t seen;
    double ms[PROFILE_LATENCIES];
};

struct profile_rung {
    char name[64];  // "" ends the list
    double samples;
};

struct profile_config {
    int backend;  // index of options.backends
    enum profile_mode mode;
    int threads;
    pid_t pid;  // of its process; 0: it has none
    int fd;     // to it
    // As its process wrote it.
    char why[512];  // it failed; "" = it did not, or could not say so
    char device[128], description[512];
    int batch, ring;
    bool software;
    double pictures;
    struct profile_sample rounds[PROFILE_ROUNDS];
    int num_rounds;
    struct profile_sample fed[PROFILE_ROUNDS];  // with the consumer
    int num_fed;
    struct profile_latencies latencies;  // of rounds
    double launches_per_batch, bytes_per_image, imported_per_image;
    double import_falls;
    // Ways in which a media engine's samples went on, best first.
    struct profile_rung rungs[HR_PROFILE_RUNGS];
    // Pictures that each engine of the chain was given, with --balance.
    struct profile_rung shares[HR_PROFILE_ENGINES];
    // Medians and sums of the rounds.
    double lowest, highest;  // rates
    double rate, noise, cpu_per_1000, p50, p99, peak_rss, fallback_percent;
    double times_one, times_best;  // rates of the CPU: one thread, its best
    double images, failed, batches, fallbacks, cached;
    uint64_t why_counts[RUN_NUM_WHY];
    double busy, fed_rate;
    double consumer_cpu;  // share of a core that the consumer used, 0 .. 1
    double took_ms;       // by the consumer, per batch
};

// A part of the work, from the watched run of a backend.
struct profile_part {
    char engine[64];
    const char *name;    // hr_part_name(), or of a code; static
    double ms_per_1000;  // pictures
    double share;        // of all parts of that engine
    bool device;         // the device's own time
};
struct profile_watch {
    double begun, ended;  // CLOCK_MONOTONIC, seconds
    struct profile_part parts[HR_PROFILE_ENGINES * HR_NUM_PARTS];
    int num_parts;
    struct profile_part codes[HR_PROFILE_ENGINES * HR_PROFILE_CODES];
    int num_codes;                          // of stage augment, in its part
    double worker_cpu[HR_PROFILE_THREADS];  // share of the time, 0 .. 1
    int num_workers;
    double on_a_core, idle;  // mean shares of the workers' time
    double overlap;          // hidden share of device and copies;
                             // NAN: there is no device
    double occupancy;        // jobs in flight, mean
    double empty;            // share of the time with none
    double wait_submit,
        wait_results;  // shares of the time: of the threads that
                       // submit, together; of the consumer's
};

// A loader's state at a batch.
struct profile_point {
    double at;  // seconds
    double ready, reading, bytes;
};
struct profile_change {
    double at;
    uint64_t batch;
    struct hr_loader_settings settings;
    bool back;  // to what was before
};
struct profile_queue {
    double seconds, rate, batches;
    double waits, wait_share;  // batches that were waited for; share of all
    // See struct hr_loader_stats.
    double waited, starved, ready, reading, making, peak_bytes, steps, backs;
    struct hr_loader_settings begin, settings;  // then and now
    uint64_t every;                             // batches from point to point
    struct profile_point points[PROFILE_POINTS];
    struct profile_change changes[PROFILE_CHANGES];
    int num_points, num_changes;
};

// A backend of which a process died, or did not answer.
struct profile_loss {
    const char *name;
    int threads;
    enum profile_mode mode;
    char why[512];
};

// All processes share this memory: a child keeps what is its own elsewhere, and
// never puts a pointer here to memory that it allocated.
struct profile {
    struct profile_options opt;
    struct options line;
    struct inputs in;    // that are measured, in their order
    char *names;         // of devices, cut apart
    char automatic[64];  // the device that is taken if none is named
    int trace_fd;        // where traces are kept; its file has no name
    struct profile_config configs[PROFILE_CONFIGS];
    int num_configs;
    struct profile_watch watch[PROFILE_BACKENDS];
    struct profile_queue queues[PROFILE_BACKENDS];
    bool lost[PROFILE_BACKENDS];
    struct profile_loss losses[PROFILE_BACKENDS];
    int num_losses;
    json_t *events;  // of all traces, for --trace
    double others;   // median
    double noise;    // the worst of the planned ones
    double failing;  // share of the pictures that cannot be made
    // Measured pictures per batch, and per second for a consumer that is always
    // busy (0: there is none).
    double per_batch, need;
    struct profile_advice {
        char headline[192];  // one clause
        char text[768];      // what it rests on, and what would help
        char caution[320];   // "" or why to measure again
    } advice;
    int argc;
    char **argv;
};

// argv[0] = "headrace profile"; returns an exit code.
int cmd_profile(int argc, char **argv);

int profile_options(struct profile *p, int argc, char **argv);
void profile_options_finish(struct profile *p);

// ---- The process that measures ---------------------------------------------

// The parent writes an order; the process measures and answers with one byte.
// It ends when its socket does, or when it fails: then config->why says why.
struct profile_order {
    double seconds;
    bool consumer;
    bool queue;  // profile_queue()
};
// Its exit code.
int profile_child(struct profile *p, struct profile_config *config, int fd);

struct profile_child {
    struct run run;
    enum profile_mode mode;
    bool in_memory;
    struct hr_encoded *held;  // pictures in memory, if they are that
    size_t num_held;
    hr_source source;  // the pictures; those of the last batch that are missing
                       // are the first ones, so that all batches are full: a
                       // consumer takes as long for a short one
    hr_loader loader;  // NULL until it measures
    _Atomic uint64_t lent, made;  // samples that the loaders got, and gave back
    struct profile_latencies *latencies;  // NULL: not wanted
    double consumer_ms, consumer_cpu;
    double burnt;  // CPU seconds of the consumer
    bool warm;     // it has measured before
    struct hr_profile opened;
};

// One measurement at work.
struct profile_measure {
    struct profile_sample s;
    double begun, until;  // tools_seconds()
    double cpu, burnt;    // at the beginning
    struct hr_profile before;
    uint64_t others, all;  // jiffies
    bool counts;           // the ring is warm
};

// A loader of the child's pictures; tunes: that tunes itself, from one of
// everything. NULL: a message was printed.
hr_loader profile_open_loader(const struct profile_child *c, bool tunes);
// Lets the loader make pictures; when it is warm, counts for so long; then
// waits until nothing is in flight. False: a message was printed.
bool profile_measure(struct profile_child *c, struct profile_measure *m,
                     double seconds);
// Its consumer takes its time, once.
void profile_consume(struct profile_child *c);
// Watches a loader that tunes itself, for so long. False: a message was
// printed.
bool profile_queue(struct profile_child *c, struct profile_queue *q,
                   double seconds);
// After profile_measure(): what the device did since it was opened, per picture
// and batch.
void profile_count_device(const struct profile_child *c,
                          struct profile_config *to);

// Opens the pictures after run_prepare(). If they are held in memory, pictures
// that cannot be read, or decoded, are left out. False: a message was printed.
bool profile_source_open(struct profile_child *c);
void profile_source_close(struct profile_child *c);

// ---- These processes, from the parent's side -------------------------------

// Both: false if a message was printed; if it was the process that failed, its
// backend is lost.
bool profile_start(struct profile *p, struct profile_config *c);
bool profile_ask(struct profile *p, struct profile_config *c,
                 const struct profile_order *order);
// Its process ends, or is killed after so long; one that hangs in its driver
// even then is left behind. Its status; -1: it did not end by itself. It closes
// its device, which may take PROFILE_END_SECONDS.
#define PROFILE_END_SECONDS 30.0
int profile_end(struct profile_config *c, double seconds);
// As if they had not been asked for: what half of its processes say of a
// backend is not what it does.
void profile_drop_lost(struct profile *p);
// p->automatic, by a process: this one must not load a driver.
void profile_find_automatic(struct profile *p);

// ---- What is known then ----------------------------------------------------

double profile_median(const double *values, int n);  // <= PROFILE_CONFIGS
void profile_keep(struct profile_latencies *l, double ms);
// In place. q = 0.99: the value that 99 of 100 do not exceed.
double profile_quantile(double *values, size_t n, double q);
// The part that takes host threads longest, and its share; NULL: they idle.
const char *profile_largest_part(const struct profile_watch *w, double *share);

// The fewest threads whose rate is at least need. If none is, more than were
// measured, and *measured = false: as many cores as need pictures per second
// cost CPU seconds (cost: of one picture). 0: no number is enough, for the rate
// does not grow with threads.
int profile_threads_enough(const int *threads, const double *rates, int n,
                           double need, double cost, bool *measured);

// Stands for a number of threads that is unknown: other processes took too much
// of the machine.
enum { PROFILE_UNKNOWN = -1 };
#define PROFILE_CROWDED 0.2  // share of the machine above which that is so

struct profile_case {
    const char *backend;       // that the advice is about
    int threads, cores;        // most that were measured; of the machine
    double consumer_ms, busy;  // 0 = no consumer; share of the time
    double rate, need;         // pictures per second, of the round that busy is
                               // of; need 0 = no consumer
    double cost;               // CPU seconds per picture
    const char *part;          // largest part of its CPU time; NULL: none
    double part_share;
    int enough;         // threads that suffice; 0 = no number does; or UNKNOWN
    const char *other;  // a backend that would do better, or NULL
    int other_enough;
    double best_cpu_rate;  // of any thread count
    bool software;         // backend runs on the host's processor
    double others, noise;  // of the machine; of the rounds
    const char *mismatch;  // a backend that made wrong pictures, or NULL
};
#define PROFILE_QUIET 0.1  // above: a remark goes with the advice
enum profile_bound { PROFILE_NO_CONSUMER, PROFILE_DATA, PROFILE_CONSUMER };
enum profile_bound profile_bound(double consumer_ms, double busy);
void profile_advise(const struct profile_case *c, struct profile_advice *out);

// Completes watch from a trace's file; adds its events to p->events. False: a
// message was printed.
bool profile_read_trace(struct profile *p, const struct profile_config *c,
                        const char *path);
// Share of the device's time (queues: kind 0 .. 7) in which another queue or
// the host (kind -1) is at work, too; NAN: the device has none.
struct profile_interval {
    double begin, end;
    int kind;
};
double profile_overlap(const struct profile_interval *intervals, size_t n);

void profile_summarize(struct profile *p);
const struct profile_config *profile_find(const struct profile *p, int backend,
                                          enum profile_mode mode, int threads);
int profile_most_threads(const struct profile *p);
// The rate counts: of the CPU, with any number of threads.
const struct profile_config *profile_best_cpu(const struct profile *p);
// Threads that keep the consumer busy; 0 or PROFILE_UNKNOWN as above.
int profile_enough(const struct profile *p, int backend, bool *measured);
// The configuration that keeps the consumer busiest with the fewest threads;
// without a consumer, the fastest one.
const struct profile_config *profile_best_of(const struct profile *p,
                                             int backend);

// ---- What is shown ---------------------------------------------------------

const char *profile_plural(int n);  // "s", unless it is one

// A column of numbers: title is its head on the terminal and on the page, key
// its name in JSON. One that is NULL is not shown there; both end the list.
struct profile_column {
    const char *key, *title;
    size_t at;     // of a double in the row's values
    double scale;  // of what people see
    int digits;    // behind the point; < 0: an integer, also in JSON
};
// The first two are of struct profile_config, alone and beside a consumer; the
// third is of struct profile_watch.
extern const struct profile_column profile_rates[], profile_beside[],
    profile_waits[];
extern const char profile_legend[], profile_waits_legend[];

struct profile_row {
    char label[160];
    const void *values;
};
// Into room for PROFILE_CONFIGS; returns how many: of each configuration but
// those with clocks (only: of planned ones); of each backend, whose values are
// its element, of that size, in an array.
int profile_config_rows(const struct profile *p, bool only,
                        struct profile_row *rows);
int profile_backend_rows(const struct profile *p, const void *values,
                         size_t size, struct profile_row *rows);
double profile_value(const struct profile_column *column, const void *values);

// A loader's table, the settings that it came to, all of it.
extern const struct profile_column profile_queues[];
extern const char profile_queues_legend[];
void profile_queue_notes(const struct profile *p, FILE *to);
json_t *profile_queue_json(const struct profile_queue *q);

// Notes to the table of rates, and a consumer's need, as lines.
void profile_notes(const struct profile *p, FILE *to);
void profile_beside_notes(const struct profile *p, FILE *to);
// "opencl, 2 threads, memory: killed by signal 9"
void profile_loss_text(const struct profile_loss *loss, char *out, size_t size);

json_t *profile_json(const struct profile *p);
int profile_print(struct profile *p);
bool profile_report(struct profile *p);

#endif
