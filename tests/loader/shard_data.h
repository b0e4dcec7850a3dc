// SPDX-License-Identifier: Apache-2.0
// Tar and RecordIO files, whole or in the making, for tests.
#ifndef HEADRACE_TESTS_SHARD_DATA_H
#define HEADRACE_TESTS_SHARD_DATA_H

#include <headrace/headrace.h>

#include "testing.h"

#define SHARD_MAGIC UINT32_C(0xced7230a)  // of a record
enum { SHARD_ENDS = 96 };

// A file in the making.
struct shard {
    uint8_t *data;
    size_t size;
    size_t ends[SHARD_ENDS];  // behind each of the first records
    int num;
};

void shard_append(struct shard *m, const void *data, size_t size);
void shard_pad(struct shard *m, size_t to);  // with zeros
const char *shard_write(const struct shard *m, const char *ending);
void shard_finish(struct shard *m);

void shard_word(struct shard *m, uint32_t value);
// A record, cut where the first word of one stands in it.
void shard_record(struct shard *m, const uint8_t *data, size_t size);
// A picture with its header: one label, or `more` of them. An odd number also
// cuts the header short.
void shard_image(struct shard *m, const struct bytes *file, float label,
                 uint32_t more);

void shard_header(struct shard *m, const char *name, char type, uint64_t size);
void shard_member(struct shard *m, const char *name, const void *data,
                  size_t size);
void shard_end_tar(struct shard *m);

// All samples. In WebDataset form, names and labels as the source has them; of
// RecordIO the labels are 0, 1, 2. Paths in a new folder, which live until the
// program ends.
const char *shard_tar(hr_source source);
const char *shard_rec(hr_source source);

// False: there is no libarchive, which is said.
bool shard_have_tar(void);
// A source of that file, which is finished.
hr_source shard_open(struct shard *m, const char *ending);

#endif
