// SPDX-License-Identifier: Apache-2.0
// Pack files (.hrp): a data set in one file. Every JPEG that hr_pack() takes is
// kept packed (cache.h), every other picture as the bytes of its file; names
// and labels are kept. A pack file is read where it lies, by mmap(): processes
// share its memory, and any picture is found by index or name in microseconds.
//
//   hr_pack_file file = hr_pack_open("train.hrp");
//   struct hr_sample s = {.ops = ops, .num_ops = 4};
//   if (file && hr_pack_sample(file, 17, &s) == HR_OK)
//       job = hr_submit(NULL, &s, 1, batch, NULL);
//   ...                       // the job is done
//   hr_pack_close(&file);
//
// The bytes of the format are in loader/pack/format.h.
#ifndef HEADRACE_PACK_H
#define HEADRACE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/job.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

// ---- Reading ----

// A pack file that is open. All members are facts.
//
// The file must not change while it is open. Mapped memory changes with its
// file, and SIGBUS kills a process that reads behind the end of a file that was
// cut meanwhile. A file that was cut or written to is noticed at
// the next call of hr_pack_sample() or hr_pack_check(), but not while a job
// reads it. To replace it, rename another one to its name, as the writer does.
//
// Threads: safe, but for hr_pack_close().
typedef const struct hr_pack_file_t {
    const char *path;       // as it was opened
    uint32_t version;       // of the format: 1, or 2 if it says its classes
    size_t num;             // pictures
    size_t packed;          // packed ones among these
    uint64_t bytes;         // of the file
    uint64_t data_bytes;    // of the pictures in it
    uint64_t source_bytes;  // of the files that they were made of
    size_t num_classes;  // that it names; 0: labels are names of classes, and
                         // there are no others
    bool fixed;          // numbers of classes are as they are named; false:
                         // they are the places of the sorted labels
} *hr_pack_file;

// Opens the file at path, which is copied. The header and the index are read
// and checked, nothing else: a million pictures take a fraction of a second,
// and heap memory of a bit each. NULL with hr_last_error(), which
// names file, offset and reason: HR_EIO, HR_ENOMEM, HR_EFORMAT (no pack file),
// HR_EUNSUPPORTED (of another version), HR_ETRUNCATED (cut, or never finished),
// HR_ECORRUPT. Threads: any.
HR_API hr_pack_file hr_pack_open(const char *path);

// Sets *file to NULL. Jobs that read samples of it must be done. NULL and
// pointers to NULL are fine. Threads: any, when no other thread uses the file.
HR_API void hr_pack_close(hr_pack_file *file);

// One picture. Texts and data of a reader's live as long as the file is open;
// those for a writer are borrowed during the call.
struct hr_pack_entry {
    // A relative path: parts between single slashes, none of which is empty, .
    // or .. ; 1 to 4095 bytes of any encoding, no two the same in a file.
    const char *name;
    const char *label;  // "" = none; up to 4095 bytes
    const void *data;   // a reader's is at a multiple of 64
    size_t size;        // bytes of data
    uint64_t source;    // bytes of the file that it was made of
    bool packed;        // data is a packed picture; else source's own bytes
};

// Fills in *entry; reads the index only. HR_EINVAL: there is no picture i.
// Threads: any.
HR_API enum hr_status hr_pack_entry(hr_pack_file file, size_t i,
                                    struct hr_pack_entry *entry);

// A class by its label; it need have no picture.
struct hr_pack_class {
    const char *label;
    int64_t number;
};

// Fills in num_classes classes, whose labels live as long as the file is open.
// Threads: any.
HR_API void hr_pack_classes(hr_pack_file file, struct hr_pack_class *classes);

// Finds a picture by its name, which has length bytes: *i. HR_EINVAL: there is
// none of that name. Some microseconds. Threads: any.
HR_API enum hr_status hr_pack_find(hr_pack_file file, const char *name,
                                   size_t length, size_t *i);

// Checks that picture i is what was written: all of it is read when it is asked
// for the first time, and its checksum and form checked (some tenths of a
// millisecond for a packed photo); a later HR_OK is free until the file's ctime
// is another one. HR_ECORRUPT; HR_EIO: the file was changed while it was open;
// HR_EINVAL. Threads: any.
HR_API enum hr_status hr_pack_check(hr_pack_file file, size_t i);

// Makes picture i the source of *sample: data, size, name and verified are set,
// path and image cleared, all else stays. Statuses are those of
// hr_pack_check(); after a failure *sample is as it was. A packed picture that
// was not checked yet is left unchecked, and verified is false, so that the job
// checks it, on the library's threads; a damaged one ends as HR_ECORRUPT. When
// a result was HR_OK, hr_pack_passed() spares the check from then on. The file
// must stay open until the job is done. Threads: any.
HR_API enum hr_status hr_pack_sample(hr_pack_file file, size_t i,
                                     struct hr_sample *sample);
// A job has made picture i of a sample as it was set by hr_pack_sample():
// HR_OK. Threads: any.
HR_API void hr_pack_passed(hr_pack_file file, size_t i);

// ---- Writing ----

// A pack file in the making. Until hr_pack_writer_finish() it is called
// PATH.part: a process may be killed at any point, and what was at PATH is
// there still. Memory: about 150 bytes a picture, and its name and label.
// Threads: one at a time; one writer a file, of all processes.
typedef const struct hr_pack_writer_t {
    const char *path;  // of the file that will be
    size_t num;        // pictures that are in it
    uint64_t bytes;    // of PATH.part, so far
} *hr_pack_writer;

// Begins PATH.part, or goes on with it: all pictures of an earlier writer that
// are there whole are read, checked and kept, num says how many; what is behind
// them is cut off. NULL: HR_EINVAL, HR_EIO, HR_ENOMEM, HR_EFORMAT (PATH.part is
// something else), HR_EAGAIN (another writer is at work). Threads: any.
HR_API hr_pack_writer hr_pack_writer_open(const char *path);

// The picture that is number i in the file, i < num; its data is NULL, for it
// is on disk only. Texts live until the next call with this writer.
HR_API enum hr_status hr_pack_writer_entry(hr_pack_writer writer, size_t i,
                                           struct hr_pack_entry *entry);

// Keeps the first num pictures only. HR_EINVAL: there are fewer; HR_EIO.
HR_API enum hr_status hr_pack_writer_cut(hr_pack_writer writer, size_t num);

// Puts a picture behind the others. The same pictures in the same order make
// the same file, byte by byte, however often the writer was interrupted (if the
// same classes are named).
// HR_EINVAL: a name that is there already or is no relative path, packed data
// that are none; HR_EIO, HR_ENOMEM. After a failure nothing was added.
HR_API enum hr_status hr_pack_writer_add(hr_pack_writer writer,
                                         const struct hr_pack_entry *entry);

// Writes the index, waits until everything is on disk, and gives the file its
// name, in the place of what is called so. Then the writer is of no use but for
// hr_pack_writer_close(). HR_EIO, HR_ENOMEM: PATH.part is still there.
HR_API enum hr_status hr_pack_writer_finish(hr_pack_writer writer);

// Frees the writer, sets *writer to NULL. A file that is not finished stays as
// PATH.part, for hr_pack_writer_open() to go on with. NULL is fine.
HR_API void hr_pack_writer_close(hr_pack_writer *writer);

HR_END_DECLS
#endif
