// SPDX-License-Identifier: Apache-2.0
// headrace profile: what an engine gains on the user's own pictures. Private
// to tools/profile/.
//
//   options.c  the command line; which pictures, in which order
//   profile.c  which configurations, in turns, and what they say
//   child.c    the process that measures one configuration
//   measure.c  its pipeline, with a consumer at the end
//   source.c   its pictures: files, memory, decoded
//   process.c  starting children and talking to them
//   trace.c    what a trace tells: overlap, queue
//   summary.c  medians of all of it, the case for the advice
//   advice.c   quantiles, how many threads, one sentence; pure
//   print.c    table and JSON
//   report.c   the page
//   charts.c   its charts
//
// How it is measured. Each configuration is a process of its own (--measure,
// hidden), which opens its device, warms up and then waits. The parent lets
// them measure in turns, so that a machine that gets slower harms all; what is
// shown is the median of the rounds. Clocks inside the library are read in one
// more process per backend, apart from the rates.
#ifndef HEADRACE_TOOLS_PROFILE_H
#define HEADRACE_TOOLS_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/report/report.h"
#include "tools/run/run.h"

enum {
    PROFILE_BACKENDS = 8,
    PROFILE_THREADS = 16,
    PROFILE_ROUNDS = 3,
    PROFILE_CONFIGS = PROFILE_BACKENDS * (PROFILE_THREADS + 4),
    PROFILE_LATE = 128,  // bytes of profile_late_text()
};

enum profile_mode {
    PROFILE_PLANNED,  // a batch is one job
    PROFILE_MEMORY,   // planned; a source that costs nothing
    PROFILE_DECODED,  // planned; decode is done already
    PROFILE_WATCHED,  // planned; with trace and clocks
};
extern const char *const profile_modes[];

struct profile_options {
    struct run_options run;  // ops, batch, dtype, ...; not backend, threads
    char *backends[PROFILE_BACKENDS];
    int num_backends;
    int threads[PROFILE_THREADS], num_threads;
    double seconds;
    double consumer_ms;  // 0 = none
    int consumer_cpu;    // per cent of one core
    bool memory;
    const char *trace, *report;
    bool json, quiet;
};

struct profile_words {
    char *backends, *ops, *threads, *trace, *report, *limit, *dtype, *tier;
    char *consumer, *consumer_cpu, *seconds, *batch, *reference;
    struct options_source source;
    int memory, json, quiet, measure;
};

struct profile_rung {
    char name[64];  // "" ends the list
    double samples;
};

// One measurement of a child.
struct profile_sample {
    double seconds, cpu_seconds, rate;      // pictures per second
    double busy;                            // of the consumer, 0 .. 1
    double consumer_seconds, consumer_cpu;  // and of CPU time
    double wait_submit, wait_results;       // seconds of the measuring thread
    uint64_t images, failed, batches, fallbacks;
    uint64_t why[RUN_NUM_WHY];  // fallbacks by reason; one may have several
    double peak_rss;
    // Of the process so far, and of how many pictures.
    double launches, device_batches, bytes_up, bytes_down;
    double bytes_imported, import_falls;
    // Of the process: how a media engine's samples went on, best first.
    struct profile_rung rungs[HR_PROFILE_RUNGS];
    uint64_t made;
    double others;      // share of the machine that other processes took
    double *latencies;  // ms, of each batch
    size_t num_latencies;
};

struct profile_config {
    int backend;  // index of options.backends
    enum profile_mode mode;
    int threads;
    // What its process said.
    char device[128], description[512];
    int batch, ring;
    bool software;
    double pictures;
    struct profile_sample rounds[PROFILE_ROUNDS];
    int num_rounds;
    struct profile_sample fed[PROFILE_ROUNDS];  // with the consumer
    int num_fed;
    // Medians.
    double lowest, highest;  // rates of the rounds
    double rate, noise, cpu_per_1000, p50, p99, launches_per_batch;
    double bytes_per_image, imported_per_image, import_falls;
    char rungs[320];  // of the last round, in words; "": there are none
    double peak_rss, busy, fed_rate;
    double consumer_cpu;  // share of a core that the consumer used, 0 .. 1
    double took_ms;       // by the consumer, per batch
    uint64_t fallbacks;   // samples the CPU had to make, of all rounds
    uint64_t why[RUN_NUM_WHY];
    uint64_t images, failed, batches;
    // The process.
    pid_t pid;
    int to, from;
    char *line;  // what was read from it
    size_t line_room, line_used;
};

