// SPDX-License-Identifier: Apache-2.0
// Private to the software VA driver. README.md tells what it does.
//
// Locks: display->lock guards all objects of a display, their tickets and the
// queue. control.c has one for options and faults; it is taken last, also by
// holders of the other. Pixels are touched without a lock: the tickets of a
// surface say whose turn it is.
#ifndef VA_DRIVER_DRIVER_H
#define VA_DRIVER_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <va/va_backend.h>
#include <va/va_backend_vpp.h>
#include <va/va_drmcommon.h>

#include "control.h"

enum {
    MAX_PLANES = 3,
    MAX_CHANNELS = 4,
    MAX_FOURCCS = 16,
    MAX_SCANS = 4,
    MAX_REGIONS = 8,  // pipeline buffers of one picture
    MAX_WORKERS = 16,
};

// ---- formats (format.c) -----------------------------------------------------

struct component {
    uint8_t plane, offset, step;  // bytes from one sample to the next
    uint8_t xs, ys;               // subsampling, as shifts
};

struct plane {
    uint8_t xs, bytes, ys;  // `bytes` for 1 << xs pixels; rows >> ys
};

struct format {
    uint32_t fourcc;
    uint32_t rt;
    bool rgb;
    bool luma_pitch;  // chroma planes have luma's pitch
    int num_components, num_planes;
    struct component components[MAX_CHANNELS];  // Y U V, or R G B A
    struct plane planes[MAX_PLANES];
    uint32_t drm;                     // as one layer; 0: DRM has none
    uint32_t drm_planes[MAX_PLANES];  // a layer each
};

struct layout {
    const struct format *format;
    int width, height;  // that memory is there for, not what was asked for
    uint32_t pitch[MAX_PLANES], offset[MAX_PLANES];
    size_t size;
};

// Pixels, shared by a surface, derived images and pictures in work.
struct memory {
    atomic_int refs;
    int fd;  // -1: heap
    uint8_t *bytes;
    uint64_t modifier;
    struct layout layout;
};

const struct format *format_of(uint32_t fourcc);
void layout_make(struct layout *l, const struct format *f, int w, int h,
                 uint32_t pitch_align, uint32_t first);
struct memory *memory_create(const struct layout *l, bool shared);
struct memory *memory_ref(struct memory *m);
void memory_unref(struct memory *m);
uint8_t *memory_at(const struct memory *m, const struct component *c, int x,
                   int y);
bool memory_copy(struct memory *to, int to_x, int to_y,
                 const struct memory *from, int from_x, int from_y, int w,
                 int h);

// ---- personalities (personality.c) ------------------------------------------

enum {
    PERSON_SERIAL = 1 << 0,       // two threads in it at once: a violation
    PERSON_NO_STATUS = 1 << 1,    // QuerySurfaceStatus is not implemented
    PERSON_NO_SYNC2 = 1 << 2,     // SyncSurface2 is missing
    PERSON_MUTE_STATUS = 1 << 3,  // QuerySurfaceStatus writes nothing
    PERSON_NO_SYNC = 1 << 4,      // SyncSurface does not wait for a decode
    PERSON_NO_CONVERT = 1 << 5,   // GetImage converts nothing
    PERSON_NO_OFFSET = 1 << 6,    // slice_data_offset and size are ignored
    PERSON_LIMITED = 1 << 7,      // YUV to RGB always as limited range
    PERSON_NO_SCALE = 1 << 8,     // the video processor cannot scale
    PERSON_KEEP_TABLES = 1 << 9,  // tables of earlier pictures stay valid
    PERSON_DC_12 = 1 << 10,       // only 12 lengths of DC codes arrive
    PERSON_RESHAPE = 1 << 11,     // a decode gives the surface its layout
    PERSON_NO_FOURCC = 1 << 12,   // refuses to decode into a chosen fourcc
    PERSON_444 = 1 << 13,         // NV12 becomes 444P by a 4:4:4 picture
    PERSON_NO_LIMITS = 1 << 14,   // no MaxPicture attributes
    PERSON_NO_VPP = 1 << 15,
    PERSON_BAD_GREY = 1 << 16,      // grey with factors other than 1x1 fails
    PERSON_CONVERT_NV12 = 1 << 17,  // GetImage: NV12 to I420, YV12 only
    PERSON_FAKE_YUYV = 1 << 18,     // derives and exports YUY2 as 'YUYV'
    PERSON_NO_EXPORT = 1 << 19,
    PERSON_CONVERT_420 = 1 << 21,   // GetImage between all of 4:2:0
    PERSON_LIKE_DERIVED = 1 << 20,  // images are laid out as surfaces
    PERSON_ONE_MIRROR = 1 << 22,    // mirrored both ways is not mirrored
};

