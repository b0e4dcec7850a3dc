// SPDX-License-Identifier: Apache-2.0
// The structs that the Python array API's __dlpack__ hands over in a capsule;
// their layout is fixed by the DLPack specification, version 1.
#ifndef HR_PY_DLPACK_H
#define HR_PY_DLPACK_H

#include <stdint.h>

#define DL_NAME "dltensor"
#define DL_VERSIONED_NAME "dltensor_versioned"

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_OPENCL = 4, DL_ROCM_HOST = 11 };
enum { DL_UINT = 1, DL_FLOAT = 2 };
enum { DL_READ_ONLY = 1 };  // a flag

struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } type;
    int64_t *shape, *strides;  // in elements; strides may be NULL: packed
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

#endif