// What the watched run of a backend tells.
struct profile_part {
    char engine[64], name[16];
    double ms_per_1000;  // pictures
    double share;        // of all parts of that engine
    bool device;         // the device's own time
};
struct profile_watch {
    bool valid;
    struct profile_part parts[4 * HR_NUM_PARTS];
    int num_parts;
    double worker_cpu[HR_PROFILE_THREADS];  // share of the time, 0 .. 1
    int num_workers;
    double idle;       // share of the workers' time
    double overlap;    // hidden share of device and copies; < 0: none
    double occupancy;  // jobs in flight, mean
    double empty;      // share of the time with none
    double wait_submit, wait_results;  // shares of the time
    double rate;
};

// A backend of which a process died, or did not answer.
struct profile_loss {
    int backend;  // index of options.backends, until it is dropped
    char *name;
    int threads;
    enum profile_mode mode;
    char why[512];
};

struct profile {
    struct profile_options opt;
    struct profile_words words;
    struct inputs in;  // that are measured, in their order
    int trace_fd;      // where traces are kept; its file has no name
    struct profile_config configs[PROFILE_CONFIGS];
    int num_configs;
    struct profile_watch watch[PROFILE_BACKENDS];
    struct profile_loss losses[PROFILE_BACKENDS];
    int num_losses;
    json_t *events;  // of all traces, for --trace
    double others;   // median
    double noise;    // the worst of the planned ones
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

int profile_options(struct profile *p, int argc, char **argv, bool *done);
void profile_options_finish(struct profile *p);

// ---- The child -------------------------------------------------------------

int profile_child(void);
double profile_seconds(int64_t ns);

struct profile_child {
    struct run run;
    char *backend;
    enum profile_mode mode;
    void **data;  // MEMORY: encoded bytes of each picture
    size_t *sizes;
    hr_image *images;  // DECODED
    size_t num_sources;
    size_t pictures;  // of the list; some come twice, see profile_fill_up()
    int64_t submitted[RUN_RING_MAX];  // ns
    _Atomic int64_t ended[RUN_RING_MAX];
    double consumer_ms, consumer_cpu;
    double burnt;   // CPU seconds of the consumer
    bool warm;      // it has measured before
    uint64_t made;  // pictures, ever
    struct hr_profile opened;
    uint64_t drained;  // pictures that came out after the last measurement
};

// measure.c: one measurement at work.
struct profile_measure {
    double warm, until;  // tools_seconds()
    double begun, ended;
    double cpu, burnt;  // at the beginning
    struct hr_profile before;
    uint64_t others;  // jiffies
    struct profile_sample s;
    size_t room;
    bool counts;  // the ring is warm
};

// Runs the pipeline; when it is warm, counts for so long. *all: jiffies of the
// machine then. False: a message was printed.
bool profile_run_for(struct profile_child *c, struct profile_measure *m,
                     double seconds, uint64_t *all);
void profile_end_counting(struct profile_child *c, struct profile_measure *m,
                          uint64_t all_before);
// After profile_drain().
void profile_count_device(struct profile_child *c, struct profile_sample *s);
bool profile_drain(struct profile_child *c);  // what is still in flight

// After run_prepare(): loads or decodes; pictures that cannot be are taken out
// of the list. False: a message was printed.
bool profile_source_open(struct profile_child *c);
void profile_source_close(struct profile_child *c);
// Repeats the first pictures at the end of the list (which is in random order)
// until all batches are full: a consumer takes as long for a short one, so
// rates with one would say less than a network of full batches takes. False: a
// message was printed.
bool profile_fill_up(struct profile_child *c);
// The samples that run_fill() made, from that source.
void profile_source_fill(struct profile_child *c, const struct run_slot *slot);
// What the user typed may be any bytes, JSON is UTF-8: each byte is a character
// of its own on the way to a child. profile_bytes(): free(); NULL: no memory.
json_t *profile_bytes_json(const char *bytes);
char *profile_bytes(const json_t *json);

// ---- Children, from the parent's side --------------------------------------

bool profile_start(struct profile *p, struct profile_config *c);
// Sends a command, waits for the answer. NULL: a message was printed; if it was
// the process that failed, its backend is lost.
json_t *profile_ask(struct profile *p, struct profile_config *c,
                    json_t *command, double seconds);
void profile_end(struct profile_config *c);  // frees all that is its
// Its process ends, or is killed after so long.
void profile_end_in(struct profile_config *c, double seconds);
bool profile_is_lost(const struct profile *p, int backend);
// As if they had not been asked for: what half of its processes say of a
// backend is not what it does.
void profile_drop_lost(struct profile *p);
// "opencl, 2 threads, memory: killed by signal 9"
void profile_loss_text(const struct profile_loss *loss, char *out, size_t size);

// ---- What is known then ----------------------------------------------------

double profile_median(const double *values, int n);
// In place. q = 0.99: the value that 99 of 100 do not exceed.
double profile_quantile(double *values, size_t n, double q);
// NAN: nobody knows, for images do not say who made them.
double profile_fallback_percent(const struct profile_config *c);
// "progressive JPEG 4.7 %, picture size 1 %"; "": there are none.
void profile_why_text(const struct profile_config *c, char *out, size_t size);
// Pictures that come out of a batch, and per second if the consumer is always
// busy; of those that were measured. 0: no consumer.
double profile_per_batch(const struct profile *p);
double profile_need(const struct profile *p);
// "Its batches took up to 6.1 ms because its thread was scheduled late."; "":
// as was asked for.
void profile_late_text(const struct profile *p, char out[PROFILE_LATE]);
// Share of the pictures that cannot be made, 0 .. 1.
double profile_failing(const struct profile *p);

// Of what host threads do, and its share of that; NULL: they do nothing.
const char *profile_largest_part(const struct profile_watch *w, double *share);

// The fewest threads whose rate is at least need. If none is, more than were
// measured, and *measured = false: as many cores as need pictures per second
// cost CPU seconds (cost: of one picture). 0: no number is enough, for the rate
// does not grow with threads.
int profile_threads_enough(const int *threads, const double *rates, int n,
                           double need, double cost, bool *measured);

// In place of a number of threads: others took too much of the machine to tell.
enum { PROFILE_UNKNOWN = -1 };
#define PROFILE_CROWDED 0.2  // share of the machine above which that is so

struct profile_case {
    const char *backend;       // that the sentence is about
    int threads, cores;        // most that were measured; of the machine
    double consumer_ms, busy;  // 0 = no consumer; share of the time
    double rate, need;         // pictures per second, of the round that busy is
                               // of; need 0 = no consumer
    double cost;               // CPU seconds per picture
    const char *part;          // largest part of its CPU time
    double part_share;
    int enough;         // threads that suffice; 0 = no number does; or UNKNOWN
    const char *other;  // a backend that would do better, or NULL
    int other_enough;
    const char *offload;   // spans that would take the part over
    double best_cpu_rate;  // of any thread count
    bool software;         // backend runs on the host's processor
    double others, noise;  // of the machine; of the rounds
    const char *mismatch;  // a backend that made wrong pictures, or NULL
};
#define PROFILE_QUIET 0.1  // above: a remark goes with the advice
enum profile_bound { PROFILE_NO_CONSUMER, PROFILE_DATA, PROFILE_CONSUMER };
enum profile_bound profile_bound(double consumer_ms, double busy);
void profile_advise(const struct profile_case *c, struct profile_advice *out);

// Fills watch from a trace's file, window in seconds of CLOCK_MONOTONIC; adds
// its events to p->events. False: a message was printed.
bool profile_read_trace(struct profile *p, const struct profile_config *c,
                        struct profile_watch *w, const char *path, double from,
                        double to);
// Share of the device's time (queues: kind 0 .. 7) in which another queue or
// the host (kind -1) is at work, too; < 0: the device has none.
struct profile_interval {
    double begin, end;
    int kind;
};
double profile_overlap(const struct profile_interval *intervals, size_t n);

void profile_summarize(struct profile *p);
const struct profile_config *profile_find(const struct profile *p, int backend,
                                          enum profile_mode mode, int threads);
int profile_cores(void);  // that this process may use
int profile_most_threads(const struct profile *p);
int profile_cpu(const struct profile *p);  // index of that backend
const struct profile_config *profile_best_cpu(const struct profile *p);
// Threads that keep the consumer busy; 0 or PROFILE_UNKNOWN as above.
int profile_enough(const struct profile *p, int backend, bool *measured);
// What keeps the consumer busiest with the fewest threads; without one, what is
// fastest.
const struct profile_config *profile_best_of(const struct profile *p,
                                             int backend);
// "opencl: 3 threads keep it fed (estimated)"
void profile_enough_text(const char *backend, int threads, bool measured,
                         int cores, char *out, size_t size);

int profile_print(struct profile *p);
bool profile_report(struct profile *p);
// headroom: what better sources and decoders could bring, else what there is.
void profile_chart_speed(const struct profile *p, struct report *r,
                         bool headroom);
void profile_chart_scaling(const struct profile *p, struct report *r);
void profile_chart_parts(const struct profile *p, struct report *r);

#endif
