// SPDX-License-Identifier: Apache-2.0
// Private to tools/pack/.
#ifndef HEADRACE_TOOLS_PACK_PARTS_H
#define HEADRACE_TOOLS_PACK_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <headrace/headrace.h>

#include "tools/common/inputs.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"

#define PACK_NUM_STATUS 32  // -status is an index

// ---- pack ------------------------------------------------------------------

struct pack_options {
    const char *out;
    int split, threads;
    bool json, quiet;
};

struct pack_counts {
    uint64_t packed, kept, failed;
    uint64_t again;  // .. from an earlier run
    uint64_t source_bytes, data_bytes;
    uint64_t why[PACK_NUM_STATUS];  // of kept: what hr_pack() said
};

struct pack {
    struct options line;
    struct pack_options opt;
    struct inputs in;
    struct hr_limits limits;
    hr_pack_writer *writers;  // [split]
    // [split] When an earlier run wrote last what is gone on with; 0 = none.
    struct timespec *left;
    struct pack_counts counts;
    uint64_t num_told;
    struct progress progress;
    double begun;
};

// One file, of the inputs from first to before end. False: a message was
// printed, or stop_signal() says why.
bool pack_shard(struct pack *pack, int shard, size_t first, size_t end);

// ---- work.c ----------------------------------------------------------------

// A picture, read and packed.
struct pack_picture {
    bool done;
    enum hr_status status;  // not HR_OK: it cannot be read, see message
    enum hr_status why;     // of a picture that is kept as it is
    bool packed;
    const void *data;  // lies in one of these, or in a pack file
    size_t size;
    uint64_t source;
    struct hr_encoded read;
    void *made;
    char message[512];
};

// Threads and what they share. Pictures come out in order, and few of them are
// in memory at a time.
struct pack_work {
    const struct inputs *in;
    const struct hr_limits *limits;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // By lock: the next picture to take, those before taken are given back.
    size_t next, taken, end;
    bool quit;
    struct pack_picture *ring;  // [size]
    size_t size;
    pthread_t *threads;
    int num_threads;
};

// Begins to work on the inputs from first to before end. False: a message was
// printed. In any case pack_work_finish().
bool pack_work_begin(struct pack_work *work, const struct inputs *in,
                     const struct hr_limits *limits, size_t first, size_t end,
                     int threads);
// The next picture, or NULL after a tenth of a second without one. It lives
// until pack_work_give_back().
struct pack_picture *pack_work_next(struct pack_work *work);
void pack_work_give_back(struct pack_work *work);
void pack_work_finish(struct pack_work *work);

// ---- png.c -----------------------------------------------------------------

struct out_file;
// Writes 8-bit pixels, c 1 or 3 of them side by side, as a PNG. False with
// errno.
bool pack_png_write(struct out_file *file, const unsigned char *pixels, int w,
                    int h, int c, size_t stride);

// ---- all -------------------------------------------------------------------

// "35.2 MB"
const char *pack_bytes(char text[32], uint64_t bytes);
// Opens the files that are left on a command line: *files, to be freed with
// pack_files_close(). 0: a message was printed.
int pack_files_open(struct options *line, hr_pack_file **files);
void pack_files_close(hr_pack_file **files, int n);

#endif
