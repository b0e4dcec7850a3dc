// SPDX-License-Identifier: Apache-2.0
// Frames and their surfaces. Pictures of one format and size in whole MCUs use
// each other's surfaces; a frame keeps its surface until another size needs the
// frame, or its memory.
#include "backends/vaapi/vaapi.h"

// The most bytes of all surfaces together; one alone may be larger.
#define MOST_BYTES ((int64_t)512 << 20)

// ---- Choosing a frame
// ------------------------------------------------------

static bool same(const struct va_key *a, const struct va_key *b)
{
    return a->rt_format == b->rt_format && a->fourcc == b->fourcc &&
           a->w == b->w && a->h == b->h;
}

int va_count_frames(const struct va *va, enum va_frame_state state)
{
    int n = 0;

    for (int i = 0; i < va->num_frames; i++)
        n += va->frames[i].state == state;
    return n;
}

// Best a frame with the right surface, then one without, then the one that has
// not been used for longest.
struct va_frame *va_take_frame(struct va *va, const struct va_key *key)
{
    struct va_frame *best = NULL;
    int rank, best_rank = -1;

    for (int i = 0; i < va->num_frames; i++) {
        struct va_frame *s = &va->frames[i];

        if (s->state != VA_FREE)
            continue;
        rank = s->surface == VA_INVALID_ID ? 1 : same(&s->key, key) ? 2 : 0;
        if (rank < best_rank ||
            (rank == best_rank && s->number >= best->number))
            continue;
        best = s;
        best_rank = rank;
    }
    if (best)
        best->state = VA_BUSY;
    return best;
}

// ---- The end of a task -----------------------------------------------------

// Locked
static struct hr__task *set_free(struct va *va, struct va_frame *frame)
{
    frame->state = VA_FREE;
    va_wake(va, VA_DRIVER);
    return va_take_task(frame);
}

struct hr__task *va_free_frame(struct va *va, struct va_frame *frame)
{
    struct hr__task *task;

    va_lock(va);
    task = set_free(va, frame);
    va_unlock(va);
    return task;
}

void va_picture_failed(struct va *va, struct va_frame *frame,
                       const struct va_fault *fault, unsigned why)
{
    struct hr__task *task;

    va_lock(va);
    task = set_free(va, frame);
    // A late call has been counted as a failure already.
    hr__guard_failed(&va->guard, why, task && !va->guard.dead);
    va_unlock(va);
    if (!task)
        return;
    va_log(va, HR_LOG_WARN, "a picture failed: %s", fault->text);
    hr__tasks_failed(task, fault->why, fault->text);
}

// ---- Surfaces --------------------------------------------------------------

// Returns an upper bound of the driver's memory: 3 bytes a pixel.
static int64_t bytes_of(const struct va_key *key)
{
    return (int64_t)key->w * key->h * 3;
}

static void count_bytes(struct va *va, int64_t change)
{
    va->surface_bytes += change;
    hr__engine_ref_bytes(&va->guard.ref, change);
}

void va_empty_frame(struct va *va, struct va_frame *frame)
{
    if (frame->image.image_id != VA_INVALID_ID)
        hr__engine_ref_bytes(&va->guard.ref, -(int64_t)frame->image.data_size);
    va_drop_image(va, &frame->image);
    frame->shared = (struct hr__external){0};
    va_vpp_drop(va, &frame->out);
    if (frame->surface != VA_INVALID_ID)
        count_bytes(va, -bytes_of(&frame->key));
    va_drop_surface(va, &frame->surface);
}

// Surfaces of free frames make room for a new one. No other thread takes a
// frame that is free.
static void make_room(struct va *va, int64_t bytes)
{
    for (int i = 0; i < va->num_frames; i++) {
        bool is_free;

        va_lock(va);
        is_free = va->frames[i].state == VA_FREE;
        va_unlock(va);
        if (is_free && va->surface_bytes + bytes > MOST_BYTES)
            va_empty_frame(va, &va->frames[i]);
    }
}

bool va_fit_surface(struct va *va, struct va_frame *frame,
                    struct va_fault *fault)
{
    const struct va_key *key = &frame->want;

    if (frame->surface != VA_INVALID_ID && same(&frame->key, key))
        return true;
    va_empty_frame(va, frame);
    make_room(va, bytes_of(key));
    if (!va_make_surface(va, key->rt_format, key->fourcc, key->w, key->h,
                         &frame->surface, fault))
        return false;
    frame->key = *key;
    count_bytes(va, bytes_of(key));
    return true;
}
