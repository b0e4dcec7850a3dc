// SPDX-License-Identifier: Apache-2.0
// Shared by the halves of the reader of JPEG files: markers (jpeg.c) and scans
// (jpeg_scan.c).
#ifndef HR__FACTS_JPEG_READER_H
#define HR__FACTS_JPEG_READER_H

#include "hal/engine/jpeg.h"
#include "hal/facts/parts.h"

struct hr__reader {
    struct hr__header *h;
    struct hr__jpeg *t;
    size_t pos;        // next byte to read
    size_t bound;      // no marker may reach behind it (marker_bytes)
    unsigned marker;   // the one being read: its second byte
    size_t marker_at;  // offset of its FF
    int segments;
    unsigned latched;    // components whose first scan has begun
    uint64_t mcus;       // of a scan with several components
    uint64_t blocks[4];  // of a scan with only this component
    int scans;
    uint64_t visits;   // blocks of all scans so far
    uint64_t full[4];  // of each component, bit per coefficient: it is there
                       // to the last bit
};

// At the marker that is being read.
#define HR__READER_FAIL(j, code, ...) \
    hr__header_fail((j)->h, code, (j)->marker_at, __VA_ARGS__)

// The header of a scan, n bytes at p.
enum hr_status hr__reader_sos(struct hr__reader *j, const uint8_t *p, size_t n);

#endif
