// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the pixel path: the first bytes choose ops, type, layout and
// engine, the rest is the file. Every byte of the result is read. It holds the
// library to its contract: the same end and the same bytes on one thread, on
// another instruction set and by another cut; a broken promise aborts.
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "fuzz.h"
#include "hal/job/work.h"

enum { CONTROL = 24, DEVICES = 3, MAX_LIST = 6 };

static hr_device devices[DEVICES];  // the reference, the fastest, a cut

static void open_devices(void)
{
    // Small enough that an input takes milliseconds.
    struct hr_device_params p = {
        .threads = 1,
        .cpu_mask = HR_CPU_C,
        .limits = {.pixels = 1 << 20,
                   .side = 4096,
                   .block_visits = 1 << 18,
                   .item_bytes = 64 << 20},
    };

    devices[0] = hr_device_open("cpu", &p);
    p.cpu_mask = 0;
    devices[1] = hr_device_open("cpu", &p);
    fake_reset_spans(FAKE_R);
    devices[2] = hr_device_open("fake", &p);
    promise(devices[0] && devices[1] && devices[2]);
}

// ---- From bytes to ops ----------------------------------------------------

static int small(const uint8_t **at, int n)
{
    return *(*at)++ % n;
}

static struct hr_op op_of(const uint8_t **at)
{
    int kind = small(at, 4), a = small(at, 256), b = small(at, 256);
    int c = small(at, 256);
    struct hr_op op = {0};

    if (kind == 0) {
        op = hr_op_crop(.w = 1 + a, .h = 1 + b, .pad = c & 1, .center = c & 2,
                        .x = c / 4 - 8, .y = c / 8 - 4);
    } else if (kind == 1) {
        op = hr_op_resize(.w = 1 + a, .h = 1 + b,
                          .filter = (enum hr_filter)(c % HR_NUM_FILTERS),
                          .order = (enum hr_order)(c / HR_NUM_FILTERS % 3));
        if (c >= 128)
            op.resize.box[2] = (float)(1 + a),
            op.resize.box[3] = (float)(1 + b) / 2;
    } else if (kind == 2) {
        op = hr_op_resize(.short_side = 1 + a,
                          .filter = (enum hr_filter)(c % HR_NUM_FILTERS));
    } else {
        op = hr_op_flip(.horizontal = a & 1, .vertical = b & 1,
                        .transpose = c & 1);
    }
    return op;
}

struct wish {
    struct hr_op ops[MAX_LIST];
    int num_ops, w, h, c;
    enum hr_dtype dtype;
    enum hr_layout layout;
};

static void read_wish(struct wish *to, const uint8_t *at)
{
    int flags = small(&at, 256), n = small(&at, 5);

    *to = (struct wish){.dtype = (enum hr_dtype)(flags % 3),
                        .layout = (enum hr_layout)(flags / 4 % 2),
                        .c = flags & 8 ? 1 : 3};
    to->ops[to->num_ops++] = hr_op_decode(.mode = flags & 8 ? HR_GRAY : HR_RGB,
                                          .apply_orientation = flags & 16);
    for (int i = 0; i < n; i++)
        to->ops[to->num_ops++] = op_of(&at);
    if (flags & 32 && to->dtype != HR_U8)
        to->ops[to->num_ops++] = hr_op_normalize(.std = {.5f, .25f, .125f});
}

// ---- One input ------------------------------------------------------------

struct end {
    enum hr_status status;
    uint32_t sum;
};

static struct end run(hr_device dev, const struct wish *wish,
                      const uint8_t *data, size_t size)
{
    hr_image out = hr_image_create(
        dev, hr_image_params(.w = wish->w, .h = wish->h, .c = wish->c,
                             .dtype = wish->dtype, .layout = wish->layout));
    struct hr_sample s = {.data = data,
                          .size = size,
                          .ops = wish->ops,
                          .num_ops = wish->num_ops,
                          .out = out};
    struct end end = {.sum = 2166136261u};
    hr_job job;
    const uint8_t *p;

    promise(out);
    job = hr_submit(dev, &s, 1, NULL, NULL);
    promise(job);
    end.status = hr_job_wait(job, HR_FOREVER);
    promise(end.status != HR_PENDING && end.status != HR_EINVAL &&
            end.status == job->results[0].status);
    promise(!end.status == !job->results[0].message[0]);
    p = out->params.data;
    for (size_t i = 0; i < out->size; i++)
        end.sum = (end.sum ^ p[i]) * 16777619u;
    hr_job_release(&job);
    hr_wait_all(dev, HR_FOREVER);
    hr_image_release(&out);
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wish wish;
    struct hr_info info;
    struct end first;

    if (!devices[0])
        open_devices();
    if (size < CONTROL)
        return 0;
    read_wish(&wish, data);
    data += CONTROL;
    size -= CONTROL;
    wish.w = wish.h = 1;
    if (!hr_probe(data, size, &devices[0]->params.limits, &info) &&
        hr_ops_output_size(wish.ops, wish.num_ops, info.width, info.height,
                           info.orientation, &wish.w, &wish.h))
        wish.num_ops = 1;  // not for this picture: just decode it
    if (wish.num_ops == 1 && wish.w == 1 && wish.h == 1 &&
        !hr_probe(data, size, &devices[0]->params.limits, &info))
        hr_ops_output_size(wish.ops, 1, info.width, info.height,
                           info.orientation, &wish.w, &wish.h);
    if ((int64_t)wish.w * wish.h > 1 << 20)
        return 0;
    first = run(devices[0], &wish, data, size);
    for (int i = 1; i < DEVICES; i++) {
        struct end other = run(devices[i], &wish, data, size);

        promise(other.status == first.status && other.sum == first.sum);
    }
    return 0;
}
