// SPDX-License-Identifier: Apache-2.0
// The driver thread's part of a task: its bytes go into a frame, the frame's
// surface to the driver.
#include <string.h>

#include "backends/vaapi/vaapi.h"

// ---- Which picture is next -------------------------------------------------

// A frame for the first task of the queue. NULL: none now.
static struct va_frame *frame_for_head(struct va *va)
{
    struct va_frame *frame;
    struct va_key key;

    va_key_of(va, &va->guard.head->pic->info, &key);
    if (!(frame = va_take_frame(va, &key)))
        return NULL;
    frame->want = key;
    frame->task = hr__guard_pop(&va->guard);
    return frame;
}

struct va_frame *va_next_picture(struct va *va)
{
    struct va_frame *frame = NULL;

    va_lock(va);
    while (!va->guard.stop &&
           (va->guard.dead || !va->guard.head || !(frame = frame_for_head(va))))
        va_wait(va, VA_DRIVER, INT64_MAX);
    va_unlock(va);
    return frame;
}

// Copies the task's bytes and tables into the frame: then the driver may take
// its time, and the HAL may give the task up.
static bool take_bytes(struct va *va, struct va_frame *frame,
                       struct va_fault *fault)
{
    const struct hr__picture *pic = frame->task->pic;
    unsigned why = va_jpeg_read(pic->data, pic->size, &pic->info, &frame->jpeg);
    size_t size = frame->jpeg.scan_size;

    if (why) {
        *fault = (struct va_fault){why, "the file changed"};
        return false;
    }
    if (size > frame->capacity) {
        hr__free(frame->bytes);
        // By halves, so that it does not grow every time.
        frame->capacity = size + size / 2;
        frame->bytes = hr__engine_ref_alloc(&va->guard.ref, frame->capacity);
        if (!frame->bytes) {
            frame->capacity = 0;
            *fault = (struct va_fault){HR_WHY_MEMORY, "out of memory"};
            return false;
        }
    }
    memcpy(frame->bytes, pic->data + frame->jpeg.scan_at, size);
    va_plan_planes(&pic->info, &frame->planes);
    frame->kind = hr__jpeg_kind(&pic->info);
    if ((frame->pixels = frame->task->span.last > HR_RECONSTRUCT))
        va_vpp_plan(frame, pic);
    return true;
}

// ---- The device, lost and opened again -------------------------------------

void va_close_all(struct va *va)
{
    for (int i = 0; i < va->num_frames; i++)
        va_empty_frame(va, &va->frames[i]);
    va_display_close(va);
}

// Waits until all frames but the caller's are free. False: not in time.
static bool wait_for_readers(struct va *va)
{
    int64_t deadline;
    bool others = true;

    va_lock(va);
    deadline = hr__now() + va->guard.deadline / 4;
    while ((others = va_count_frames(va, VA_FREE) < va->num_frames - 1) &&
           !va->guard.dead && va_wait(va, VA_DRIVER, deadline))
        ;
    va_unlock(va);
    return !others;
}

// Opens the device again: a new display may work where the old one is lost. It
// waits while an engine still reads from a surface of the old one.
static bool open_again(struct va *va, struct va_fault *fault)
{
    bool ok, may;

    if (!wait_for_readers(va)) {
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device was lost"};
        return false;
    }
    va_log(va, HR_LOG_WARN, "opening the device again");
    if ((ok = va_enter(va, VA_DRIVER))) {
        va_close_all(va);
        ok = va_display_open(va, fault);
    }
    may = va_leave(va, VA_DRIVER);
    // (Also if it was slow: it has not failed yet.)
    hr__guard_renewed(&va->guard, ok);
    return ok && may;
}

// ---- To the driver ---------------------------------------------------------

// Says whether all pictures in flight were given up: perhaps none is ever
// ready. Locked
static bool all_stuck(const struct va *va)
{
    for (int i = 0; i < va->num_frames; i++)
        if (va->frames[i].state == VA_SUBMITTED && !va->frames[i].stuck)
            return false;
    return true;
}

// Waits until the driver has fewer pictures than it may have, including the
// ones that were given up. A larger context, or a new one after a failure, is
// made only when the present one is unused. False: that may never be.
static bool wait_for_turn(struct va *va, const struct va_key *key,
                          struct va_fault *fault)
{
    bool go = false, hopeless;
    int submitted;

