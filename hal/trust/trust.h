// SPDX-License-Identifier: Apache-2.0
// The room trust: what is found out of a device when it opens. Its certificate:
// run.c makes it, of the pictures of cases.c; certificate.c says what it
// allows; file.c keeps it.
#ifndef HR__TRUST_H
#define HR__TRUST_H

#include "hal/job/job.h"

// certificate.c: tests the first engine, or reads its certificate from disk,
// and sets refused, caps and certificate. Called before the device is
// published. Bounded in time; fails if the engine does not answer.
enum hr_status hr__certify(struct hr__device *dev);

// run.c: set by tests: the shortest deadline of a span in it, how long one job
// may take besides, and when all of it has taken too long. 0: as ever.
void hr__test_probe_limits(int64_t span_ns, int64_t job_ns, int64_t total_ns);

// That an inverse DCT may be off by, outside EXACT.
#define HR__CLOSE_LEVELS 2.0

// Says whether nothing differed.
bool hr__record_exact(const struct hr_certificate_record *record);
// Says whether a span may be used in a tier, by its record. NULL: it has none.
bool hr__certificate_allows(const struct hr_certificate_record *record,
                            enum hr_tier tier);

// run.c: fills the records of the device's first engine. *keep: it would end so
// again.
enum hr_status hr__certificate_run(struct hr__device *dev,
                                   struct hr_certificate *cert, bool *keep);
// Around jobs that are no user's: what the user limited is lifted, which is
// returned; and all is as before. Between them dev->probing may be set.
struct hr_device_params hr__lift_limits(struct hr__device *dev);
void hr__put_back_limits(struct hr__device *dev,
                         const struct hr_device_params *mine);

// ---- The runner's state -----------------------------------------------------

enum {
    HR__CASES = 21,               // of one picture, at most
    HR__CASE_OPS = 6,             // of one case, at most
    HR__SUSPECTS = 32,            // more than there are sets of codes
    HR__SOURCE_BYTES = 64 << 10,  // of an encoded picture, and of its planes
    HR__MAX_RECORDS = HR_NUM_STAGES * (HR_NUM_STAGES + 1) / 2,
};

// How spans are tried.
enum hr__pass {
    HR__PASS_EXACT,   // geometries x element types: the bits must be equal
    HR__PASS_PLANES,  // of a media engine: planes as its inverse DCT leaves
                      // them, before upsampling
    HR__PASS_SCALED,  // of its video processor, in tier FAST. How a processor
                      // scales is not specified: its pictures must be alike
    HR__PASS_CODES,   // of engines that have stage augment: each of its codes
};

// The results of both sides for one picture: [0] the CPU, [1] the device.
struct hr__case {
    struct hr_op ops[HR__CASE_OPS];
    const struct hr_normalize *normalize;  // NULL: its elements are levels
    uint32_t codes;                        // of stage augment, a bit for each
    hr_image out[2];
};

struct hr__trial {
    struct hr__device *dev[2];
    struct hr_certificate *cert;
    int64_t deadline, job_ns;  // of all of it; of one job
    bool late, broke;          // the device failed: it may do better
    struct hr_difference sums[HR__MAX_RECORDS];  // of each record
    enum hr__pass pass;
    int from;  // the first record of the pass
    // Sets of several codes of which a picture differs: one of these may be the
    // reason.
    struct hr__suspect {
        uint32_t codes;
        struct hr_difference diff;  // of all pictures with that set
    } suspects[HR__SUSPECTS];
    int num_suspects;
    bool table_right;  // a picture that has a table did not differ

    bool second;  // the small encoded pictures are through
    int at;       // number of the next one

    // The picture at hand: encoded bytes, or an image on each device.
    int number, w, h, c;
    int kind;  // enum hr_jpeg_kind
    size_t size;
    hr_image source[2];
    int n;
    struct hr__case cases[HR__CASES];
    struct hr_sample samples[2][HR__CASES];
    struct hr__noted {
        size_t size;                      // 0 = none
        uint8_t bytes[HR__SOURCE_BYTES];  // of all planes, without gaps
    } planes[2];

    atomic_int refs;  // the runner's and one per job: a job that hangs for ever
                      // still reads bytes
    uint8_t bytes[HR__SOURCE_BYTES];
};

// cases.c: the next picture of the pass becomes that at hand;
// HR_PENDING: there are no more. Then its cases, and what it holds is freed.
enum hr_status hr__trial_picture(struct hr__trial *t);
enum hr_status hr__trial_cases(struct hr__trial *t);
void hr__trial_drop(struct hr__trial *t);

// ---- On disk ---------------------------------------------------------------

// certificate.c: all that the certificate of engine k depends on. Keys are text
// that ends in a newline.
enum { HR__CERTIFICATE_KEY = 2048 };
void hr__certificate_key(const struct hr__device *dev, int k,
                         char key[HR__CERTIFICATE_KEY]);

// file.c: loads a certificate. False: there is none, and *cert may hold a part of one.
bool hr__certificate_load(struct hr__device *dev, const char *key,
                          struct hr_certificate *cert);
// Saves a certificate. False with errno: it could not be kept.
bool hr__certificate_save(const char *key, const struct hr_certificate *cert);

#endif
