// SPDX-License-Identifier: Apache-2.0
// Headers of scans (ITU-T T.81, B.2.3): refused, or warned of, as libjpeg-turbo
// 2.1.5 does.
//
// A file of 10 kB may hold a thousand scans of a large picture, each of which
// visits every block: the sum is limited here, before any engine decodes.
#include <string.h>

#include "hal/facts/jpeg_reader.h"

enum { MAX_MCU_BLOCKS = 10 };  // T.81 B.2.3

struct scan {
    int n;
    int comp[4];           // index in the frame
    uint8_t dc[4], ac[4];  // table numbers
    unsigned ss, se, ah, al;
};

static enum hr_status bad_sos(struct hr__reader *j, const char *what, int value)
{
    return HR__READER_FAIL(j, HR_ECORRUPT, "SOS: %s %d", what, value);
}

// Parses SOS as get_sos() of jdmarker.c: components of the same id are taken
// one after the other.
static enum hr_status parse_sos(struct hr__reader *j, const uint8_t *p,
                                size_t n, struct scan *s)
{
    bool filled[4] = {false};

    if (!j->t->sof)
        return HR__READER_FAIL(j, HR_ECORRUPT, "SOS before any frame header");
    s->n = n ? p[0] : 0;
    if (s->n < 1 || s->n > 4 || n != 4 + 2 * (size_t)s->n)
        return bad_sos(j, "number of components", s->n);
    p++;
    for (int i = 0; i < s->n; i++, p += 2) {
        int c = 0;

        while (c < j->t->num_components &&
               (p[0] != j->t->comp[c].id || filled[c]))
            c++;
        if (c == j->t->num_components)
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

static bool has_huffman(const struct hr__reader *j, int ac, unsigned index)
{
    return index < 4 && j->t->huffman[ac][index];
}

static enum hr_status check_huffman(struct hr__reader *j, const struct scan *s)
{
    bool progressive = j->t->sof == HR__JPEG_SOF2;

    // A sequential file may leave out the tables of T.81 annex K, as the
    // frames of Motion JPEG do: std_huff_tables() of jstdhuff.c.
    for (int ac = 0; ac < 2 && !progressive; ac++)
        for (int i = 0; i < 2; i++)
            if (!j->t->huffman[ac][i])
                j->t->huffman[ac][i] = hr__jpeg_huffman(ac, i);
    for (int i = 0; i < s->n; i++) {
        bool dc = !progressive || (!s->ss && !s->ah);
        bool ac = !progressive || s->ss;

        if (dc && !has_huffman(j, 0, s->dc[i]))
            return bad_sos(j, "no DC Huffman table", s->dc[i]);
        if (ac && !has_huffman(j, 1, s->ac[i]))
            return bad_sos(j, "no AC Huffman table", s->ac[i]);
    }
    return HR_OK;
}

// Each component keeps the table that is there when its first scan begins:
// latch_quant_tables() of jdinput.c.
static enum hr_status check_quant(struct hr__reader *j, const struct scan *s)
{
    for (int i = 0; i < s->n; i++) {
        int c = s->comp[i], quant = j->t->comp[c].quant;

        if (j->latched >> c & 1)
            continue;
        if (quant > 3 || !j->t->quant[quant].at)
            return bad_sos(j, "no quantisation table", quant);
        j->latched |= 1u << c;
    }
    return HR_OK;
}

// Adds the blocks of the scan to the visits (T.81 A.2).
static enum hr_status count_blocks(struct hr__reader *j, const struct scan *s)
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
        return HR__READER_FAIL(j, HR_ELIMIT, "over the limit of %d scans",
                               h->limits.scans);
    if (j->visits > h->limits.block_visits)
        return HR__READER_FAIL(
            j, HR_ELIMIT,
            "%llu block visits in %d scans are over the limit of %llu",
            (unsigned long long)j->visits, j->scans,
            (unsigned long long)h->limits.block_visits);
    return HR_OK;
}

// Notes a scan's coefficients, as jdphuff.c does in coef_bits: the last scan of
// a coefficient counts. A sequential scan has all of them, whatever band it
// names.
static void note_scan(struct hr__reader *j, const struct scan *s)
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

// default_decompress_parms() of jdapimin.c, which warns of other transforms.
static enum hr_color color_of(struct hr__jpeg *t)
{
    const struct hr__jpeg_component *c = t->comp;

    if (t->num_components == 1)
        return HR_COLOR_GRAY;
    if (t->num_components == 4)
        return t->adobe && t->transform ? HR_COLOR_YCCK : HR_COLOR_CMYK;
    if (t->jfif)
        return HR_COLOR_YCC;
    if (t->adobe && t->transform > 1)
        t->why |= HR_WHY_COLOR;
    if (t->adobe)
        return t->transform ? HR_COLOR_YCC : HR_COLOR_RGB;
    return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B' ? HR_COLOR_RGB
                                                              : HR_COLOR_YCC;
}

// libjpeg warns of a sequential scan that says anything else of bands.
static void note_first(struct hr__reader *j, const struct scan *s)
{
    struct hr__jpeg *t = j->t;

    t->color = color_of(t);
    if (t->sof > HR__JPEG_SOF1)
        t->why |= j->h->info->arithmetic ? HR_WHY_ARITHMETIC
                                         : HR_WHY_PROGRESSIVE;
    if (t->num_components == 4)
        t->why |= HR_WHY_COLOR;
    if (s->n != t->num_components)
        t->why |= HR_WHY_MULTISCAN;
    if (s->ss || s->se != 63 || s->ah || s->al)
        t->why |= HR_WHY_DAMAGED;
    for (int i = 0; i < s->n; i++) {
        if (s->comp[i] != i)
            t->why |= HR_WHY_MULTISCAN;
        t->comp[s->comp[i]].dc = s->dc[i];
        t->comp[s->comp[i]].ac = s->ac[i];
    }
}

enum hr_status hr__reader_sos(struct hr__reader *j, const uint8_t *p, size_t n)
{
    struct hr_info *info = j->h->info;
    bool progressive = info->process == HR_PROCESS_PROGRESSIVE;
    struct scan s = {0};
    enum hr_status status = parse_sos(j, p, n, &s);

    if (status == HR_OK && progressive && !progression_is_valid(&s))
        status = HR__READER_FAIL(j, HR_ECORRUPT,
                                 "SOS: progression Ss %u Se %u Ah %u Al %u",
                                 s.ss, s.se, s.ah, s.al);
    if (status == HR_OK)
        status = check_quant(j, &s);
    if (status == HR_OK && !info->arithmetic)
        status = check_huffman(j, &s);
    if (status == HR_OK)
        note_scan(j, &s);
    if (status == HR_OK && !j->scans) {
        info->interleaved = !progressive && s.n == info->components;
        note_first(j, &s);
    }
    return status == HR_OK ? count_blocks(j, &s) : status;
}
