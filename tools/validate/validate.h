// SPDX-License-Identifier: Apache-2.0
// headrace validate: are the device's pictures the CPU's pictures? Private to
// tools/validate/:
//
//   options.c   the command line
//   validate.c  from start to end; which pictures
//   batch.c     one batch: the chain on both sides, cut at each stage
//   compare.c   two images of one picture
//   spans.c     pictures that differ: which span does it by itself
//   judge.c     where it begins, is it within the tier, totals
//   engines.c   which engine made which part, and which made nothing
//   out.c       text and JSON
//   page.c      the data of the picture report
//   page.js     what the report makes of it
//
// How the stage is found. The chain is run to its end, and cut: after
// reconstruct (grey JPEGs, which are their luma), after color (decoded), after
// resample (without ops that change pixels), after augment (everything but
// normalize and type). The first cut that differs names a stage, with two
// corrections:
//  - A span that ends behind the cut takes part in it, with nothing to do. So
//    for what differs each span that the device offers is also run alone, the
//    CPU doing the rest (hr_job_params.spans): spans that are equal clear
//    their stages.
//  - No job ends at the planes of a colour JPEG. But R, G and B are the luma
//    and something of the chroma each: where all three moved by the same, the
//    luma was another one before color came.
//
// JSON: one object with "pictures" first, a list that is printed as it is made;
// then the members of validate_results_json(). Names in it are the stages'
// (stage.h) and statuses'.
//
// Memory: pixels of one batch, on both sides, and of the worst pictures; for
// the whole folder only names and one number each.
#ifndef HEADRACE_TOOLS_VALIDATE_H
#define HEADRACE_TOOLS_VALIDATE_H

#include <jansson.h>

#include "tools/common/inputs.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/common/tools.h"

enum {
    VALIDATE_BATCH = 32,
    VALIDATE_WORST = 4,     // pictures shown in the report
    VALIDATE_WINDOW = 224,  // .. of them at most this many pixels a side
    VALIDATE_NAMES = 20,    // pictures named in the text
    VALIDATE_KINDS = 64,    // rows of the table by kind; the rest is one row
    VALIDATE_MADE = 32,     // likewise, ways in which pictures were made
    VALIDATE_BINS = 10,
    VALIDATE_SENTENCE = 2048,
    VALIDATE_RECENT = 1024,  // results that a stale picture may be equal to
};

enum validate_side { VALIDATE_REFERENCE, VALIDATE_DEVICE, VALIDATE_SIDES };
enum validate_against { VALIDATE_CPU, VALIDATE_C, VALIDATE_UNSAID };

struct validate_options {
    const char *ops_text, *backend, *report;
    struct ops_list ops;
    enum validate_against against;
    enum hr_dtype dtype;
    enum hr_tier tier;
    uint64_t limit, seed;  // limit 0 = all
    int threads;
    struct hr_limits limits;
    bool json, quiet;
};

// Differences in levels of 0 .. 255, of each sample (one number of one
// channel). A bit that differs in a float counts, too.
struct validate_stats {
    uint64_t pictures, differing_pictures;
    uint64_t samples, differing;
    double max, sum, squares;
    uint64_t bins[VALIDATE_BINS];
    // Counts of RGB pixels: that differ, and that have all three channels moved
    // by the same, which is luma; luma: the most of that.
    uint64_t pixels, alike;
    double luma;
    bool unlike;  // a picture was not alike, see struct hr_difference
};
// "0", "< 1", "1", "2", "3-4", ..., "129-255"
extern const char *const validate_bin_names[VALIDATE_BINS];
void validate_add(struct validate_stats *to, const struct validate_stats *more);
double validate_mean(const struct validate_stats *stats);  // of all samples
double validate_psnr(const struct validate_stats *stats);  // INFINITY: equal
double validate_percent(const struct validate_stats *stats);

// A cut is known by the last stage it runs; HR_STORE is the whole chain.
enum { VALIDATE_FIRST_CUT = HR_RECONSTRUCT };

