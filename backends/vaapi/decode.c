// SPDX-License-Identifier: Apache-2.0
// One picture to the driver. Buffers in the order in which FFmpeg submits
// them: NVDEC's driver keeps a pointer to the slice parameters until the slice
// data comes.
#include "backends/vaapi/vaapi.h"

bool va_decode(struct va *va, struct va_frame *frame, struct va_fault *fault)
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
