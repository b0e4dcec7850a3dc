// SPDX-License-Identifier: Apache-2.0
// The VA-API backend: JPEG bytes to component planes on a media engine, many
// pictures at once. Other engines do upsampling, colour and the later stages.
//
// Each file uses only files in front of it: loader, error, quirk, format, jpeg,
// calls, objects, readback, export, shared_display, vpp, vpp_open, offer,
// display, frame, submit, waiter, thread, guard, device.
//
// Threads. The driver thread (the guard's thread 0) opens the display, submits
// pictures and closes; the waiter (thread 1) waits for pictures and reads them
// back; the list of devices is made on a thread of hr__call_with_deadline().
// The HAL's threads push to the guard's queue and return. The thread that gives
// a mapped surface back marks its frame and returns.
//
// A driver may hang in any call; guard.h describes the consequences. If a late
// call returns, its pictures are waited for like the ones that were given up.
//
//   submit() -> queue -> driver thread: frame FREE -> BUSY -> SUBMITTED
//                -> waiter: READING -> LENT (planes go on as they lie)
//                -> release(): RETURNED -> waiter: READING -> FREE
//                   or, of a surface that is shared: HELD -> FREE
//   map(), of a shared one: LENT -> ASKED -> waiter: READING -> LENT
//
// Locks: the guard's, which guards the members marked so below ("locked" means
// it); va->calls is held around calls to drivers that are not known to be safe
// with two threads, and may be held when one of the guard's is taken.
#ifndef HR_VAAPI_H
#define HR_VAAPI_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/vaapi/va_tables.h"
#include "hal/engine/guard.h"

// ---- The device ------------------------------------------------------------

enum { VA_DRIVER, VA_WAITER, VA_THREADS };  // of the guard
enum { VA_TEXT = 128, VA_MAX_IMAGE_FORMATS = 256, VA_LINES = 8, VA_LINE = 320 };
enum { VA_FRAMES = 32, VA_DEPTH = 8, VA_MAX_DEPTH = 24 };

struct va_facts {
    char vendor[VA_TEXT];
    int major, minor;
    const struct va_driver *driver;
    uint32_t fourccs[VA_MAX_FORMATS];  // that surfaces may have
    int num_fourccs;
    int min_w, min_h, max_w, max_h;
    VAImageFormat images[VA_MAX_IMAGE_FORMATS];
    int num_images;
    bool vpp;                                    // there is a video processor
    struct va_surface_kind kinds[HR_NUM_KINDS];  // fourcc 0 = not
};

// Samples come back in one of these ways, best first.
enum va_rung {
    VA_RUNG_SURFACE,  // the next engine's driver knows the surface
    VA_RUNG_DERIVE,   // the surface is mapped and read as it lies
    VA_RUNG_GET,      // the driver copies to an image, which is read as it lies
    VA_RUNGS
};

enum va_frame_state {
    VA_FREE,
    VA_BUSY,       // the driver thread's
    VA_SUBMITTED,  // the driver works on it; the waiter's
    VA_READING,    // the waiter's
    VA_LENT,       // the next engine reads it
    VA_RETURNED,   // and has done; the waiter's
    VA_HELD,       // its task has ended, but some engine still reads it
    VA_ASKED       // lent, and shall be mapped after all; the waiter's
};

struct va_key {
    unsigned rt_format;
    uint32_t fourcc;
    int w, h;  // whole MCUs
};

// The output of the video processor: an RGB surface, and an image to get it by.
struct va_output {
    VASurfaceID surface;
    VAImage image;
    int w, h;
};
#define VA_NO_OUTPUT                              \
    ((struct va_output){.surface = VA_INVALID_ID, \
                        .image.image_id = VA_INVALID_ID})

// A picture on its way, and its surface.
struct va_frame {
    struct va *va;
    struct va_key key;    // of its surface
    struct va_key want;   // of the surface that its picture needs
    VASurfaceID surface;  // VA_INVALID_ID: none; as the ids of images
    VAImage image;        // for GetImage, of the same size
    VAImage derived;      // while the surface is mapped
    enum hr_jpeg_kind kind;
    struct hr__planes planes;
    uint8_t *bytes;  // the picture's entropy data, our own copy
    size_t capacity;
    struct va_jpeg jpeg;
    bool pixels;  // the video processor makes its pixels, so:
    VARectangle crop;
    unsigned mirror;
    int out_w, out_h;
    struct va_output out;
    struct hr__external shared;  // id 0: it is not
    bool imported;               // the next engine reads it from the surface

