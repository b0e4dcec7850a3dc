// SPDX-License-Identifier: Apache-2.0
// hr_reference_probe(): finds the reference that a program's own resize
// follows.
#include <stdio.h>
#include <string.h>

#include "hal/entry/entry.h"

// Sizes on both sides of every edge that a known rule has, and far from them:
// a rule that is like one of them but for a constant, or like none, does not
// pass for it.
static const struct probe_case {
    int width, height, w, h;
    enum hr_filter filter;
} cases[] = {
    {12, 40, 8, 6, HR_BILINEAR},
    {40, 12, 6, 8, HR_BILINEAR},
    {24, 24, 9, 9, HR_BICUBIC},
    {16, 20, 14, 16, HR_BILINEAR},  // 4 = 2 * 2
    {16, 21, 14, 16, HR_BICUBIC},   // 5 > 2 * 2
    {30, 42, 24, 30, HR_LANCZOS},   // 12 = 2 * 6
    {30, 43, 24, 30, HR_BILINEAR},  // 13 > 2 * 6
    {10, 12, 13, 11, HR_LANCZOS},   // 1 > 0 > 2 * -3
    {10, 12, 14, 13, HR_BILINEAR},  // 0 > -1 > 2 * -4
    {20, 30, 21, 20, HR_HAMMING},
    {3, 300, 4, 20, HR_BILINEAR},  // 100 times as high as wide
    {3, 301, 4, 20, HR_BILINEAR},  // and more
    {3, 301, 2, 300, HR_BOX},      // 1 < 2 * 1
    {3, 301, 4, 320, HR_BICUBIC},  // higher still
    {330, 3, 20, 4, HR_BOX},
};

enum {
    NUM_CASES = sizeof(cases) / sizeof(*cases),
    MOST_BYTES = 6 * 1024,  // of a picture of those
};

struct probe {
    hr_device dev;
    uint8_t source[MOST_BYTES], answer[MOST_BYTES], own[2][MOST_BYTES];
};

static void make_noise(uint8_t *to, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        to[i] = (uint8_t)(seed >> 56);
    }
}

// The library's own, in both orders: own[0] horizontal first.
static enum hr_status make_own(struct probe *p, const struct probe_case *c)
{
    hr_image in = hr_image_create(
        p->dev,
        hr_image_params(.w = c->width, .h = c->height, .c = 3, .dtype = HR_U8,
                        .layout = HR_NHWC, .data = p->source));
    enum hr_status status = in ? HR_OK : hr_last_status();

    for (int i = 0; i < 2 && !status; i++) {
        const struct hr_op op =
            hr_op_resize(.w = c->w, .h = c->h, .filter = c->filter,
                         .order = i ? HR_ORDER_VERTICAL : HR_ORDER_HORIZONTAL);
        hr_image out = hr_image_create(
            p->dev,
            hr_image_params(.w = c->w, .h = c->h, .c = 3, .dtype = HR_U8,
                            .layout = HR_NHWC, .data = p->own[i]));
        const struct hr_sample s = {
            .image = in, .ops = &op, .num_ops = 1, .out = out};
        hr_job job = out ? hr_submit(p->dev, &s, 1, NULL, NULL) : NULL;

        status = job ? hr_job_wait(job, HR_FOREVER) : hr_last_status();
        if (job && status)
            hr__fail(status, "%s", job->results[0].message);
        hr_job_release(&job);
        hr_image_release(&out);
    }
    hr_image_release(&in);
    return status;
}

static enum hr_status ask(struct probe *p, const struct probe_case *c,
                          hr_resize_fn resize, void *ctx)
{
    make_noise(p->source, (size_t)(c->width * c->height) * 3,
               (uint64_t)(c - cases) + 1);
    memset(p->answer, 0, MOST_BYTES);
    if (resize(ctx, p->source, c->width, c->height, c->filter, p->answer, c->w,
               c->h))
        return hr__fail(HR_EDEVICE, "the resize of %dx%d to %dx%d failed",
                        c->width, c->height, c->w, c->h);
    return make_own(p, c);
}

// HR_ORDER_REFERENCE: neither order makes that.
static enum hr_order order_of(const struct probe *p, const struct probe_case *c)
{
    size_t n = (size_t)(c->w * c->h) * 3;

    return !memcmp(p->answer, p->own[0], n)   ? HR_ORDER_HORIZONTAL
           : !memcmp(p->answer, p->own[1], n) ? HR_ORDER_VERTICAL
                                              : HR_ORDER_REFERENCE;
}

static enum hr_status find(const enum hr_order orders[NUM_CASES],
                           enum hr_reference *found)
{
    char text[384] = "";
    size_t used = 0;

    for (int r = HR_REFERENCE_NEWEST; r > HR_REFERENCE_DEFAULT; r--) {
        int i = 0;

        while (i < NUM_CASES &&
               orders[i] == hr_resize_order((enum hr_reference)r,
                                            cases[i].width, cases[i].height,
                                            cases[i].w, cases[i].h))
            i++;
        if (i == NUM_CASES)
            return *found = (enum hr_reference)r, HR_OK;
    }
    for (int i = 0; i < NUM_CASES; i++)
        if (orders[i] == HR_ORDER_VERTICAL)
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "%s%dx%d to %dx%d", used ? ", " : "",
                                     cases[i].width, cases[i].height,
                                     cases[i].w, cases[i].h);
    return hr__fail(HR_EUNSUPPORTED,
                    "unknown order of passes: no known reference is vertical "
                    "first for just %s",
                    text);
}

static enum hr_status probe_all(struct probe *p, hr_resize_fn resize, void *ctx,
                                enum hr_reference *found)
{
    enum hr_order orders[NUM_CASES];
    enum hr_status status;

    for (int i = 0; i < NUM_CASES; i++) {
        const struct probe_case *c = &cases[i];

        if ((status = ask(p, c, resize, ctx)))
            return status;
        orders[i] = order_of(p, c);
        if (orders[i] == HR_ORDER_REFERENCE)
            return hr__fail(HR_EUNSUPPORTED,
                            "unknown order of passes: %dx%d to %dx%d is "
                            "neither horizontal nor vertical first",
                            c->width, c->height, c->w, c->h);
    }
    return find(orders, found);
}

enum hr_status hr_reference_probe(hr_resize_fn resize, void *ctx,
                                  enum hr_reference *found)
{
    struct probe *p;
    enum hr_status status;

    if (!resize || !found)
        return hr__fail(HR_EINVAL, "hr_reference_probe: no %s",
                        resize ? "found" : "resize");
    *found = HR_REFERENCE_DEFAULT;
    if (!(p = hr__alloc(NULL, sizeof(*p))))
        return hr__fail(HR_ENOMEM, "hr_reference_probe: out of memory");
    p->dev = hr_device_open("cpu", hr_device_params(.threads = 1));
    status = p->dev ? probe_all(p, resize, ctx, found) : hr_last_status();
    hr_device_close(&p->dev);
    hr__free(p);
    return status;
}
