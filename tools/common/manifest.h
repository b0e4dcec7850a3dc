// SPDX-License-Identifier: Apache-2.0
// The JSON beside the tensors: what each picture was, and how it ended.
// Written entry by entry, so that its size is the disk's business only.
#ifndef HEADRACE_TOOLS_COMMON_MANIFEST_H
#define HEADRACE_TOOLS_COMMON_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <headrace/headrace.h>

#include "out_file.h"

struct manifest {
    struct out_file file;
    bool begun;  // an entry has been written
};

struct manifest_entry {
    const char *path, *label;  // label "" = none
    const char *file;          // relative path of its tensor, or NULL
    int64_t index;             // its row in the array; -1 = none
    const int64_t *number;     // its class, -1 = none; NULL = there are none
    const struct hr_result *result;
};

// A JSON string of any bytes. Bytes that are not UTF-8 come out as \xNN, in
// four characters. NULL if memory is short.
json_t *manifest_text(const char *bytes);
bool manifest_is_utf8(const char *bytes);

// ["entropy", "color..store", ...]: bits of hr_caps.spans.
json_t *manifest_spans_json(uint32_t spans);
// {"REASON": how often, ...}: the bits of HR_WHY_*.
json_t *manifest_reasons_json(const uint64_t counts[32]);

// "2026-01-31T12:00:00Z"; false: there is no certificate.
bool manifest_tested_text(const struct hr_certificate *cert, char text[32]);
// Its records, each with "span", "kind", "tier" ...; null: there is none.
json_t *manifest_certificate_json(const struct hr_certificate *cert);

// A member with that number, unless it is 0.
void manifest_count(json_t *to, const char *name, uint64_t count);
// {"TEXT": how often, ...} of statuses: counts[i] of status -i.
json_t *manifest_statuses_json(const uint64_t *counts, int num);
// Prints one object to standard output, which it takes over. TOOLS_OK, or
// TOOLS_CANNOT with a message; also for NULL.
int manifest_print(json_t *json);

// {"status", "spans", ...} of one picture; NULL if memory is short.
json_t *manifest_entry_json(const struct manifest_entry *entry);

// Says whether the file at path is a manifest, or there is nothing to lose.
bool manifest_is_ours(const char *path);

// All return false with errno set. head and tail are objects whose members
// come before and after "pictures"; the reference is taken over.
bool manifest_open(struct manifest *manifest, const char *path);
bool manifest_begin(struct manifest *manifest, json_t *head);
bool manifest_add(struct manifest *manifest,
                  const struct manifest_entry *entry);
bool manifest_end(struct manifest *manifest, json_t *tail);

#endif
