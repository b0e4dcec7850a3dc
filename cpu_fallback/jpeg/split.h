// SPDX-License-Identifier: Apache-2.0
// Splits one picture between several threads: decides which thread decodes
// which row of MCUs, and when. The decoder supplies the work on a row; nothing
// here knows of JPEG.
//
// The owner wants the rows from top to bottom. Before it can have one, entropy
// makes blocks of it, then reconstruct makes samples. Rows come in bands:
// within one, entropy goes on where the row above ended; bands need nothing of
// each other. The owner does whatever keeps it from its next row,
// and sleeps only while another thread is at that. Threads that help do entropy
// of the highest row that can be done, else reconstruct, and leave when there
// is nothing to do. So it ends with and without help, and the result is the
// same.
#ifndef CPU_SPLIT_H
#define CPU_SPLIT_H

#include <pthread.h>

#include "cpu_fallback/decode.h"
#include "cpu_fallback/helpers.h"

enum { CPU_SPLIT_RING = 16 };  // rows at a time, at most

struct cpu_split_params {
    int begin;   // the first row that the owner will want,
    int rows;    // and the one behind the last
    int first;   // those above it need no reconstruct
    int period;  // rows of a band
    int ring;    // 4 .. CPU_SPLIT_RING: row r has the memory of row r - ring
    // Called without a lock, on any thread, for one row of a band at a time.
    // False: something is odd about it, and no row is wanted any more.
    bool (*entropy)(void *ctx, int row);
    void (*reconstruct)(void *ctx, int row);
    // Called on the owner's thread: a stage of a row has ended, or its sleep.
    void (*lap)(void *ctx, enum cpu_stage stage);
    void *ctx;
    struct cpu_helpers *helpers;
};

struct cpu_split {
    struct cpu_help help;  // first
    struct cpu_split_params p;
    pthread_mutex_t lock;
    pthread_cond_t done;
    // All below is guarded by lock.
    int at;       // the row that the owner wants: it still uses the one above
    int wakes;    // it sleeps until this row has blocks; -1: it does not sleep
    bool odd;     // a row is: nothing more is wanted
    bool hungry;  // a helping thread found nothing to do
    bool over;
    struct {
        int row;
        enum { CPU_ROW_AT_WORK, CPU_ROW_BLOCKS, CPU_ROW_READY } state;
    } slot[CPU_SPLIT_RING];
    struct cpu_split_band *bands;
};

struct cpu_split_band {
    int next;   // the first row without entropy
    bool busy;  // a thread is at it
};

// Returns how many bands so many rows are.
int cpu_split_bands(int rows, int period);

// From now on others help. bands: cpu_split_bands() of them; they and *s stay
// where they are until end().
void cpu_split_begin(struct cpu_split *s, const struct cpu_split_params *p,
                     struct cpu_split_band *bands, int num_bands);

// Waits until this row, p->begin or the one after the last, is there, or makes
// it. False: it is odd, or one below it is. The rows above the last one are not
// needed any more.
bool cpu_split_row(struct cpu_split *s, int row);

// Ends the help, at any point. No thread helps afterwards.
void cpu_split_end(struct cpu_split *s);

#endif
