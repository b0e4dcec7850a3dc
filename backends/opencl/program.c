// SPDX-License-Identifier: Apache-2.0
// The kernels as a program for one device: from the cache on disk if it is
// there and whole, else built from source. A file that does not fit is never
// an error: it is built again and replaced.
//
// A cache file is a head, the key as text, the binary. Its name is the hash of
// the key; the text in it tells two keys with one hash apart.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/opencl/opencl.h"

enum { CACHE_MAGIC = 0x4c435248, CACHE_VERSION = 3, LOG_BYTES = 400 };
#define MAX_BINARY ((size_t)64 << 20)

struct cache_head {
    uint32_t magic, version;
    uint64_t key_size, binary_size;
    uint64_t hash;  // XXH3 of what follows
};

// ---- Where -----------------------------------------------------------------

// Names and versions do not tell all drivers apart, so the key has the driver's
// file, too; the address of its entry for loaders says which that is.
static void make_key(const struct ocl *o, const char *options,
                     char key[OCL_KEY_BYTES])
{
    char file[256] = "";

    if (o->api.clGetExtensionFunctionAddressForPlatform)
        hr__library_text(
            (uintptr_t)o->api.clGetExtensionFunctionAddressForPlatform(
                o->facts.platform_id, "clIcdGetPlatformIDsKHR"),
            file, sizeof(file));
    snprintf(key, OCL_KEY_BYTES, "%d\n%016llx\n%s\n%s\n%s\n%s\n%s\n%s\n",
             CACHE_VERSION,
             (unsigned long long)XXH3_64bits(ocl_kernels_source,
                                             strlen(ocl_kernels_source)),
             options, o->facts.platform, o->facts.platform_version,
             o->facts.name, o->facts.driver, file);
}

enum { NAME_BYTES = 64 };

static void name_of(const char *key, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "opencl-%016llx.bin",
             (unsigned long long)XXH3_64bits(key, strlen(key)));
}

// ---- Files -----------------------------------------------------------------

static uint64_t hash_of(const char *key, const void *binary, size_t size)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, key, strlen(key));
    XXH3_64bits_update(&state, binary, size);
    return XXH3_64bits_digest(&state);
}

// The binary behind the head; NULL if anything is not as it should be.
static unsigned char *read_binary(int fd, size_t bytes, const char *key,
                                  size_t *size)
{
    struct cache_head head;
    char other[OCL_KEY_BYTES];
    unsigned char *binary = NULL;

    if (!hr__read_all(fd, &head, sizeof(head)) || head.magic != CACHE_MAGIC ||
        head.version != CACHE_VERSION || head.key_size != strlen(key) ||
        !head.binary_size || head.binary_size > MAX_BINARY ||
        bytes != sizeof(head) + head.key_size + head.binary_size ||
        !hr__read_all(fd, other, head.key_size) ||
        memcmp(other, key, head.key_size))
        return NULL;
    *size = (size_t)head.binary_size;
    if (!(binary = hr__alloc(NULL, *size)) ||
        !hr__read_all(fd, binary, *size) ||
        hash_of(key, binary, *size) != head.hash) {
        hr__free(binary);
        return NULL;
    }
    return binary;
}

static unsigned char *load_binary(struct ocl *o, const char *key, size_t *size)
{
    char name[NAME_BYTES], why[HR__CACHE_WHY];
    unsigned char *binary;
    size_t bytes;
    int fd;

    name_of(key, name);
    if ((fd = hr__cache_open(name, &bytes, why)) < 0) {
        if (why[0])
            hr__guard_log(&o->guard, HR_LOG_WARN, "its program is not read: %s",
                          why);
        return NULL;
    }
    binary = read_binary(fd, bytes, key, size);
    close(fd);
    return binary;
}

static bool store_binary(const char *key, void *binary, size_t size)
{
    struct cache_head head = {CACHE_MAGIC, CACHE_VERSION, strlen(key), size,
                              hash_of(key, binary, size)};
    struct iovec parts[] = {{&head, sizeof(head)},
                            {(void *)key, strlen(key)},
                            {binary, size}};
    char name[NAME_BYTES];

    name_of(key, name);
    return hr__cache_write(name, parts, 3);
}

// ---- Building --------------------------------------------------------------

static const char *const names[HR__NUM_KERNELS] = {
#define X(name, text, stage) [HR__KERNEL_##name] = text,
    HR__KERNELS(X)
#undef X
};

