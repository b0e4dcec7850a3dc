// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "decode_impl.h"
#include "jpeg_memory.h"

// The data are handed out in pieces so that stop() is asked while rows are
// skipped: libjpeg reports no progress there. Large, because libjpeg-turbo's
// fast Huffman path rests near the end of a piece.
#define PIECE ((size_t)256 << 10)
// What libjpeg may still ask for after open: tables between the end of the
// picture and EOI, at most 4 + 8 of them and below 400 bytes each.
#define RESERVE 8192

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

struct jpeg_decode {
    struct cpu_decode base;
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct cpu_jpeg_memory memory;
    struct cpu_jpeg_state *state;
    bool own_state;
    bool tail;     // all rows are out
    size_t given;  // bytes of the data handed out so far
    int comps;     // bytes per pixel of libjpeg's rows
    int left;      // the window's first pixel in them
};

static struct jpeg_decode *jpeg_decode(struct cpu_decode *d)
{
    return (struct jpeg_decode *)d;
}

static struct jpeg_decode *decoder_of(j_common_ptr cinfo)
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

static int64_t offset_of(const struct jpeg_decode *d)
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
    struct jpeg_decode *d = decoder_of(cinfo);
    char text[JMSG_LENGTH_MAX];

    d->base.err.offset = offset_of(d);
    cpu_decode_throw(&d->base, classify(cinfo->err->msg_code),
                     message(cinfo, text));
}

// Levels above -1 are traces. Formatting only the first warning keeps a file
// with millions of them cheap.
static void on_message(j_common_ptr cinfo, int level)
{
    struct jpeg_decode *d = decoder_of(cinfo);
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
    struct jpeg_decode *d = decoder_of(cinfo);

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
static _Noreturn void truncated(struct jpeg_decode *d)
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
    struct jpeg_decode *d = decoder_of((j_common_ptr)cinfo);
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
    struct jpeg_decode *d = decoder_of((j_common_ptr)cinfo);
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

static void take_state(struct jpeg_decode *d)
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

static void close_jpeg(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);

    if (!d->state)
        return;
    d->state->busy = false;
    if (d->own_state)
        cpu_jpeg_state_destroy(&d->state);
}

static void wire(struct jpeg_decode *d)
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

// ---- opening ----

static _Noreturn void refuse(struct jpeg_decode *d, enum cpu_result result,
                             const char *text)
{
    d->base.err.offset = offset_of(d);
    cpu_decode_throw(&d->base, result, text);
}

// Pillow's choice of mode per number of components (JpegImagePlugin.py). Four
// are always CMYK to it, whatever marker the file has.
static void choose_output(struct jpeg_decode *d)
{
    const struct cpu_decode_params *p = &d->base.p;
    struct jpeg_decompress_struct *cinfo = &d->cinfo;

    if (cinfo->image_width != (JDIMENSION)p->width ||
        cinfo->image_height != (JDIMENSION)p->height)
        refuse(d, CPU_CORRUPT, "header and decoder disagree about the size");
    if (cinfo->data_precision != 8)
        refuse(d, CPU_UNSUPPORTED, "more than 8 bits per sample");
    switch (cinfo->num_components) {
    case 1:
        cinfo->out_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        break;
    case 3:
        cinfo->out_color_space = JCS_RGB;
        break;
    case 4:
        cinfo->out_color_space = JCS_CMYK;
        break;
    default:
        refuse(d, CPU_UNSUPPORTED, "number of components");
    }
}

// Block smoothing looks two blocks to the left, but with a cropped width it
// takes the first block of the crop for the edge of the picture (jdcoefct.c).
// It is used when a progressive file left some of the coefficients that it
// estimates unknown or coarse; asking about all of them is on the safe side.
static bool may_smooth(const struct jpeg_decompress_struct *cinfo)
{
    if (!cinfo->progressive_mode || !cinfo->coef_bits)
        return false;
    for (int c = 0; c < cinfo->num_components; c++)
        for (int i = 0; i < DCTSIZE2; i++)
            if (cinfo->coef_bits[c][i] != 0)
                return true;
    return false;
}

