// SPDX-License-Identifier: Apache-2.0
// One picture to the driver. Buffers in the order in which FFmpeg submits
// them: NVDEC's driver keeps a pointer to the slice parameters until the slice
// data comes. All five are destroyed at once, the driver has what it needs.
#include "backends/vaapi/vaapi.h"

enum { BUFFERS = 5 };

static bool make_buffers(struct va *va, struct va_frame *frame,
                         VABufferID ids[BUFFERS], struct va_fault *fault)
{
    struct va_jpeg *j = &frame->jpeg;
    const struct {
        VABufferType type;
        size_t size;
        void *data;
        const char *call;
    } made[BUFFERS] = {
        {VAPictureParameterBufferType, sizeof(j->picture), &j->picture,
         "vaCreateBuffer (picture)"},
        {VAIQMatrixBufferType, sizeof(j->quant), &j->quant,
         "vaCreateBuffer (quantiser)"},
        {VAHuffmanTableBufferType, sizeof(j->huffman), &j->huffman,
         "vaCreateBuffer (Huffman)"},
        {VASliceParameterBufferType, sizeof(j->slice), &j->slice,
         "vaCreateBuffer (slice)"},
        {VASliceDataBufferType, j->scan_size, frame->bytes,
         "vaCreateBuffer (data)"},
    };

    for (int i = 0; i < BUFFERS; i++)
        if (va_failed(fault,
                      va->api.vaCreateBuffer(
                          va->display, va->context, made[i].type,
                          (unsigned)made[i].size, 1, made[i].data, &ids[i]),
                      made[i].call)) {
            ids[i] = VA_INVALID_ID;
            return false;
        }
    return true;
}

static bool submit(struct va *va, struct va_frame *frame, VABufferID *ids,
                   struct va_fault *fault)
{
    bool ok;

    if (va_failed(fault,
                  va->api.vaBeginPicture(va->display, va->context,
                                         frame->surface),
                  "vaBeginPicture"))
        return false;
    ok = !va_failed(fault,
                    va->api.vaRenderPicture(va->display, va->context, ids, 3),
                    "vaRenderPicture (parameters)") &&
         !va_failed(fault,
                    va->api.vaRenderPicture(va->display, va->context, ids + 3,
                                            2),
                    "vaRenderPicture (slice)");
    // Also after a failure, or the context stays in the picture.
    return !va_failed(fault, va->api.vaEndPicture(va->display, va->context),
                      "vaEndPicture") &&
           ok;
}

bool va_decode(struct va *va, struct va_frame *frame, struct va_fault *fault)
{
    VABufferID ids[BUFFERS];
    bool ok;

    for (int i = 0; i < BUFFERS; i++)
        ids[i] = VA_INVALID_ID;
    ok = make_buffers(va, frame, ids, fault) && submit(va, frame, ids, fault);
    for (int i = 0; i < BUFFERS; i++)
        if (ids[i] != VA_INVALID_ID)
            va->api.vaDestroyBuffer(va->display, ids[i]);
    return ok;
}
