// SPDX-License-Identifier: Apache-2.0
// One batch of pictures: the chain on both sides, to its end and cut.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "validate.h"

// Bytes of the images of one cut, both sides; one picture alone may take more.
#define BATCH_BYTES ((size_t)96 << 20)

// ---- Cuts ------------------------------------------------------------------

static bool is_gray_chain(const struct validate_picture *p)
{
    return p->ops[0].decode.mode == HR_GRAY;
}

// The ops of a chain that is cut behind a stage.
static int cut_ops(const struct validate_picture *p, int cut,
                   struct hr_op ops[HR_MAX_OPS])
{
    int n = 0;

    for (int i = 0; i < p->num_ops; i++) {
        enum hr_stage stage = hr_op_info(p->ops[i].type)->stage;

        if (stage > HR_COLOR && stage > (enum hr_stage)cut)
            continue;
        ops[n++] = p->ops[i];
    }
    if (cut == HR_RECONSTRUCT)
        ops[0].decode.mode = HR_GRAY;
    return n;
}

// Grey of a colour JPEG is made from its RGB, so only that of a grey one ends
// behind reconstruct.
static void choose_cuts(struct validate_picture *p)
{
    bool luma = p->info.format == HR_FORMAT_JPEG &&
                p->info.color == HR_COLOR_GRAY;

    memset(p->cut, 0, sizeof(p->cut));
    p->cut[HR_STORE] = true;
    if (!p->probed)
        return;
    p->cut[HR_RECONSTRUCT] = luma;
    p->cut[HR_COLOR] = !luma || !is_gray_chain(p);
    for (int i = 0; i < p->num_ops; i++) {
        enum hr_stage stage = hr_op_info(p->ops[i].type)->stage;

        if (stage == HR_RESAMPLE || stage == HR_AUGMENT)
            p->cut[stage] = true;
    }
}

static struct hr_image_params image_params(const struct validate *v,
                                           const struct validate_picture *p,
                                           int cut)
{
    struct hr_image_params params = {.w = 1, .h = 1, .dtype = HR_U8};
    struct hr_op ops[HR_MAX_OPS];
    int n = cut_ops(p, cut, ops), w, h;

    params.layout = HR_NHWC;
    params.c = hr_ops_channels(ops, n, 3);
    if (cut == HR_STORE) {
        params.dtype = v->opt.dtype;
        params.layout = HR_NCHW;
    }
    // One pixel for a picture of unknown size: its job says what is wrong.
    if (p->probed && hr_ops_output_size(ops, n, p->info.width, p->info.height,
                                        p->info.orientation, &w, &h) >= 0) {
        params.w = w;
        params.h = h;
    }
    return params;
}

// Bytes of the largest cut's images.
static size_t picture_bytes(const struct validate *v,
                            const struct validate_picture *p)
{
    size_t most = 0;

    for (int cut = VALIDATE_FIRST_CUT; cut <= HR_STORE; cut++) {
        struct hr_image_params i = image_params(v, p, cut);
        size_t bytes = VALIDATE_SIDES * hr_dtype_size(i.dtype) * (size_t)i.c;

        if (!p->cut[cut])
            continue;
        bytes = bytes * (size_t)i.w * (size_t)i.h;  // < 2^39
        most = bytes > most ? bytes : most;
    }
    return most;
}

// ---- Filling ---------------------------------------------------------------

static void describe(struct validate *v, struct validate_picture *p,
                     size_t index)
{
    const struct ops_list *list = &v->opt.ops;

    memset(p, 0, sizeof(*p));
    p->index = index;
    p->begins = -1;
    p->stale_of = -1;
    p->within = true;
    p->probed = inputs_probe(&v->in, index, &v->dev[0]->params.limits,
                             &p->info) == HR_OK;
    p->random = (struct hr_random){.seed = v->opt.seed, .index = index};
    // A picture without drawn ops will fail, and say why.
    if (!p->probed ||
        hr_ops_draw(list->ops, list->num, &p->random, p->info.width,
                    p->info.height, p->info.orientation, p->ops, &p->num_ops)) {
        memcpy(p->ops, list->ops, sizeof(*p->ops) * (size_t)list->num);
        p->num_ops = list->num;
    }
    if (p->probed)
        validate_kind_name(&p->info, p->kind);
    else
        strcpy(p->kind, "not readable");
    choose_cuts(p);
}

static void fill(struct validate *v, size_t first, int *n)
{
    size_t bytes = 0;

    for (v->num = 0; v->num < *n; v->num++) {
        struct validate_picture *p = &v->pictures[v->num];

        describe(v, p, v->chosen[first + (size_t)v->num]);
        bytes += picture_bytes(v, p);
        if (v->num && bytes > BATCH_BYTES)
            break;
    }
    *n = v->num;
}

void validate_release(struct validate *v)
{
    for (int side = 0; side < VALIDATE_SIDES; side++)
        for (int i = 0; i < VALIDATE_BATCH; i++) {
            hr_image_release(&v->images[side][i]);
            hr_encoded_finish(&v->read[side][i]);
        }
}

// Each side is filled with a pattern of its own, so that bytes that no engine
// wrote differ.
bool validate_images(struct validate *v, int cut, uint32_t mask)
{
    static const int patterns[VALIDATE_SIDES] = {0x5a, 0xa5};

    validate_release(v);
    for (int side = 0; side < VALIDATE_SIDES; side++)
        for (int i = 0; i < v->num; i++) {
            struct hr_image_params params = image_params(v, &v->pictures[i],
                                                         cut);
            hr_image *image = &v->images[side][i];

            if (!(mask >> i & 1))
                continue;
            if (!(*image = hr_image_create(v->dev[side], &params))) {
                progress_clear(&v->progress);
                tools_warn("%s", hr_last_error());
                return false;
            }
            memset((*image)->params.data, patterns[side], (*image)->size);
        }
    return true;
}

