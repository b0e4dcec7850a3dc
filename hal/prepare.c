// SPDX-License-Identifier: Apache-2.0
// From a sample to a plan, on a host thread: read the file, parse the header,
// keep the limits, fold the geometry, ask the engines, cut the stages.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/hal.h"
#include "hal/header.h"

enum { HEAD_BYTES = 64 << 10 };

#define FAIL(out, code, ...) \
    ((out)->status = (code), \
     snprintf((out)->text, sizeof((out)->text), __VA_ARGS__), false)

// ---- What decoding will need -----------------------------------------------------

// An upper estimate of a sample's working memory on the CPU, in bytes.
// Baseline pictures stream by rows; the others need all coefficients (2 bytes
// each, every component padded to whole MCUs), interlaced PNGs all pixels.
static size_t decode_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;
    size_t c = (size_t)info->components, rows = w * c * 96 + (256 << 10);
    size_t hmax = 1, vmax = 1, samples = 0;

    // (Sides are below 2^31, but a user may lift every other limit.)
    if (info->format == HR_FORMAT_PNG && w > SIZE_MAX / 16 / h)
        return SIZE_MAX / 2;
    if (info->format == HR_FORMAT_PNG)
        return rows + (info->adam7 ? w * h * 8 : 0);
    if (info->process != HR_PROCESS_PROGRESSIVE && info->interleaved)
        return rows;
    for (size_t i = 0; i < c; i++) {
        hmax = info->h[i] > hmax ? info->h[i] : hmax;
        vmax = info->v[i] > vmax ? info->v[i] : vmax;
    }
    for (size_t i = 0; i < c; i++)
        samples += (w + 8 * hmax) * info->h[i] / hmax *
                   ((h + 8 * vmax) * info->v[i] / vmax);
    return rows + 2 * samples;
}

// Of rows under a filter that is higher than the 96 that decode_bytes() has
// room for, and that a sample from an image has for nothing.
static size_t filter_bytes(const struct hr__geometry *geo, int channels)
{
    size_t bytes = 0;

    for (int i = 0; i < geo->num_steps; i++) {
        const struct hr__step *s = &geo->steps[i];
        int rows = hr__axis_taps(s, 1) - 96;

        if (rows > 0)
            bytes += (size_t)rows * (size_t)channels *
                     (size_t)(s->v_first ? s->in_w : s->win.w);
    }
    return bytes;
}

// The same with the pictures between resample steps. *filters: filter_bytes().
static size_t working_bytes(struct hr__work *work, const struct hr_info *info,
                            size_t *filters)
{
    struct hr__geometry geo;
    char text[128];
    size_t bytes = decode_bytes(info);

    *filters = 0;
    if (hr__geometry_draw(&geo, work->sample.ops, work->sample.num_ops,
                          &work->sample.random, work->job->pub.reference,
                          info->width, info->height, info->orientation, text))
        return bytes;  // it will be refused before it needs any
    *filters = filter_bytes(&geo, work->pic.channels);
    return bytes + hr__geometry_bytes(&geo, work->pic.channels);
}

// What will lie between two engines: pixels, or packed coefficients, of which a
// block is 16 bytes and values that are seldom twice as long as their code.
static size_t between_bytes(const struct hr__work *work,
                            const struct hr_info *info, size_t encoded)
{
    const struct hr__device *dev = work->job->dev;
    size_t pixels = (size_t)info->width * (size_t)info->height *
                    (size_t)work->pic.channels;
    uint32_t spans = 0;

    if (dev->num_engines == 1)
        return 0;
    for (int i = 0; i < dev->num_engines - 1; i++)
        spans |= dev->engines[i]->caps.spans[work->pic.tier];
    if (spans & HR__SPAN_BIT(HR_RECONSTRUCT, HR_STORE))
        return pixels / 4 + 2 * encoded;
    return pixels;
}