    // Locked
    enum va_frame_state state;
    int readers;      // of a surface that was lent, until it is free
    bool over;        // its payload is released
    uint8_t *mapped;  // of a shared surface, if the host needs it after all
    size_t mapped_size;
    struct hr__task *task;  // NULL while SUBMITTED: given up
    bool stuck;             // SUBMITTED for too long: it may never be ready
    int64_t since;          // SUBMITTED, HELD: when that began
    int64_t sent;           // when it was submitted, if a trace is on; else
                            // 0
    uint64_t number;        // of the last picture, in order of submission
};

// Hung threads may still touch all of this: it is left behind with them.
struct va {
    struct hr__guard guard;

    struct va_api api;
    char which[VA_TEXT];
    char node[VA_TEXT];  // the path that was opened, "" = caller's display
    VADisplay foreign;   // the caller's own display, or NULL
    VADisplay display;
    int fd;
    bool initialized;
    bool have_facts;  // they do not change any more
    struct va_facts facts;
    char file[256];  // the driver's, hr__library_text()
    // Lines for the log, of a thread that is in a call under va->calls.
    struct va_lines {
        int n, lost;
        struct {
            enum hr_log_level level;
            char text[VA_LINE];
        } line[VA_LINES];
    } lines[VA_THREADS];
    VAConfigID config;
    VAContextID context;
    int context_w, context_h;
    struct {
        VAConfigID config;
        VAContextID context;
        int format;  // of what comes out
        bool tried;  // once; then these are known:
        // The mirrors that come out right, for each kind of picture that goes
        // in: bit VA_MIRROR_*, bit 0 being colours alone. 0: the kind does not
        // go in.
        unsigned mirrors[HR_NUM_KINDS];
    } vpp;
    struct va_frame frames[VA_FRAMES];
    int num_frames, depth, wish;  // wish: the depth the user wants, 0 = any
    int64_t surface_bytes;        // of all frames, as far as we can tell
    bool by_host;                 // the user wants no surface to be shared
    bool shares;                  // surfaces are shared; written locked
    enum va_rung rung;            // for surfaces that are not
    VADisplay retired;            // an old one, which another driver has
    int retired_fd;
    bool sync2;  // vaSyncSurface2 works; the waiter's
    pthread_mutex_t calls;

    // Locked
    bool closing;  // the waiter shall end
    int users;     // of the display, or of the one that is retired
    bool waits;    // the driver thread waits for its turn to submit
    uint64_t next_number;
    int64_t last_seen;  // the waiter's: when a picture was ready
};

struct va_engine {  // what the HAL allocates
    struct va *va;
};

#define VA_NAME "vaapi"

static inline struct va *va_of(struct hr__engine *e)
{
    assert(!strcmp(e->backend->name, VA_NAME));
    return ((struct va_engine *)e->priv)->va;
}

// Left behind with a display that is the caller's: it may be gone. (A display
// of our own is closed by its thread, when it can.)
static inline bool va_barred(const struct va *va)
{
    return va->guard.abandoned && va->foreign;
}

static inline void va_lock(struct va *va)
{
    pthread_mutex_lock(&va->guard.lock);
}

static inline void va_unlock(struct va *va)
{
    pthread_mutex_unlock(&va->guard.lock);
}

// Locked, all three. Only the thread itself waits there.
static inline void va_wake(struct va *va, int thread)
{
    pthread_cond_signal(&va->guard.threads[thread].wake);
}

static inline bool va_wait(struct va *va, int thread, int64_t deadline)
{
    return hr__cond_wait(&va->guard.threads[thread].wake, &va->guard.lock,
                         deadline);
}

static inline struct hr__task *va_take_task(struct va_frame *frame)
{
    struct hr__task *task = frame->task;

    frame->task = NULL;
    if (task)
        task->next = NULL;
    return task;
}

// ---- calls.c ---------------------------------------------------------------

