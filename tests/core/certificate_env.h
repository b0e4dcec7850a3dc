// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of certificates: the folder in which they are kept, the
// fake engine opened over it, and a check that the engine is used.
#ifndef HEADRACE_TESTS_CERTIFICATE_ENV_H
#define HEADRACE_TESTS_CERTIFICATE_ENV_H

#include "scene.h"

// The folder of the environment while certificate_main() runs.
extern const char *certificate_cache;
// The one file in it, or "" and how many there are.
int certificate_file(char path[1024]);
// None is left.
void certificate_forget(void);

// Devices are tested with so many generated files here: all of them, or by
// HEADRACE_TEST_SCALE fewer.
extern int certificate_files;
// So many pictures of a span are compared at least.
int certificate_least(void);

// A script that is right, RS only. fingerprint: of the device, or NULL.
void certificate_right(const char *fingerprint);
// Opens "fake" and returns how many tasks that took; *dev may be NULL.
int certificate_open(hr_device *dev, const struct hr_device_params *params);
// The same with a device that must have a good certificate then; closes it.
int certificate_probes(void);

// Returns the certificate of the span with that bit, or NULL.
const struct hr_certificate_record *certificate_of(hr_device dev, uint32_t bit);
// Checks that all samples of a job in that tier come out right, and that why
// has CERTIFICATE for each sample the fake engine had no part in. Returns how
// many it had a part in.
int certificate_by_fake(hr_device dev, enum hr_tier tier,
                        enum scene_source source);

// test_main() with that folder.
int certificate_main(int argc, char **argv);

#endif
