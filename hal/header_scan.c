// SPDX-License-Identifier: Apache-2.0
// JPEG scans: SOS segments, what a scan costs, and the walk over all of them.
// A file of 10 kB may hold a thousand scans of a large picture, each of which
// visits every block: the sum is limited here, before anybody decodes.
#include <string.h>

#include "hal/header_parts.h"

enum { MAX_MCU_BLOCKS = 10 };  // T.81 B.2.3

struct scan {
    int n;
    int comp[4];           // index in the frame
    uint8_t dc[4], ac[4];  // table numbers
    unsigned ss, se, ah, al;
};

static enum hr_status bad_sos(struct hr__jpeg *j, const char *what, int value)
{
    return hr__header_fail(j->h, HR_ECORRUPT, j->marker_at, "SOS: %s %d", what,
                           value);
}

// As get_sos() of jdmarker.c: components of the same id are taken one after
// the other.
static enum hr_status parse_sos(struct hr__jpeg *j, const uint8_t *p, size_t n,
                                struct scan *s)
{
    bool filled[4] = {false};

    if (!j->sof)
        return hr__header_fail(j->h, HR_ECORRUPT, j->marker_at,
                               "SOS before any frame header");
    s->n = n ? p[0] : 0;
    if (s->n < 1 || s->n > 4 || n != 4 + 2 * (size_t)s->n)
        return bad_sos(j, "number of components", s->n);
    p++;
    for (int i = 0; i < s->n; i++, p += 2) {
        int c = 0;

        while (c < j->h->info->components && (p[0] != j->ids[c] || filled[c]))
            c++;
        if (c == j->h->info->components)
            return bad_sos(j, "component id", p[0]);
        for (int k = 0; k < i; k++)
            if (s->comp[k] == c)
                return bad_sos(j, "repeated component id", p[0]);
        filled[i] = true;
        s->comp[i] = c;
        s->dc[i] = p[1] >> 4;
        s->ac[i] = p[1] & 15;
    }
    s->ss = p[0];
    s->se = p[1];
    s->ah = p[2] >> 4;
    s->al = p[2] & 15;
    return HR_OK;
}

// start_pass_phuff_decoder() of jdphuff.c and start_pass() of jdarith.c. The
// same faults of a sequential scan are only warnings there.
static bool progression_is_valid(const struct scan *s)
{
    if (s->ss ? s->ss > s->se || s->se > 63 || s->n != 1 : s->se != 0)
        return false;
    return s->al <= 13 && (!s->ah || s->al == s->ah - 1);
}

static enum hr_status check_huffman(struct hr__jpeg *j, const struct scan *s)
{
    bool progressive = j->h->info->process == HR_PROCESS_PROGRESSIVE;
    // A sequential file may leave out the tables of T.81 annex K, as the
    // frames of Motion JPEG do: std_huff_tables() of jstdhuff.c.
    unsigned standard = progressive ? 0 : 3;

    for (int i = 0; i < s->n; i++) {
        bool dc = !progressive || (!s->ss && !s->ah);
        bool ac = !progressive || s->ss;

        if (dc && !((j->dc | standard) >> s->dc[i] & 1))
            return bad_sos(j, "no DC Huffman table", s->dc[i]);
        if (ac && !((j->ac | standard) >> s->ac[i] & 1))
            return bad_sos(j, "no AC Huffman table", s->ac[i]);
    }
    return HR_OK;
}

// Each component keeps the table that is there when its first scan begins:
// latch_quant_tables() of jdinput.c.
static enum hr_status check_quant(struct hr__jpeg *j, const struct scan *s)
{
    for (int i = 0; i < s->n; i++) {
        int c = s->comp[i];

        if (j->latched >> c & 1)
            continue;
        if (j->quant_of[c] > 3 || !(j->quant >> j->quant_of[c] & 1))
            return bad_sos(j, "no quantisation table", j->quant_of[c]);
        j->latched |= 1u << c;
    }
    return HR_OK;
}

// Adds the blocks of the scan to the visits (T.81 A.2).
static enum hr_status count_blocks(struct hr__jpeg *j, const struct scan *s)
{
    const struct hr__header *h = j->h;
    uint64_t blocks = 0;