struct personality {
    const char *name, *vendor;
    uint32_t decode_rt, vpp_rt;
    uint32_t decode_fourccs[MAX_FOURCCS];  // as listed; ends with 0
    uint32_t vpp_fourccs[MAX_FOURCCS];
    uint32_t image_fourccs[MAX_FOURCCS];
    // The format that a decode writes into a surface without a fourcc, and with
    // PERSON_RESHAPE into any: 4:0:0 4:2:0 4:2:2 4:4:0 4:4:4 4:1:1; 0: refused.
    uint32_t by_sampling[6];
    int min_size, max_size, vpp_min_size, max_targets;
    int align;  // of surfaces' memory, pixels
    uint32_t rotation_flags, mirror_flags;
    uint32_t flags;
};

extern const struct personality personalities[];
const struct personality *personality_find(const char *name);
bool lists(const uint32_t *fourccs, uint32_t fourcc);

// ---- options, faults, counters (control.c, fault.c) -------------------------

enum idct { IDCT_ISLOW, IDCT_IFAST, IDCT_FLOAT };
enum damage { DAMAGE_REPORT, DAMAGE_LIST, DAMAGE_SILENT };

struct options {
    const struct personality *person;
    long latency_us, workers, cores;
    long pitch, offset;  // alignment of pitches, bytes before the first plane
    uint64_t modifier;
    enum idct idct;
    long deviate;
    uint32_t deviate_in;  // only in surfaces of that format; 0: in all
    enum damage damage;
    uint32_t clear, set;  // PERSON_ flags changed by hand
    // The input formats of the video processor that go wrong, by fault; 0:
    // none.
    uint32_t vpp_swap, vpp_no_flip, vpp_no_crop;
};

enum fault_what {
    FAULT_NONE,
    FAULT_STATUS,
    FAULT_HANG,
    FAULT_WAIT,
    FAULT_SLEEP,
    FAULT_STALE,  // these: of pixels
    FAULT_ZERO,
    FAULT_WRONG,
};

struct fault {
    enum fault_what what;
    long value;  // status, or milliseconds
};

extern struct va_driver_counters counters;
void count(long *counter, long by);
void options_get(struct options *o);
int options_apply(const char *text);
int fault_parse(const char *text);
void fault_clear(void);
// Returns the fault planned for this call, if any; counts the call.
struct fault fault_next(enum va_driver_call call);
// The fault of a call: sleeps, hangs until released, and returns its status.
VAStatus fault_enter(enum va_driver_call call);
void fault_release(void);
unsigned long fault_generation(void);

// ---- objects (objects.c) ----------------------------------------------------

enum kind {
    KIND_CONFIG = 1,
    KIND_CONTEXT,
    KIND_SURFACE,
    KIND_BUFFER,
    KIND_IMAGE,
    NUM_KINDS
};

struct config {
    VAProfile profile;
    VAEntrypoint entrypoint;
    uint32_t rt;
};

struct surface {
    uint32_t rt, fourcc;
    bool fourcc_chosen;
    int width, height;
    struct memory *memory;
    uint64_t issued, served;  // tickets: whose turn it is
    VAStatus error;           // of the picture that was made last
    bool decoding;            // the last ticket is a decode
    int waiters;              // threads that wait for it
    VASurfaceDecodeMBErrors errors[2];
};

struct buffer {
    VABufferType type;
    unsigned size, elements;  // of one element; how many
    uint8_t *bytes;
    struct memory *memory;  // of an image's buffer; `bytes` point into it
    VASurfaceID surface;    // of a derived image: mapping waits for it
    int maps;
};

