// SPDX-License-Identifier: Apache-2.0
// Private to the writer:
//
//   write.c   the file: opened, added to, finished
//   resume.c  what an earlier writer has left
//   io.c      what is written to it, and that it is on disk
//   table.c   names and places of all pictures, until they are the index
#ifndef HEADRACE_LOADER_PACK_WRITER_H
#define HEADRACE_LOADER_PACK_WRITER_H

#include "format.h"

// The index as far as it is known. Names are found by a table of their numbers.
struct pack_table {
    size_t num;
    struct pack_index *entries;  // [capacity]
    size_t capacity;
    char *texts;
    size_t text_size, text_capacity;
    uint32_t *slots;  // number + 1; 0 = free. A power of two, half of them free
    size_t num_slots;
};

// HR_OK, HR_ENOMEM, HR_ELIMIT, or HR_EINVAL for a name that is there.
// record_at: where the record lies in the file. The last error is the caller's
// to set.
enum hr_status pack_table_add(struct pack_table *table,
                              const struct pack_record *record,
                              uint64_t record_at, const char *name,
                              const char *label);
void pack_table_cut(struct pack_table *table, size_t num);
// The end of the index: numbers and labels, as their bytes lie.
struct pack_classes {
    void *data;  // of hr__alloc()
    size_t size, num;
    bool fixed;
};

// Returns the bytes of the index, of hr__alloc(); NULL: out of memory.
void *pack_table_index(const struct pack_table *table,
                       const struct pack_classes *classes,
                       struct pack_parts *parts, uint64_t *size);
void pack_table_finish(struct pack_table *table);

struct pack_writer {
    struct hr_pack_writer_t pub;  // first
    char *part;                   // PATH.part
    int fd;
    bool finished;
    struct pack_table table;
    struct pack_classes classes;
};

// Says which classes there are, whatever pictures there will be; texts are
// copied. fixed: see struct hr_pack_file_t. Another call replaces what was
// said; num 0: labels say all. Labels are not empty. HR_EINVAL, HR_ENOMEM.
enum hr_status hr__pack_writer_classes(hr_pack_writer writer,
                                       const struct hr_pack_class *classes,
                                       size_t num, bool fixed);

struct pack_writer *pack_writer_of(hr_pack_writer writer);
enum hr_status pack_writer_errno(const struct pack_writer *w);
enum hr_status pack_write_all(struct pack_writer *w, const void *data,
                              size_t size, uint64_t at);
bool pack_synced(int fd);  // all of it is on disk, as far as the disk can

// Takes over what is whole in the file, and cuts off the rest; or begins it.
enum hr_status pack_resume(struct pack_writer *w);

#endif
