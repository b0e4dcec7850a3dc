// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include <jerror.h>

// The data are handed out in pieces so that stop() is asked while rows are
// skipped: libjpeg reports no progress there. Large, because libjpeg-turbo's
// fast Huffman path rests near the end of a piece.
#define PIECE ((size_t)256 << 10)

struct cpu_jpeg_state {
    // As jpeg_create_decompress() left it, with libjpeg's memory manager. A
    // decoder works on a copy: what a picture leaves behind in the fields goes
    // with the copy, and what it leaves in libjpeg's objects is reset by the
    // next jpeg_read_header().
    struct jpeg_decompress_struct fresh;
    struct jpeg_error_mgr error;
    const struct cpu_heap *heap;
    jmp_buf jump;
    bool busy;
};

static struct cpu_jpeg *decoder_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

// ---- errors ----

static enum cpu_result classify(int code)
{
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        return CPU_NOMEM;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
    case JERR_WIDTH_OVERFLOW:
        return CPU_UNSUPPORTED;
    default:
        return CPU_CORRUPT;
    }
}

static int64_t offset_of(const struct cpu_jpeg *d)
{
    return (int64_t)(d->given - d->source.bytes_in_buffer);
}

// libjpeg's text as a clause: without the words that the result says already.
static const char *message(j_common_ptr cinfo, char text[JMSG_LENGTH_MAX])
{
    static const char prefix[] = "Corrupt JPEG data: ";

    cinfo->err->format_message(cinfo, text);
    if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
        return text + sizeof(prefix) - 1;
    return text;
}

static void on_error(j_common_ptr cinfo)
{
    struct cpu_jpeg *d = decoder_of(cinfo);
    char text[JMSG_LENGTH_MAX];

    d->base.err.offset = offset_of(d);
    cpu_decode_throw(&d->base, classify(cinfo->err->msg_code),
                     message(cinfo, text));
}

// Levels above -1 are traces. Formatting only the first warning keeps a file
// with millions of them cheap.
static void on_message(j_common_ptr cinfo, int level)
{
    struct cpu_jpeg *d = decoder_of(cinfo);
    char text[JMSG_LENGTH_MAX];

    if (level >= 0)
        return;
    if (cinfo->err->num_warnings < INT_MAX)
        cinfo->err->num_warnings++;
    cpu_decode_warn(&d->base, d->base.err.warnings ? "" : message(cinfo, text));
}

static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void on_progress(j_common_ptr cinfo)
{
    struct cpu_jpeg *d = decoder_of(cinfo);

    d->base.err.offset = offset_of(d);
    cpu_decode_check_stop(&d->base);
}

// ---- source ----

