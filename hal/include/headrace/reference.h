// SPDX-License-Identifier: Apache-2.0
// Every engine makes the pixels of the reference. Pillow is not one program:
// its resize rounds to 8 bits between its two passes, and which pass comes
// first depends on the release. W x H is the picture before one resize, when
// that op's turn comes, also if the op has a box. w x h is the result:
//
//   pillow-12   up to Pillow 12.1: the horizontal pass always comes first
//   pillow-12.2 Pillow 12.2 and 12.3: the vertical pass comes first if the
//               picture is more than 100 times as high as wide and its height
//               shrinks: H > 100 * W && h < H (src/PIL/Image.py, resize)
//   pillow-13   Pillow 13.0: the vertical pass comes first if the height
//               shrinks by more than twice as much as the width:
//               H - h > 0 && H - h > 2 * (W - w); growing counts as negative
//               (src/libImaging/Resample.c, ImagingResampleInner)
//   torch-2     not Pillow: torch.nn.functional.interpolate() of bytes with
//               antialias=True, which torchvision's transforms of tensors call.
//               The horizontal pass always comes first, and the weights are
//               its own (ATen/native/cpu/UpSampleKernel.cpp). A crop comes
//               before it, hr_resize.box does not exist there
//
// Where two disagree the results differ in about every sixth value: by 1
// level if the filter is BILINEAR, by up to 16 of photographs if it is BICUBIC,
// by 27 if LANCZOS. torch-2 and pillow-12 differ in one value of 300. A network
// sees the pictures of the Pillow, or torch, that it was trained with if the
// reference is that one.
//
// hr_resize.order decides, if it is not 0; else hr_device_params.reference of
// the device, if that is not 0; else the process, see hr_set_reference(). A job
// follows one reference, which is known when it is submitted:
// hr_job_t.reference.
#ifndef HEADRACE_REFERENCE_H
#define HEADRACE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <headrace/op.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

enum hr_reference {
    HR_REFERENCE_DEFAULT = 0,  // of a device: the process's; of the process:
                               // the newest Pillow
    HR_REFERENCE_PILLOW_12,
    HR_REFERENCE_PILLOW_12_2,
    HR_REFERENCE_PILLOW_13,
    HR_REFERENCE_TORCH_2,
    HR_NUM_REFERENCES,
    HR_REFERENCE_NEWEST = HR_REFERENCE_PILLOW_13,
};

// "pillow-12", ...; static storage. HR_REFERENCE_DEFAULT: the name of the
// process's. NULL: there is no such reference. Threads: any.
HR_API const char *hr_reference_name(enum hr_reference reference);

// Finds a reference by that name; HR_REFERENCE_DEFAULT: there is none.
// Threads: any.
static inline enum hr_reference hr_reference_find(const char *name)
{
    int i = HR_NUM_REFERENCES;

    while (name && --i && strcmp(name, hr_reference_name((enum hr_reference)i)))
        ;
    return name ? (enum hr_reference)i : HR_REFERENCE_DEFAULT;
}

// Sets the reference of this process: of the default device and of all devices
// that are opened without one, or have been. It counts for jobs that are
// submitted from then on. HR_REFERENCE_DEFAULT: the newest, as at first.
// HR_EINVAL: there is no such reference. hr_device_reference(NULL) returns it.
// Threads: any.
HR_API enum hr_status hr_set_reference(enum hr_reference reference);

// Returns the order of passes of one resize, of a picture of width x height to
// w x h; never HR_ORDER_REFERENCE. For callers that record ops for others, or
// decide themselves. Threads: any.
HR_API enum hr_order hr_resize_order(enum hr_reference reference, int width,
                                     int height, int w, int h);

// The caller's function that resizes with another library: pixels of width x
// height, 3 bytes each (RGB), rows without gaps, to w x h at out, in the same
// form. It returns 0, or anything else if it could not. It is called on the
// thread that calls hr_reference_probe().
typedef int (*hr_resize_fn)(void *ctx, const uint8_t *pixels, int width,
                            int height, enum hr_filter filter, uint8_t *out,
                            int w, int h);

// Finds out which reference an installed Pillow is: lets it resize a handful of
// tiny pictures of noise, makes each in both orders on the library's CPU, and
// finds the rule that explains all answers. It asks no version number, because
// distributions patch. HR_OK: *found is it. HR_EUNSUPPORTED: the order of
// passes is of no known reference, or the pixels are of no order at all.
// HR_EDEVICE: resize failed. HR_EINVAL, and the statuses of a job.
// The reason is in hr_last_error(). Takes some milliseconds.
// Threads: any, but not from a callback.
HR_API enum hr_status hr_reference_probe(hr_resize_fn resize, void *ctx,
                                         enum hr_reference *found);

// Returns the name of the decoder, which belongs to the reference, too: the
// pixels of a JPEG are those of the libjpeg-turbo that this process has loaded.
// It says its version itself, "libjpeg-turbo 2.1.5"; if it cannot be asked,
// this is the version of its headers: "libjpeg-turbo (built with 2.1.5)".
// Releases agree, but for two kinds of files. Progressive ones whose scans are
// not all there (hr_info.all_scans) come out otherwise from 3.0.1 on. Lossless
// ones of 8 bits are decoded from 3.0 on, and are HR_EUNSUPPORTED here. Static
// storage. Threads: any.
HR_API const char *hr_jpeg_library(void);

HR_END_DECLS
#endif