// One picture of a batch, and its comparison.
struct validate_picture {
    size_t index;  // in the inputs
    char kind[64];
    struct hr_info info;
    bool probed;
    int num_ops;
    struct hr_random random;  // ops are drawn from it
    struct hr_op ops[HR_MAX_OPS];
    bool cut[HR_NUM_STAGES];                   // was compared
    struct validate_stats at[HR_NUM_STAGES];   // .. with this result
    struct hr_result results[VALIDATE_SIDES];  // of the whole chain
    bool status_differs;                       // at some cut:
    int status_cut;                            // .. this one, and so
    enum hr_status status[VALIDATE_SIDES];
    bool differs;  // at some cut
    bool looked;   // its spans were run alone
    bool repeats;  // the whole chain differs a second time
    uint32_t spans_equal, spans_differ;  // alone; bits of hr_caps.spans
    int begins;                          // stage; -1 = nowhere
    int64_t stale_of;  // index of the picture whose pixels it has; -1
                       // (at some cut, as all of the above)
    bool within;       // the tier's contract
};

struct validate_kind {
    char name[64];
    uint64_t pictures, by_device, outside;
    uint64_t begins[HR_NUM_STAGES];
    struct validate_stats stats;
};

struct validate_made {
    char text[160];  // "reconstruct..store on opencl:0, entropy on cpu"
    uint64_t pictures;
};

// An engine that was asked for, and what it did of pictures that were made.
struct validate_engine {
    const char *name;              // "opencl:0"
    uint64_t pictures;             // it did at least one span of
    uint64_t spans[HR_NUM_SPANS];  // pictures; bit of hr_caps
};

// The contract holds, is broken, or the device made nothing to compare.
enum validate_finding { VALIDATE_HOLDS, VALIDATE_BROKEN, VALIDATE_UNKNOWN };

struct validate_worst {
    size_t index;
    bool at_end;   // shown as the user gets it, else as the last cut that
                   // differs
    double score;  // mean square of what is shown
    uint8_t *pixels[VALIDATE_SIDES];  // packed, interleaved
    int w, h, c, x, y;                // of the window, in the result
    char note[256];
};

struct validate {
    struct options line;          // the command's
    struct validate_options opt;  // points into it
    struct inputs in;
    size_t *chosen, total;  // indices, ascending
    hr_device dev[VALIDATE_SIDES];
    struct progress progress;
    int argc;
    char **argv;

    struct validate_picture *pictures;  // of the batch
    hr_image images[VALIDATE_SIDES][VALIDATE_BATCH];
    struct hr_encoded read[VALIDATE_SIDES][VALIDATE_BATCH];
    int num;  // in the batch

    uint64_t done, outside, failed_both, status_differs, stale, passing;
    uint64_t unread;          // could not be read, by neither side
    uint64_t by_device;       // pictures it had a part in
    uint64_t compared;        // made on the device's side; of these:
    uint64_t handed;          // an engine left something to the next one
    uint64_t handed_why[32];  // .. by reason
    uint64_t unrefused;  // the device had a part in, and no reason lay in it
    struct validate_engine engines[HR_PROFILE_ENGINES];
    int num_engines;
    uint64_t begins[HR_NUM_STAGES];           // pictures
    struct validate_stats at[HR_NUM_STAGES];  // [HR_STORE] = end to end
    uint64_t fallbacks[32];                   // by reason
    struct validate_kind kinds[VALIDATE_KINDS];
    int num_kinds;
    struct validate_made made[VALIDATE_MADE];
    int num_made;
    struct validate_worst worst[VALIDATE_WORST];
    int num_worst;
    size_t names[VALIDATE_NAMES];  // the first pictures outside, by index
    int num_names;
    bool begun;       // JSON: an entry has been printed
    uint64_t listed;  // text: pictures that had a line to themselves

    struct {
        uint64_t hash;
        size_t index;
    } recent[VALIDATE_RECENT];
    size_t num_recent;
};

// argv[0] = "headrace validate"; returns an exit code.
int cmd_validate(int argc, char **argv);

// TOOLS_OK or an exit code; line.done = stop here.
int validate_options(struct validate *v, int argc, char **argv);

