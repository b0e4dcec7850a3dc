// SPDX-License-Identifier: Apache-2.0
// From a sample to a plan, on a host thread: read the file, parse the header,
// keep the limits, fold the geometry, ask the engines, cut the stages. Each
// once, with two exceptions: a sample that had to wait for bytes begins anew,
// as its file may be another one by then; and a file that is longer than what
// is read of it at first, and has several scans or no end marker, is parsed
// again as a whole.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/job/cache_fill.h"
#include "hal/job/report.h"
#include "hal/job/work.h"

enum { HEAD_BYTES = 64 << 10 };

#define FAIL(work, code, ...)     \
    ((work)->out.status = (code), \
     snprintf((work)->out.text, sizeof((work)->out.text), __VA_ARGS__), false)

// ---- What decoding will need ------------------------------------------------

// Returns the bytes of a filter's rows beyond the 96 that hr__decode_bytes()
// has room for (a sample from an image has them for nothing).
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

// Estimates the payload between two engines: pixels, or packed coefficients,
// which are seldom twice as long as their code, and 3 bytes of each block.
static size_t between_bytes(const struct hr__work *work)
{
    const struct hr__device *dev = work->job->dev;
    const struct hr__picture *pic = &work->pic;
    size_t pixels = (size_t)pic->width * (size_t)pic->height *
                    (size_t)pic->channels;
    uint32_t spans = 0;

    if (dev->num_engines == 1)
        return 0;
    for (int i = 0; i < dev->num_engines - 1; i++)
        spans |= dev->engines[i]->caps.spans[pic->tier];
    if (spans & HR_SPAN_BIT(HR_RECONSTRUCT, HR_STORE))
        return pixels / 16 + 2 * pic->size;
    return pixels;
}

// Returns the bytes that the sample will need besides its file;
// work->wait.spare is the part that is not used before there is a payload.
static size_t all_bytes(struct hr__work *work)
{
    const struct hr__picture *pic = &work->pic;
    size_t bytes = hr__decode_bytes(&pic->info) +
                   hr__geometry_bytes(&pic->geo, pic->channels) +
                   filter_bytes(&pic->geo, pic->channels);

    // Packed it is seldom twice as long, and lines wait for their end.
    if (pic->keep)
        bytes += 2 * pic->size + (size_t)pic->width * 96 + (64 << 10);
    work->wait.spare = between_bytes(work);
    return bytes > SIZE_MAX / 2 - work->wait.spare ? SIZE_MAX / 2
                                                   : bytes + work->wait.spare;
}

// ---- Facts ------------------------------------------------------------------

static bool fold(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;
    int orientation = pic->image ? 1 : pic->info.orientation, w, h;
    enum hr_stage before = work->out.stage;
    int channels = hr_ops_channels(work->sample.ops, work->sample.num_ops,
                                   pic->channels);

    pic->erases = work->sample.num_ops -
                  hr__ops_making(work->sample.ops, work->sample.num_ops);
    work->out.stage = HR_RESAMPLE;
    work->out.status =
        hr__geometry_draw(&pic->geo, work->sample.ops, work->sample.num_ops,
                          &work->sample.random, work->job->pub.reference,
                          pic->width, pic->height, orientation, work->out.text);
    if (work->out.status)
        return false;
    if (work->codes_table && pic->geo.num_augments)
        pic->table = work->codes_table;
    hr__geometry_size(&pic->geo, &w, &h);
    if (w != pic->dst.w || h != pic->dst.h)
        return FAIL(work, HR_EINVAL,
                    "the ops make %dx%d, the destination is "
                    "%dx%d",
                    w, h, pic->dst.w, pic->dst.h);
    if (channels != pic->dst.c)
        return FAIL(work, HR_EINVAL,
                    "the ops make %d channels, the destination "
                    "has %d",
                    channels, pic->dst.c);
    work->out.stage = before;
    return true;
}

static bool within_limit(struct hr__work *work, size_t bytes)
{
    size_t limit = work->pic.limits->item_bytes;

    return bytes <= limit ||
           FAIL(work, HR_ELIMIT, "needs %zu bytes, the limit is %zu", bytes,
                limit);
}

// The header has been read, to its end or to its fault.
static bool take_facts(struct hr__work *work, enum hr_status status,
                       const struct hr__header_error *err)
{
    struct hr__picture *pic = &work->pic;
    struct hr_result *result = &work->job->results[work->index];
    size_t bytes;

    result->width = pic->width = pic->info.width;
    result->height = pic->height = pic->info.height;
    result->orientation = pic->width ? pic->info.orientation : 0;
    result->by_decoder = pic->info.format == HR_FORMAT_OTHER;
    work->out.offset = err->offset;
    if (status)
        return FAIL(work, status, "%s", err->text);
    bytes = hr__decode_bytes(&pic->info);
    if (!within_limit(work, bytes) || !fold(work) ||
        !within_limit(work,
                      bytes + hr__geometry_bytes(&pic->geo, pic->channels)))
        return false;
    hr__cache_fill_want(work);
    work->wait.needs = all_bytes(work);
    return true;
}

