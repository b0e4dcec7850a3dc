// SPDX-License-Identifier: Apache-2.0
// JPEG markers and scans (ITU-T T.81, annex B), with the tolerance of
// libjpeg-turbo 2.1.5: what its jdmarker.c and jdinput.c skip is skipped, what
// they refuse is refused.
//
// A file of 10 kB may hold a thousand scans of a large picture, each of which
// visits every block: the sum is limited here, before anybody decodes.
#include <string.h>

#include "hal/facts/parts.h"

enum { MAX_MCU_BLOCKS = 10 };               // T.81 B.2.3
enum { MAX_SIDE = 65500, MAX_FACTOR = 4 };  // JPEG_MAX_DIMENSION, T.81 B.2.2

struct hr__jpeg {
    struct hr__header *h;
    size_t pos;        // next byte to read
    size_t bound;      // no marker may reach behind it (marker_bytes)
    unsigned marker;   // the one being read: its second byte
    size_t marker_at;  // offset of its FF
    int segments;
    bool sof, jfif, adobe, exif;
    uint8_t adobe_transform;
    uint8_t ids[4];
    uint8_t quant_of[4];     // quantisation table of each component
    unsigned quant, dc, ac;  // tables seen, bit per number
    unsigned latched;        // components whose first scan has begun
    int restart_interval;
    int hmax, vmax;
    uint64_t mcus;       // of a scan with several components
    uint64_t blocks[4];  // of a scan with only this component
    int scans;
    uint64_t visits;   // blocks of all scans so far
    uint64_t full[4];  // of each component, bit per coefficient: it is there
                       // to the last bit
};

// At the marker that is being read.
#define FAIL(j, code, ...) \
    hr__header_fail((j)->h, code, (j)->marker_at, __VA_ARGS__)

// ---- Markers, and lengths ----------------------------------------------------

static bool is_rst(unsigned marker)
{
    return marker >= HR__JPEG_RST0 && marker <= HR__JPEG_RST7;
}

static bool is_app(unsigned marker)
{
    return marker >= HR__JPEG_APP0 && marker <= HR__JPEG_APP15;
}

// Bytes that are no marker and FF FF fill bytes are skipped, as next_marker()
// of jdmarker.c does.
static enum hr_status next_marker(struct hr__jpeg *j)
{
    const uint8_t *data = j->h->data;
    size_t end = j->h->size < j->bound ? j->h->size : j->bound;

    while (j->pos < end) {
        const uint8_t *ff = memchr(data + j->pos, 0xFF, end - j->pos);

        if (!ff)
            break;
        j->pos = (size_t)(ff - data) + 1;
        while (j->pos < end && data[j->pos] == 0xFF)
            j->pos++;
        if (j->pos == end)
            break;
        j->pos++;
        if (data[j->pos - 1]) {
            j->marker = data[j->pos - 1];
            j->marker_at = j->pos - 2;
            return HR_OK;
        }
    }
    j->pos = end;
    if (j->h->size > j->bound)
        return hr__header_check_room(j->h, end, end + 1, 0);
    return hr__header_short(j->h, "a search for the next marker");
}

static const char *marker_name(unsigned marker, char buf[8])
{
    static const char *const names[0x20] = {
        "SOF0", "SOF1", "SOF2",  "SOF3",  "DHT", "SOF5",  "SOF6",  "SOF7",
        "JPG",  "SOF9", "SOF10", "SOF11", "DAC", "SOF13", "SOF14", "SOF15",
        "RST",  "RST",  "RST",   "RST",   "RST", "RST",   "RST",   "RST",
        "SOI",  "EOI",  "SOS",   "DQT",   "DNL", "DRI",   "DHP",   "EXP",
    };

    if (marker >= 0xC0 && marker < 0xE0)
        return names[marker - 0xC0];
    if (marker == HR__JPEG_COM)
        return "COM";
    if (marker == HR__JPEG_SOF55)
        return "SOF55";
    memcpy(buf, is_app(marker) ? "APP" : "FF ", 3);
    if (!is_app(marker)) {
        buf[3] = "0123456789ABCDEF"[marker >> 4];
        buf[4] = "0123456789ABCDEF"[marker & 15];
        buf[5] = 0;
        return buf;
    }
    marker &= 15;
    buf[3] = (char)(marker < 10 ? '0' + marker : '1');
    buf[4] = (char)(marker < 10 ? 0 : '0' + marker - 10);
    buf[5] = 0;
    return buf;
}