static void no_source(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

// Pillow's source suspends here (JpegDecode.c). If that happens before the
// last row is out, the file is truncated to it, even if the bits at hand would
// do; afterwards it does not care.
static _Noreturn void truncated(struct cpu_jpeg *d)
{
    if (d->tail) {
        cpu_decode_warn(&d->base, "no end marker");
        cpu_decode_throw(&d->base, CPU_OK, "");
    }
    d->base.err.offset = (int64_t)d->base.p.size;
    cpu_decode_throw(&d->base, CPU_TRUNCATED, "before the last row");
}

static boolean fill(j_decompress_ptr cinfo)
{
    struct cpu_jpeg *d = decoder_of((j_common_ptr)cinfo);
    size_t n = d->base.p.size - d->given;

    if (n == 0)
        truncated(d);
    if (d->given)
        on_progress((j_common_ptr)cinfo);
    n = n < PIECE ? n : PIECE;
    d->source.next_input_byte = d->base.p.data + d->given;
    d->source.bytes_in_buffer = n;
    d->given += n;
    return TRUE;
}

static void skip(j_decompress_ptr cinfo, long bytes)
{
    struct cpu_jpeg *d = decoder_of((j_common_ptr)cinfo);
    size_t n = bytes > 0 ? (size_t)bytes : 0;

    if (n > d->source.bytes_in_buffer) {
        n -= d->source.bytes_in_buffer;
        d->source.bytes_in_buffer = 0;
        if (n > d->base.p.size - d->given)
            truncated(d);
        d->given += n;
    } else {
        d->source.next_input_byte += n;
        d->source.bytes_in_buffer -= n;
    }
}

// ---- libjpeg's objects ----

static void state_error(j_common_ptr cinfo)
{
    struct cpu_jpeg_state *s = cinfo->client_data;

    longjmp(s->jump, 1);
}

struct cpu_jpeg_state *cpu_jpeg_state_create(const struct cpu_heap *heap)
{
    struct cpu_jpeg_state *s = heap->alloc(heap->ctx, sizeof(*s));

    if (!s)
        return NULL;
    memset(s, 0, sizeof(*s));
    s->heap = heap;
    s->fresh.err = jpeg_std_error(&s->error);
    s->fresh.client_data = s;
    s->error.error_exit = state_error;
    s->error.output_message = no_output;
    if (setjmp(s->jump)) {
        cpu_jpeg_state_destroy(&s);
        return NULL;
    }
    jpeg_create_decompress(&s->fresh);
    return s;
}

void cpu_jpeg_state_destroy(struct cpu_jpeg_state **state)
{
    struct cpu_jpeg_state *s = *state;

    *state = NULL;
    if (!s)
        return;
    assert(!s->busy);
    jpeg_destroy_decompress(&s->fresh);
    s->heap->free(s->heap->ctx, s, sizeof(*s));
}

static void take_state(struct cpu_jpeg *d)
{
    struct cpu_jpeg_state *s = d->base.p.jpeg;

    if (!s || s->busy) {
        s = cpu_jpeg_state_create(d->base.pool.arena->heap);
        if (!s)
            cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
        d->own_state = true;
    }
    s->busy = true;
    d->state = s;
}

void cpu_jpeg_close(struct cpu_decode *base)
{
    struct cpu_jpeg *d = cpu_jpeg_of(base);

    if (!d->state)
        return;
    d->state->busy = false;
    if (d->own_state)
        cpu_jpeg_state_destroy(&d->state);
}

static void wire(struct cpu_jpeg *d)
{
    d->cinfo = d->state->fresh;
    d->cinfo.client_data = d;
    d->cinfo.err = jpeg_std_error(&d->error);
    d->error.error_exit = on_error;
    d->error.emit_message = on_message;
    d->error.output_message = no_output;
    cpu_jpeg_memory_init(&d->memory, &d->base.pool);
    d->cinfo.mem = &d->memory.pub;
    d->source = (struct jpeg_source_mgr){
        .init_source = no_source,
        .fill_input_buffer = fill,
        .skip_input_data = skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = no_source,
    };
    d->cinfo.src = &d->source;
    if (d->base.p.stop) {
        d->progress.progress_monitor = on_progress;
        d->cinfo.progress = &d->progress;
    }
}

void cpu_jpeg_begin(struct cpu_jpeg *d)
{
    const struct cpu_decode_params *p = &d->base.p;
    struct jpeg_decompress_struct *cinfo = &d->cinfo;

    take_state(d);
    wire(d);
    jpeg_read_header(cinfo, TRUE);
    if (cinfo->image_width != (JDIMENSION)p->width ||
        cinfo->image_height != (JDIMENSION)p->height)
        cpu_jpeg_refuse(d, CPU_CORRUPT,
                        "header and decoder disagree about the size");
    if (cinfo->data_precision != 8)
        cpu_jpeg_refuse(d, CPU_UNSUPPORTED, "more than 8 bits per sample");
}

void cpu_jpeg_refuse(struct cpu_jpeg *d, enum cpu_result result,
                     const char *text)
{
    d->base.err.offset = offset_of(d);
    cpu_decode_throw(&d->base, result, text);
}

// ---- coefficients and planes ----

struct cpu_decode *cpu_jpeg_whole(const struct cpu_decode_kind *kind,
                                  const struct cpu_decode_params *p,
                                  const struct cpu_ops *ops,
                                  struct cpu_arena *arena,
                                  struct cpu_decode_error *err)
{
    struct cpu_mark mark = cpu_arena_mark(arena);
    struct cpu_decode *d = cpu_decode_open(kind, p, ops, arena, err);
    bool ok;

    if (!d)
        return NULL;
    ok = cpu_decode_guard(d, kind->rows);
    cpu_decode_close(d, false, err);
    if (ok)
        return d;
    // "No end marker", which rows survive.
    if (err->result == CPU_OK)
        err->result = CPU_CORRUPT;
    cpu_arena_reset(arena, mark);
    return NULL;
}

enum hr_color cpu_jpeg_color(struct cpu_jpeg *d)
{
    const struct jpeg_decompress_struct *cinfo = &d->cinfo;

    if (cinfo->jpeg_color_space == JCS_GRAYSCALE && cinfo->num_components == 1)
        return HR_COLOR_GRAY;
    if (cinfo->jpeg_color_space == JCS_YCbCr && cinfo->num_components == 3)
        return HR_COLOR_YCC;
    if (cinfo->jpeg_color_space == JCS_RGB && cinfo->num_components == 3)
        return HR_COLOR_RGB;
    cpu_jpeg_refuse(d, CPU_UNSUPPORTED, "colour space");
}

void cpu_jpeg_refuse_damage(struct cpu_jpeg *d)
{
    if (d->base.err.warnings)
        cpu_jpeg_refuse(d, CPU_CORRUPT, d->base.warning);
}
