// SPDX-License-Identifier: Apache-2.0
// The VA-API backend: JPEG bytes to component planes on a media engine, many
// pictures at once. Upsampling, colour and all that follows is done by others.
//
//   loader.c    libva and libva-drm at run time
//   error.c     VA-API's codes
//   quirk.c     what is known of drivers
//   format.c    surfaces: which for which picture, where their samples lie
//   device.c    which devices there are; open, close, describe
//   display.c   a display, its capabilities, its context
//   jpeg.c      a file's tables and scan, for the driver
//   offer.c     what it takes of a picture
//   surface.c   slots: surfaces of pictures on their way
//   submit.c    a task into a slot and on its way
//   decode.c    one picture to the driver
//   readback.c  one picture's samples, as the next engine reads them
//   share.c     a surface as memory that the next engine reads itself
//   origin.c    the display in the hands of that engine; what it could not
//               read after all, for the host
//   vpp.c       crop, scale, flip and colour by the driver (tier FAST)
//   vpp_probe.c which kinds of pictures that comes out right for
//   guard.c     what the guard (hal/guard/) asks of this engine
//   thread.c    the driver thread, and what is around calls
//   waiter.c    waits for pictures, hands their samples on
//   log.c       lines for the user's log
//   times.c     when the device did what, for traces and profiles
//
// Who calls libva. The driver thread (the guard's lane 0) opens the display,
// submits pictures and closes; the waiter (lane 1) waits for pictures and reads
// them back; for the list of devices, a thread of hr__call_with_deadline(). The
// HAL's threads push to the guard's queue and return; whoever gives a mapped
// surface back marks its slot and returns.
//
// A driver may hang in any call; guard.h says what happens then. If a late call
// returns, the surfaces of then are waited for like those of pictures that were
// given up.
//
//   submit() -> queue -> driver thread: slot FREE -> BUSY -> FLYING
//                -> waiter: READING -> LENT (planes go on as they lie)
//                -> release(): RETURNED -> waiter: READING -> FREE
//                   or, of a surface that is shared: HELD -> FREE
//   map(), of a shared one: LENT -> ASKED -> waiter: READING -> LENT
//
// Locks: the guard's, which guards what is marked so below ("locked" means it);
// va->calls is held around calls to drivers that are not known to be safe with
// two threads, and may be held when one of the guard's is taken.
#ifndef HR_VAAPI_H
#define HR_VAAPI_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/vaapi/known.h"
#include "hal/engine/guard.h"

struct va;  // one opened device

// ---- display.c ---------------------------------------------------------------

enum { VA_TEXT = 128, VA_MAX_IMAGE_FORMATS = 64 };

struct va_facts {
    char vendor[VA_TEXT];
    int major, minor;
    const struct va_driver *driver;
    uint32_t fourccs[VA_MAX_FORMATS];  // that surfaces may have
    int num_fourccs;
    unsigned rt_formats;
    int min_w, min_h, max_w, max_h;
    VAImageFormat images[VA_MAX_IMAGE_FORMATS];
    int num_images;
    bool vpp;                                // there is a video processor
    struct va_surface_kind kinds[VA_KINDS];  // fourcc 0 = not
};

// All on the driver thread.
bool va_display_open(struct va *va, struct va_fault *fault);
void va_display_close(struct va *va);
bool va_config_open(struct va *va, struct va_fault *fault);
void va_config_close(struct va *va);
// A context for pictures of that size at least. Nothing is in flight if it has
// to be made again.
bool va_context_fits(const struct va *va, int w, int h);
bool va_context_open(struct va *va, int w, int h, struct va_fault *fault);
void va_context_close(struct va *va);

// ---- surface.c ---------------------------------------------------------------

enum { VA_SLOTS = 32, VA_DEPTH = 8, VA_MAX_DEPTH = 24 };

enum va_slot_state {
    VA_FREE,
    VA_BUSY,      // the driver thread's
    VA_FLYING,    // submitted; the waiter's
    VA_READING,   // the waiter's
    VA_LENT,      // the next engine reads it
    VA_RETURNED,  // and has done; the waiter's
    VA_HELD,      // its task has ended, but not what reads the surface
    VA_ASKED      // lent, and shall be mapped after all; the waiter's
};

struct va_key {
    unsigned rt_format;
    uint32_t fourcc;
    int w, h;  // whole MCUs
};

// Where the video processor writes: RGB, and an image to get it by.
struct va_output {
    VASurfaceID surface;
    VAImage image;
    bool have_image;
    int w, h;
};

struct va_slot {
    struct va *va;
    struct va_key key;    // of its surface
    VASurfaceID surface;  // VA_INVALID_ID: none
    VAImage image;        // for GetImage, of the same size
    bool have_image;      // it is there
    VAImage derived;      // while the surface is mapped
    bool have_derived;
    uint64_t used;  // when last, for choosing which one goes
    enum va_kind kind;
    struct hr__planes planes;
    uint8_t *bytes;  // the picture's entropy data, our own copy
    size_t room;
    struct va_jpeg jpeg;
    bool pixels;  // it goes on to the video processor:
    VARectangle crop;
    unsigned mirror;
    int out_w, out_h;
    struct va_output out;
    struct hr__external shared;  // id 0: it is not
    bool wanted;                 // the next engine imports this picture

