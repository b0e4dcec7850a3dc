// SPDX-License-Identifier: Apache-2.0
// PNM: the headers of P1 to P6, as Pillow takes them (PpmImagePlugin.py,
// PpmImageFile._open).
#include "hal/facts/parts.h"

struct pnm {
    struct hr__header *h;
    size_t at;
};

// The next byte, or -1 at the end of a whole file.
static enum hr_status next_byte(struct pnm *p, int *c)
{
    struct hr__header *h = p->h;
    enum hr_status status = hr__header_check_room(h, p->at, p->at + 1, 0);

    if (status)
        return status;
    if (p->at == h->size && !h->whole)
        return hr__header_short(h, "the header");
    *c = p->at < h->size ? h->data[p->at++] : -1;
    return HR_OK;
}

// Behind "#": up to the end of the line.
static enum hr_status skip_comment(struct pnm *p)
{
    enum hr_status status;
    int c;

    do
        status = next_byte(p, &c);
    while (!status && c >= 0 && c != '\n' && c != '\r');
    return status;
}

// Up to the first white space behind it. A comment does not end it.
static enum hr_status read_token(struct pnm *p,
                                 uint8_t token[HR__RASTER_TOKEN + 1], int *n)
{
    enum hr_status status = HR_OK;
    int c = 0;

    for (*n = 0; !status && c >= 0 && *n <= HR__RASTER_TOKEN;) {
        status = next_byte(p, &c);
        if (status || c < 0)
            break;
        if (c == '#')
            status = skip_comment(p);
        else if (!hr__raster_space((unsigned)c))
            token[(*n)++] = (uint8_t)c;
        else if (*n)
            break;
    }
    return status;
}

static enum hr_status read_number(struct pnm *p, const char *what, int64_t most,
                                  int *value)
{
    uint8_t token[HR__RASTER_TOKEN + 1];
    size_t begin = p->at;
    int64_t number;
    int n;
    enum hr_status status = read_token(p, token, &n);

    if (status)
        return status;
    if (!n)
        return hr__header_short(p->h, "the header");
    if (n > HR__RASTER_TOKEN || !hr__raster_number(token, n, &number))
        return hr__header_fail(p->h, HR_ECORRUPT, begin,
                               "%s is no number of ten digits", what);
    if (number < 1 || number > most)
        return hr__header_fail(p->h, HR_ECORRUPT, begin, "%s %lld", what,
                               (long long)number);
    *value = (int)number;
    return HR_OK;
}

static enum hr_status read_size(struct pnm *p, struct hr__raster *r)
{
    size_t at = p->at;
    enum hr_status status = read_number(p, "width", INT32_MAX, &r->width);

    if (!status)
        status = read_number(p, "height", INT32_MAX, &r->height);
    if (status)
        return status;
    p->h->info->width = r->width;
    p->h->info->height = r->height;
    return hr__header_check_size(p->h, at);
}

// Lays out rows of bytes.
static void place_rows(struct hr__raster *r)
{
    r->wide = r->most > 255;
    r->bits = r->pixel == HR__RASTER_BIT ? 1 : r->wide ? 16 : 8;
    r->bits *= r->pixel == HR__RASTER_RGB ? 3 : 1;
    r->stride = ((size_t)r->width * (size_t)r->bits + 7) / 8;
}

enum hr_status hr__pnm_read(struct hr__header *h, struct hr__raster *r)
{
    static const enum hr__raster_pixel pixels[] = {HR__RASTER_BIT,
                                                   HR__RASTER_GRAY,
                                                   HR__RASTER_RGB};
    struct pnm p = {.h = h, .at = 3};
    enum hr_status status;
    unsigned type;

    if (h->size < 3)
        return hr__header_short(h, "the magic number");
    type = h->data[1] - '1';
    if (type > 5 || !hr__raster_space(h->data[2]))
        return hr__header_foreign(h);
    r->pixel = pixels[type % 3];
    r->coding = type < 3 ? HR__RASTER_TEXT : HR__RASTER_RAW;
    r->ones_are_black = r->pixel == HR__RASTER_BIT;
    r->most = 1;
    for (uint8_t i = 0; i < 3; i++)
        r->place[i] = i;
    status = read_size(&p, r);
    if (!status && r->pixel != HR__RASTER_BIT)
        status = read_number(&p, "the largest sample", 65535, &r->most);
    if (status)
        return status;
    if (r->coding == HR__RASTER_RAW)
        place_rows(r);
    r->at = p.at;
    return hr__raster_take(h, r, p.at);
}

enum hr_status hr__header_pnm(struct hr__header *h)
{
    struct hr__raster r = {0};

    return hr__pnm_read(h, &r);
}