    va_lock(va);
    while (!(hopeless = hr__guard_hopeless(&va->guard)) && !va->guard.stop) {
        submitted = va_count_frames(va, VA_SUBMITTED);
        go = !submitted || (submitted < va->depth && !va->guard.lost &&
                            va_context_fits(va, key->w, key->h));
        if (go || all_stuck(va))
            break;
        va->waits = true;
        va_wait(va, VA_DRIVER, INT64_MAX);
        va->waits = false;
    }
    // After so many that were never ready the driver may keep other faults.
    va->guard.doubt |= hopeless;
    va_unlock(va);
    if (hopeless)
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device does not answer any more"};
    else if (!go)
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_TIMEOUT,
                                   "an earlier picture does not come back"};
    return go;
}

// Buffers in the order in which FFmpeg submits them: NVDEC's driver keeps a
// pointer to the slice parameters until the slice data comes.
static bool decode(struct va *va, struct va_frame *frame,
                   struct va_fault *fault)
{
    struct va_jpeg *j = &frame->jpeg;
    const struct va_buffer buffers[] = {
        {VAPictureParameterBufferType, sizeof(j->picture), &j->picture},
        {VAIQMatrixBufferType, sizeof(j->quant), &j->quant},
        {VAHuffmanTableBufferType, sizeof(j->huffman), &j->huffman},
        {VASliceParameterBufferType, sizeof(j->slice), &j->slice},
        {VASliceDataBufferType, j->scan_size, frame->bytes},
    };

    return va_render(va, va->context, frame->surface, buffers, 5, 3, fault);
}

// The surface, the context, the picture.
static bool submit_picture(struct va *va, struct va_frame *frame,
                           struct va_fault *fault)
{
    int64_t begin = hr__watch_begin();
    bool ok;

    ok = va_enter(va, VA_DRIVER) && va_fit_surface(va, frame, fault) &&
         va_context_open(va, frame->want.w, frame->want.h, fault) &&
         (!frame->pixels ||
          va_vpp_fit(va, &frame->out, frame->out_w, frame->out_h, fault)) &&
         decode(va, frame, fault) &&
         (!frame->pixels || va_vpp_run(va, frame->surface, &frame->crop,
                                       frame->mirror, &frame->out, fault));
    if (!va_leave(va, VA_DRIVER))
        return false;
    hr__engine_ref_part(&va->guard.ref, HR_PART_PACK, va->next_number + 1,
                        begin);
    return ok;
}

// Also for a picture that was too late, and has no task any more: its surface
// must be ready before it is used again. While the waiter is late no thread
// waits for the picture, so then its task ends here.
static void submitted(struct va *va, struct va_frame *frame)
{
    struct hr__task *lost = NULL;

    va_lock(va);
    frame->state = VA_SUBMITTED;
    frame->stuck = false;
    frame->since = hr__now();
    frame->sent = hr__watch_begin();
    if (frame->task)  // it has waited for its turn
        hr__task_begun(frame->task);
    if (va->guard.dead)
        lost = va_take_task(frame);
    frame->number = ++va->next_number;
    va_wake(va, VA_WAITER);
    hr__guard_look(&va->guard, frame->since + va->guard.deadline);
    va_unlock(va);
    hr__tasks_failed(lost, HR_WHY_FAILED | HR_WHY_LOST,
                     "the device does not answer any more");
}

void va_take_up(struct va *va, struct va_frame *frame)
{
    struct va_fault fault = {0};
    struct hr__task *task = frame->task;
    int64_t begin = hr__watch_begin();
    bool ready;

    if (!hr__task_claim(task)) {
        hr__tasks_failed(va_free_frame(va, frame), HR_WHY_TIMEOUT, "");
        return;
    }
    if (hr__task_stop(task)) {
        hr__tasks_stopped(va_free_frame(va, frame));
        return;
    }
    ready = take_bytes(va, frame, &fault);
    frame->imported = hr__task_imports(task) & HR__VA_SURFACE;
    hr__task_begun(task);
    hr__task_unclaim(task);
    hr__engine_ref_part(&va->guard.ref, HR_PART_PACK, va->next_number + 1,
                        begin);
    // From here on the guard may take the task.
    ready = ready && wait_for_turn(va, &frame->want, &fault);
    if (ready && (!hr__guard_is_lost(&va->guard) || open_again(va, &fault)) &&
        submit_picture(va, frame, &fault))
        submitted(va, frame);
    else
        // Without a call to the driver there is no sign that it is lost.
        va_picture_failed(va, frame, &fault,
                          ready ? fault.why : fault.why & HR_WHY_DAMAGED);
}
