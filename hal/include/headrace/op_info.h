// SPDX-License-Identifier: Apache-2.0
// Ops as rows of a table, and lists of ops as text: for bindings, parsers and
// documents. A program that only submits needs op.h alone.
#ifndef HEADRACE_OP_INFO_H
#define HEADRACE_OP_INFO_H

#include <stddef.h>

#include <headrace/op.h>

HR_BEGIN_DECLS

// ---- The table of ops ------------------------------------------------------
//
// What bindings, parsers and documents need to know of an op: its fields, and
// what their numbers mean. In every op a field that is not given is 0.

enum hr_field_kind {
    HR_FIELD_INT,       // int
    HR_FIELD_BOOL,      // bool
    HR_FIELD_ENUM,      // an enum; its values have names
    HR_FIELD_DOUBLE,    // double
    HR_FIELD_RANGE,     // double[2], rising; both 0: the default
    HR_FIELD_BOX,       // float[4]
    HR_FIELD_CHANNELS,  // float[3]
    HR_FIELD_TABLE,     // const float *, of 256 for each channel
    HR_FIELD_BLOCK,     // const float *, of w * h for each channel, or NULL
    HR_FIELD_BYTES,     // const uint8_t *, and an int behind it: 256 or 768
    HR_FIELD_DOUBLES,   // double[size / sizeof(double)], all of them
    HR_FIELD_COLOR,     // uint8_t[3]
};

struct hr_op_value {
    const char *name;
    int value;
};

struct hr_op_field {
    const char *name;
    enum hr_field_kind kind;
    size_t offset, size;               // in struct hr_op, bytes
    double lo, hi;                     // of INT, DOUBLE and RANGE, both
                                       // included; both 0: above 0
    const struct hr_op_value *values;  // of ENUM; the last has no name
    bool not_zero;  // 0 means that it was not named: it cannot be said
};

// An op may have several functions in other languages, each with some of the
// fields: crop() and center_crop().
struct hr_op_form {
    const char *name;
    uint32_t fields;  // bit i: field i is a parameter
    struct hr_op op;  // with the other fields
};

struct hr_op_info {
    const char *name;
    const char *usage;  // how a text says it: "resize=N|WxH[:FILTER[:ORDER]]";
                        // several words are separated by ", "
    enum hr_op_type type;
    enum hr_stage stage;  // that does it
    bool random;          // hr_ops_draw() makes it plain
    const struct hr_op_field *fields;
    int num_fields;
    const struct hr_op_form *forms;
    int num_forms;
};

// Describes an op; NULL: there is no such op. Types begin with 1, without gaps.
// Static storage. Threads: any.
HR_API const struct hr_op_info *hr_op_info(enum hr_op_type type);

// ---- Lists as text ---------------------------------------------------------
//
// The text of the command's --ops: torchvision's names, separated by commas.
//
//   decode=gray:exif, resize=256:bicubic, center_crop=320x240, hflip
//   random_resized_crop=224, random_apply=0.8:2, color_jitter=0.4:0.4:0.4:0.1,
//   random_gaussian_blur=0.5:0.1,2, normalize=M,M,M/S,S,S
//
// hr_op_info() has the usage of each. random_choice=3 chooses from the next 3
// items, and a normalize or to_tensor that ends in :v2 is HR_ARITH_MUL.
//
// lut, a normalize with a table and an erase with values have no text: it owns
// no bytes. Any other op may be written by its fields (hr_op_info()) that are
// not 0:
//
//   resize:w=320:h=240:box=0,0,64,48  flip:horizontal:vertical  flip
//   fit:w=320:h=240:filter=bicubic:enlarge  random_flip:horizontal=0.3
//
// Blanks may stand around the commas. Sizes are WIDTHxHEIGHT everywhere; crops
// of a picture that is smaller are padded. decode stands first and may be left
// out, unless the list is for pixels: then it begins with "image". Only erase
// and random_erasing may follow to_tensor and normalize.

// Reads text to ops[HR_MAX_OPS] and *num_ops. HR_EINVAL, and hr_last_error()
// says at which character (from 1). Threads: any.
HR_API enum hr_status hr_ops_parse(const char *text, struct hr_op *ops,
                                   int *num_ops);

// Writes a text of which hr_ops_parse() makes the same ops. HR_EUNSUPPORTED: no
// text means that op, as one with a table of the caller's; HR_EINVAL: the list
// is not valid; HR_ELIMIT: it needs more than size bytes. Threads: any.
HR_API enum hr_status hr_ops_format(const struct hr_op *ops, int num_ops,
                                    char *text, size_t size);

HR_END_DECLS
#endif