// Reads the facts of a picture that is there as a whole.
static bool take_data(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;
    struct hr__header_error err = {.offset = -1};
    struct hr_limits limits = *pic->limits;
    enum hr_status status;

    pic->data = work->hit ? work->entry->data : work->sample.data;
    pic->size = work->hit ? work->entry->size : work->sample.size;
    pic->verified = work->hit || work->sample.verified;
    // A cached picture has passed its limits already, in another form.
    if (work->hit)
        limits.file_bytes = SIZE_MAX;
    status = hr__header_any(pic->data, pic->size, true, &limits, &pic->info,
                            &err);
    return take_facts(work, status, &err);
}

bool hr__input_made(struct hr__work *work)
{
    struct hr__image *image = (struct hr__image *)work->sample.image;
    enum hr_status status;

    if (!image)
        return true;
    hr__graph_lock();
    status = work->reads.input ? work->reads.input : image->track.status;
    hr__graph_unlock();
    return !status || FAIL(work, HR_EINPUT, "its source image failed: %s",
                           hr_status_text(status));
}

static bool take_image(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;
    struct hr__image *image = (struct hr__image *)work->sample.image;
    struct hr_result *result = &work->job->results[work->index];

    pic->image = work->sample.image;
    pic->pixels = pic->image->params.data;
    pic->memory = image->device;
    result->width = pic->width = pic->image->params.w;
    result->height = pic->height = pic->image->params.h;
    result->orientation = 1;
    pic->channels = pic->image->params.c;
    if (!hr__input_made(work) || !fold(work))
        return false;
    // Where it lies belongs to the job; what lies between its steps not.
    work->wait.needs = hr__geometry_bytes(&pic->geo, pic->channels) +
                       filter_bytes(&pic->geo, pic->channels);
    return true;
}

// ---- Reading a file ---------------------------------------------------------