static enum hr_status bad_length(struct hr__jpeg *j, size_t n)
{
    char buf[8];

    return FAIL(j, HR_ECORRUPT,
                "%s segment length %zu does not fit what it holds",
                marker_name(j->marker, buf), n + 2);
}

// Sets *n to the bytes of the segment's payload, which begins at pos + 2.
static enum hr_status read_length(struct hr__jpeg *j, size_t *n)
{
    struct hr__header *h = j->h;
    size_t length;
    char buf[8];

    *n = 0;
    if (h->size - j->pos < 2)
        return hr__header_short(h, marker_name(j->marker, buf));
    length = hr__be16(h->data + j->pos);
    if (length < 2) {
        // Of segments that it skips, libjpeg takes 0 and 1 for an empty one.
        if (is_app(j->marker) || j->marker == HR__JPEG_COM ||
            j->marker == HR__JPEG_DNL)
            return HR_OK;
        return FAIL(j, HR_ECORRUPT, "%s segment length %zu is too short",
                    marker_name(j->marker, buf), length);
    }
    *n = length - 2;
    if (!j->scans) {
        enum hr_status status = hr__header_check_room(h, j->marker_at,
                                                      j->pos + length, 0);

        if (status != HR_OK)
            return status;
    }
    if (h->size - j->pos < length)
        return hr__header_short(h, marker_name(j->marker, buf));
    return HR_OK;
}

// ---- Tables ------------------------------------------------------------------

static enum hr_status read_dqt(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    size_t left = n;

    while (left) {
        unsigned index = p[0] & 15;
        size_t bytes = p[0] >> 4 ? 1 + 128 : 1 + 64;

        if (index > 3)
            return FAIL(j, HR_ECORRUPT, "DQT: table number %u", index);
        if (bytes > left)
            return bad_length(j, n);
        j->quant |= 1u << index;
        p += bytes;
        left -= bytes;
    }
    return HR_OK;
}

static enum hr_status read_dht(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    size_t left = n;

    while (left > 16) {
        unsigned index = p[0], count = 0;

        for (int i = 1; i <= 16; i++)
            count += p[i];
        if (count > 256 || count > left - 17)
            return FAIL(j, HR_ECORRUPT, "DHT: %u codes in %zu bytes", count,
                        left - 17);
        if (index & ~0x13u)
            return FAIL(j, HR_ECORRUPT, "DHT: table number 0x%02X", index);
        if (index & 0x10)
            j->ac |= 1u << (index & 3);
        else
            j->dc |= 1u << index;
        p += 17 + count;
        left -= 17 + count;
    }
    return left ? bad_length(j, n) : HR_OK;
}

static enum hr_status read_dac(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    if (n & 1)
        return bad_length(j, n);
    for (size_t i = 0; i < n; i += 2) {
        if (p[i] >= 32)
            return FAIL(j, HR_ECORRUPT, "DAC: table number %u", p[i]);
        if (p[i] < 16 && (p[i + 1] & 15) > p[i + 1] >> 4)
            return FAIL(j, HR_ECORRUPT, "DAC: value 0x%02X", p[i + 1]);
    }
    return HR_OK;
}

static void read_app(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    if (j->marker == HR__JPEG_APP0 && n >= 14 && !memcmp(p, "JFIF", 5))
        j->jfif = true;
    if (j->marker == HR__JPEG_APP14 && n >= 12 && !memcmp(p, "Adobe", 5)) {
        j->adobe = true;
        j->adobe_transform = p[11];
    }
    // The first EXIF block counts, whatever it holds: Pillow, _APP().
    if (j->marker == HR__JPEG_APP1 && n >= 5 && !memcmp(p, "Exif", 5) &&
        !j->exif) {
        j->exif = true;
        if (n >= 6 && !p[5])
            j->h->info->orientation = hr__exif_orientation(p + 6, n - 6);
    }
}

