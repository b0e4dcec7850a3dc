// SPDX-License-Identifier: Apache-2.0
// Common to the command lines of all subcommands.
#ifndef HEADRACE_TOOLS_COMMON_OPTIONS_H
#define HEADRACE_TOOLS_COMMON_OPTIONS_H

#include <popt.h>

#include "inputs.h"
#include "tools.h"

#define OPS_EVALUATION "decode,resize=256,center_crop=224,normalize=imagenet"
#define OPS_EVALUATION_U8 "decode,resize=256,center_crop=224"

struct ops_list {
    int num;
    struct hr_op ops[HR_MAX_OPS];
};

// Prints "headrace: COMMAND: TEXT" and returns TOOLS_CANNOT.
int options_fail(const char *command, const char *format, ...) HR_PRINTF(2, 3);

// By --dtype, --tier: the words and their order are those of the enums.
extern const char *const options_dtypes[], *const options_tiers[];

// --ops, or the evaluation transform for that type: its text, which list then
// holds. NULL with a message.
const char *options_ops(const char *command, const char *text,
                        enum hr_dtype dtype, struct ops_list *list);

// Says whether there are pictures among them; else a message. Tells what could
// not be read and, unless quiet, what was skipped.
bool options_pictures(const struct inputs *inputs, bool quiet);

// ---- A whole command line --------------------------------------------------

enum option_kind {
    OPTION_TEXT,       // const char *
    OPTION_FLAG,       // bool
    OPTION_INT,        // int, in min .. max
    OPTION_COUNT,      // uint64_t above 0; "200M" are 200 million
    OPTION_SIZE,       // size_t above 0; "64M" are 64 MiB
    OPTION_NUMBER,     // double above 0, at most max
    OPTION_SEED,       // uint64_t
    OPTION_CHOICE,     // enum: the index of the word in words
    OPTION_REFERENCE,  // none: the process follows it; not given: the newest
};

// One option, and where in the command's struct of values its value goes; what
// is not given stays as it is.
struct option {
    const char *name;
    enum option_kind kind;
    size_t at;                 // offset of its value
    const char *what, *arg;    // for --help
    char letter;               // 0 = none
    int min, max;              // INT, NUMBER
    const char *const *words;  // CHOICE; ends with NULL
};

enum { OPTIONS_MAX = 44 };
struct options {
    const char *command, *usage, *example;
    bool pictures;  // it takes lists and limits, too: see options_source()
    bool ops;       // --help says how ops are written
    // options_parse() sets the members below. Texts live as long as this.
    bool done;        // --help was printed: stop
    poptContext con;  // has the arguments that are left
    struct {          // the options that choose pictures and limit them
        const char *list, *classes, *fields;
        bool zero;
        struct hr_limits limits;
    } source;
    struct {
        char *text;
        int set;
    } given[OPTIONS_MAX];
    struct poptOption table[OPTIONS_MAX + 1];
};

// The table ends with a name that is NULL. TOOLS_OK, or TOOLS_CANNOT with a
// message. In any case options_finish().
int options_parse(struct options *o, const struct option *table, void *values,
                  int argc, char **argv);
void options_finish(struct options *o);

// The limits, and the inputs: the words that are left are files and folders,
// the list stands behind them; there must be one or the other. False with a
// message.
bool options_source(const struct options *o, struct hr_limits *limits,
                    struct inputs *inputs);

#endif
