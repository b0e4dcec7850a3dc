// SPDX-License-Identifier: Apache-2.0
// Pictures prepared once. A cache keeps the coefficients of a JPEG that the CPU
// or an OpenCL device decodes, packed (about half as much again as the file).
// The next job with the picture, in any window, size or type, on any device,
// needs neither the file nor its Huffman decoding, which take most of the time.
// The pixels are the same.
#ifndef HEADRACE_CACHE_H
#define HEADRACE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/probe.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

// A cache. It holds at most so many bytes in memory. The pictures that were
// used least recently make room for new ones. It is shared by all devices, jobs
// and threads that name it.
//
// A picture that came as data is found again by its content. One that came as a
// path is found by its device, inode, size, and times of last change, so a file
// that is written again, or replaced, is another one. A write through a mapping
// changes the times of a file late, or not at all: give such files as data. A
// file that was changed a moment before it was opened is not kept, as a change
// that its times do not show might follow. The moment is a tenth of a second,
// or two seconds where the file system knows no fractions.
//
// A cache keeps JPEGs with 8 bits in grey, YCbCr or RGB that decode without a
// warning, of every coding process but lossless. All others are made as if
// there were no cache. A device whose engine decodes by itself (a media engine)
// does not look into caches.
//
// A result whose picture came from a cache says so: its first span is entropy,
// by "cache".
//
// After fork() the child's caches are empty ones: that of hr_set_cache() is
// made anew, of the same size, when it is first used; others keep nothing.
typedef const struct hr_cache_t {
    size_t bytes;  // that it may hold
} *hr_cache;

// bytes > 0. NULL with hr_last_error(): HR_EINVAL, HR_ENOMEM. The caller owns
// one reference. Threads: any.
HR_API hr_cache hr_cache_create(size_t bytes);

// Gives up a reference, sets *cache to NULL. Devices, samples in flight and
// hr_set_cache() have their own. NULL and pointers to NULL are fine.
// Threads: any.
HR_API void hr_cache_release(hr_cache *cache);

// Sets the cache of all samples that name none and whose device names none
// (struct hr_device_params); it holds for jobs submitted from then on. NULL =
// none, as at first. HR_EINVAL: a cache from before fork(). Threads: any.
HR_API enum hr_status hr_set_cache(hr_cache cache);

// The cache of hr_set_cache(), NULL if there is none. The caller owns a
// reference. Threads: any.
HR_API hr_cache hr_get_cache(void);

// Counters since the cache was made.
struct hr_cache_stats {
    uint64_t hits;       // pictures that were there
    uint64_t misses;     // pictures that could be kept, and were not there
    uint64_t kept;       // of these, how many were,
    uint64_t evictions;  // pictures that made room
    uint64_t pictures;   // there are now,
    size_t bytes;        // with this memory; at most hr_cache_t.bytes
};
HR_API void hr_cache_stats(hr_cache cache, struct hr_cache_stats *stats);

// ---- Pictures of files, held ----

// The picture that a cache keeps of a file. While it is held it is a source,
// whatever becomes of the file and of the cache; its memory is the cache's. The
// caller makes packed, packed_size the data of a sample, with cached set to it:
// then the result is one from a cache. (Not in the child of a fork.)
typedef const struct hr_cached_t {
    struct hr_info info;  // of the file
    const void *packed;   // the picture, see below; it is sound
    size_t packed_size;
    const void *header;  // the first info.header_size bytes of the file
} *hr_cached;

// The picture of the file that has this status now. NULL: it is not there, or
// its header is larger than 64 KB. The caller owns a reference. Threads: any.
struct stat;
HR_API hr_cached hr_cache_find(hr_cache cache, const struct stat *status);

// Gives up a reference, sets *cached to NULL. NULL and pointers to NULL are
// fine. Threads: any.
HR_API void hr_cached_release(hr_cached *cached);

// ---- Packed pictures ----

// A packed picture is a source like a JPEG: hr_sample.data, or a file. A
// program that keeps them itself (in a file, a data base, shared memory) makes
// them once:
//
// Packs the JPEG of size bytes at data. HR_OK: *packed, *packed_size; the
// caller frees it with hr_packed_free(). HR_EUNSUPPORTED: no picture for this
// form, see hr_cache; it is to be kept as it is. Other statuses are those of
// decoding, also of faults that decoding would mend, with offset and reason in
// hr_last_error(). limits may be NULL. It works on the calling thread.
// Threads: any.
HR_API enum hr_status hr_pack(const void *data, size_t size,
                              const struct hr_limits *limits, void **packed,
                              size_t *packed_size);
HR_API void hr_packed_free(void *packed);  // NULL is fine

// Checks that size bytes at data, a multiple of 8, are a sound packed picture:
// all of it is read. A picture that passes may be submitted as
// hr_sample.verified. Threads: any.
HR_API bool hr_packed_check(const void *data, size_t size);

HR_END_DECLS
#endif