// Has libjpeg decode only the columns that the window needs. Where a component
// is upsampled horizontally, the outermost column at a cut lacks its
// neighbour: one more is asked for and dropped. Two iMCUs at least, because
// below 3 samples per row the upsampler becomes another one (jdsample.c).
static void crop(struct jpeg_decode *d)
{
    struct jpeg_decompress_struct *cinfo = &d->cinfo;
    const struct cpu_rect *w = &d->base.p.window;
    int unit = DCTSIZE * cinfo->max_h_samp_factor;
    int margin = 0, left, right;
    JDIMENSION x, width;

    d->left = w->x;
    if (may_smooth(cinfo))
        return;
    for (int c = 0; c < cinfo->num_components; c++)
        if (cinfo->comp_info[c].h_samp_factor != cinfo->max_h_samp_factor)
            margin = 1;
    left = w->x > margin ? (w->x - margin) / unit * unit : 0;
    right = w->x + w->w + margin;
    if (right - left < 2 * unit) {
        left = left > unit ? left - unit : 0;
        right = right - left < 2 * unit ? left + 2 * unit : right;
    }
    right = right < d->base.p.width ? right : d->base.p.width;
    x = (JDIMENSION)left;
    width = (JDIMENSION)(right - left);
    if (width == cinfo->output_width)
        return;
    jpeg_crop_scanline(cinfo, &x, &width);
    d->left = w->x - (int)x;
}

static void open_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->cinfo;

    take_state(d);
    wire(d);
    jpeg_read_header(cinfo, TRUE);
    choose_output(d);
    jpeg_start_decompress(cinfo);
    crop(d);
    d->comps = cinfo->output_components;
    cpu_decode_alloc_lines(base, (size_t)cinfo->output_width * d->comps);
    if (!cpu_pool_seal(&base->pool, RESERVE))
        refuse(d, CPU_NOMEM, "out of memory");
    // One skip, from the top: a skip that starts inside a row group gives
    // wrong rows (libjpeg-turbo issue 915).
    if (base->p.window.y)
        jpeg_skip_scanlines(cinfo, (JDIMENSION)base->p.window.y);
}

// ---- rows ----

static void read_lines(struct jpeg_decode *d, int want)
{
    JSAMPROW lines[CPU_DECODE_ROWS];
    int got = 0;

    for (int i = 0; i < want; i++)
        lines[i] = d->base.lines + (size_t)i * d->base.pitch;
    while (got < want) {
        int n = (int)jpeg_read_scanlines(&d->cinfo, lines + got,
                                         (JDIMENSION)(want - got));

        // Only a source that suspends could make it stop here.
        if (n == 0)
            refuse(d, CPU_CORRUPT, "no more rows");
        got += n;
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    const struct cpu_ops *ops = base->ops;
    int width = base->p.window.w;

    read_lines(d, base->max);
    for (int i = 0; i < base->max; i++) {
        uint8_t *row = base->lines + (size_t)i * base->pitch +
                       (size_t)d->left * d->comps;

        if (d->comps == 4)
            ops->cmyk_to_rgb(row, row, width);
        if (d->comps >= 3 && base->p.channels == 1)
            ops->rgb_to_gray(row, row, width);
        base->rows[i] = row;
    }
    base->got = base->max;
}

// A file of several scans was read to its end by jpeg_start_decompress().
static void finish_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->cinfo;

    if (jpeg_has_multiple_scans(cinfo))
        return;
    while (cinfo->output_scanline < cinfo->output_height) {
        JDIMENSION left = cinfo->output_height - cinfo->output_scanline;

        // Without vertical subsampling rows can be skipped from anywhere.
        if (cinfo->max_v_samp_factor == 1 && left > 1)
            left -= jpeg_skip_scanlines(cinfo, left - 1);
        read_lines(d, left < CPU_DECODE_ROWS ? (int)left : CPU_DECODE_ROWS);
    }
    d->tail = true;
    jpeg_finish_decompress(cinfo);
}

static const struct cpu_decode_kind jpeg_kind = {
    .size = sizeof(struct jpeg_decode),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
    .close = close_jpeg,
};

struct cpu_decode *cpu_jpeg_open(const struct cpu_decode_params *p,
                                 const struct cpu_ops *ops,
                                 struct cpu_arena *arena,
                                 struct cpu_decode_error *err)
{
    return cpu_decode_open(&jpeg_kind, p, ops, arena, err);
}
