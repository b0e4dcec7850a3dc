// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only when it is whole: written beside
// it under a temporary name, renamed at the end. If the name is a link, it
// stays, and the file that it points to is replaced.
#ifndef HEADRACE_TOOLS_COMMON_OUT_FILE_H
#define HEADRACE_TOOLS_COMMON_OUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct out_file {
    FILE *stream;  // NULL = not open
    bool part;     // one of many in a folder
    char *path, *temp;
    int error;  // errno of a write that failed; 0 = none
};

#define OUT_FILE_CLOSED \
    {                   \
        0               \
    }

// All return false with errno set. After a failure: out_file_discard().
// Cleans its folder first, see out_file_clean().
bool out_file_open(struct out_file *file, const char *path);
// One of many in a folder, which is not cleaned: a link in its place is
// replaced, not followed, and it is only sure to be on disk after
// out_folder_sync().
bool out_file_open_part(struct out_file *file, const char *path);
bool out_file_write(struct out_file *file, const void *data, size_t size);
// Overwrites bytes that have been written before.
bool out_file_rewrite(struct out_file *file, const void *data, size_t size);
bool out_file_rewind(struct out_file *file);  // forget all that is written
// Everything is on disk, and the file is closed; then the name. (Some
// milliseconds, and as long as the disk takes for what is still in memory: too
// much for each of many small files.)
bool out_file_close(struct out_file *file);
bool out_file_rename(struct out_file *file);
// Removes what processes that were killed have left in a folder ("": the
// current one): temporary files of ours that no process writes any more.
void out_file_clean(const char *folder);
// Removes what is there. Fine at any time, also when never opened.
void out_file_discard(struct out_file *file);
// Writes the path NAME and END to a buffer. Parts that a file system has no room
// for (NAME_MAX bytes) are cut, and end in a hash of the whole part. False: the
// buffer is too small.
bool out_file_name(char *to, size_t size, const char *name, const char *end);
// mkdir -p for the folders above the last slash of path, which is as it was at
// return.
bool out_file_parents(char *path);
// All that was written to the file system of that folder is on disk.
bool out_folder_sync(const char *path);

#endif
