// SPDX-License-Identifier: Apache-2.0
// Pack files, byte by byte (what they are for: headrace/pack.h). Numbers are
// little endian and unsigned; a checksum is XXH3 of 64 bits, seed 0; what is
// left over is 0 everywhere.
//
//   header       64 bytes
//   pictures     in the order in which they were added: each a record, its name
//                and label, and its data
//   index        the same once more, without the data, and the classes: all
//                that a reader needs
//
// Records, data and index begin at multiples of 64 bytes. The file ends with
// the index. The records are for a writer that was interrupted: it goes through
// them, and so finds what is whole without an index. Until then the header has
// zeros in place of the last four numbers.
//
//   header   0  u8[8]  "HRPACK\r\n"
//            8  u32    version: 1, or 2 if the index has classes
//           12  u32    of version 2: 1 if the numbers of classes are fixed, or
//                      0 if they are the places of their sorted labels; else 0
//           16  u64    num: pictures
//           24  u64    bytes of the file
//           32  u64    where the index begins
//           40  u64    checksum of the index
//           48  u64    of version 2: the number of classes; else 0
//           56  u64    checksum of the 56 bytes before
//
//   record   0  u8[4]  "HRPE"
//            4  u32    flags; 1: the data are a packed picture
//                      (headrace/cache.h)
//            8  u64    its number, from 0
//           16  u64    bytes of its data
//           24  u64    bytes of the file that it was made of
//           32  u64    checksum of its data
//           40  u32    bytes of its name
//           44  u32    bytes of its label
//           48  u64    0
//           56  u64    checksum of the 56 bytes before, the name and the label
//           64         the name, the label, zeros up to a multiple of 64
//                      the data, zeros up to a multiple of 64
//
//   index              num entries of 64 bytes, in the order of the pictures:
//            0  u64    where its data begin
//            8  u64    bytes of its data
//           16  u64    bytes of the file that it was made of
//           24  u64    checksum of its data
//           32  u64    where its name begins, from the begin of the texts
//           40  u32    bytes of its name
//           44  u32    bytes of its label
//           48  u32    flags, as in the record
//           52  u8[12] 0
//                      u32[num]: the numbers of the pictures in the order of
//                      their names, by bytes; zeros up to a multiple of 8
//                      texts: of each picture the name, 0, the label, 0, one
//                      behind the other
//                      of version 2: zeros up to a multiple of 8; for each
//                      class an i64, its number; for each its label, 0. A class
//                      need have no picture
#ifndef HEADRACE_LOADER_PACK_FORMAT_H
#define HEADRACE_LOADER_PACK_FORMAT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/pack.h>

#define PACK_MAGIC "HRPACK\r\n"
#define PACK_RECORD_MAGIC "HRPE"
#define PACK_ROUND(n) (((n) + 63) & ~UINT64_C(63))

enum {
    PACK_VERSION = 1,
    PACK_VERSION_CLASSES = 2,
    PACK_FIXED = 1,        // in the header
    PACK_TEXT_MAX = 4095,  // bytes of a name or a label
    PACK_PACKED = 1,       // flag
};

// The structs are as the bytes lie; get and put their numbers with le32toh()
// and its sisters.
struct pack_header {
    char magic[8];
    uint32_t version, fixed;
    uint64_t num, bytes, index, index_sum, classes, sum;
};

struct pack_record {
    char magic[4];
    uint32_t flags;
    uint64_t number, size, source, data_sum;
    uint32_t name_size, label_size;
    uint64_t zeros, sum;
};

struct pack_index {
    uint64_t offset, size, source, data_sum, name;
    uint32_t name_size, label_size, flags, zeros[3];
};

// The header of a file that is not finished.
void pack_header_init(struct pack_header *header);
uint64_t pack_header_sum(const struct pack_header *header);
uint64_t pack_record_sum(const struct pack_record *record, const char *name,
                         const char *label);
uint64_t pack_sum(const void *data, size_t size);

// Says whether these bytes are a name as struct hr_pack_entry has them.
bool pack_is_name(const char *name, size_t size);
bool pack_is_label(const char *label, size_t size);

// A picture as its entry has it; map: the whole file, NULL: without its data.
struct hr_pack_entry pack_entry(const struct pack_index *entry,
                                const char *texts, const uint8_t *map);

// The end of a path that is too long for a message.
const char *pack_short(const char *path);

// Computes where the parts of an index of num entries begin; texts is its least
// size, too. False: so many do not fit.
struct pack_parts {
    uint64_t order, texts;
};
bool pack_parts(struct pack_parts *parts, uint64_t num);

// A reader's view of a file of size bytes; each part is checked before it is
// used. map is its header at least.
struct pack_view {
    const uint8_t *map;
    uint64_t size, num;
    uint64_t index_at, index_size, index_sum;
    const struct pack_index *entries;
    const uint32_t *order;
    const char *texts;
    uint64_t text_size;
    uint64_t packed, data_bytes, source_bytes;
    uint64_t num_classes;
    const int64_t *numbers;   // of the classes
    const char *class_texts;  // their labels, behind each other
    // The number of checked entries, and the values that the next one must
    // have.
    uint64_t looked, record_at, text_at;
    // The fault, if there is one, and its place.
    const char *why;
    uint64_t fault_at;
};

// Checks header and index, and fills in *view. HR_OK, or what is wrong, which
// view->why says. pack_view_head() and pack_view_index() are its two halves,
// for a file that is not in memory: the first wants the header alone, the
// second the index, view->index_size bytes from view->index_at on.
enum hr_status pack_view_open(struct pack_view *view, const void *map,
                              uint64_t size);
enum hr_status pack_view_head(struct pack_view *view, const void *head,
                              uint64_t size);
enum hr_status pack_view_index(struct pack_view *view, const void *index);
// Fills in the classes of a view whose index was checked.
void pack_view_classes(const struct pack_view *view,
                       struct hr_pack_class *classes);
// The view of a pack file that is open; as long as it is.
const struct pack_view *pack_view_of(hr_pack_file file);
// Looks at the numbers of those entries that the first `size` bytes of the
// index have, for one that comes bit by bit and might be very long.
enum hr_status pack_view_part(struct pack_view *view, const void *index,
                              uint64_t size);

#endif