// All that the sample will need at work; work->spare is the part of it that
// is not used before there is a payload.
static size_t all_bytes(struct hr__work *work, const struct hr_info *info,
                        size_t encoded)
{
    size_t filters, bytes = working_bytes(work, info, &filters);

    work->spare = between_bytes(work, info, encoded);
    bytes += filters;
    return bytes > SIZE_MAX / 2 - work->spare ? SIZE_MAX / 2
                                              : bytes + work->spare;
}

// The header has been read, to its end or to its fault.
static bool take_facts(struct hr__work *work, enum hr_status status,
                       const struct hr__header_error *err,
                       struct hr__outcome *out)
{
    struct hr__picture *pic = &work->pic;
    struct hr_result *result = &work->job->results[work->index];
    size_t filters, bytes;

    result->width = pic->width = pic->info.width;
    result->height = pic->height = pic->info.height;
    result->orientation = pic->width ? pic->info.orientation : 0;
    out->offset = err->offset;
    if (status)
        return FAIL(out, status, "%s", err->text);
    bytes = working_bytes(work, &pic->info, &filters);
    if (bytes > pic->limits->item_bytes)
        return FAIL(out, HR_ELIMIT, "needs %zu bytes, the limit is %zu", bytes,
                    pic->limits->item_bytes);
    return true;
}

// ---- Reading a file --------------------------------------------------------------

