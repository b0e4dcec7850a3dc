// SPDX-License-Identifier: Apache-2.0
#include "vaapi_env.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

static va_driver_control_fn *control;
static const char *folder;

// libva-drm asks libdrm what a file descriptor is; this program answers for
// it, so that any file is a render node. Exported: the linker's -rdynamic.
int drmGetNodeTypeFromFd(int fd);
__attribute__((visibility("default"))) int drmGetNodeTypeFromFd(int fd)
{
    (void)fd;
    return 2;
}

static struct hr_certificate_record record_of(const struct hr_certificate *cert,
                                              enum hr_stage last, int kind)
{
    const struct hr_certificate_record *r =
        hr__certificate_record(cert, HR_SPAN_BIT(HR_ENTROPY, last), kind);

    return r ? *r : (struct hr_certificate_record){0};
}

struct hr_certificate_record vaapi_planes(const struct hr_certificate *cert,
                                          int kind)
{
    return record_of(cert, HR_RECONSTRUCT, kind);
}

struct hr_certificate_record vaapi_scaled(const struct hr_certificate *cert,
                                          int kind)
{
    return record_of(cert, HR_RESAMPLE, kind);
}

void vaapi_new_cache(void)
{
    static int n;
    char path[256];

    snprintf(path, sizeof(path), "%s/%d", folder, n++);
    mkdir(path, 0700);
    setenv("XDG_CACHE_HOME", path, 1);
}

bool vaapi_init(void)
{
    void *driver = dlopen(HR_VA_DRIVER_DIR "/headrace_drv_video.so", RTLD_NOW);
    void *libva = dlopen("libva.so.2", RTLD_NOW | RTLD_LOCAL);
    void *entry = driver ? dlsym(driver, VA_DRIVER_CONTROL) : NULL;

    if (!libva || !entry) {
        test_not_run(dlerror());
        return false;
    }
    memcpy(&control, &entry, sizeof(entry));
    setenv("LIBVA_DRIVERS_PATH", HR_VA_DRIVER_DIR, 1);
    setenv("LIBVA_DRIVER_NAME", "headrace", 1);
    setenv("HEADRACE_VAAPI_DEVICE", "/dev/null", 1);
    unsetenv("HEADRACE_VAAPI_READ");
    unsetenv("HEADRACE_CERTIFICATE");
    folder = test_folder();
    vaapi_new_cache();
    return true;
}

int vaapi_main(int argc, char **argv)
{
    return vaapi_init() ? test_main(argc, argv) : TEST_NOT_RUN;
}

void vaapi_driver(const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    CHECK(!control(text, NULL), "driver option '%s'", text);
}

struct va_driver_counters vaapi_counters(void)
{
    struct va_driver_counters c;

    memset(&c, 0, sizeof(c));
    control(NULL, &c);
    return c;
}

hr_device vaapi_open_with(const struct hr_device_params *params)
{
    return hr_device_open("vaapi+cpu", params);
}

hr_device vaapi_open(const char *personality)
{
    hr_device dev;

    vaapi_driver("personality=%s", personality);
    if ((dev = vaapi_open_with(NULL)))
        return dev;
    fprintf(stderr, "vaapi as %s: %s\n", personality, hr_last_error());
    exit(1);
}

static struct va_driver_counters left;  // what a fault did not let go

void vaapi_forget_left(void)
{
    left = vaapi_counters();
}

// True if no more objects are alive than before; objects that went late are not
// expected again.
static bool is_empty(const struct va_driver_counters *c)
{
    bool empty = c->displays <= left.displays && c->configs <= left.configs &&
                 c->contexts <= left.contexts && c->surfaces <= left.surfaces &&
                 c->buffers <= left.buffers && c->images <= left.images &&
                 c->memfds <= left.memfds && c->in_flight <= left.in_flight;

    if (empty)
        left = *c;
    return empty;
}