// Writes to the log, unless this thread was left behind.
void va_log(struct va *va, enum hr_log_level level, const char *fmt, ...)
    HR_PRINTF(3, 4);
// Around calls to libva. If they take too long, the thread's tasks are gone.
// False: barred. Then call nothing but leave, and return at once.
bool va_enter(struct va *va, int thread);
bool va_leave(struct va *va, int thread);
// One call with va->display. True: it went well; else the fault says so.
#define VA_OK(va, fault, call, ...)                                            \
    (!va_failed(&(va)->api, fault, (va)->api.call((va)->display, __VA_ARGS__), \
                #call))

// ---- objects.c -------------------------------------------------------------

// An object that could not be made has VA_INVALID_ID, which drop ignores.
bool va_make_config(struct va *va, VAProfile profile, VAEntrypoint entrypoint,
                    VAConfigID *out, struct va_fault *fault);
void va_drop_config(struct va *va, VAConfigID *config);
bool va_make_context(struct va *va, VAConfigID config, int w, int h,
                     VAContextID *out, struct va_fault *fault);
void va_drop_context(struct va *va, VAContextID *context);
// The attributes that surfaces may have; returns how many, 0: none, or failed.
enum { VA_MAX_ATTRIBUTES = 256 };
unsigned va_query_attributes(struct va *va, VAConfigID config,
                             VASurfaceAttrib list[VA_MAX_ATTRIBUTES],
                             struct va_fault *fault);
bool va_make_surface(struct va *va, unsigned rt_format, uint32_t fourcc, int w,
                     int h, VASurfaceID *out, struct va_fault *fault);
void va_drop_surface(struct va *va, VASurfaceID *surface);
// Returns the driver's image format; NULL: it has none.
const VAImageFormat *va_image_format(const struct va *va, uint32_t fourcc);
bool va_make_image(struct va *va, uint32_t fourcc, int w, int h, VAImage *out,
                   struct va_fault *fault);
void va_drop_image(struct va *va, VAImage *image);
// *data: the image's bytes. Unmap its buffer afterwards.
bool va_map_image(struct va *va, const VAImage *image, uint8_t **data,
                  struct va_fault *fault);
// One pass of a context into the target: of n buffers, the first in one call,
// the others, if there are more, in another.
enum { VA_MAX_BUFFERS = 5 };
struct va_buffer {
    VABufferType type;
    size_t size;
    void *data;
};
bool va_render(struct va *va, VAContextID context, VASurfaceID target,
               const struct va_buffer *buffers, int n, int first,
               struct va_fault *fault);

// ---- readback.c ------------------------------------------------------------

const char *va_rung_name(enum va_rung rung);
// Counts one more sample on that rung, for profiles.
void va_count_rung(struct va *va, enum va_rung rung);
// Finds where the planes lie in such an image.
bool va_place(struct va *va, enum hr_jpeg_kind kind, struct hr__planes *planes,
              const VAImage *image, struct va_fault *fault);
// Fills in frame->planes and maps them, on the waiter. False: the fault says
// why.
bool va_map(struct va *va, struct va_frame *frame, uint8_t **data, size_t *size,
            struct va_fault *fault);
void va_unmap(struct va *va, struct va_frame *frame);

// ---- export.c --------------------------------------------------------------

// Fills in frame->shared and frame->planes, on the waiter. False: try va_map().
bool va_export(struct va *va, struct va_frame *frame);
// The payload's release().
void va_on_export_released(struct hr__payload *payload);
// Maps the surface of an ASKED frame, READING now, on the waiter. False: as
// va_leave().
bool va_map_export(struct va *va, struct va_frame *frame);

// ---- shared_display.c ------------------------------------------------------

// Says whether other drivers may know surfaces, since the next engine imports
// them.
bool va_may_export(const struct va *va);
void va_share_display(struct hr__engine *e, struct hr__shared_display *out);
// Retires the display, on the driver thread. True: another driver has it, and
// it stays open until va_close_retired(); nothing is shared any more.
bool va_retire_display(struct va *va);
void va_close_retired(struct va *va);

// ---- vpp.c, vpp_open.c -----------------------------------------------------

enum { VA_VPP_SIDE = 4096 };  // largest side of the output

// Opens the processor, on the driver thread, and tries it the first time.
void va_vpp_open(struct va *va);
void va_vpp_close(struct va *va);
// Chooses the RGB format that comes out, and which kinds of surfaces go in, by
// bits: as the decoder makes them. False: there is nothing to use.
bool va_vpp_formats(struct va *va, unsigned *kinds);
// Says whether a processor is open, and right for some kind of picture.
bool va_vpp_any(const struct va *va);
// Returns 0 if the processor makes the picture's pixels, up to resample; or why
// not.
unsigned va_vpp_why_not(const struct va *va, const struct hr__picture *pic);
// For a description: ", video processor: 4:2:0, 4:2:2, no flips"; text is left
// as it was if no kind is right. VA_PROCESSOR_TEXT bytes hold all kinds.
enum { VA_PROCESSOR_TEXT = 96 };
void va_vpp_text(const struct va *va, char text[VA_PROCESSOR_TEXT]);
// crop, mirror and size of the frame's picture.
void va_vpp_plan(struct va_frame *frame, const struct hr__picture *pic);
// Gives the output a surface and an image of that size; takes them away.
bool va_vpp_fit(struct va *va, struct va_output *o, int w, int h,
                struct va_fault *fault);
void va_vpp_drop(struct va *va, struct va_output *o);
// crop: NULL = all. mirror: VA_MIRROR_*.
bool va_vpp_run(struct va *va, VASurfaceID from, const VARectangle *crop,
                unsigned mirror, const struct va_output *o,
                struct va_fault *fault);
// The output's pixels, 4 bytes each; unmap the image's buffer afterwards.
bool va_vpp_map(struct va *va, const struct va_output *o, uint8_t **data,
                struct va_fault *fault);
// Packs pixels to 3 bytes each, without gaps.
void va_vpp_pack(const struct va *va, const struct va_output *o,
                 const uint8_t *from, uint8_t *to);

// ---- offer.c ---------------------------------------------------------------

void va_offer(struct hr__engine *e, const struct hr__picture *pic,
              struct hr__offer *out);
// The surface that a picture needs.
void va_key_of(const struct va *va, const struct hr_info *info,
               struct va_key *key);

// ---- display.c -------------------------------------------------------------

// The path of render node i, from 0 on. False: it is not there.
enum { VA_NODES = 16 };
bool va_node(int i, char path[VA_TEXT]);
// All on the driver thread.
bool va_display_open(struct va *va, struct va_fault *fault);
void va_display_close(struct va *va);
// A context for pictures of that size at least. Nothing is in flight if it has
// to be made again.
bool va_context_fits(const struct va *va, int w, int h);
bool va_context_open(struct va *va, int w, int h, struct va_fault *fault);

// ---- frame.c ---------------------------------------------------------------

// Locked, both. A FREE frame for that key, BUSY now; NULL: none now.
struct va_frame *va_take_frame(struct va *va, const struct va_key *key);
int va_count_frames(const struct va *va, enum va_frame_state state);
// The frame is FREE; the caller ends the task. NULL: the guard has taken it.
struct hr__task *va_free_frame(struct va *va, struct va_frame *frame);
// The frame is FREE, its task ends with the fault. why: of the fault, as far as
// it counts against the device.
void va_picture_failed(struct va *va, struct va_frame *frame,
                       const struct va_fault *fault, unsigned why);
// fit gives the frame the surface that it wants; empty takes all away. Both on
// the driver thread.
bool va_fit_surface(struct va *va, struct va_frame *frame,
                    struct va_fault *fault);
void va_empty_frame(struct va *va, struct va_frame *frame);

// ---- submit.c, waiter.c, thread.c, guard.c ---------------------------------

// Waits for work and for a frame to do it in. NULL: stop.
struct va_frame *va_next_picture(struct va *va);
// Submits the picture of a BUSY frame, or ends its task.
void va_take_up(struct va *va, struct va_frame *frame);
void va_close_all(struct va *va);
// Functions of the guard's table.
enum hr_status va_open_first(void *va);
bool va_drive(void *va);
void va_wait_for_pictures(void *va);
extern const struct hr__guard_ops va_guard_ops;

#endif