static bool read_at(int fd, uint8_t *to, size_t size, size_t at)
{
    while (size) {
        ssize_t n = pread(fd, to, size, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENODATA;  // it shrank under us
        if (n <= 0)
            return false;
        to += n;
        at += (size_t)n;
        size -= (size_t)n;
    }
    return true;
}

static bool file_size(struct hr__work *work, int fd, size_t *size,
                      struct hr__outcome *out)
{
    const struct hr_limits *limits = work->pic.limits;
    struct stat st;

    if (fstat(fd, &st))
        return FAIL(out, HR_EIO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FAIL(out, HR_EIO, "not a regular file");
    if ((uint64_t)st.st_size > limits->file_bytes)
        return FAIL(out, HR_ELIMIT, "%lld bytes, the limit is %zu",
                    (long long)st.st_size, limits->file_bytes);
    *size = (size_t)st.st_size;
    return true;
}

// More of the head than every sample has for nothing is of the budget, too.
static bool head_room(struct hr__work *work, uint8_t **head, size_t have,
                      size_t n)
{
    struct hr__pool *pool = &work->job->dev->pool;
    uint8_t *more;

    if (n > HEAD_BYTES && n > work->granted)
        hr__budget_charge(work, n - work->granted);
    if (!(more = hr__pool_get(pool, n + 1)))
        return false;
    if (have)
        memcpy(more, *head, have);
    hr__pool_put(pool, *head);
    *head = more;
    return true;
}

// Reads as much of the file as holds the header, so that what the whole will
// need is known before it is taken, and what is no picture is not read at all.
// *head is of the pool, also on failure; or NULL.
static bool read_head(struct hr__work *work, int fd, size_t size,
                      uint8_t **head, size_t *n, size_t *needs,
                      struct hr__outcome *out)
{
    struct hr__header_error err = {.offset = -1};
    enum hr_status status = HR_PENDING;
    size_t have = 0;

    *head = NULL;
    work->spare = 0;
    for (*n = HEAD_BYTES; status == HR_PENDING; *n *= 4) {
        *n = *n < size ? *n : size;
        if (!head_room(work, head, have, *n))
            return FAIL(out, HR_ENOMEM, "out of memory");
        if (!read_at(fd, *head + have, *n - have, have))
            return FAIL(out, HR_EIO, "%s", strerror(errno));
        have = *n;
        status = hr__header_parse(*head, have, have == size, work->pic.limits,
                                  &work->pic.info, &err);
    }
    *n = have;
    if (!take_facts(work, status, &err, out))
        return false;
    *needs = size + all_bytes(work, &work->pic.info, size);
    return true;
}

// True with work->file filled; false with out->status HR_PENDING if the
// sample must wait for bytes.
static bool read_fd(struct hr__work *work, int fd, struct hr__outcome *out)
{
    struct hr__pool *pool = &work->job->dev->pool;
    uint8_t *head, *all;
    size_t size, n, needs;

    if (!file_size(work, fd, &size, out))
        return false;
    if (!read_head(work, fd, size, &head, &n, &needs, out)) {
        hr__pool_put(pool, head);
        return false;
    }
    if (!hr__budget_grant(work, needs)) {
        // From here on the work belongs to the waiting list.
        hr__pool_put(pool, head);
        return out->status = HR_PENDING, false;
    }
    all = head;
    if (n < size && !(all = hr__pool_get(pool, size))) {
        hr__pool_put(pool, head);
        return FAIL(out, HR_ENOMEM, "out of memory for %zu bytes", size);
    }
    if (all != head) {
        memcpy(all, head, n);
        hr__pool_put(pool, head);
    }
    work->file = all;  // freed with the work, also if reading fails
    if (!read_at(fd, all + n, size - n, n))
        return FAIL(out, HR_EIO, "%s", strerror(errno));
    work->pic.data = all;
    work->pic.size = size;
    return true;
}

static bool read_file(struct hr__work *work, struct hr__outcome *out)
{
    // Not blocking: the name may be a FIFO that nobody writes.
    int64_t begin = hr__watch_begin();
    int fd = open(work->sample.path,
                  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool ok;

    if (fd < 0)
        return FAIL(out, HR_EIO, "%s", strerror(errno));
    ok = read_fd(work, fd, out);
    close(fd);
    // What waits for bytes is somebody else's already.
    if (out->status != HR_PENDING)
        hr__watch_work(work, HR_PART_READ, begin);
    return ok;
}

// ---- Facts -------------------------------------------------------------------------

static bool parse(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__picture *pic = &work->pic;
    struct hr__header_error err = {.offset = -1};
    enum hr_status status = hr__header_parse(pic->data, pic->size, true,
                                             pic->limits, &pic->info, &err);

    return take_facts(work, status, &err, out);
}

enum hr_status hr__input_status(struct hr__work *work)
{
    struct hr__image *image = (struct hr__image *)work->sample.image;
    enum hr_status status;

    hr__graph_lock();
    status = work->reads.input ? work->reads.input : image->track.status;
    hr__graph_unlock();
    return status;
}

static bool take_image(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__picture *pic = &work->pic;
    struct hr__image *image = (struct hr__image *)work->sample.image;
    struct hr_result *result = &work->job->results[work->index];
    enum hr_status status = hr__input_status(work);

    pic->image = work->sample.image;
    pic->pixels = pic->image->params.data;
    pic->memory = image->device;
    result->width = pic->width = pic->image->params.w;
    result->height = pic->height = pic->image->params.h;
    result->orientation = 1;
    pic->channels = pic->image->params.c;
    if (status)
        return FAIL(out, HR_EINPUT, "its source image failed: %s",
                    hr_status_text(status));
    return true;
}

static bool fold(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__picture *pic = &work->pic;
    int orientation = pic->data ? pic->info.orientation : 1, w, h;
    enum hr_status status;

    status = hr__geometry_draw(&pic->geo, work->sample.ops,
                               work->sample.num_ops, &work->sample.random,
                               work->job->pub.reference, pic->width,
                               pic->height, orientation, out->text);
    out->stage = HR_RESAMPLE;
    if (status)
        return out->status = status, false;
    hr__geometry_size(&pic->geo, &w, &h);
    if (w != pic->dst.w || h != pic->dst.h)
        return FAIL(out, HR_EINVAL,
                    "the ops make %dx%d, the destination is "
                    "%dx%d",
                    w, h, pic->dst.w, pic->dst.h);
    if (pic->channels != pic->dst.c)
        return FAIL(out, HR_EINVAL,
                    "the ops make %d channels, the destination "
                    "has %d",
                    pic->channels, pic->dst.c);
    return true;
}

// Asks every engine that has not failed this sample, and cuts.
static bool plan(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__device *dev = work->job->dev;
    struct hr__offer offers[HR__MAX_ENGINES] = {0};
    enum hr_stage first = hr__picture_first(&work->pic);
    bool strict = dev->pub.params.strict || work->job->params.strict;

    for (int i = 0; i < dev->num_engines; i++) {
        struct hr__engine *e = dev->engines[i];

        if (work->excluded & 1u << i)
            continue;
        hr__device_offer(dev, i, &work->pic, &offers[i]);
        if (!e->host && work->job->params.spans)
            offers[i].spans &= work->job->params.spans;
        if (!e->host || dev->num_engines == 1)
            work->why |= offers[i].why;
    }
    out->stage = first;
    if (hr__plan_build(&work->plan, first, offers, dev->num_engines)) {
        // The CPU takes everything it can decode: what it says counts.
        unsigned why = offers[dev->num_engines - 1].why;

        work->why |= why;
        return FAIL(out, HR_EUNSUPPORTED, "no engine takes it: %s",
                    why ? hr_why_text(why) : "none offers its stages");
    }
    work->at = 0;
    // A check is the CPU's.
    if (!strict || dev->num_engines == 1 || work->check)
        return true;
    for (int i = 0; i < work->plan.num_spans; i++)
        if (work->plan.spans[i].engine == 0)
            return true;
    return FAIL(out, HR_EUNSUPPORTED, "device %s does not take it: %s",
                dev->pub.name, hr_why_text(work->why));
}

bool hr__replan(struct hr__work *work, struct hr__outcome *out)
{
    return plan(work, out);
}

static bool prepare_picture(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__picture *pic = &work->pic;
    size_t bytes;

    if (work->sample.image) {
        if (!take_image(work, out) || !fold(work, out))
            return false;
        // Where it lies belongs to the job; what lies between its steps not.
        bytes = hr__geometry_bytes(&pic->geo, pic->channels) +
                filter_bytes(&pic->geo, pic->channels);
        if (bytes && !hr__budget_grant(work, bytes))
            return out->status = HR_PENDING, false;
        return plan(work, out);
    }
    if (work->sample.data) {
        pic->data = work->sample.data;
        pic->size = work->sample.size;
    }
    if (!parse(work, out))
        return false;
    if (!work->sample.path &&
        !hr__budget_grant(work, all_bytes(work, &pic->info, pic->size)))
        return out->status = HR_PENDING, false;
    return fold(work, out) && plan(work, out);
}

static bool prepare(struct hr__work *work, struct hr__outcome *out)
{
    int64_t begin;
    bool ok;

    if (work->sample.path && !read_file(work, out))
        return false;
    begin = hr__watch_begin();
    ok = prepare_picture(work, out);
    if (out->status != HR_PENDING)
        hr__watch_work(work, HR_PART_PREPARE, begin);
    return ok;
}

bool hr__task_prepare(struct hr__task *task)
{
    struct hr__work *work = ((struct hr__slot *)task)->work;
    struct hr__outcome out = {.offset = -1, .stage = HR_ENTROPY};

    if (work->transfer == HR__MOVE) {
        hr__transfer_begin(work);
        return false;
    }
    if (task->prepared)
        return true;
    if (hr__job_stops(work->job)) {
        out.status = hr__task_stop_status(task);
        hr__work_end(work, &out);
        return false;
    }
    if (work->job->infos) {
        hr__probe_begin(work);
        return false;
    }
    if (prepare(work, &out)) {
        work->prepared = true;
        return hr__dispatch_planned(work, true);
    }
    if (out.status != HR_PENDING)
        hr__work_end(work, &out);
    return false;
}