static bool make_kernels(struct ocl *o, struct ocl_fault *fault)
{
    cl_int err;

    for (int i = 0; i < HR__NUM_KERNELS; i++) {
        if ((i > HR__KERNEL_STORE && o->variant != OCL_GPU) ||
            (i <= HR__KERNEL_DC && !o->entropy) ||
            (i == HR__KERNEL_AUGMENT && !o->augment))
            continue;
        o->kernels[i] = o->api.clCreateKernel(o->program, names[i], &err);
        if (ocl_failed(fault, err, "clCreateKernel"))
            return false;
    }
    return true;
}

void ocl_program_close(struct ocl *o)
{
    for (int i = 0; i < HR__NUM_KERNELS; i++) {
        if (o->kernels[i])
            o->api.clReleaseKernel(o->kernels[i]);
        o->kernels[i] = NULL;
    }
    if (o->program)
        o->api.clReleaseProgram(o->program);
    o->program = NULL;
}

static bool from_binary(struct ocl *o, const char *key, const char *options)
{
    struct ocl_fault fault = {0};
    cl_int err, status = 0;
    unsigned char *binary;
    size_t size;
    bool ok;

    if (!(binary = load_binary(o, key, &size)))
        return false;
    o->program = o->api.clCreateProgramWithBinary(
        o->context, 1, &o->facts.device, &size, (const unsigned char **)&binary,
        &status, &err);
    hr__free(binary);
    ok = !err && !status &&
         !o->api.clBuildProgram(o->program, 1, &o->facts.device, options, NULL,
                                NULL) &&
         make_kernels(o, &fault);
    if (!ok) {
        hr__guard_log(&o->guard, HR_LOG_INFO,
                      "the driver refuses its cached binary");
        ocl_program_close(o);
    }
    return ok;
}

// Errors stand at the end of a build log.
static void log_build(struct ocl *o)
{
    char *text;
    size_t size = 0;

    if (o->api.clGetProgramBuildInfo(o->program, o->facts.device,
                                     CL_PROGRAM_BUILD_LOG, 0, NULL, &size) ||
        !size || !(text = hr__alloc(NULL, size + 1)))
        return;
    if (!o->api.clGetProgramBuildInfo(o->program, o->facts.device,
                                      CL_PROGRAM_BUILD_LOG, size, text, NULL)) {
        text[size] = '\0';
        hr__guard_log(&o->guard, HR_LOG_ERROR, "kernels do not build: %s",
                      size > LOG_BYTES ? text + size - LOG_BYTES : text);
    }
    hr__free(text);
}

static bool from_source(struct ocl *o, const char *options,
                        struct ocl_fault *fault)
{
    const char *source = ocl_kernels_source;
    cl_int err;

    o->program = o->api.clCreateProgramWithSource(o->context, 1, &source, NULL,
                                                  &err);
    if (ocl_failed(fault, err, "clCreateProgramWithSource"))
        return false;
    err = o->api.clBuildProgram(o->program, 1, &o->facts.device, options, NULL,
                                NULL);
    if (ocl_failed(fault, err, "clBuildProgram")) {
        log_build(o);
        return false;
    }
    return make_kernels(o, fault);
}

bool ocl_program_open(struct ocl *o, struct ocl_fault *fault)
{
    char options[128], augment[64] = "";

    if (o->augment)
        snprintf(augment, sizeof(augment),
                 " -D HR__AUGMENT -D HR__AUGMENT_ITEMS=%u%s",
                 ocl_augment_items(o), o->facts.doubles ? " -D HR__FP64" : "");
    snprintf(options, sizeof(options), "-cl-std=CL1.2%s%s%s",
             o->variant == OCL_GPU ? " -D HR__GPU" : "",
             o->entropy ? " -D HR__ENTROPY" : "", augment);
    make_key(o, options, o->key);
    o->program_cached = from_binary(o, o->key, options);
    return o->program_cached || from_source(o, options, fault);
}

void ocl_program_save(struct ocl *o)
{
    unsigned char *binary = NULL;
    size_t size = 0;

    if (o->api.clGetProgramInfo(o->program, CL_PROGRAM_BINARY_SIZES,
                                sizeof(size), &size, NULL) ||
        !size || size > MAX_BINARY || !(binary = hr__alloc(NULL, size)))
        return;
    if (o->api.clGetProgramInfo(o->program, CL_PROGRAM_BINARIES, sizeof(binary),
                                &binary, NULL) ||
        !store_binary(o->key, binary, size))
        hr__guard_log(&o->guard, HR_LOG_INFO,
                      "the kernels could not be cached on disk");
    hr__free(binary);
}
