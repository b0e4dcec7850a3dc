// SPDX-License-Identifier: Apache-2.0
// Pictures in a report, and its file: page, data, page.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "parts.h"
#include "tools/common/manifest.h"
#include "tools/common/out_file.h"

// Leaves room for the page with its charts (200 kB) and the tables.
enum { MAX_IMAGE_BYTES = REPORT_MAX_BYTES - 600000 };

// ---- Pictures --------------------------------------------------------------

void report_pictures(struct report *r, const char *title, const char *text)
{
    report_add(r, json_pack("{s:s, s:o, s:o, s:[]}", "is", "pictures", "title",
                            manifest_text(title), "text", report_or_null(text),
                            "list"));
}

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

static void add_picture(struct report *r, const char *caption,
                        const uint8_t *rgb, int w, int h)
{
    json_t *picture = json_pack("{s:o, s:i, s:i}", "caption",
                                manifest_text(caption), "w", w, "h", h);
    char *uri = encode(rgb, w, h);

    if (!uri) {
        r->failed = true;
    } else if (r->image_bytes + strlen(uri) <= MAX_IMAGE_BYTES) {
        r->image_bytes += strlen(uri);
        report_set(r, picture, "src", json_string(uri));
    }
    free(uri);
    report_append(r, report_last(r, "list"), picture);
}

static uint8_t *new_rgb(struct report *r, int w, int h)
{
    uint8_t *rgb = malloc(3 * (size_t)w * (size_t)h);

    if (!rgb)
        r->failed = true;
    return rgb;
}

void report_picture(struct report *r, const char *caption,
                    const uint8_t *pixels, int w, int h, int c)
{
    uint8_t *rgb = r ? new_rgb(r, w, h) : NULL;

    if (!rgb)
        return;
    for (size_t i = 0; i < 3 * (size_t)w * (size_t)h; i++)
        rgb[i] = c == 3 ? pixels[i] : pixels[i / 3];
    add_picture(r, caption, rgb, w, h);
    free(rgb);
}

// 0 .. 255 to black, red, yellow, white: brightness grows all the way.
static void heat(int v, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(v * 3 > 255 ? 255 : v * 3);
    rgb[1] = (uint8_t)(v < 85 ? 0 : v * 3 > 510 ? 255 : v * 3 - 255);
    rgb[2] = (uint8_t)(v < 170 ? 0 : (v - 170) * 3);
}

void report_difference(struct report *r, const uint8_t *a, const uint8_t *b,
                       int w, int h, int c)
{
    size_t num = (size_t)w * (size_t)h;
    uint8_t *rgb = r ? new_rgb(r, w, h) : NULL;
    int largest = 0, gain;
    char caption[64];

    if (!rgb)
        return;
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
    add_picture(r, caption, rgb, w, h);
    free(rgb);
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