// Runs and compares pictures first .. first + n of the chosen ones, as many as
// fit: *n says how many. Images of the last cut stay until validate_release().
// False: a message was printed.
bool validate_batch(struct validate *v, size_t first, int *n);
// New images for a cut of the pictures whose bit is set in mask. False: a
// message was printed.
bool validate_images(struct validate *v, int cut, uint32_t mask);
void validate_release(struct validate *v);
// One job on one side: the pictures whose bit is set, cut behind a stage, into
// the images. spans as in hr_job_params. NULL: a message was printed.
hr_job validate_submit(struct validate *v, enum validate_side side, int cut,
                       uint32_t mask, uint32_t spans);

// Compares two images of equal shape. ops tells what a number means.
void validate_compare(const struct validate_picture *p, hr_image a, hr_image b,
                      struct validate_stats *stats);
bool validate_equal(hr_image a, hr_image b);
uint64_t validate_hash(hr_image image);
// Keeps a window of both around their largest difference, if it is worse than
// what is kept; of each picture once, at the cut where it is told
// (validate_told_cut()).
void validate_show(struct validate *v, const struct validate_picture *p,
                   int cut, hr_image a, hr_image b);
void validate_sort_worst(struct validate *v);  // the worst first
void validate_worst_finish(struct validate *v);

// Runs each span by itself for the pictures of the batch that differ, in new
// images: validate_release() is the caller's. False: a message was printed.
bool validate_spans(struct validate *v);

// Where a picture that differs is told and shown: at the end, if it differs
// there, else at the last cut that does.
int validate_told_cut(const struct validate_picture *p);
// ", if cut after color, but not at the end"; "" at the end.
const char *validate_told_text(const struct validate_picture *p, char out[64]);
void validate_kind_name(const struct hr_info *info, char out[64]);
void validate_judge(struct validate *v, struct validate_picture *p);
// "color (3), store (1)"; "" if nothing differs.
void validate_begins_text(const uint64_t begins[HR_NUM_STAGES], char *out,
                          size_t size);
// Pictures of a media engine that the library itself found wrong.
uint64_t validate_mismatches(const struct validate *v);
// One sentence for people, and what it says.
enum validate_finding validate_verdict(const struct validate *v, char *out,
                                       size_t size);
const char *validate_against_text(const struct validate *v);
// Folders and files that could not be read.
uint64_t validate_unread(const struct validate *v);

// ---- Engines ----------------------------------------------------------------

void validate_engines_begin(struct validate *v);  // once they are open
// Counts what became of one picture on the device's side.
void validate_engines_count(struct validate *v, const struct hr_result *r);
bool validate_by_device(const struct validate *v, const struct hr_result *r);
// Nothing is known of the device: one of its engines did nothing, or reasons
// that lie in the device (its certificate, a failure) kept it from a part of
// every picture.
bool validate_is_silent(const struct validate *v);
void validate_made_text(const struct hr_result *r, char *out, size_t size);
// "3 progressive JPEG, 2 not a JPEG": why pictures were handed on.
void validate_reasons_text(const struct validate *v, char *out, size_t size);
// "opencl:0 reconstruct..store of 12, color..store of 3": engines, their spans,
// and the number of pictures. "" if the device is the CPU.
void validate_spans_text(const struct validate *v, char *out, size_t size);
// Names the engines of a device that did nothing, and says why.
void validate_silence_text(const struct validate *v, char *out, size_t size);
// Appends to text of size bytes; what does not fit is cut.
void validate_say(char *text, size_t size, const char *format, ...)
    HR_PRINTF(3, 4);
// 1234567 as "1,234,567".
const char *validate_grouped(uint64_t n, char out[32]);

void validate_out_begin(struct validate *v);
void validate_out_picture(struct validate *v, const struct validate_picture *p);
int validate_out_end(struct validate *v, const char *error);
json_t *validate_name_json(const struct validate *v, size_t index);
// Everything but the list of pictures.
json_t *validate_results_json(const struct validate *v);
// False: a message was printed.
bool validate_page(struct validate *v);

#endif