// ---- Frame -------------------------------------------------------------------

// SOF0 .. SOF15 without DHT, JPG and DAC: bit 0 and 1 process, bit 2
// differential (hierarchical), bit 3 arithmetic coding (T.81, table B.1).
static enum hr_status set_process(struct hr__jpeg *j)
{
    static const enum hr_process by_bits[4] = {
        HR_PROCESS_BASELINE,
        HR_PROCESS_EXTENDED,
        HR_PROCESS_PROGRESSIVE,
        HR_PROCESS_LOSSLESS,
    };
    struct hr_info *info = j->h->info;
    const char *what = NULL;

    info->process = by_bits[j->marker & 3];
    info->arithmetic = j->marker != HR__JPEG_SOF55 && j->marker & 8;
    if (j->marker == HR__JPEG_SOF55)
        what = "JPEG-LS";
    else if (j->marker & 4)
        what = "hierarchical coding";
    else if (info->process == HR_PROCESS_LOSSLESS)
        what = "lossless coding";
    if (what)
        return FAIL(j, HR_EUNSUPPORTED, "%s", what);
    return HR_OK;
}

static enum hr_status check_frame(struct hr__jpeg *j)
{
    struct hr__header *h = j->h;
    const struct hr_info *info = h->info;
    enum hr_status status;

    if (!info->height)
        return FAIL(j, HR_EUNSUPPORTED, "height 0 (to be given later, by DNL)");
    if (!info->width || !info->components)
        return FAIL(j, HR_ECORRUPT, "%d components of %d x %d",
                    info->components, info->width, info->height);
    status = set_process(j);
    if (status != HR_OK)
        return status;
    if (info->precision != 8)
        return FAIL(j, HR_EUNSUPPORTED, "%d bits per sample", info->precision);
    status = hr__header_check_size(h, j->marker_at);
    if (status != HR_OK)
        return status;
    if (info->width > MAX_SIDE || info->height > MAX_SIDE)
        return FAIL(j, HR_EUNSUPPORTED, "%d x %d is over libjpeg's side of %d",
                    info->width, info->height, MAX_SIDE);
    if (info->components != 1 && info->components != 3 && info->components != 4)
        return FAIL(j, HR_EUNSUPPORTED, "%d components", info->components);
    return HR_OK;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

// Sizes in blocks as initial_setup() of jdinput.c computes them.
static void set_blocks(struct hr__jpeg *j)
{
    const struct hr_info *info = j->h->info;
    uint64_t w = (uint64_t)info->width, height = (uint64_t)info->height;
    uint64_t mcu_w = 8 * (uint64_t)j->hmax, mcu_h = 8 * (uint64_t)j->vmax;

    j->mcus = div_up(w, mcu_w) * div_up(height, mcu_h);
    for (int c = 0; c < info->components; c++)
        j->blocks[c] = div_up(w * info->h[c], mcu_w) *
                       div_up(height * info->v[c], mcu_h);
}

static enum hr_status read_components(struct hr__jpeg *j, const uint8_t *p)
{
    struct hr_info *info = j->h->info;

