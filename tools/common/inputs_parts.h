// SPDX-License-Identifier: Apache-2.0
// Private to the inputs*.c files:
//
//   inputs_add.c    what the user names: files, folders, lists
//   inputs_walk.c   the pictures of a folder
//   inputs_pack.c   the pictures of a pack file; what a picture is made of
//   inputs.c        folders, pictures and labels, as they are kept
//   inputs_names.c  what pictures are called
#ifndef HEADRACE_TOOLS_COMMON_INPUTS_PARTS_H
#define HEADRACE_TOOLS_COMMON_INPUTS_PARTS_H

#include <headrace/headrace.h>

#include "inputs.h"

// Writes inputs->error. Always false.
bool inputs_fail(struct inputs *in, const char *format, ...) HR_PRINTF(2, 3);
// Notes a fault: PATH: what errno is.
void inputs_fault(struct inputs *in, const char *path, int error);

// "DIR/NAME"; a folder that is "" or ends in a slash needs none. NULL: no
// memory.
char *inputs_join(const char *dir, const char *name);

// The index of a label, which is copied.
bool inputs_intern(struct inputs *in, const char *text, uint32_t *label);

// Takes dir.path over, also on failure, which may be NULL for no memory.
bool inputs_put_dir(struct inputs *in, struct inputs_dir dir, uint32_t *index);
// The same; a folder that it has put before, with the same rel, is not put
// again.
bool inputs_put_dir_once(struct inputs *in, struct inputs_dir dir,
                         uint32_t *index);
// Adds the picture NAME of a folder. What is too long is a fault.
bool inputs_put(struct inputs *in, uint32_t dir, const char *name,
                uint32_t label);

// Adds all pictures of a folder, or of a pack file. False with inputs->error.
bool inputs_walk(struct inputs *in, const char *folder);
bool inputs_unpack(struct inputs *in, const char *path);

#endif