    for (int i = 0; i < s->n; i++)
        blocks += (uint64_t)h->info->h[s->comp[i]] * h->info->v[s->comp[i]];
    if (s->n == 1)
        blocks = j->blocks[s->comp[0]];
    else if (blocks > MAX_MCU_BLOCKS)
        return bad_sos(j, "blocks in a unit:", (int)blocks);
    else
        blocks *= j->mcus;

    j->visits += blocks;
    j->scans++;
    if (j->scans > h->limits.scans)
        return hr__header_fail(j->h, HR_ELIMIT, j->marker_at,
                               "over the limit of %d scans", h->limits.scans);
    if (j->visits > h->limits.block_visits)
        return hr__header_fail(
            j->h, HR_ELIMIT, j->marker_at,
            "%llu block visits in %d scans are over the limit of %llu",
            (unsigned long long)j->visits, j->scans,
            (unsigned long long)h->limits.block_visits);
    return HR_OK;
}

// As jdphuff.c keeps account in coef_bits: the last scan of a coefficient
// counts. A sequential one has all of them, whatever it says of bands.
static void note_scan(struct hr__jpeg *j, const struct scan *s)
{
    struct hr_info *info = j->h->info;
    uint64_t band = UINT64_MAX;
    bool all = true;

    if (info->process == HR_PROCESS_PROGRESSIVE)
        band = UINT64_MAX >> (63 - s->se) & UINT64_MAX << s->ss;
    for (int i = 0; i < s->n; i++) {
        uint64_t *full = &j->full[s->comp[i]];

        *full = info->process == HR_PROCESS_PROGRESSIVE && s->al ? *full & ~band
                                                                 : *full | band;
    }
    for (int i = 0; i < info->components; i++)
        all = all && j->full[i] == UINT64_MAX;
    // A later scan may take something away, but only of a file that is read to
    // its end.
    if (all || info->all_scans)
        info->all_scans = all ? HR_SCANS_ALL : HR_SCANS_MISSING;
}

enum hr_status hr__jpeg_sos(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    struct hr_info *info = j->h->info;
    bool progressive = info->process == HR_PROCESS_PROGRESSIVE;
    struct scan s = {0};
    enum hr_status status = parse_sos(j, p, n, &s);

    if (status == HR_OK && progressive && !progression_is_valid(&s))
        status = hr__header_fail(j->h, HR_ECORRUPT, j->marker_at,
                                 "SOS: progression Ss %u Se %u Ah %u Al %u",
                                 s.ss, s.se, s.ah, s.al);
    if (status == HR_OK)
        status = check_quant(j, &s);
    if (status == HR_OK && !info->arithmetic)
        status = check_huffman(j, &s);
    if (status == HR_OK)
        note_scan(j, &s);
    if (status == HR_OK && !j->scans)
        info->interleaved = !progressive && s.n == info->components;
    return status == HR_OK ? count_blocks(j, &s) : status;
}

// A picture of one scan is taken to end at the file's last bytes. Of others
// every scan is visited, as libjpeg reads all of them before the first row
// comes out, and its end marker must be one that it sees. Markers are found as
// its entropy decoders find them.
enum hr_status hr__jpeg_rest(struct hr__jpeg *j)
{
    struct hr__header *h = j->h;
    bool several = !h->info->interleaved;
    enum hr_status status = HR_OK;

    h->info->ends = !several &&
                    hr__header_ends(HR_FORMAT_JPEG, h->data, h->size);
    if (h->info->ends)
        return HR_OK;
    j->bound = h->size;
    while (hr__jpeg_next(j) == HR_OK) {
        // Resynchronising to restart markers, libjpeg passes over codes that
        // are no markers; without restarts they are its end.
        if (j->marker < HR__JPEG_SOF0 && j->restart_interval)
            continue;
        if (j->marker == HR__JPEG_EOI) {
            h->info->ends = true;
            break;
        }
        // A second scan of a complete one: the decoder will say so.
        if (!several && j->marker == HR__JPEG_SOS)
            break;
        status = hr__jpeg_segment(j);
        if (status != HR_OK)
            break;
        h->info->scans = j->scans;
    }
    if (!h->info->all_scans)
        h->info->all_scans = HR_SCANS_MISSING;
    // A file that is cut short has ends == false, not an error of its own.
    return several && status != HR_ETRUNCATED ? status : HR_OK;
}
