// SPDX-License-Identifier: Apache-2.0
// The data of a page, its pictures, and the file: page, data, page.
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// jpeglib.h wants these first.
#include <jpeglib.h>
#include <png.h>

#include "tools/common/manifest.h"
#include "tools/common/out_file.h"

#define TO_TEXT(x) #x
#define AS_TEXT(x) TO_TEXT(x)

// Leaves room for the page with its charts (200 kB) and the tables.
enum { MAX_IMAGE_BYTES = REPORT_MAX_BYTES - 600000 };

struct report {
    json_t *root, *facts;
    size_t image_bytes;  // of all pictures, as text
    bool failed;         // memory ran short
};

// The page on both sides of the data, as the build put it together.
extern const char report_page_head[], report_page_tail[];

// ---- Data ------------------------------------------------------------------

void report_set(struct report *r, const char *key, json_t *value)
{
    if (!r)
        json_decref(value);
    else if (json_object_set_new(r->root, key, value))
        r->failed = true;
}

void report_fact(struct report *r, const char *name, const char *format, ...)
{
    char text[8192];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (r &&
        json_array_append_new(r->facts, json_pack("[o, o]", manifest_text(name),
                                                  manifest_text(text))))
        r->failed = true;
}

static json_t *date(void)
{
    time_t now = time(NULL);
    char text[64] = "";
    struct tm tm;

    if (localtime_r(&now, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &tm);
    return json_string(text);
}

struct report *report_new(const char *title, int argc, char *const *argv)
{
    struct report *r = calloc(1, sizeof(*r));
    json_t *words = json_array();

    if (!r) {
        json_decref(words);
        return NULL;
    }
    r->root = json_object();
    for (int i = 0; i < argc; i++)
        if (json_array_append_new(words, manifest_text(argv[i])))
            r->failed = true;
    report_set(r, "title", manifest_text(title));
    report_set(r, "date", date());
    report_set(r, "command", words);
    report_set(r, "facts", r->facts = json_array());
    report_fact(r, "headrace", "%s", hr_version());
    report_fact(r, "reference", "%s, %s",
                hr_reference_name(hr_device_reference(NULL)),
                hr_jpeg_library());
    report_fact(r, "built with", "libjpeg-turbo %s, libpng %s",
                AS_TEXT(LIBJPEG_TURBO_VERSION), PNG_LIBPNG_VER_STRING);
    return r;
}

void report_free(struct report **report)
{
    if (!report || !*report)
        return;
    json_decref((*report)->root);
    free(*report);
    *report = NULL;
}

// ---- Pictures --------------------------------------------------------------

// RFC 4648; free(). NULL: out of memory.
static char *data_uri(const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                                 "tuvwxyz0123456789+/";
    static const char head[] = "data:image/png;base64,";
    char *text = malloc(sizeof(head) + (size + 2) / 3 * 4), *out;

    if (!text)
        return NULL;
    out = stpcpy(text, head);
    for (size_t i = 0; i < size; i += 3) {
        unsigned bits = (unsigned)data[i] << 16;

        if (i + 1 < size)
            bits |= (unsigned)data[i + 1] << 8;
        if (i + 2 < size)
            bits |= data[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    *out = '\0';
    return text;
}

// NULL: out of memory.
static char *encode(const uint8_t *rgb, int w, int h)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION,
        .width = (png_uint_32)w,
        .height = (png_uint_32)h,
        .format = PNG_FORMAT_RGB,
    };
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *png = malloc(size);
    char *uri = NULL;

    if (png && png_image_write_to_memory(&image, png, &size, 0, rgb, 0, NULL))
        uri = data_uri(png, size);
    free(png);
    return uri;
}

static json_t *new_picture(struct report *r, const char *caption,
                           const uint8_t *rgb, int w, int h)
{
    char *uri = encode(rgb, w, h);
    size_t size = uri ? strlen(uri) : 0;
    bool fits = uri && r->image_bytes + size <= MAX_IMAGE_BYTES;
    json_t *picture = json_pack("{s:o, s:i, s:i, s:s*}", "caption",
                                manifest_text(caption), "w", w, "h", h, "src",
                                fits ? uri : NULL);

    r->image_bytes += fits ? size : 0;
    r->failed |= !uri || !picture;
    free(uri);
    return picture;
}

static uint8_t *new_rgb(struct report *r, int w, int h)
{
    uint8_t *rgb = malloc(3 * (size_t)w * (size_t)h);

    if (!rgb)
        r->failed = true;
    return rgb;
}

json_t *report_picture(struct report *r, const char *caption,
                       const uint8_t *pixels, int w, int h, int c)
{
    uint8_t *rgb = r ? new_rgb(r, w, h) : NULL;
    json_t *picture;

    if (!rgb)
        return NULL;
    for (size_t i = 0; i < 3 * (size_t)w * (size_t)h; i++)
        rgb[i] = c == 3 ? pixels[i] : pixels[i / 3];
    picture = new_picture(r, caption, rgb, w, h);
    free(rgb);
    return picture;
}

// 0 .. 255 to black, red, yellow, white: brightness grows all the way.
static void heat(int v, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(v * 3 > 255 ? 255 : v * 3);
    rgb[1] = (uint8_t)(v < 85 ? 0 : v * 3 > 510 ? 255 : v * 3 - 255);
    rgb[2] = (uint8_t)(v < 170 ? 0 : (v - 170) * 3);
}

json_t *report_difference(struct report *r, const uint8_t *a, const uint8_t *b,
                          int w, int h, int c)
{
    size_t num = (size_t)w * (size_t)h;
    uint8_t *rgb = r ? new_rgb(r, w, h) : NULL;
    int largest = 0, gain;
    char caption[64];
    json_t *picture;

    if (!rgb)
        return NULL;
    for (size_t i = 0; i < num * (size_t)c; i++)
        largest = abs(a[i] - b[i]) > largest ? abs(a[i] - b[i]) : largest;
    gain = largest ? 255 / largest : 1;
    for (size_t i = 0; i < num; i++) {
        int v = 0;

        for (size_t k = i * (size_t)c; k < (i + 1) * (size_t)c; k++)
            v = abs(a[k] - b[k]) > v ? abs(a[k] - b[k]) : v;
        heat(v * gain > 255 ? 255 : v * gain, rgb + 3 * i);
    }
    if (gain > 1)
        snprintf(caption, sizeof(caption), "difference, times %d", gain);
    else
        snprintf(caption, sizeof(caption), "difference");
    picture = new_picture(r, caption, rgb, w, h);
    free(rgb);
    return picture;
}

// ---- The file --------------------------------------------------------------

// The data stands in a <script>: no byte of it may look like its end. Inside
// of JSON these characters are in strings only, where \u means the same.
static bool put_data(struct out_file *file, const char *json)
{
    while (*json) {
        size_t plain = strcspn(json, "<>&");
        char escape[8];

        if (!out_file_write(file, json, plain))
            return false;
        json += plain;
        if (*json) {
            snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)*json++);
            if (!out_file_write(file, escape, 6))
                return false;
        }
    }
    return true;
}

static bool put_all(struct out_file *file, const char *path, const char *json)
{
    return out_file_open(file, path) &&
           out_file_write(file, report_page_head, strlen(report_page_head)) &&
           put_data(file, json) &&
           out_file_write(file, report_page_tail, strlen(report_page_tail)) &&
           out_file_close(file) && out_file_rename(file);
}

bool report_write(struct report *r, const char *path)
{
    struct out_file file = OUT_FILE_CLOSED;
    char *json = NULL;
    bool ok;
    int error;

    if (r && !r->failed)
        json = json_dumps(r->root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!json) {
        errno = ENOMEM;
        return false;
    }
    ok = put_all(&file, path, json);
    error = errno;
    out_file_discard(&file);
    free(json);
    errno = error;
    return ok;
}

bool report_writable(const char *path)
{
    struct out_file file = OUT_FILE_CLOSED;
    struct hr_info info;
    bool ok = out_file_open(&file, path);
    int error = errno;

    // --report *.jpg means something else.
    if (ok && hr_probe_path(path, NULL, &info) == HR_OK) {
        ok = false;
        error = EEXIST;
    }
    out_file_discard(&file);
    errno = error;
    return ok;
}