struct image {
    VAImage va;
    struct memory *memory;
};

struct scan {
    VASliceParameterBufferJPEGBaseline slice;
    VAIQMatrixBufferJPEGBaseline iq;
    VAHuffmanTableBufferJPEGBaseline huffman;
    uint8_t *bytes;
    size_t size;
};

struct region {
    VAProcPipelineParameterBuffer params;  // pointers in it are not used
    VARectangle from, to;
    bool has_from, has_to;
    struct surface *source;
    uint64_t ticket;
};

// A picture that Begin..End collect, and the worker makes.
struct picture {
    struct picture *next;
    VAEntrypoint entrypoint;
    struct context *context;
    VASurfaceID target_id;
    struct surface *target;
    uint64_t ticket;
    bool has_params, has_slice;
    VAPictureParameterBufferJPEGBaseline params;
    VASliceParameterBufferJPEGBaseline slice;  // waits for its data
    int num_scans, num_regions;
    struct scan scans[MAX_SCANS];
    struct region regions[MAX_REGIONS];
    VAStatus status;  // of Render: End refuses
    struct fault fault;
    unsigned long generation;  // of a hang
    uint64_t due;              // nanoseconds
};

struct context {
    struct config config;
    int width, height, flags;
    struct picture *open;
    pthread_t owner;  // of the open picture
    long pending;
    VAIQMatrixBufferJPEGBaseline iq;
    VAHuffmanTableBufferJPEGBaseline huffman;
};

struct heap {
    void **slots;
    uint32_t *generations;
    size_t size;
};

struct display {
    pthread_mutex_t lock;
    pthread_cond_t change;  // a picture ended, or was queued
    struct options options;
    struct personality person;  // with the flags changed by hand
    struct heap heaps[NUM_KINDS];
    atomic_int inside;
    struct picture *queue, **queue_end;  // not begun
    struct picture *late;                // made, not yet due
    long working;
    bool stop;
    int num_workers;
    pthread_t workers[MAX_WORKERS];
    char vendor[160];
};

struct display *display_of(VADriverContextP ctx);
uint32_t object_add(struct display *d, enum kind kind, void *object);
void *object_get(struct display *d, enum kind kind, uint32_t id);
void *object_peek(struct display *d, enum kind kind, uint32_t id);
void *object_take(struct display *d, enum kind kind, uint32_t id);
void *object_any(struct display *d, enum kind kind, uint32_t *id);
void heaps_finish(struct display *d);

// ---- surfaces (surface.c), images (image.c) ---------------------------------

VAStatus surface_reshape(struct display *d, struct surface *s, uint32_t fourcc);
void surface_free(struct surface *s);
// Under the lock: waits until the picture with the last ticket ended.
void surface_wait(struct display *d, struct surface *s);
void buffer_free(struct buffer *b);
VAStatus image_destroy(struct display *d, VAImageID id);

// ---- pictures (context.c, queue.c, decode.c, jpeg.c, vpp.c, log.c) ----------

void picture_free(struct picture *p);
void context_free(struct display *d, struct context *c);
VAStatus queue_add(struct display *d, struct picture *p);
void queue_finish(struct display *d);
uint64_t now_ns(void);
VAStatus render_jpeg(struct display *d, struct context *c, struct buffer *b);
VAStatus render_pipeline(struct display *d, struct context *c,
                         struct buffer *b);
VAStatus jpeg_check(const struct display *d, const struct picture *p);
VAStatus decode_run(struct display *d, struct picture *p);
VAStatus vpp_run(struct display *d, struct picture *p);
void log_open(const char *path);
void log_picture(const struct picture *p);
void log_end(void);

// A JPEG file of the buffers; the caller frees it. NULL: no memory.
uint8_t *jpeg_assemble(const struct picture *p, size_t *size);
// Index into by_sampling[]; -1: none of those.
int jpeg_sampling(const VAPictureParameterBufferJPEGBaseline *pp);

// The exported one of control.h.
va_driver_control_fn headrace_va_control;

// ---- the calls, behind the thunks of calls.c --------------------------------

void calls_init(VADriverContextP ctx, const struct personality *person);

#endif
