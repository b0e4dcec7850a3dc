// SPDX-License-Identifier: Apache-2.0
// Pixels live in images (one picture) and batches (one tensor for many).
#ifndef HEADRACE_IMAGE_H
#define HEADRACE_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <headrace/device.h>

HR_BEGIN_DECLS

enum hr_dtype { HR_F32, HR_F16, HR_U8 };  // IEEE 754 binary32, binary16
enum hr_layout { HR_NCHW, HR_NHWC };      // planes, or interleaved pixels

static inline size_t hr_dtype_size(enum hr_dtype dtype)  // bytes
{
    return dtype == HR_F32 ? 4 : dtype == HR_F16 ? 2 : 1;
}
static inline const char *hr_dtype_name(enum hr_dtype dtype)
{
    return dtype == HR_F32 ? "f32" : dtype == HR_F16 ? "f16" : "u8";
}

// Converts an HR_F16 number, for which C has no type. Threads: any.
static inline double hr_f16_value(uint16_t bits)
{
    const uint64_t sign = bits >> 15, exponent = bits >> 10 & 31;
    const uint64_t fraction = bits & 1023;
    const uint64_t quiet = exponent == 31 && fraction;  // not a number
    uint64_t wide = exponent < 31 ? exponent - 15 + 1023 : 2047;
    double x = (double)fraction / (1 << 24);

    if (!exponent)
        return sign ? -x : x;
    wide = sign << 63 | wide << 52 | quiet << 51 | fraction << 42;
    memcpy(&x, &wide, sizeof(x));
    return x;
}

// The memory that pixels lie in. Every device of the process can use host
// memory, the caller's own too, whichever device made the image or batch; jobs
// of different devices take turns at it as those of one do. Pinned and device
// memory is only for jobs of the device that made it: other devices refuse it
// (HR_EINVAL); copy the pixels through the host (transfer.h). If the device's
// engine cannot make a sample, or does not finish it, the next engine makes it
// on the host, and the library copies the pixels over: same bytes, and
// HR_WHY_PLACE in the result. If the device no longer answers, or refuses, its
// memory cannot be reached: the sample fails, and the contents of that memory
// are undefined.
enum hr_memory {
    HR_MEMORY_HOST,    // memory of the process, also the caller's own
    HR_MEMORY_PINNED,  // memory of the process that the device's driver has
                       // made and copies fastest to where it goes next; data
                       // is set. The device itself writes results there, so
                       // after one that it has not finished in time others
                       // fail, too (HR_ETIMEDOUT), until it has
    HR_MEMORY_DEVICE,  // memory of the device. data is NULL; see struct
                       // hr_native
};  // On a device without memory of its own (cpu) all three are HR_MEMORY_HOST,
    // and params.memory of the image or batch says so.

// The driver's own handle of device memory, for programs that go on with the
// pixels there. It belongs to the image or batch, is valid as long as that
// lives, and must not be released. Commands of yours and jobs of the device are
// not ordered: wait for the job or the image before your command reads the
// memory, and wait for your commands before a job writes it.
struct hr_native {
    const char *api;  // "opencl"; NULL: none, this is host memory
    void *memory;     // opencl: the cl_mem
    size_t offset;    // bytes from its start to the first element; a multiple
                      // of 4096. Batches have a memory object of their own: 0
};

// One contiguous tensor for n pictures of c x h x w.
struct hr_batch_params {
    int n, c, h, w;  // > 0; c is 1 or 3
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_memory memory;
    // The caller's own memory instead of ours: it must outlive the batch.
    // Only HR_MEMORY_HOST.
    void *data;
    // Bytes from one picture, channel, row to the next; 0 = packed. Elements
    // of a row are packed: NCHW rows hold w elements, NHWC rows w pixels of c
    // elements. stride_c is for NCHW only. In device memory what lies between
    // the elements of one picture may be overwritten.
    size_t stride_n, stride_c, stride_h;
};
#define hr_batch_params(...) (&(struct hr_batch_params){__VA_ARGS__})

// A batch. If the library made the memory it is 64-byte aligned and all zero.
// Its slots are ordered: a job that writes a slot waits for earlier jobs that
// write it. Threads: the handle is safe; the bytes belong to the job that
// writes them until it is done.
typedef const struct hr_batch_t {
    struct hr_batch_params params;  // strides, data and memory filled in
    size_t size;                    // bytes from data to the last element's end
    struct hr_native native;        // of device memory
} *hr_batch;

// Makes a batch. dev NULL = the default device. NULL on failure
// (hr_last_error()). Pinned and device memory may make it wait, at most for the
// device's deadline_ns, or a minute while a driver completes a program that was
// new at open; then HR_ETIMEDOUT. HR_ELIMIT: more than the device makes in one
// piece, or 4 GiB.
HR_API hr_batch hr_batch_create(hr_device dev,
                                const struct hr_batch_params *params);

// Gives up the handle, sets it to NULL. Jobs in flight keep the memory of a
// batch that is ours; the caller's own memory must stay until they are done.
HR_API void hr_batch_destroy(hr_batch *batch);

// Pixels of one picture, reference counted, possibly still being made.
struct hr_image_params {
    int w, h, c;            // > 0; c is 1 (grey) or 3 (RGB)
    enum hr_dtype dtype;    // HR_U8 for sources of crop, resize and flip
    enum hr_layout layout;  // HR_NHWC for u8 that resample reads fastest
    enum hr_memory memory;
    // The caller's own memory instead of ours, until release (see free_fn).
    // Only HR_MEMORY_HOST.
    void *data;
    size_t stride_c, stride_h;   // bytes; 0 = packed
    void (*free_fn)(void *ctx);  // if set, called once when the last
    void *free_ctx;              // reference is gone; on any thread
};
#define hr_image_params(...) (&(struct hr_image_params){__VA_ARGS__})

typedef const struct hr_image_t {
    struct hr_image_params params;  // strides, data and memory filled in
    size_t size;
    struct hr_native native;  // of device memory
} *hr_image;

// Makes an image, as hr_batch_create() makes a batch. Images and batches keep
// the device that made them alive.
HR_API hr_image hr_image_create(hr_device dev,
                                const struct hr_image_params *params);
// Sets *image to NULL; NULL is fine. A job in flight holds its own reference.
HR_API void hr_image_release(hr_image *image);

// Waits until nothing in flight writes the image any more. HR_OK, the status
// of the sample that failed to make it, or HR_ETIMEDOUT. 0 = just look.
// After HR_OK the pixels may be read where they lie. Threads: any but
// callbacks.
HR_API enum hr_status hr_image_wait(hr_image image, int64_t timeout_ns);

// How far apart two pictures are, element by element (one number of one
// channel), in levels of 0 .. 255 whatever the elements are.
struct hr_difference {
    uint64_t elements;        // w * h * c
    uint64_t differing;       // of them, in at least one bit; 0 = equal
    double max;               // largest difference, 255 at most
    double sum, squares;      // of the differences of all elements
    uint64_t by_levels[256];  // elements that differ, by so many levels
                              // (rounded)
    int x, y, c;              // the first with the largest difference
    bool alike;               // as alike as two honest ways of scaling make
                              // one picture (the rule: shape/compare.c)
};
// Compares b with a: same size, channels and element type, the layout may be
// another; both on the host, and nothing writes them now. normalize: what the
// elements were made with; NULL: they are levels. HR_EINVAL if they do not fit
// together. Threads: any.
struct hr_normalize;
HR_API enum hr_status hr_image_compare(hr_image a, hr_image b,
                                       const struct hr_normalize *normalize,
                                       struct hr_difference *out);

HR_END_DECLS
#endif