static bool file_size(struct hr__work *work, size_t *size)
{
    const struct hr_limits *limits = work->pic.limits;
    struct stat st;

    if (fstat(work->fd, &st))
        return FAIL(work, HR_EIO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FAIL(work, HR_EIO, "not a regular file");
    if ((uint64_t)st.st_size > limits->file_bytes)
        return FAIL(work, HR_ELIMIT, "%lld bytes, the limit is %zu",
                    (long long)st.st_size, limits->file_bytes);
    hr__cache_fill_opened(work, &st);
    *size = (size_t)st.st_size;
    return true;
}

// Room for n bytes of the file, with what has been read of them.
static bool file_room(struct hr__work *work, size_t n)
{
    struct hr__pool *pool = &work->job->dev->pool;
    uint8_t *more = hr__pool_get(pool, n + 1);

    if (!more)
        return FAIL(work, HR_ENOMEM, "out of memory for %zu bytes", n);
    if (work->have)
        memcpy(more, work->file, work->have);
    hr__pool_put(pool, work->file);
    work->file = more;
    return true;
}

static bool read_to(struct hr__work *work, size_t n)
{
    work->have += hr__read_at(work->fd, work->file + work->have, n - work->have,
                              work->have);
    // (It may have shrunk under us.)
    return work->have == n ||
           FAIL(work, HR_EIO, "%s", strerror(errno ? errno : ENODATA));
}

// Reads as much of the file as holds the header, so that what the whole will
// need is known before it is taken, and what is no picture is not read at all.
static bool read_head(struct hr__work *work, size_t size)
{
    struct hr__header_error err = {.offset = -1};
    enum hr_status status = HR_PENDING;

    work->wait.spare = 0;
    for (size_t n = HEAD_BYTES; status == HR_PENDING; n *= 4) {
        n = n < size ? n : size;
        // Header bytes beyond HEAD_BYTES are charged to the budget.
        if (n > HEAD_BYTES && n > work->wait.granted)
            hr__budget_charge(&work->wait, n - work->wait.granted);
        if (!file_room(work, n) || !read_to(work, n))
            return false;
        status = hr__header_any(work->file, n, n == size, work->pic.limits,
                                &work->pic.info, &err);
    }
    work->pic.size = size;
    if (!take_facts(work, status, &err))
        return false;
    work->wait.needs += size;
    return true;
}

static bool open_file(struct hr__work *work)
{
    size_t size;
    bool ok;

    work->part_begun = hr__watch_begin();
    work->fd = hr__open_file(work->sample.path, O_RDONLY);
    ok = work->fd < 0 ? FAIL(work, HR_EIO, "%s", strerror(errno))
                      : file_size(work, &size) && read_head(work, size);
    if (!ok)
        hr__watch_work(work, HR_PART_READ, work->part_begun);
    return ok;
}

// Facts that only the end of a file tells. Mostly they are simple: one scan, or
// a PNG, and the end marker is where it should be.
static bool take_end(struct hr__work *work, size_t known)
{
    struct hr__picture *pic = &work->pic;
    struct hr__header_error err = {.offset = -1};
    bool simple = pic->info.format == HR_FORMAT_PNG || pic->info.interleaved;
    enum hr_status status;

    if (known == pic->size)
        return true;
    if (simple && hr__header_ends(pic->info.format, pic->data, pic->size)) {
        pic->info.ends = true;
        return true;
    }
    status = hr__header_parse(pic->data, pic->size, true, pic->limits,
                              &pic->info, &err);
    work->out.offset = err.offset;
    return !status || FAIL(work, status, "%s", err.text);
}

bool hr__prepare_read(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;
    size_t known = work->have;

    if (!work->sample.path || work->hit)
        return true;
    // (Freed with the work, also if reading fails.)
    if (known < pic->size &&
        (!file_room(work, pic->size) || !read_to(work, pic->size)))
        return false;
    close(work->fd);
    work->fd = -1;
    pic->data = work->file;
    hr__watch_work(work, HR_PART_READ, work->part_begun);
    work->part_begun = hr__watch_begin();
    return take_end(work, known);
}

void hr__prepare_drop(struct hr__work *work)
{
    if (work->fd < 0)
        return;
    close(work->fd);
    work->fd = -1;
    hr__pool_put(&work->job->dev->pool, work->file);
    work->file = NULL;
    work->have = 0;
}

bool hr__prepare_facts(struct hr__work *work)
{
    work->out = (struct hr__outcome){.offset = -1, .stage = HR_ENTROPY};
    work->pic.keep = work->pic.verified = false;
    if (!hr__cache_fill_find(work) && work->sample.path)
        return open_file(work);
    work->part_begun = hr__watch_begin();
    return work->sample.image ? take_image(work) : take_data(work);
}

// ---- The plan ---------------------------------------------------------------

// Engines stop at the window's last row, and so would not see a marker below it
// for which libjpeg refuses the file. With ends false they take the picture as
// one that was cut short: the CPU decodes all of it.
static void look_below(struct hr__picture *pic)
{
    struct hr_info *info = &pic->info;

    if (pic->data && info->format == HR_FORMAT_JPEG && info->interleaved &&
        info->ends && !hr__header_scan_ends(pic->data, pic->size, info))
        info->ends = false;  // once: engines that were given up may read it
}

// Erased rectangles are painted by the engine that stores the tensor, if it
// offers that, else by the host. In the second case no engine may store the
// tensor out of the host's reach. Where a media engine has decoded, the host
// paints, since the tensor may be compared with the CPU's before.
static void leave_store(const struct hr__work *work, const struct hr__engine *e,
                        struct hr__offer *offer)
{
    const struct hr__memory *memory = work->pic.dst.memory;
    const struct hr__device *dev = work->job->dev;

    offer->erases = offer->erases && work->pic.erases;
    for (int i = 0; i < dev->num_engines; i++)
        offer->erases = offer->erases && !dev->engines[i]->backend->media;
    if (!hr__on_device(memory) || memory->owner != e || !work->pic.erases ||
        offer->erases)
        return;
    for (int s = HR_ENTROPY; s <= HR_STORE; s++)
        offer->spans &= ~HR_SPAN_BIT(s, HR_STORE);
}

// Asks every engine that has not failed this sample, and cuts.
static bool plan(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    struct hr__offer offers[HR__MAX_ENGINES] = {0};
    enum hr_stage first = hr__picture_first(&work->pic);

    work->out = (struct hr__outcome){.offset = -1, .stage = first};
    for (int i = 0; i < dev->num_engines; i++) {
        struct hr__engine *e = dev->engines[i];

        if (work->excluded & 1u << i)
            continue;
        hr__device_offer(dev, i, &work->pic, &offers[i]);
        leave_store(work, e, &offers[i]);
        if (!e->host && work->job->params.spans)
            offers[i].spans &= work->job->params.spans;
        for (int s = HR_ENTROPY; !e->host && work->serial && s <= HR_STORE; s++)
            offers[i].spans &= ~HR_SPAN_BIT(HR_ENTROPY, s);
        if (!e->host || dev->num_engines == 1)
            work->why |= offers[i].why;
    }
    hr__share_plan(work, offers);
    if (hr__plan_build(&work->plan, hr__picture_stages(&work->pic), offers,
                       dev->num_engines)) {
        // The CPU takes everything it can decode: what it says counts.
        unsigned why = offers[dev->num_engines - 1].why;

        work->why |= why;
        return FAIL(work, HR_EUNSUPPORTED, "no engine takes it: %s",
                    why ? hr_why_text(why) : "none offers its stages");
    }
    work->at = 0;
    work->paints =
        offers[work->plan.spans[work->plan.num_spans - 1].engine].erases;
    // A check is the CPU's.
    if (!work->job->params.strict || dev->num_engines == 1 || work->check)
        return true;
    for (int i = 0; i < work->plan.num_spans; i++)
        if (work->plan.spans[i].engine == 0)
            return true;
    return FAIL(work, HR_EUNSUPPORTED, "device %s does not take it: %s",
                dev->pub.name, hr_why_text(work->why));
}

bool hr__prepare_plan(struct hr__work *work)
{
    bool ok;

    if (!work->prepared)  // else an earlier plan did
        look_below(&work->pic);
    ok = plan(work);
    hr__watch_work(work, HR_PART_PREPARE, work->part_begun);
    work->part_begun = 0;
    return ok;
}
