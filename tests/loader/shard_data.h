// SPDX-License-Identifier: Apache-2.0
// Tar and RecordIO files of a source's samples, for tests.
#ifndef HEADRACE_TESTS_SHARD_DATA_H
#define HEADRACE_TESTS_SHARD_DATA_H

#include <headrace/headrace.h>

// In WebDataset form, names and labels as the source has them; of RecordIO the
// labels are 0, 1, 2. Paths in a new folder, which live until the program ends.
const char *shard_tar(hr_source source);
const char *shard_rec(hr_source source);

#endif
