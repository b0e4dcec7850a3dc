// SPDX-License-Identifier: Apache-2.0
// Settings that follow what is measured: arithmetic only, without clocks,
// threads and locks.
//
// A change is tried for a window of some batches, and taken back if it did not
// pay. When the consumer waits something grows: what the stage has too little
// of in which the samples pile up. When it does not wait, or nothing is left
// that grows, what is in excess shrinks, as long as the rate stays.
//
//              +--- plain window <---- nothing to try ----+
//              v                                          |
//        consumer waits? --- grow or shrink one ---> trial window
//              ^                                          |
//              +--- kept, or taken back and paused <------+
#ifndef HEADRACE_LOADER_TUNE_H
#define HEADRACE_LOADER_TUNE_H

#include <stdbool.h>

#include <headrace/loader.h>

// Sums since the loader was made. Times in seconds; what is counted over time,
// as "batches that are ready", is the integral.
struct hr__flow {
    double seconds;
    double samples;  // delivered
    double waited;   // a consumer wanted a batch, and there was none
    double ready;    // batches that are ready
    double reading;  // reads in flight
    double full;     // of these, waiting for bytes
    double making;   // samples that the device has
    double starved;  // while it had none
};

enum hr__knob {
    HR__KNOB_THREADS,
    HR__KNOB_READS,
    HR__KNOB_DEPTH,
    HR__KNOB_BYTES,
    HR__NUM_KNOBS
};

struct hr__tune {
    struct hr_loader_settings now, most;
    int batch;              // samples of one
    uint64_t steps, backs;  // settings tried; settings taken back
    // The window: skip batches that were made before it, then size batches, of
    // which left remain.
    int skip, size, left;
    struct hr__flow begin;  // when it began
    // Measurements of the settings before a trial, or of the present ones.
    struct hr_loader_settings before;
    struct hr__flow seen;  // of their last window, per second
    double rate;           // samples per second, smoothed
    double goal;           // what shrinking must keep
    int drifts;            // windows in a row that differ from the goal
    unsigned tried;        // bits of the knobs in the trial; 0 = there is none
    bool up;
    unsigned harmful;  // of them, the ones that made it slower when they
                       // grew
    // Windows until it is tried again, and how many the next time.
    struct hr__tune_pause {
        int now, next;
    } pause[HR__NUM_KNOBS + 1][2];  // the last: all used knobs; [1]: up
};

// most: at least 1 each; values of start beyond most are cut, 0 becomes 1.
void hr__tune_init(struct hr__tune *t, const struct hr_loader_settings *start,
                   const struct hr_loader_settings *most, int batch);
// A batch was delivered. True: now has changed.
bool hr__tune_batch(struct hr__tune *t, const struct hr__flow *total);

#endif