    // Locked
    enum va_slot_state state;
    int readers;      // of a surface that was lent, till it is free
    bool over;        // its payload is no more
    uint8_t *mapped;  // a shared one, after all
    size_t mapped_size;
    struct hr__task *task;  // NULL while FLYING: given up
    bool stuck;             // FLYING: for so long that it may never land
    int64_t since;          // FLYING, HELD: from when on
    int64_t sent;           // FLYING: when, if anybody watches; else 0
    uint64_t number;        // of the picture, in order of submission
};

// A FREE slot for that key, BUSY; NULL: none now. *make: it has another
// surface or none.
struct va_slot *va_slot_take(struct va *va, const struct va_key *key);
// On the driver thread: gives the slot a surface of that key.
bool va_surface_fit(struct va *va, struct va_slot *slot,
                    const struct va_key *key, struct va_fault *fault);
void va_surface_drop(struct va *va, struct va_slot *slot);
struct va_slot *va_find_slot(struct va *va, enum va_slot_state state);
// A slot with a task that flies, the oldest; or one that was given up. Locked
struct va_slot *va_oldest(struct va *va);
int va_count_slots(const struct va *va, enum va_slot_state state);

// ---- decode.c, readback.c ----------------------------------------------------

// On the driver thread: the picture of slot->task, whose tables and bytes the
// slot holds, to its surface.
bool va_decode(struct va *va, struct va_slot *slot, struct va_fault *fault);

// The way samples come back, best first.
enum va_rung {
    VA_RUNG_SURFACE,  // the next engine's driver knows the surface
    VA_RUNG_DERIVE,   // the surface is mapped and read as it lies
    VA_RUNG_GET,      // the driver copies to an image, which is read as it lies
    VA_RUNGS
};
const char *va_rung_name(enum va_rung rung);
// For profiles: a sample went on that way.
void va_count_rung(struct va *va, enum va_rung rung);
// On the waiter: slot->planes and where they lie. False: the fault says why.
bool va_map(struct va *va, struct va_slot *slot, uint8_t **data, size_t *size,
            struct va_fault *fault);
void va_unmap(struct va *va, struct va_slot *slot);
// Where the planes of slot->planes lie in such an image.
bool va_place_all(struct va_slot *slot, const VAImage *image,
                  struct va_fault *fault);

// ---- share.c -----------------------------------------------------------------

// On the waiter: slot->shared and slot->planes. False: the next rung.
bool va_share(struct va *va, struct va_slot *slot);
// With its surface.
void va_unshare(struct va_slot *slot);
void va_on_shared_released(struct hr__payload *payload);
// A picture that was to be shared goes by the next rung.
void va_count_fall(struct va *va);

// ---- origin.c ------------------------------------------------------------------

void va_origin(struct hr__engine *e, struct hr__origin *out);
// Whether surfaces may be known to other drivers, but for the next engine.
bool va_origin_may(const struct va *va);
// On the driver thread: the display that others may have stays open till
// va_origin_close(); a new one comes in its place, which they do not know.
bool va_origin_retire(struct va *va);
void va_origin_close(struct va *va);
// struct hr__external: of surfaces that cannot be mapped by anybody else.
bool va_on_map(struct hr__payload *payload);
// On the waiter: an ASKED slot, READING now. False: as va_leave().
bool va_read_shared(struct va *va, struct va_slot *slot);

// ---- vpp.c, vpp_probe.c ------------------------------------------------------

enum { VA_ALL_MIRRORS = 15 };  // va->vpp.mirrors: all that can be asked for

// On the driver thread: opens the processor, and tries it the first time.
void va_vpp_open(struct va *va);
void va_vpp_close(struct va *va);
// There is one, and it is right for some kind of picture.
bool va_vpp_any(const struct va *va);
// Why it does not make the picture's pixels, up to resample; 0: it does.
unsigned va_vpp_why_not(const struct va *va, const struct hr__picture *pic);
// For a description: ", video processor: 4:2:0, 4:2:2, no flips"; as it was if
// it is right for none. All kinds are in VA_PROCESSOR_TEXT bytes.
enum { VA_PROCESSOR_TEXT = 96 };
void va_vpp_text(const struct va *va, char text[VA_PROCESSOR_TEXT]);
void va_vpp_plan(struct va_slot *slot, const struct hr__picture *pic);
bool va_vpp_fit(struct va *va, struct va_output *o, int w, int h,
                struct va_fault *fault);
void va_vpp_drop(struct va *va, struct va_output *o);
// What goes in and comes out: surfaces, and images of the same format.
bool va_vpp_surface(struct va *va, unsigned rt_format, uint32_t fourcc, int w,
                    int h, VASurfaceID *out, struct va_fault *fault);
bool va_vpp_image(struct va *va, uint32_t fourcc, int w, int h, VAImage *out,
                  struct va_fault *fault);
