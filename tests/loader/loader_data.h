// SPDX-License-Identifier: Apache-2.0
// Data sets and consumers for tests of the loader.
#ifndef HEADRACE_TESTS_LOADER_DATA_H
#define HEADRACE_TESTS_LOADER_DATA_H

#include <headrace/headrace.h>

#include "testing.h"

enum { DATA_SIDE = 24, DATA_OPS = 4 };

// Random window and flip, 24 x 24, as floats.
extern const struct hr_op data_ops[DATA_OPS];
// Shuffled batches of 8, with data_ops.
struct hr_loader_params data_params(hr_source source, int64_t epochs);

// A new folder with n JPEGs in four folders; lives until the program ends.
const char *data_folder(int n, uint64_t seed);
// The same pictures in a pack file.
const char *data_pack(const char *folder);

// Pictures in memory, as a callback; bad[i]: reading i fails.
struct data_calls {
    struct hr_source_calls calls;
    struct bytes *files;
    const uint8_t *bad;
    int num_bad;            // of bad
    atomic_int in, most;    // threads in read now, and at most
    atomic_int reads;       // calls of read so far,
    atomic_int lent, done;  // reads that lent a buffer, buffers returned
    atomic_int wait_for;    // read returns when so many are in it; 0 = at once
    atomic_int gate;        // read waits while it is 1
    atomic_int hold;        // and the one of sample hold - 1 alone; 0 = none
    const char *path;       // given instead of data
    hr_source source;       // of data_begin()
};
void data_calls_init(struct data_calls *c, int n, uint64_t seed);
void data_calls_finish(struct data_calls *c, int n);
// A loader's params: n such pictures, shuffled, batches of 4. data_end() ends
// params.source as it is then, and checks that all lent buffers have come back.
struct hr_loader_params data_begin(struct data_calls *c, int n, hr_device dev);
void data_end(struct data_calls *c);

// The samples that a loader delivers, in order.
struct data_seen {
    uint64_t *digests;  // [capacity] of pixels, index, class and key
    uint64_t *indices;
    enum hr_status *status;
    size_t num, capacity;
    size_t by_device, by_cache;  // samples with a span of the loader's first
                                 // engine other than the CPU; of a cache
};
void data_seen_add(struct data_seen *seen, hr_loaded loaded);
// All batches, or `steps` of them (0 = all). The status of the end.
enum hr_status data_drain(struct data_seen *seen, hr_loader loader,
                          uint64_t steps);
// All that a loader of these params delivers; it ends well.
void data_drain_all(struct data_seen *seen, const struct hr_loader_params *p);
bool data_seen_same(const struct data_seen *a, size_t at,
                    const struct data_seen *b);
void data_seen_finish(struct data_seen *seen);
#define auto_seen OWN(data_seen_finish) struct data_seen

// test_main() with the CPU as default device: the search for devices is tested
// elsewhere.
int data_main(int argc, char **argv);

#endif
