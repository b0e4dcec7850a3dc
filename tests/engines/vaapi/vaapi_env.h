// SPDX-License-Identifier: Apache-2.0
// The VA-API engine over the software driver: how tests open it without a DRM
// node, and speak to the driver. (va_driver/README.md, va_driver/control.h)
#ifndef HEADRACE_TESTS_VAAPI_ENV_H
#define HEADRACE_TESTS_VAAPI_ENV_H

#include "testing.h"
#include "va_driver/control.h"

// Variables, the driver and its control. Once, before anything is opened.
// False: libva is not here (the caller says so and exits with TEST_NOT_RUN).
bool vaapi_init(void);
int vaapi_main(int argc, char **argv);  // test_main() behind it

// Options of the driver, checked.
void vaapi_driver(const char *fmt, ...) HR_PRINTF(1, 2);
struct va_driver_counters vaapi_counters(void);

// A device "vaapi" on a driver of that personality; other options first. Ends
// the program if it does not open.
hr_device vaapi_open(const char *personality);
// params may be NULL. NULL: it does not open.
hr_device vaapi_open_with(const struct hr_device_params *params);
// Closes it; nothing may be left in the driver, and no rule was broken.
void vaapi_close(hr_device *dev);
// The same without a device: all of the driver's counters of live objects are
// 0.
void vaapi_check_empty(const char *after);
// Objects alive now do not count: a fault has kept them.
void vaapi_forget_left(void);
// The certificate's record of the planes of a kind of JPEG, and of the video
// processor's output for it; all zero: it has no such record.
struct hr_certificate_record vaapi_planes(const struct hr_certificate *cert,
                                          int kind);
struct hr_certificate_record vaapi_scaled(const struct hr_certificate *cert,
                                          int kind);
// Certificates from here on are made anew, and not kept.
void vaapi_new_cache(void);

// A display of the caller's, as programs have it that call libva themselves:
// not initialised yet. False: there is no libva-drm.
struct vaapi_own {
    void *display;
    int fd;
    int (*init)(void *display, int *major, int *minor);
    int (*end)(void *display);
};
bool vaapi_own_open(struct vaapi_own *own);
// Initialises it, checked.
void vaapi_own_init(const struct vaapi_own *own);
void vaapi_own_close(struct vaapi_own *own);

// One job of n samples of one kind, in one tier, and one on the CPU; how many
// the device made. EXACT: the pixels must be equal. *why: all reasons.
// sized: each is made w x h; kind: 40 x 30.
int vaapi_run_sized(hr_device dev, const struct jpeg_spec *spec, int w, int h,
                    int n, enum hr_tier tier, unsigned *why);
int vaapi_run_kind(hr_device dev, const struct jpeg_spec *spec, int n,
                   enum hr_tier tier, unsigned *why);

#define KIND(...) (&(struct jpeg_spec){.w = 100, .h = 90, __VA_ARGS__})
#define YCC(...) KIND(.space = JCS_YCbCr, .quality = 90, __VA_ARGS__)

#endif