// crop: NULL = all. mirror: VA_MIRROR_*.
bool va_vpp_run(struct va *va, VASurfaceID from, const VARectangle *crop,
                unsigned mirror, const struct va_output *o,
                struct va_fault *fault);
// The output's pixels, 4 bytes each; unmap the image's buffer afterwards.
bool va_vpp_map(struct va *va, const struct va_output *o, uint8_t **data,
                struct va_fault *fault);
// To 3 bytes each, without gaps.
void va_vpp_pack(const struct va *va, const struct va_output *o,
                 const uint8_t *from, uint8_t *to);
// On the driver thread, once: va->vpp.mirrors of these kinds, by bits.
void va_vpp_try(struct va *va, unsigned kinds);

// ---- log.c -----------------------------------------------------------------

enum { VA_LINES = 8, VA_LINE = 320 };

// Said while va->calls was held: they wait until it is not, for the log is the
// user's.
struct va_lines {
    int n, lost;
    struct {
        enum hr_log_level level;
        char text[VA_LINE];
    } line[VA_LINES];
};

// To the log, unless this thread was left behind.
void va_log(struct va *va, enum hr_log_level level, const char *fmt, ...)
    HR_PRINTF(3, 4);
// Around calls under va->calls: this thread's lines go to that list; then they
// are said.
void va_log_keep(struct va_lines *lines);

// times.c: for traces and profiles. begin: of hr__watch_begin(), 0 = nothing.
void va_times_host(struct va *va, enum hr_part part, uint64_t picture,
                   int64_t begin);
// The waiter's: the wait for it has ended.
void va_times_picture(struct va *va, const struct va_slot *slot);
void va_log_say(struct va *va, struct va_lines *lines);

// ---- The device --------------------------------------------------------------

enum { VA_DRIVER, VA_WAITER, VA_THREADS };

// What hung threads may still touch: it is their own memory, left behind on
// purpose if they do not come back.
struct va {
    struct hr__guard guard;

    struct va_api api;
    char which[VA_TEXT];
    char node[VA_TEXT];  // the path that was opened, "" = caller's display
    VADisplay foreign;   // the caller's own display, or NULL
    VADisplay display;
    int fd;
    bool initialized;
    bool known;  // the facts are there, and do not change any more
    struct va_facts facts;
    char file[256];                     // the driver's, hr__library_text()
    struct va_lines lines[VA_THREADS];  // each its thread's
    VAConfigID config;
    VAContextID context;
    int context_w, context_h;
    struct {
        VAConfigID config;
        VAContextID context;
        int format;  // of what comes out
        bool tried;  // once; then these are known:
        // Of each kind of picture that goes in, what comes out right: bit
        // VA_MIRROR_*, bit 0 being colours alone. 0: it does not go in.
        unsigned mirrors[VA_KINDS];
    } vpp;
    struct va_slot slots[VA_SLOTS];
    int num_slots, depth, wish;  // wish: the depth the user wants, 0 = any
    size_t surface_bytes;        // of all slots, as far as we can tell
    bool by_host;                // the user wants it: nothing is shared
    bool shares;                 // surfaces are: lock, or the waiter
    enum va_rung rung;           // for what is not: lock, or the waiter
    VADisplay retired;           // others may still have it
    int retired_fd;
    bool sync2;  // vaSyncSurface2 works; of the waiter
    pthread_mutex_t calls;

    // Locked
    bool closing;  // nothing is waited for any more
    int users;     // of the display, or of the one that is retired
    bool waits;    // the driver thread, for its turn to submit
    uint64_t next_number;
    int64_t last_seen;  // the waiter's: when a picture was through

    _Atomic uint64_t pictures, most_in_flight;  // for tests
};

struct va_engine {  // what the HAL allocates
    struct va *va;
};

struct va *va_of(struct hr__engine *e);
// On the driver thread, once the driver is known: depth, rung, its file.
void va_choose(struct va *va);

// ---- offer.c -----------------------------------------------------------------

void va_offer(struct hr__engine *e, const struct hr__picture *pic,
              struct hr__offer *out);
// Which surface a picture needs.
void va_key_of(const struct va *va, const struct hr_info *info,
               struct va_key *key);

// ---- guard.c, thread.c, submit.c, waiter.c -----------------------------------

extern const struct hr__guard_ops va_guard_ops;
// Of it: the driver thread, the waiter.
enum hr_status va_open_first(void *va);
bool va_drive(void *va);
void va_wait_for_pictures(void *va);

// Left behind with a display that is the caller's: it may be gone. (One of our
// own the threads close when they can.)
bool va_barred(const struct va *va);
// Around calls to libva: if they take too long, the thread's tasks are gone. False: barred; call nothing (but leave),
// return at once.
bool va_enter(struct va *va, int thread);
bool va_leave(struct va *va, int thread);

// Waits for work and for a slot to do it in. NULL: stop.
struct va_slot *va_next_picture(struct va *va);
// Submits the picture of a BUSY slot, or ends its task.
void va_take_up(struct va *va, struct va_slot *slot);
// All slots but one are back; false: not until then. Locked
bool va_all_free(struct va *va, const struct va_slot *but, int64_t deadline);
void va_close_all(struct va *va);

#endif