// ---- Jobs ------------------------------------------------------------------

struct scratch {
    struct hr_sample samples[VALIDATE_BATCH];
    struct hr_op ops[VALIDATE_BATCH][HR_MAX_OPS];
    char paths[VALIDATE_BATCH][PATH_MAX];
};

static hr_job submit(struct validate *v, enum validate_side side, int cut,
                     uint32_t mask, uint32_t spans, struct scratch *s)
{
    int n = 0;

    for (int i = 0; i < v->num; i++) {
        const struct validate_picture *p = &v->pictures[i];

        if (!(mask >> i & 1))
            continue;
        s->samples[n].num_ops = cut_ops(p, cut, s->ops[n]);
        s->samples[n].ops = s->ops[n];
        inputs_source(&v->in, p->index,
                      inputs_path(&v->in, p->index, s->paths[n],
                                  sizeof(s->paths[n])),
                      &v->read[side][i], &s->samples[n]);
        s->samples[n].out = v->images[side][i];
        s->samples[n].random = p->random;
        n++;
    }
    return hr_submit(v->dev[side], s->samples, n, NULL,
                     hr_job_params(.tier = v->opt.tier, .spans = spans,
                                   .on_error = HR_ON_ERROR_ZERO,
                                   .wait_for_room = true));
}

hr_job validate_submit(struct validate *v, enum validate_side side, int cut,
                       uint32_t mask, uint32_t spans)
{
    struct scratch *s = calloc(1, sizeof(*s));
    hr_job job = s ? submit(v, side, cut, mask, spans, s) : NULL;

    if (!job) {
        progress_clear(&v->progress);
        tools_warn("%s", s ? hr_last_error() : "out of memory");
    }
    free(s);
    return job;
}

static bool run_both(struct validate *v, int cut, uint32_t mask,
                     hr_job jobs[VALIDATE_SIDES])
{
    bool ok = true;

    for (int side = 0; side < VALIDATE_SIDES; side++)
        ok = (jobs[side] = ok ? validate_submit(v, (enum validate_side)side,
                                                cut, mask, 0)
                              : NULL) &&
             ok;
    for (int side = 0; side < VALIDATE_SIDES; side++)
        if (jobs[side])
            hr_job_wait(jobs[side], HR_FOREVER);
    return ok;
}

// ---- Looking ---------------------------------------------------------------

static void look(struct validate *v, int i, int cut, const struct hr_result *a,
                 const struct hr_result *b)
{
    struct validate_picture *p = &v->pictures[i];

    if (cut == HR_STORE) {
        p->results[VALIDATE_REFERENCE] = *a;
        p->results[VALIDATE_DEVICE] = *b;
    }
    if (a->status != b->status && !p->status_differs) {
        p->status_differs = true;
        p->status_cut = cut;
        p->status[VALIDATE_REFERENCE] = a->status;
        p->status[VALIDATE_DEVICE] = b->status;
    }
    if (a->status || b->status) {
        p->cut[cut] = false;
        return;
    }
    validate_compare(p, v->images[0][i], v->images[1][i], &p->at[cut]);
    if (!p->at[cut].differing)
        return;
    // Cuts run from the end on: the first that differs is where it is told.
    if (!p->differs)
        validate_show(v, p, cut, v->images[0][i], v->images[1][i]);
    p->differs = true;
}

static bool run_cut(struct validate *v, int cut)
{
    hr_job jobs[VALIDATE_SIDES] = {NULL, NULL};
    uint32_t mask = 0;
    bool ok;

    for (int i = 0; i < v->num; i++)
        mask |= v->pictures[i].cut[cut] ? UINT32_C(1) << i : 0;
    if (!mask)
        return true;
    if ((ok = validate_images(v, cut, mask) && run_both(v, cut, mask, jobs))) {
        for (int i = 0, n = 0; i < v->num; i++)
            if (mask >> i & 1) {
                look(v, i, cut, &jobs[0]->results[n], &jobs[1]->results[n]);
                n++;
            }
    }
    for (int side = 0; side < VALIDATE_SIDES; side++)
        hr_job_release(&jobs[side]);
    return ok;
}

// ---- Stale pictures --------------------------------------------------------

// A device may deliver another picture's result by mistake: compares each
// wrong one with the right results of this batch and the last pictures.
static void find_stale(struct validate *v, int cut)
{
    for (int i = 0; i < v->num; i++)
        if (v->pictures[i].cut[cut]) {
            size_t at = v->num_recent++ % VALIDATE_RECENT;

            v->recent[at].hash = validate_hash(v->images[0][i]);
            v->recent[at].index = v->pictures[i].index;
        }
    for (int i = 0; i < v->num; i++) {
        struct validate_picture *p = &v->pictures[i];
        uint64_t hash;

        if (!p->cut[cut] || !p->at[cut].differing || p->stale_of >= 0)
            continue;
        hash = validate_hash(v->images[1][i]);
        for (size_t k = 0; k < v->num_recent && k < VALIDATE_RECENT; k++)
            if (v->recent[k].hash == hash && v->recent[k].index != p->index)
                p->stale_of = (int64_t)v->recent[k].index;
    }
}

bool validate_batch(struct validate *v, size_t first, int *n)
{
    bool ok = true;

    fill(v, first, n);
    // The end first: what differs there is shown as the user gets it.
    for (int cut = HR_STORE; ok && cut >= VALIDATE_FIRST_CUT; cut--)
        if ((ok = run_cut(v, cut)))
            find_stale(v, cut);
    return ok;
}
