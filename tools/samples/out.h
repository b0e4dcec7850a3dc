// SPDX-License-Identifier: Apache-2.0
// Where sample files go: a folder, and the listing samples.json in it.
#ifndef HEADRACE_TOOLS_SAMPLES_OUT_H
#define HEADRACE_TOOLS_SAMPLES_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

// Bytes that grow. When memory runs out, size stays and failed is set; it is
// enough to check it at the end.
struct samples_bytes {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
};

void samples_bytes_add(struct samples_bytes *b, const void *data, size_t size);
void samples_bytes_byte(struct samples_bytes *b, int value, size_t times);
void samples_bytes_finish(struct samples_bytes *b);

enum samples_expect {
    SAMPLES_OK,    // decodes without complaint
    SAMPLES_WARN,  // decodes, with faults mended
    SAMPLES_FAIL,  // must be refused
};

enum samples_part { SAMPLES_PHOTOS, SAMPLES_KINDS, SAMPLES_BAD, SAMPLES_PARTS };

struct samples_entry {
    enum samples_part part;
    const char *path;  // in the folder, with / between names
    const char *kind;
    int w, h;  // as the header says; 0 = it says nothing
    enum samples_expect expect;
    bool limit;       // refused for its size or its scans, not a fault
    int orientation;  // EXIF 1 .. 8; 0 is written as 1
};

struct samples_out {
    const char *dir;
    json_t *list;  // array of entries
    int count[SAMPLES_PARTS];
    uint64_t bytes;
    const char *kinds;    // list "a,b": only these kinds; NULL = all
    unsigned char *used;  // per name in kinds: some kind had it
};

// Creates dir, with its parents, unless it is there. dir and kinds must
// outlive out. false, also from the next three: told on stderr. In every case
// samples_out_finish() ends it.
bool samples_out_init(struct samples_out *out, const char *dir,
                      const char *kinds);

// Says whether the user wants this kind: it is in the list itself, or a part of
// it up to a '-' is.
bool samples_wanted(struct samples_out *out, const char *kind);

// Writes one file (a temporary name, then rename) and lists it. Finishes its
// bytes; if they have failed, that is told.
bool samples_out_add(struct samples_out *out, const struct samples_entry *entry,
                     struct samples_bytes *bytes);
// Tells that this kind cannot be made; false.
bool samples_cannot(const char *kind);

// Writes samples.json.
bool samples_out_listing(struct samples_out *out);

// First name in kinds that no kind had, up to its comma; NULL = none.
const char *samples_out_unused(const struct samples_out *out, int *len);

void samples_out_finish(struct samples_out *out);

#endif