    j->hmax = j->vmax = 1;
    for (int c = 0; c < info->components; c++, p += 3) {
        int h = p[1] >> 4, v = p[1] & 15;

        j->ids[c] = p[0];
        j->quant_of[c] = p[2];
        info->h[c] = (uint8_t)h;
        info->v[c] = (uint8_t)v;
        if (!h || !v || h > MAX_FACTOR || v > MAX_FACTOR)
            return FAIL(j, HR_ECORRUPT,
                        "sampling factors %d x %d of component %d", h, v, c);
        j->hmax = h > j->hmax ? h : j->hmax;
        j->vmax = v > j->vmax ? v : j->vmax;
    }
    for (int c = 0; c < info->components; c++)
        if (j->hmax % info->h[c] || j->vmax % info->v[c])
            return FAIL(j, HR_EUNSUPPORTED,
                        "sampling factors %d x %d of component %d "
                        "are no whole part of %d x %d",
                        info->h[c], info->v[c], c, j->hmax, j->vmax);
    set_blocks(j);
    return HR_OK;
}

static enum hr_status read_sof(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    struct hr_info *info = j->h->info;
    enum hr_status status;
    char buf[8];

    if (j->sof)
        return FAIL(j, HR_ECORRUPT, "%s: a second frame header",
                    marker_name(j->marker, buf));
    if (n < 6 || n != 6 + 3 * (size_t)p[5])
        return bad_length(j, n);
    j->sof = true;
    info->precision = p[0];
    info->height = (int)hr__be16(p + 1);
    info->width = (int)hr__be16(p + 3);
    info->components = p[5];
    status = check_frame(j);
    return status == HR_OK ? read_components(j, p + 6) : status;
}

// ---- Scans -------------------------------------------------------------------

struct scan {
    int n;
    int comp[4];           // index in the frame
    uint8_t dc[4], ac[4];  // table numbers
    unsigned ss, se, ah, al;
};

static enum hr_status bad_sos(struct hr__jpeg *j, const char *what, int value)
{
    return FAIL(j, HR_ECORRUPT, "SOS: %s %d", what, value);
}

// As get_sos() of jdmarker.c: components of the same id are taken one after
// the other.
static enum hr_status parse_sos(struct hr__jpeg *j, const uint8_t *p, size_t n,
                                struct scan *s)
{
    bool filled[4] = {false};