void vaapi_check_empty(const char *after)
{
    struct va_driver_counters c = vaapi_counters();

    // The last job may still hold the device, and then a thread closes it.
    for (int i = 0; i < 100 && !is_empty(&c); i++) {
        test_sleep(10 * TEST_MS);
        c = vaapi_counters();
    }
    CHECK(is_empty(&c) && !c.left,
          "%s: %ld displays, %ld configs, %ld contexts, %ld surfaces, "
          "%ld buffers, %ld images, %ld memfds, %ld in flight, %ld left",
          after, c.displays, c.configs, c.contexts, c.surfaces, c.buffers,
          c.images, c.memfds, c.in_flight, c.left);
    CHECK(!c.bad_ids && !c.thread_violations && !c.remarks,
          "%s: %ld bad ids, %ld thread violations, %ld remarks", after,
          c.bad_ids, c.thread_violations, c.remarks);
}

void vaapi_close(hr_device *dev)
{
    char name[64];

    snprintf(name, sizeof(name), "%.63s", (*dev)->description);
    hr_device_close(dev);
    vaapi_check_empty(name);
}

bool vaapi_own_open(struct vaapi_own *own)
{
    void *va = dlopen("libva.so.2", RTLD_NOW),
         *drm = dlopen("libva-drm.so.2", RTLD_NOW);
    void *(*get)(int) = drm ? (void *(*)(int))dlsym(drm, "vaGetDisplayDRM")
                            : NULL;

    own->init = va ? (int (*)(void *, int *, int *))dlsym(va, "vaInitialize")
                   : NULL;
    own->end = va ? (int (*)(void *))dlsym(va, "vaTerminate") : NULL;
    if (!get || !own->init || !own->end) {
        test_not_run("no libva-drm");
        return false;
    }
    own->fd = memfd_create("node", MFD_CLOEXEC);
    own->display = get(own->fd);
    return true;
}

void vaapi_own_init(const struct vaapi_own *own)
{
    int major, minor;

    CHECK(own->display && !own->init(own->display, &major, &minor),
          "vaInitialize");
}

void vaapi_own_close(struct vaapi_own *own)
{
    own->end(own->display);
    close(own->fd);
}

// The picture that all n samples of a job are.
static hr_batch run_of(hr_device dev, hr_job *job, const struct bytes *b,
                       const struct hr_op ops[2], int n, enum hr_tier tier)
{
    const struct hr_resize *size = &ops[1].resize;
    struct hr_sample s[64];
    hr_batch out = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = size->h, .w = size->w));

    for (int i = 0; i < n; i++)
        s[i] = test_sample(b, ops, 2);
    *job = hr_submit(dev, s, n, out, hr_job_params(.tier = tier));
    CHECK(hr_job_wait(*job, 20000 * TEST_MS) == HR_OK, "%s",
          (*job)->results[0].message);
    return out;
}

int vaapi_run_sized(hr_device dev, const struct jpeg_spec *spec, int w, int h,
                    int n, enum hr_tier tier, unsigned *why)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(spec, &seed);
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = w, .h = h)};
    auto_device cpu = test_device("cpu", 1, 0);
    auto_job wanted = NULL, job = NULL;
    auto_batch want = run_of(cpu, &wanted, &b, ops, 1, HR_EXACT);
    auto_batch out = run_of(dev, &job, &b, ops, n, tier);
    int by_device = 0;

    *why = 0;
    for (int i = 0; i < n; i++) {
        by_device += job->results[i].num_spans &&
                     !strncmp(job->results[i].spans[0].device, "vaapi", 5);
        *why |= job->results[i].why;
        if (tier == HR_EXACT)
            CHECK(!memcmp(want->params.data,
                          (char *)out->params.data + want->size * (size_t)i,
                          want->size),
                  "pixels of %d differ", i);
    }
    return by_device;
}

int vaapi_run_kind(hr_device dev, const struct jpeg_spec *spec, int n,
                   enum hr_tier tier, unsigned *why)
{
    return vaapi_run_sized(dev, spec, 40, 30, n, tier, why);
}
