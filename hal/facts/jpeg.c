// SPDX-License-Identifier: Apache-2.0
// The reader of JPEG markers (ITU-T T.81, annex B), with the tolerance of
// libjpeg-turbo 2.1.5: what its jdmarker.c and jdinput.c skip is skipped, what
// they refuse is refused, what they warn of is noted for engines.
#include <limits.h>
#include <string.h>

#include "hal/facts/jpeg_reader.h"

enum { MAX_SIDE = 65500, MAX_FACTOR = 4 };  // JPEG_MAX_DIMENSION, T.81 B.2.2

// ---- Markers, and lengths ---------------------------------------------------

static bool is_rst(unsigned marker)
{
    return marker >= HR__JPEG_RST0 && marker <= HR__JPEG_RST7;
}

static bool is_app(unsigned marker)
{
    return marker >= HR__JPEG_APP0 && marker <= HR__JPEG_APP15;
}

// Bytes that are no marker and FF FF fill bytes are skipped, as next_marker()
// of jdmarker.c does; it warns of the former.
static enum hr_status next_marker(struct hr__reader *j)
{
    const uint8_t *data = j->h->data;
    size_t end = j->h->size < j->bound ? j->h->size : j->bound;
    size_t begin = j->pos;

    while (j->pos < end) {
        const uint8_t *ff = memchr(data + j->pos, 0xFF, end - j->pos);

        if (!ff)
            break;
        if (ff != data + begin)
            j->t->why |= HR_WHY_DAMAGED;
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

static enum hr_status bad_length(struct hr__reader *j, size_t n)
{
    char buf[8];

    return HR__READER_FAIL(j, HR_ECORRUPT,
                           "%s segment length %zu does not fit what it holds",
                           marker_name(j->marker, buf), n + 2);
}

// Sets *n to the bytes of the segment's payload, which begins at pos + 2.
static enum hr_status read_length(struct hr__reader *j, size_t *n)
{
    struct hr__header *h = j->h;
    size_t length;
    char buf[8];

    *n = 0;
    if (h->size - j->pos < 2)
        return hr__header_short(h, marker_name(j->marker, buf));
    length = hr__be16(h->data + j->pos);
    if (length < 2) {
        // In segments that it skips, libjpeg takes lengths 0 and 1 for an empty
        // one.
        if (is_app(j->marker) || j->marker == HR__JPEG_COM ||
            j->marker == HR__JPEG_DNL)
            return HR_OK;
        return HR__READER_FAIL(j, HR_ECORRUPT,
                               "%s segment length %zu is too short",
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

// ---- Tables -----------------------------------------------------------------

static enum hr_status read_dqt(struct hr__reader *j, const uint8_t *p, size_t n)
{
    size_t left = n;

    while (left) {
        unsigned index = p[0] & 15;
        size_t bytes = p[0] >> 4 ? 1 + 128 : 1 + 64;

        if (index > 3)
            return HR__READER_FAIL(j, HR_ECORRUPT, "DQT: table number %u",
                                   index);
        if (bytes > left)
            return bad_length(j, n);
        // libjpeg takes every precision but 0 for 16 bits.
        j->t->quant[index] = (struct hr__jpeg_quant){p + 1, (int)bytes / 64};
        p += bytes;
        left -= bytes;
    }
    return HR_OK;
}

static enum hr_status read_dht(struct hr__reader *j, const uint8_t *p, size_t n)
{
    size_t left = n;

    while (left > 16) {
        unsigned index = p[0], count = 0;

        for (int i = 1; i <= 16; i++)
            count += p[i];
        if (count > 256 || count > left - 17)
            return HR__READER_FAIL(j, HR_ECORRUPT, "DHT: %u codes in %zu bytes",
                                   count, left - 17);
        if (index & ~0x13u)
            return HR__READER_FAIL(j, HR_ECORRUPT, "DHT: table number 0x%02X",
                                   index);
        j->t->huffman[index >> 4][index & 3] = p + 1;
        p += 17 + count;
        left -= 17 + count;
    }
    return left ? bad_length(j, n) : HR_OK;
}

static enum hr_status read_dac(struct hr__reader *j, const uint8_t *p, size_t n)
{
    if (n & 1)
        return bad_length(j, n);
    for (size_t i = 0; i < n; i += 2) {
        if (p[i] >= 32)
            return HR__READER_FAIL(j, HR_ECORRUPT, "DAC: table number %u",
                                   p[i]);
        if (p[i] < 16 && (p[i + 1] & 15) > p[i + 1] >> 4)
            return HR__READER_FAIL(j, HR_ECORRUPT, "DAC: value 0x%02X",
                                   p[i + 1]);
    }
    return HR_OK;
}

static void read_app(struct hr__reader *j, const uint8_t *p, size_t n)
{
    struct hr__jpeg *t = j->t;

    if (j->marker == HR__JPEG_APP0 && n >= 14 && !memcmp(p, "JFIF", 5)) {
        t->jfif = true;
        // libjpeg warns of other versions.
        if (p[5] != 1)
            t->why |= HR_WHY_TABLES;
    }
    if (j->marker == HR__JPEG_APP14 && n >= 12 && !memcmp(p, "Adobe", 5)) {
        t->adobe = true;
        t->transform = p[11];
    }
    // The first EXIF block counts, whatever it holds: Pillow, _APP().
    if (j->marker == HR__JPEG_APP1 && n >= 5 && !memcmp(p, "Exif", 5) &&
        !t->exif) {
        t->exif = p + 6;
        t->exif_size = n >= 6 && !p[5] ? n - 6 : 0;
    }
}

// ---- Frame ------------------------------------------------------------------

// SOF0 .. SOF15 without DHT, JPG and DAC: bit 0 and 1 process, bit 2
// differential (hierarchical), bit 3 arithmetic coding (T.81, table B.1).
static enum hr_status set_process(struct hr__reader *j)
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
        return HR__READER_FAIL(j, HR_EUNSUPPORTED, "%s", what);
    return HR_OK;
}

static enum hr_status check_frame(struct hr__reader *j)
{
    struct hr__header *h = j->h;
    const struct hr_info *info = h->info;
    enum hr_status status;

    if (!info->height)
        return HR__READER_FAIL(j, HR_EUNSUPPORTED,
                               "height 0 (to be given later, by DNL)");
    if (!info->width || !info->components)
        return HR__READER_FAIL(j, HR_ECORRUPT, "%d components of %d x %d",
                               info->components, info->width, info->height);
    status = set_process(j);
    if (status != HR_OK)
        return status;
    if (info->precision != 8)
        return HR__READER_FAIL(j, HR_EUNSUPPORTED, "%d bits per sample",
                               info->precision);
    status = hr__header_check_size(h, j->marker_at);
    if (status != HR_OK)
        return status;
    if (info->width > MAX_SIDE || info->height > MAX_SIDE)
        return HR__READER_FAIL(j, HR_EUNSUPPORTED,
                               "%d x %d is over libjpeg's side of %d",
                               info->width, info->height, MAX_SIDE);
    if (info->components != 1 && info->components != 3 && info->components != 4)
        return HR__READER_FAIL(j, HR_EUNSUPPORTED, "%d components",
                               info->components);
    return HR_OK;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

// Sizes in blocks as initial_setup() of jdinput.c computes them.
static void set_blocks(struct hr__reader *j)
{
    const struct hr_info *info = j->h->info;
    uint64_t w = (uint64_t)info->width, height = (uint64_t)info->height;
    uint64_t mcu_w = 8 * (uint64_t)j->t->h_max;
    uint64_t mcu_h = 8 * (uint64_t)j->t->v_max;

    j->mcus = div_up(w, mcu_w) * div_up(height, mcu_h);
    for (int c = 0; c < info->components; c++)
        j->blocks[c] = div_up(w * info->h[c], mcu_w) *
                       div_up(height * info->v[c], mcu_h);
}

static enum hr_status read_components(struct hr__reader *j, const uint8_t *p)
{
    struct hr_info *info = j->h->info;
    struct hr__jpeg *t = j->t;

    t->h_max = t->v_max = 1;
    for (int c = 0; c < t->num_components; c++, p += 3) {
        uint8_t h = p[1] >> 4, v = p[1] & 15;

        t->comp[c] = (struct hr__jpeg_component){
            .id = p[0], .h = h, .v = v, .quant = p[2]};
        info->h[c] = h;
        info->v[c] = v;
        if (!h || !v || h > MAX_FACTOR || v > MAX_FACTOR)
            return HR__READER_FAIL(j, HR_ECORRUPT,
                                   "sampling factors %d x %d of component %d",
                                   h, v, c);
        t->h_max = h > t->h_max ? h : t->h_max;
        t->v_max = v > t->v_max ? v : t->v_max;
    }
    for (int c = 0; c < t->num_components; c++)
        if (t->h_max % t->comp[c].h || t->v_max % t->comp[c].v)
            return HR__READER_FAIL(j, HR_EUNSUPPORTED,
                                   "sampling factors %d x %d of component %d "
                                   "are no whole part of %d x %d",
                                   t->comp[c].h, t->comp[c].v, c, t->h_max,
                                   t->v_max);
    set_blocks(j);
    return HR_OK;
}

static enum hr_status read_sof(struct hr__reader *j, const uint8_t *p, size_t n)
{
    struct hr_info *info = j->h->info;
    enum hr_status status;
    char buf[8];

    if (j->t->sof)
        return HR__READER_FAIL(j, HR_ECORRUPT, "%s: a second frame header",
                               marker_name(j->marker, buf));
    if (n < 6 || n != 6 + 3 * (size_t)p[5])
        return bad_length(j, n);
    j->t->sof = j->marker;
    info->precision = p[0];
    info->height = j->t->height = (int)hr__be16(p + 1);
    info->width = j->t->width = (int)hr__be16(p + 3);
    info->components = j->t->num_components = p[5];
    status = check_frame(j);
    return status == HR_OK ? read_components(j, p + 6) : status;
}

// ---- Markers ----------------------------------------------------------------

// Markers that stand alone, or that no segment can follow.
static enum hr_status bare_marker(struct hr__reader *j, bool *bare)
{
    unsigned m = j->marker;
    char buf[8];

    *bare = true;
    if (is_rst(m) || m == HR__JPEG_TEM)
        return HR_OK;
    if (m == HR__JPEG_SOI)
        return HR__READER_FAIL(j, HR_ECORRUPT, "a second SOI marker");
    if (m == HR__JPEG_EOI)
        return HR__READER_FAIL(j, HR_ECORRUPT,
                               j->t->sof ? "no scan before the EOI marker"
                                         : "no picture, only tables");
    if (m < HR__JPEG_SOF0)
        return HR__READER_FAIL(j, HR_ECORRUPT, "%s is not a marker",
                               marker_name(m, buf));
    if (m == HR__JPEG_DHP || m == HR__JPEG_EXP)
        return HR__READER_FAIL(j, HR_EUNSUPPORTED, "hierarchical coding");
    if (m == HR__JPEG_JPG ||
        (m >= 0xF0 && m < HR__JPEG_COM && m != HR__JPEG_SOF55))
        return HR__READER_FAIL(j, HR_EUNSUPPORTED, "reserved marker %s",
                               marker_name(m, buf));
    *bare = false;
    return HR_OK;
}

static enum hr_status read_payload(struct hr__reader *j, const uint8_t *p,
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
        return hr__reader_sos(j, p, n);
    case HR__JPEG_DRI:
        if (n != 2)
            return bad_length(j, n);
        j->t->restart = (int)hr__be16(p);
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

static enum hr_status read_segment(struct hr__reader *j)
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

bool hr__jpeg_ends(const uint8_t *tail, size_t size)
{
    return size >= 2 && tail[size - 2] == 0xFF &&
           tail[size - 1] == HR__JPEG_EOI;
}

// A picture of one scan is taken to end at the file's last bytes. In others
// every scan is visited, as libjpeg reads all of them before the first row
// comes out, and the end marker must be one that it sees. Markers are found as
// libjpeg's entropy decoders find them.
static enum hr_status read_rest(struct hr__reader *j)
{
    struct hr__header *h = j->h;
    bool several = !h->info->interleaved;
    enum hr_status status = HR_OK;

    h->info->ends = !several && hr__jpeg_ends(h->data, h->size);
    if (h->info->ends)
        return HR_OK;
    j->bound = h->size;
    while (next_marker(j) == HR_OK) {
        // Resynchronising to restart markers, libjpeg passes over codes that
        // are no markers; without restarts they are its end.
        if (j->marker < HR__JPEG_SOF0 && j->t->restart)
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
    struct hr__jpeg tables = {0};
    struct hr__header_error err;
    struct hr__header h = {
        .data = data, .size = size, .info = &none, .err = &err};
    struct hr__reader j = {
        .h = &h, .t = &tables, .pos = info->header_size, .bound = size};

    while (next_marker(&j) == HR_OK)
        if (!is_rst(j.marker) || !info->restart_interval)
            return j.marker == HR__JPEG_EOI;
    return false;
}

// Reads up to the data of the first scan.
static enum hr_status read_head(struct hr__reader *j)
{
    enum hr_status status = HR_OK;

    while (status == HR_OK && !j->scans) {
        status = next_marker(j);
        if (status == HR_OK)
            status = hr__header_check_room(j->h, j->marker_at, j->pos,
                                           ++j->segments);
        if (status == HR_OK)
            status = read_segment(j);
    }
    j->t->header_size = j->pos;
    return status;
}

enum hr_status hr__header_jpeg(struct hr__header *h)
{
    struct hr__jpeg t = {0};
    struct hr__reader j = {
        .h = h, .t = &t, .pos = 2, .bound = h->limits.marker_bytes};
    enum hr_status status = read_head(&j);

    if (t.exif)
        h->info->orientation = hr__exif_orientation(t.exif, t.exif_size);
    if (status != HR_OK)
        return status;
    h->info->color = t.color;
    h->info->scans = 1;
    h->info->restart_interval = t.restart;
    h->info->header_size = t.header_size;
    return h->whole ? read_rest(&j) : HR_OK;
}

bool hr__jpeg_read(const uint8_t *data, size_t size, struct hr__jpeg *out)
{
    struct hr__header_error err;
    struct hr_info info = {0};
    struct hr__header h = {.data = data,
                           .size = size,
                           .limits = hr__limits_none,
                           .info = &info,
                           .err = &err};
    struct hr__reader j = {.h = &h, .t = out, .pos = 2, .bound = SIZE_MAX};

    *out = (struct hr__jpeg){0};
    return size > 2 && data[0] == 0xFF && data[1] == HR__JPEG_SOI &&
           data[2] == 0xFF && read_head(&j) == HR_OK;
}
#undef FAIL