    if (!j->sof)
        return FAIL(j, HR_ECORRUPT, "SOS before any frame header");
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
        return FAIL(j, HR_ELIMIT, "over the limit of %d scans",
                    h->limits.scans);
    if (j->visits > h->limits.block_visits)
        return FAIL(j, HR_ELIMIT,
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

static enum hr_status read_sos(struct hr__jpeg *j, const uint8_t *p, size_t n)
{
    struct hr_info *info = j->h->info;
    bool progressive = info->process == HR_PROCESS_PROGRESSIVE;
    struct scan s = {0};
    enum hr_status status = parse_sos(j, p, n, &s);

    if (status == HR_OK && progressive && !progression_is_valid(&s))
        status = FAIL(j, HR_ECORRUPT,
                      "SOS: progression Ss %u Se %u Ah %u Al %u", s.ss, s.se,
                      s.ah, s.al);
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

// ---- Markers -----------------------------------------------------------------

// Markers that stand alone, or that no segment can follow.
static enum hr_status bare_marker(struct hr__jpeg *j, bool *bare)
{
    unsigned m = j->marker;
    char buf[8];

    *bare = true;
    if (is_rst(m) || m == HR__JPEG_TEM)
        return HR_OK;
    if (m == HR__JPEG_SOI)
        return FAIL(j, HR_ECORRUPT, "a second SOI marker");
    if (m == HR__JPEG_EOI)
        return FAIL(j, HR_ECORRUPT,
                    j->sof ? "no scan before the EOI marker"
                           : "no picture, only tables");
    if (m < HR__JPEG_SOF0)
        return FAIL(j, HR_ECORRUPT, "%s is not a marker", marker_name(m, buf));
    if (m == HR__JPEG_DHP || m == HR__JPEG_EXP)
        return FAIL(j, HR_EUNSUPPORTED, "hierarchical coding");
    if (m == HR__JPEG_JPG ||
        (m >= 0xF0 && m < HR__JPEG_COM && m != HR__JPEG_SOF55))
        return FAIL(j, HR_EUNSUPPORTED, "reserved marker %s",
                    marker_name(m, buf));
    *bare = false;
    return HR_OK;
}

static enum hr_status read_payload(struct hr__jpeg *j, const uint8_t *p,
                                   size_t n)
{
    switch (j->marker) {
    case HR__JPEG_DHT:
        return read_dht(j, p, n);
    case HR__JPEG_DAC:
        return read_dac(j, p, n);
    case HR__JPEG_DQT:
        return read_dqt(j, p, n);
    case HR__JPEG_SOS:
        return read_sos(j, p, n);
    case HR__JPEG_DRI:
        if (n != 2)
            return bad_length(j, n);
        j->restart_interval = (int)hr__be16(p);
        return HR_OK;
    case HR__JPEG_DNL:
    case HR__JPEG_COM:
        return HR_OK;
    default:
        if (!is_app(j->marker))
            return read_sof(j, p, n);
        // Behind the first scan it is too late for libjpeg's colour rules.
        if (!j->scans)
            read_app(j, p, n);
        return HR_OK;
    }
}

static enum hr_status read_segment(struct hr__jpeg *j)
{
    size_t n, start;
    bool bare;
    enum hr_status status = bare_marker(j, &bare);

    if (bare)
        return status;
    status = read_length(j, &n);
    if (status != HR_OK)
        return status;
    start = j->pos + 2;
    status = read_payload(j, j->h->data + start, n);
    j->pos = start + n;
    return status;
}

// A picture of one scan is taken to end at the file's last bytes. Of others
// every scan is visited, as libjpeg reads all of them before the first row
// comes out, and its end marker must be one that it sees. Markers are found as
// its entropy decoders find them.
static enum hr_status read_rest(struct hr__jpeg *j)
{
    struct hr__header *h = j->h;
    bool several = !h->info->interleaved;
    enum hr_status status = HR_OK;

    h->info->ends = !several &&
                    hr__header_ends(HR_FORMAT_JPEG, h->data, h->size);
    if (h->info->ends)
        return HR_OK;
    j->bound = h->size;
    while (next_marker(j) == HR_OK) {
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
        status = read_segment(j);
        if (status != HR_OK)
            break;
        h->info->scans = j->scans;
    }
    if (!h->info->all_scans)
        h->info->all_scans = HR_SCANS_MISSING;
    // A file that is cut short has ends == false, not an error of its own.
    return several && status != HR_ETRUNCATED ? status : HR_OK;
}

bool hr__header_scan_ends(const uint8_t *data, size_t size,
                          const struct hr_info *info)
{
    struct hr_info none;
    struct hr__header_error err;
    struct hr__header h = {
        .data = data, .size = size, .info = &none, .err = &err};
    struct hr__jpeg j = {.h = &h, .pos = info->header_size, .bound = size};

    while (next_marker(&j) == HR_OK)
        if (!is_rst(j.marker) || !info->restart_interval)
            return j.marker == HR__JPEG_EOI;
    return false;
}

// default_decompress_parms() of jdapimin.c.
static enum hr_color color_of(const struct hr__jpeg *j, int components)
{
    if (components == 1)
        return HR_COLOR_GRAY;
    if (components == 4)
        return j->adobe && j->adobe_transform ? HR_COLOR_YCCK : HR_COLOR_CMYK;
    if (j->jfif)
        return HR_COLOR_YCC;
    if (j->adobe)
        return j->adobe_transform ? HR_COLOR_YCC : HR_COLOR_RGB;
    return memcmp(j->ids, "RGB", 3) ? HR_COLOR_YCC : HR_COLOR_RGB;
}

enum hr_status hr__header_jpeg(struct hr__header *h)
{
    struct hr__jpeg j = {.h = h, .pos = 2, .bound = h->limits.marker_bytes};
    enum hr_status status;

    while (!j.scans) {
        status = next_marker(&j);
        if (status == HR_OK)
            status = hr__header_check_room(h, j.marker_at, j.pos, ++j.segments);
        if (status == HR_OK)
            status = read_segment(&j);
        if (status != HR_OK)
            return status;
    }
    h->info->color = color_of(&j, h->info->components);
    h->info->scans = 1;
    h->info->restart_interval = j.restart_interval;
    h->info->header_size = j.pos;
    return h->whole ? read_rest(&j) : HR_OK;
}
#undef FAIL
