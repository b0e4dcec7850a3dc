// SPDX-License-Identifier: Apache-2.0
// Between the files of a certificate: its three tests, what they share, and
// where it is kept.
#ifndef HR__CERTIFICATE_H
#define HR__CERTIFICATE_H

#include "hal/hal.h"

enum { HR__SOURCE_BYTES = 64 << 10 };  // of a generated picture, at most

// That an inverse DCT may be off by, outside EXACT.
#define HR__CLOSE_LEVELS 2.0

// ---- The tests ------------------------------------------------------------

// certificate_probe.c: fills spans. *keep: it would end so again.
enum hr_status hr__certificate_probe(struct hr__device *dev,
                                     struct hr_certificate *cert, bool *keep);
// certificate_kinds.c: how the planes of the first engine, a media engine,
// compare with the host's.
enum hr_status hr__certificate_kinds(struct hr__device *dev,
                                     struct hr_certificate *cert);
// certificate_fast.c: adds the span of its video processor, if it has one, and
// what that does by kinds. *keep: as above.
#define HR__FAST_SPAN HR__SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)
enum hr_status hr__certificate_fast(struct hr__device *dev,
                                    struct hr_certificate *cert, bool *keep);

// ---- certificate_test.c: what they share ----------------------------------

// The CPU device to compare with: one thread, the readable C.
hr_device hr__certificate_cpu(struct hr__device *dev);
// What the user limited is lifted meanwhile: returns it. Afterwards, when all
// has ended, the limits are put back and the counters start again.
struct hr_device_params hr__certificate_lift(struct hr__device *dev);
void hr__certificate_end(struct hr__device *dev,
                         const struct hr_device_params *mine);
// How long a span may take in it: what the user allows, up to a minute.
int64_t hr__certificate_span_ns(const struct hr__device *dev);
// HR_EDEVICE, as hr_last_error() says.
enum hr_status hr__certificate_gave_up(const char *text);
// What a failed sample of the device says of all: HR_OK, nothing; else the test
// ends here.
enum hr_status hr__certificate_failed(const struct hr_result *r);
// Up to 1e-9, as the file keeps them: what is not 0 stays so.
double hr__certificate_rounded(double x);

// certificate_cases.c: geometry number i of a picture of w x h, as at most
// HR__CASE_OPS ops; how many.
enum { HR__CASES = 20, HR__CASE_OPS = 3 };
int hr__certificate_case(int i, int w, int h, struct hr_op *ops);

// ---- certificate_file.c: keys are text that ends in a newline -------------

enum { HR__CERTIFICATE_KEY = 2048 };
bool hr__certificate_load(struct hr__device *dev, const char *key,
                          struct hr_certificate *cert);
// False with errno: it could not be kept.
bool hr__certificate_save(const char *key, const struct hr_certificate *cert);

#endif
